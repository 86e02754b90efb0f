//! `read_file`: brings files, and reads the copies.

use std::{path::Path, sync::Arc};

use lmcp_core::{Cx, ToolError, ToolResult};
use lmcp_tools::{
    Answer,
    elsewhere::read_file::{Args, Files},
};

use super::{
    Far,
    copies::{Copies, Found, brought},
    facts::PUSH,
    link::Call,
    pool::Lease,
};
use crate::limits::{FILE_BYTES, PIECE_BYTES};

pub(super) async fn read_file(far: Arc<Far>, args: Args, cx: Cx) -> ToolResult<Answer<Files>> {
    let mut lease = far.pool.lease(&cx).await?;
    let facts = lease.facts();
    facts.expect_stat()?;
    let mut copies = Copies::new(&facts)?;
    let there = copies.paths_there(args.paths(), &cx).await;
    let answer = lease.fetch(&there, FILE_BYTES).await?;
    for (path, file) in there.iter().zip(brought(&answer)) {
        copies.put(path, "read", &file)?;
        if let Found::File { size, .. } = file.found
            && size > FILE_BYTES
        {
            piece(&mut lease, &copies, path, size, &args).await?;
        }
    }
    lease.done();
    // The copies hold the data now.
    drop(answer);
    copies.mirror.read_file(args, cx).await
}

/// Brings the wanted part of a large file.
async fn piece(
    lease: &mut Lease<'_>,
    copies: &Copies,
    path: &Path,
    size: u64,
    args: &Args,
) -> ToolResult<()> {
    let Some((offset, limit)) = args.bytes() else {
        let words = format!(
            "`{}` has {size} bytes, too many to count its lines over a shell",
            path.display()
        );
        return Err(ToolError::new(words).hint(format!(
            "`byte_offset` reads a part of it, search_files finds lines; {PUSH}"
        )));
    };
    let offset = match u64::try_from(offset) {
        Ok(offset) => offset.min(size),
        Err(_) => size.saturating_sub(offset.unsigned_abs()),
    };
    let length = limit.unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
    let (start, length) = (offset.to_string(), length.to_string());
    let answer = lease
        .call(&Call {
            function: "far_piece",
            words: vec![path.to_str().unwrap_or_default(), &start, &length, "0"],
            ..Call::default()
        })
        .await?;
    let brought = brought(&answer);
    let piece = brought.first().map_or(&[][..], |file| file.piece);
    copies.put_piece(path, size, offset, piece).map_err(|err| {
        ToolError::new(format!("no copy of `{}` can be made", path.display())).source(err)
    })
}
