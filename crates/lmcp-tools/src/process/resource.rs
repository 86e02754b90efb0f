//! `job://{id}/output`: a job's output as a resource, for clients that read those.

use std::sync::Arc;

use lmcp_core::{Cx, Resource, ToolError, ToolResult};
use serde::Deserialize;

use super::{
    show,
    spool::{Record, step_over},
    wait::extent_now,
};
use crate::{Host, blocking::blocking};

/// Most of one reading.
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
    blocking(&cx, move || {
        let (offset, most) = step_over(extent.dropped, args.offset.unwrap_or(0));
        let most = args.limit.unwrap_or(MOST).min(MOST).min(most);
        let page = Record::open(&job.dir, extent).and_then(|record| record.read(offset, most));
        let bytes = page.map_err(|err| ToolError::new("the output cannot be read").source(err))?;
        let whole = show::whole_characters(&bytes);
        Ok(show::lossy(bytes.get(..whole).unwrap_or_default()))
    })
    .await
}
