//! `shell`: runs a command on a host, and answers when it has ended or has become a job.

use std::{sync::Arc, time::Duration};

use lmcp_core::{Cx, ToolError, ToolResult};
use lmcp_tools::{
    Answer,
    elsewhere::{
        Command, LOOKED_AT, Mark, Pieces, copy_output, ended, handed_over, new_id,
        shell::{Args, Ran},
    },
};
use lmcp_wire::task;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use super::{
    Far,
    copies::Folder,
    jobs::{length, read_job},
    link::{Call, INPUT},
    parts,
    pool::Lease,
    start::{About, prepare, script},
};
use crate::limits::{GRACE, LONGEST_TIMEOUT};

/// Signs of life: the first one comes early, the others before a client gives up.
const FIRST_SIGN: Duration = Duration::from_secs(2);
const NEXT_SIGN: Duration = Duration::from_secs(15);

pub(super) async fn shell(far: Arc<Far>, args: Args, cx: Cx) -> ToolResult<Answer<Ran>> {
    let command = Command::of_shell(args, LONGEST_TIMEOUT)?;
    let mut lease = far.pool.lease(&cx).await?;
    let folder = prepare(&mut lease, &command, &cx).await?;
    let id = new_id();
    let run = script(&id, &command, folder.as_deref(), &lease.facts());
    let about = About::of(&command, true, &cx);
    let json = about.json()?;
    let input = command.stdin.unwrap_or_default();
    let grace = GRACE.as_secs().to_string();
    let looked_at = LOOKED_AT.map(|bytes| bytes.to_string());
    let mut words = vec![id.as_str(), &about.limit, &grace];
    words.extend(looked_at.iter().map(String::as_str));
    let call = Call {
        taken: vec![
            ("run", run.as_bytes()),
            ("about", &json),
            (INPUT, input.as_bytes()),
        ],
        current: Some(&id),
        function: "far_run",
        words,
    };
    let began = Instant::now();
    let number = lease.link.begin(&call, "far_call").await?;
    let mut signs = interval_at(began + FIRST_SIGN, NEXT_SIGN);
    signs.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let progress = cx.open_progress();
    let mut yield_at = command.yield_after.and_then(|time| began.checked_add(time));
    loop {
        tokio::select! {
            said = lease.link.end(number) => {
                return over(lease, &id, &said?, began.elapsed(), &cx).await;
            }
            _ = signs.tick() => progress.step(format!("running for {} s", began.elapsed().as_secs())),
            () = until(yield_at) => {
                yield_at = None;
                if !cx.capabilities().has_extension(task::EXTENSION) {
                    return keep(lease, &id, began, &cx).await;
                }
                // The client asks for the result itself, at any time.
                cx.detach().await;
            }
        }
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Returns the result of a command that has ended.
async fn over(
    lease: Lease<'_>,
    id: &str,
    said: &parts::Answer,
    after: Duration,
    cx: &Cx,
) -> ToolResult<Answer<Ran>> {
    let lost =
        || ToolError::new("the guard of the command was killed, and nobody knows how it went");
    let (job, _) = read_job(said).next().ok_or_else(lost)?;
    if said.part("not-run").is_some() {
        return Err(ToolError::new(format!("cannot run `{}`", job.command))
            .source(rustix::io::Errno::NOENT));
    }
    let mut end = job.end.ok_or_else(lost)?;
    end.duration_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
    let record = record(said)?;
    let (answer, is_needed) = ended(id, record.path(), end, cx)?;
    let forget = match is_needed {
        true => "far_current=\n".to_owned(),
        false => format!("far_current=\nfar_forget {id} </dev/null >/dev/null 2>&1 &\n"),
    };
    lease.done_after(&forget).await;
    Ok(answer)
}

/// Turns the command into a job, unless the command ends just now.
async fn keep(mut lease: Lease<'_>, id: &str, began: Instant, cx: &Cx) -> ToolResult<Answer<Ran>> {
    let looked_at = LOOKED_AT.map(|bytes| bytes.to_string());
    let mut words = vec![id];
    words.extend(looked_at.iter().map(String::as_str));
    let call = Call {
        function: "far_keep",
        words,
        ..Call::default()
    };
    let (had_ended, said) = lease.link.cut(&call).await?;
    let has_ended = read_job(&said).any(|(job, _)| job.end.is_some());
    if has_ended || had_ended.is_some() {
        let said = had_ended.unwrap_or(said);
        return over(lease, id, &said, began.elapsed(), cx).await;
    }
    lease.done_after("far_current=\n").await;
    let goes_on = |err: ToolError| err.hint(format!("the command goes on as job `{id}`"));
    let record = record(&said).map_err(goes_on)?;
    handed_over(id, record.path(), began.elapsed(), cx).map_err(goes_on)
}

/// Writes a record of a command's output from the parts.
fn record(said: &parts::Answer) -> ToolResult<Folder> {
    let folder = Folder::new()?;
    let job = said.part("job");
    let said_length = |key: &str| job.and_then(|job| length(&job, key)).unwrap_or_default();
    let (out, err) = (said_length("out"), said_length("err"));
    let mut output = Pieces::default();
    output.length = out + err;
    for part in said.parts() {
        let (start, most) = match part.name() {
            "out" => (0, out),
            "err" => (out, err),
            _ => continue,
        };
        let at: u64 = part.number(1).unwrap_or_default();
        // The command may have written more since its output was counted.
        let fits = usize::try_from(most.saturating_sub(at)).unwrap_or(usize::MAX);
        let bytes = part.bytes.get(..fits).unwrap_or(part.bytes);
        output.pieces.push((start + at.min(most), bytes));
    }
    copy_output(
        folder.path(),
        &[Mark::Stdout(0), Mark::Stderr(out)],
        &output,
    )
    .map_err(|err| ToolError::new("no copy of the output can be made").source(err))?;
    Ok(folder)
}
