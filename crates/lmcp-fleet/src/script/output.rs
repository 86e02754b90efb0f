//! `job_output` and `job_input`.
//!
//! A job that began as `shell` has two files of output, and the order in which they grew is not known. The host records the
//! lengths at each look, so bytes that were shown keep their place. Of the bytes between two looks, standard output comes
//! first.

use std::{ops::Range, sync::Arc, time::Duration};

use lmcp_core::{Cx, ToolError, ToolResult};
use lmcp_tools::{
    Answer,
    elsewhere::{Job, Mark, Pieces, Reading, Typed, Typing, copy_output, job_input, job_output},
};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::{
    Far,
    copies::Folder,
    facts::PUSH,
    jobs::{Details, find, signal_word},
    link::{Call, INPUT, broken},
    pool::Lease,
};
use crate::limits::{LOOK_EVERY, SEARCHED_OUTPUT_BYTES};

/// The time in which a job should read what is typed, so that the answer can say how that went.
const TYPING: Duration = Duration::from_secs(1);
/// The exit code of `far_type` while the job has not read what was typed before.
const STILL_TYPING: i32 = 3;

pub(super) async fn job_output(
    far: Arc<Far>,
    args: job_output::Args,
    cx: Cx,
) -> ToolResult<Answer<job_output::Output>> {
    let id = args.id().to_owned();
    let mut lease = far.pool.lease(&cx).await?;
    let (_, details) = find(&mut lease, &id, &cx).await?;
    let mut reading = far.outputs.plan(args, &cx).await?;
    if reading.is_of_one_stream() && details.lengths.1.is_none() {
        let words = "the streams of a job are one over a shell";
        return Err(ToolError::new(words).hint(format!(
            "leave out `stream`; let the command write its errors to a file; {PUSH}"
        )));
    }
    let (job, details) = wait(&mut lease, &id, &mut reading, &cx).await?;
    let range = reading.range(job.output_bytes);
    let record = bring(&mut lease, &job, &details, range, &cx).await?;
    lease.done();
    far.outputs.answer(reading, job, record.path(), &cx).await
}

pub(super) async fn job_input(
    far: Arc<Far>,
    args: job_input::Args,
    cx: Cx,
) -> ToolResult<Answer<job_input::Sent>> {
    let typing = Typing::of(args)?;
    let mut lease = far.pool.lease(&cx).await?;
    let (job, details) = find(&mut lease, &typing.id, &cx).await?;
    if typing.resize {
        return Err(ToolError::new("there are no terminals over a shell").hint(PUSH));
    }
    if !job.is_running() {
        return Err(typing.is_over());
    }
    if details.about.is_call || details.has_eof {
        let words = format!("job `{}` does not take that: its input is closed", job.id);
        return Err(ToolError::new(words));
    }
    let offset = job.output_bytes;
    let mut reaction = typing.reaction(offset, &cx).await?;
    let bytes = type_all(&mut lease, &typing).await?;
    let read = match &mut reaction {
        Some(reading) => {
            let (job, details) = wait(&mut lease, &typing.id, reading, &cx).await?;
            let range = reading.range(job.output_bytes);
            Some((bring(&mut lease, &job, &details, range, &cx).await?, job))
        }
        None => None,
    };
    lease.done();
    let reaction = match reaction.zip(read) {
        Some((reading, (record, job))) => {
            let outputs = &far.outputs;
            Some(outputs.read(reading, job, record.path(), &cx).await?)
        }
        None => None,
    };
    Ok(typing.answer((bytes, offset), reaction))
}

/// Types everything. Returns how many bytes that were; a process on the host keeps those that the job has not read yet.
async fn type_all(lease: &mut Lease<'_>, typing: &Typing) -> ToolResult<usize> {
    let id = typing.id.as_str();
    let mut bytes = 0;
    for part in &typing.parts {
        let number;
        let (taken, function, words) = match part {
            Typed::Bytes(text) => (vec![(INPUT, text.as_bytes())], "far_type", vec![id]),
            Typed::Eof => (Vec::new(), "far_eof", vec![id]),
            Typed::Signal(2 | 3) if !lease.facts().interrupts => {
                let words = "the shell of this host starts jobs deaf to INT and QUIT";
                return Err(ToolError::new(words).hint(format!("job_stop ends it; {PUSH}")));
            }
            Typed::Signal(signal) => {
                number = signal.to_string();
                (Vec::new(), "far_stop", vec![id, signal_word(&number), "-"])
            }
        };
        let call = Call {
            taken,
            function,
            words,
            ..Call::default()
        };
        match type_part(lease, &call, id).await? {
            0 => {}
            STILL_TYPING => {
                let words = format!(
                    "job `{id}` does not take that: it has not read what it was sent before"
                );
                let sent = match bytes {
                    0 => String::new(),
                    _ => format!("; the first {bytes} bytes were sent"),
                };
                return Err(ToolError::new(words + &sent));
            }
            _ => return Err(ToolError::new(format!("job `{id}` does not take that"))),
        }
        if let Typed::Bytes(text) = part {
            bytes += text.len();
        }
    }
    Ok(bytes)
}

