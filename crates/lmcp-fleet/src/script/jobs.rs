//! `jobs` and `job_stop`; and the reports of a host about its jobs.

use std::sync::Arc;

use lmcp_core::{Cx, ToolError, ToolResult};
use lmcp_tools::{
    Answer,
    elsewhere::{End, Job, Stop, expect_id, job_stop, jobs, listed, new_id, no_job, stopped},
};

use super::{
    Far,
    facts::PUSH,
    link::Call,
    parts::{self, Part},
    pool::Lease,
    start::{About, start},
};
use crate::limits::{GRACE, SHELL_PARTS, TOLD};

/// The details of a job that a host reports, beside those of every job.
#[derive(Debug)]
pub(super) struct Details {
    pub(super) about: About,
    /// The length of its standard output, and of its standard error unless both are one file.
    pub(super) lengths: (u64, Option<u64>),
    /// The lengths of the two whenever somebody looked.
    pub(super) order: Vec<(u64, u64)>,
    pub(super) has_eof: bool,
}

pub(super) async fn jobs(
    far: Arc<Far>,
    args: jobs::Args,
    cx: Cx,
) -> ToolResult<Answer<jobs::Jobs>> {
    let mut lease = far.pool.lease(&cx).await?;
    lease.facts().expect_commands()?;
    let said = lease
        .call(&Call {
            function: "far_list_jobs",
            ..Call::default()
        })
        .await?;
    lease.done();
    let owner = cx.caller().owner();
    let own = read_job(&said).filter(|(_, details)| details.about.owner == owner);
    // A call that somebody still waits for is not listed as a job.
    let own = own.filter(|(job, _)| !(job.is_answered && job.is_running()));
    Ok(listed(&args, own.map(|(job, _)| job).collect(), &cx))
}

pub(super) async fn job_stop(
    far: Arc<Far>,
    args: job_stop::Args,
    cx: Cx,
) -> ToolResult<Answer<job_stop::Stopped>> {
    let stop = Stop::of(&args, GRACE)?;
    let mut lease = far.pool.lease(&cx).await?;
    let (job, mut details) = find(&mut lease, &stop.id, &cx).await?;
    let was_over = !job.runs();
    if !was_over {
        signal(&mut lease, &stop).await?;
    }
    let (job, _) = find(&mut lease, &stop.id, &cx).await?;
    if stop.restart && job.is_running() {
        return Err(ToolError::new(format!("job `{}` still runs", job.id))
            .hint("stop it with TERM or KILL to start it again"));
    }
    let restarted_as = match stop.restart {
        true => {
            let id = new_id();
            details.about.session = cx.session_name();
            details.about.is_call = false;
            let function = format!("far_again {}", stop.id);
            start(&mut lease, &id, &function, &details.about, None).await?;
            Some(id)
        }
        false => None,
    };
    lease.done();
    Ok(stopped(job, was_over, restarted_as))
}

/// Sends a signal, or ends the job.
async fn signal(lease: &mut Lease<'_>, stop: &Stop) -> ToolResult<()> {
    if matches!(stop.signal, 2 | 3) && !lease.facts().interrupts {
        let words = "the shell of this host starts jobs deaf to INT and QUIT";
        return Err(ToolError::new(words).hint(format!("TERM ends it; {PUSH}")));
    }
    let number = stop.signal.to_string();
    let seconds = match stop.signal {
        9 => "0".to_owned(),
        15 => stop.grace.as_secs_f64().ceil().to_string(),
        _ => "-".to_owned(),
    };
    let name = signal_word(&number);
    let said = lease
        .link
        .call(&Call {
            function: "far_stop",
            words: vec![&stop.id, name, &seconds],
            ..Call::default()
        })
        .await?;
    match said.code {
        0 => Ok(()),
        _ => Err(ToolError::new(format!(
            "job `{}` cannot be signalled",
            stop.id
        ))),
    }
}

/// Returns the name of a signal as `kill -s` knows it. Shells accept names; other numbers are passed on.
pub(super) fn signal_word(number: &str) -> &str {
    match number {
        "1" => "HUP",
        "2" => "INT",
        "3" => "QUIT",
        "6" => "ABRT",
        "9" => "KILL",
        "10" => "USR1",
        "12" => "USR2",
        "13" => "PIPE",
        "14" => "ALRM",
        "15" => "TERM",
        "18" => "CONT",
        "19" => "STOP",
        "20" => "TSTP",
        "28" => "WINCH",
        other => other,
    }
}

