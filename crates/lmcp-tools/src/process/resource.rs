//! `job://{id}/output`: the output of a job, for clients that read resources.

use std::sync::Arc;

use lmcp_core::{Cx, Resource, ToolError, ToolResult};
use serde::Deserialize;

use super::{
    show,
    spool::{Record, step_over},
    wait::extent_now,
};
use crate::{
    Host,
    memory::{Memory, blocking_within},
    room::json_length_of,
};

/// The most bytes of one reading.
const MOST: usize = 1024 * 1024;

pub(crate) fn output() -> Resource<Host> {
    Resource::template("job://{id}/output{?offset,limit}", "job_output", read)
        .title("Output of a job")
        .about(
            "What a job wrote, both streams as they came: a megabyte at most, from a byte offset.",
        )
        .mime("text/plain")
}

#[derive(Deserialize)]
struct Args {
    id: String,
    offset: Option<u64>,
    limit: Option<usize>,
}

async fn read(host: Arc<Host>, args: Args, cx: Cx) -> ToolResult<String> {
    let job = host
        .commands()?
        .store
        .find(&args.id, &cx.caller().owner())
        .map_err(|_| ToolError::not_found())?;
    let extent = match &job.end {
        Some(end) => end.extent,
        None => extent_now(host.commands()?, &job).await,
    };
    blocking_within(&cx, move |memory| {
        let (offset, most) = step_over(extent.dropped, args.offset.unwrap_or(0));
        let most = args.limit.unwrap_or(MOST).min(MOST).min(most);
        let cannot = |err| ToolError::new("the output cannot be read").source(err);
        let record = Record::without_marks(&job.dir, extent).map_err(cannot)?;
        let there = record.len().map_err(cannot)?.saturating_sub(offset);
        let most = usize::try_from(there).unwrap_or(usize::MAX).min(most);
        memory.need(most)?;
        let bytes = record.read(offset, most).map_err(cannot)?;
        text(bytes, memory)
    })
    .await
}

/// Turns output into text, as [`show::lossy`] does. Reserves the memory for the text, and for the answer in which it is written as JSON.
fn text(mut bytes: Vec<u8>, memory: &mut Memory) -> ToolResult<String> {
    bytes.truncate(show::whole_characters(&bytes));
    let bytes = match String::from_utf8(bytes) {
        Ok(text) => {
            memory.need(json_length_of(&text))?;
            return Ok(text);
        }
        Err(err) => err.into_bytes(),
    };
    let (mut length, mut in_json) = (0, 0);
    for chunk in bytes.utf8_chunks() {
        let sign = sign_after(&chunk);
        length += chunk.valid().len() + sign.len();
        in_json += json_length_of(chunk.valid()) + sign.len();
    }
    memory.need(length + in_json)?;
    let mut text = String::with_capacity(length);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.push_str(sign_after(&chunk));
    }
    Ok(text)
}

/// Returns the sign for the bytes of a chunk that are no text.
fn sign_after(chunk: &std::str::Utf8Chunk<'_>) -> &'static str {
    if chunk.invalid().is_empty() {
        ""
    } else {
        "\u{fffd}"
    }
}