/// Makes one call of [`type_all`], and returns its code. Does not wait for a job that does not read.
async fn type_part(lease: &mut Lease<'_>, call: &Call<'_>, id: &str) -> ToolResult<i32> {
    let number = lease.link.begin(call, "far_call").await?;
    lease.link.begun(number).await?;
    if let Ok(ended) = timeout(TYPING, lease.link.end(number)).await {
        return Ok(ended?.code);
    }
    let feeding = Call {
        function: "far_is_feeding",
        words: vec![id],
        ..Call::default()
    };
    let (had_ended, feeding) = lease.link.cut(&feeding).await?;
    match had_ended {
        Some(typed) => Ok(typed.code),
        None if feeding.code == 0 => Ok(0),
        None => Err(broken(format!(
            "the host of job `{id}` did not say in time whether the job took the input"
        ))),
    }
}

/// Waits until the reading is satisfied, if it waits for anything. Returns the job as it is then.
async fn wait(
    lease: &mut Lease<'_>,
    id: &str,
    reading: &mut Reading,
    cx: &Cx,
) -> ToolResult<(Job, Details)> {
    let Some(time) = reading.wait() else {
        return find(lease, id, cx).await;
    };
    let until = Instant::now() + time;
    let progress = cx.open_progress();
    loop {
        let (job, details) = find(lease, id, cx).await?;
        if let Some(from) = reading.watched_from() {
            let range = from.min(job.output_bytes)..job.output_bytes;
            let record = bring(lease, &job, &details, range, cx).await?;
            if reading.look(record.path(), cx).await? {
                return Ok((job, details));
            }
        }
        let now = Instant::now();
        if !job.is_running() || now >= until {
            return Ok((job, details));
        }
        progress.step(format!("{} bytes of output", job.output_bytes));
        let look_again = match reading.watched_from() {
            Some(_) => until.min(now + LOOK_EVERY),
            None => until,
        };
        wait_for_end(lease, id, look_again).await?;
    }
}

/// Waits until a job has ended, at most until this time.
async fn wait_for_end(lease: &mut Lease<'_>, id: &str, until: Instant) -> ToolResult<()> {
    let call = Call {
        function: "far_wait",
        words: vec![id],
        ..Call::default()
    };
    let number = lease.link.begin(&call, "far_call").await?;
    match timeout_at(until, lease.link.end(number)).await {
        Ok(ended) => drop(ended?),
        Err(_) => {
            let nothing = Call {
                function: ":",
                ..Call::default()
            };
            lease.link.cut(&nothing).await?;
        }
    }
    // If the job ended a moment ago, the wait returns at once. This lets other tasks run before the next try.
    sleep_until(Instant::now()).await;
    Ok(())
}

/// Brings a part of the output of a job.
async fn bring(
    lease: &mut Lease<'_>,
    job: &Job,
    details: &Details,
    range: Range<u64>,
    cx: &Cx,
) -> ToolResult<Folder> {
    if range.end - range.start > SEARCHED_OUTPUT_BYTES {
        let words = format!("there are more than {SEARCHED_OUTPUT_BYTES} bytes to be searched");
        return Err(ToolError::new(words).hint("`offset` says where to begin"));
    }
    let segments = segments(details);
    let mut words = vec![job.id.clone()];
    let mut places = Vec::new();
    for segment in &segments {
        let (start, end) = (
            range.start.max(segment.at),
            range.end.min(segment.at + segment.length),
        );
        if start < end {
            let from = segment.from + (start - segment.at);
            words.extend([
                segment.file.to_owned(),
                from.to_string(),
                (end - start).to_string(),
            ]);
            places.push(start);
        }
    }
    let said = lease
        .call(&Call {
            function: "far_read",
            words: words.iter().map(String::as_str).collect(),
            ..Call::default()
        })
        .await?;
    let marks: Vec<_> = segments
        .iter()
        .map(|segment| match segment.file {
            "err" => Mark::Stderr(segment.at),
            _ => Mark::Stdout(segment.at),
        })
        .collect();
    let length = job.output_bytes;
    let copy = move || {
        let mut output = Pieces::default();
        output.length = length;
        let bytes = said.parts().filter(|part| part.name() == "bytes");
        output.pieces = places
            .into_iter()
            .zip(bytes.map(|part| part.bytes))
            .collect();
        let folder = Folder::new()?;
        copy_output(folder.path(), &marks, &output)
            .map_err(|err| ToolError::new("no copy of the output can be made").source(err))?;
        Ok(folder)
    };
    cx.blocking(copy).await?
}

/// A part of the output, and its place in a file.
#[derive(Debug, PartialEq, Eq)]
struct Segment {
    /// The place in the whole output.
    at: u64,
    length: u64,
    file: &'static str,
    /// The place in that file.
    from: u64,
}

/// Returns the parts of an output, in their order.
fn segments(details: &Details) -> Vec<Segment> {
    let (out, Some(err)) = details.lengths else {
        return vec![Segment {
            at: 0,
            length: details.lengths.0,
            file: "out",
            from: 0,
        }];
    };
    let mut segments = Vec::new();
    let (mut at, mut seen) = (0, (0, 0));
    // Two callers that look at the same time may record their looks in either order.
    for look in details.order.iter().copied().chain([(out, err)]) {
        let now = (
            look.0.clamp(seen.0, out.max(seen.0)),
            look.1.clamp(seen.1, err.max(seen.1)),
        );
        for (file, from, to) in [("out", seen.0, now.0), ("err", seen.1, now.1)] {
            if to > from {
                let length = to - from;
                segments.push(Segment {
                    at,
                    length,
                    file,
                    from,
                });
                at += length;
            }
        }
        seen = now;
    }
    if segments.is_empty() {
        segments.push(Segment {
            at: 0,
            length: 0,
            file: "out",
            from: 0,
        });
    }
    segments
}