/// Returns a job of this caller.
///
/// # Errors
/// The job does not exist, or belongs to another caller: both errors have the same words.
pub(super) async fn find(lease: &mut Lease<'_>, id: &str, cx: &Cx) -> ToolResult<(Job, Details)> {
    expect_id(id)?;
    lease.facts().expect_commands()?;
    let said = lease
        .call(&Call {
            function: "far_facts",
            words: vec![id],
            ..Call::default()
        })
        .await?;
    let owner = cx.caller().owner();
    let found = read_job(&said).find(|(_, details)| details.about.owner == owner);
    found.ok_or_else(|| no_job(id))
}

/// Reads the jobs that a host reports.
pub(super) fn read_job(said: &parts::Answer) -> impl Iterator<Item = (Job, Details)> {
    let mut found: Vec<(Job, Option<Details>)> = Vec::new();
    for part in said.parts() {
        let is_full = found.len() >= TOLD;
        match (part.name(), found.last_mut()) {
            ("job", _) if is_full => break,
            ("job", _) => found.push((job(&part), None)),
            ("about", Some((job, details))) => {
                if let Ok(about) = serde_json::from_slice::<About>(part.bytes) {
                    job.command.clone_from(&about.command);
                    job.session.clone_from(&about.session);
                    job.is_answered &= about.is_call;
                    *details = Some(Details {
                        about,
                        lengths: (job.output_bytes, None),
                        order: Vec::new(),
                        has_eof: false,
                    });
                }
            }
            ("order", Some((_, Some(details)))) => details.order = order(&part.text()),
            _ => {}
        }
    }
    let jobs = said.parts().filter(|part| part.name() == "job");
    let complete = jobs.zip(found).filter_map(|(part, (job, details))| {
        let mut details = details?;
        details.lengths = (
            length(&part, "out").unwrap_or_default(),
            length(&part, "err"),
        );
        details.has_eof = part.says("eof");
        Some((job, details))
    });
    complete.collect::<Vec<_>>().into_iter()
}

fn job(part: &Part<'_>) -> Job {
    let out = length(part, "out").unwrap_or_default();
    let mut job = Job::default();
    job.id = part.value("id").unwrap_or_default().to_owned();
    job.pid = part.count("pid");
    job.started = part.count("started").unwrap_or_default();
    job.output_bytes = out + length(part, "err").unwrap_or_default();
    job.is_guarded = part.says("guarded");
    // A call that was kept has become a job.
    job.is_answered = !part.says("kept");
    job.end = part.count::<i32>("exit").map(|code| {
        let mut end = End::default();
        // `wait` of a shell reports a signal as an exit code that is 128 more than its number.
        let signal = code
            .checked_sub(128)
            .filter(|number| (1..=31).contains(number) && !part.says("exited"));
        end.exit_code = Some(code).filter(|_| signal.is_none());
        end.signal = signal;
        end.timed_out = part.says("timed_out");
        end.stopped = part.says("stopped") && !end.timed_out;
        end.ended_at = part.count("ended").unwrap_or_default();
        end.duration_ms = end
            .ended_at
            .saturating_sub(job.started)
            .saturating_mul(1000);
        end.bytes = job.output_bytes;
        let left = part.value("left").unwrap_or_default().split(',');
        end.left_running = left.filter_map(|pid| pid.parse().ok()).collect();
        end
    });
    job
}

/// Returns the length of an output, as the host reports it. The bound is longer than any file, so sums of false lengths do
/// not overflow.
pub(super) fn length(part: &Part<'_>, key: &str) -> Option<u64> {
    part.count::<u64>(key).map(|length| length.min(1 << 60))
}

fn order(text: &str) -> Vec<(u64, u64)> {
    let looks = text.lines().take(SHELL_PARTS).filter_map(|line| {
        let (out, err) = line.split_once(' ')?;
        Some((out.parse().ok()?, err.parse().ok()?))
    });
    looks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_a_host_makes_up_are_no_danger() {
        let most = u64::MAX;
        let said = format!(
            "\nM- job id=x exit={} guarded=no out={most} err={most} left= started={most} ended=1\n\
             \nM- about\n{{\"owner\":\"a\",\"command\":\"c\",\"is_call\":false,\"limit\":\"0\"}}\
             \nM- order\n{most} {most}\n",
            i32::MIN
        );
        let answer = parts::Answer::new(0, said.into_bytes(), "M");
        let (job, details) = read_job(&answer).next().expect("it is told of");
        assert_eq!(job.output_bytes, 2 << 60);
        assert_eq!(details.order, [(most, most)]);
    }
}
