//! `systeminfo`, as far as the files of a host hold its facts.

use std::{path::PathBuf, sync::Arc};

use lmcp_core::{Cx, ToolResult};
use lmcp_tools::{
    Answer,
    elsewhere::systeminfo::{Args, FILES_TO_COPY, SystemInfo},
};

use super::{
    Far,
    copies::{Copies, Found, brought},
    link::Call,
};
use crate::limits::PIECE_BYTES;

pub(super) async fn systeminfo(
    far: Arc<Far>,
    args: Args,
    cx: Cx,
) -> ToolResult<Answer<SystemInfo>> {
    let mut lease = far.pool.lease(&cx).await?;
    let facts = lease.facts();
    facts.expect_stat()?;
    let mut copies = Copies::new(&facts)?;
    let most = PIECE_BYTES.to_string();
    let words = [most.as_str()].into_iter().chain(FILES_TO_COPY);
    let said = lease
        .call(&Call {
            function: "far_fetch",
            words: words.collect(),
            ..Call::default()
        })
        .await?;
    lease.done();
    for (path, file) in FILES_TO_COPY.iter().zip(brought(&said)) {
        // A file that may not be read is skipped.
        if matches!(file.found, Found::File { readable: true, .. }) {
            copies.put(&PathBuf::from(path), "read", &file)?;
        }
    }
    copies.mirror.systeminfo(args, cx).await
}
