//! `write_file` and `edit_file`: the tool changes a copy, and the shell writes the content of the copy into the file, if
//! nobody else has changed the file meanwhile.

use std::{path::PathBuf, sync::Arc};

use lmcp_core::{Cx, Reservation, ToolError, ToolResult};
use lmcp_tools::{
    Answer,
    elsewhere::{edit_file, write_file},
};

use super::{
    Far,
    copies::{Brought, Copies, Found, brought},
    facts::{PUSH, sum},
    link::Call,
    parts,
    pool::Lease,
};
use crate::limits::EDIT_BYTES;

/// How often an edit is repeated because the file was changed meanwhile.
const ATTEMPTS: usize = 4;

pub(super) async fn write_file(
    far: Arc<Far>,
    args: write_file::Args,
    cx: Cx,
) -> ToolResult<Answer<write_file::Written>> {
    let mut lease = far.pool.lease(&cx).await?;
    let mut copies = expect_writing(&lease)?;
    let there = copies.paths_there([args.path()], &cx).await;
    let kept = args.needs_old();
    let before = bring(&mut lease, &mut copies, &there, kept, &cx).await?;
    let (is_append, is_create) = (args.is_append(), args.is_create());
    let (is_conditional, makes_folders) = (args.is_conditional(), args.makes_folders());
    let answer = copies.mirror.write_file(args, cx.clone()).await?;
    // Without a path, the tool would have returned an error.
    if let (Some(path), Some(before)) = (there.first(), before.into_iter().next()) {
        let _memory = cx.reserve(copies.length(path)).await?;
        let after = copies.content(path).unwrap_or_default();
        let change = match &before {
            Some(before) if is_append && !is_conditional => Change {
                path,
                content: after.get(before.length..).unwrap_or_default(),
                expected: Expected::Added,
            },
            Some(before) if is_conditional => Change {
                path,
                content: &after,
                expected: Expected::Content(before),
            },
            _ => Change {
                path,
                content: &after,
                expected: if is_create || is_append {
                    Expected::Nothing
                } else {
                    Expected::Anything
                },
            },
        };
        if makes_folders {
            let words = vec![path.to_str().unwrap_or_default()];
            let made = lease
                .call(&Call {
                    function: "far_folders",
                    words,
                    ..Call::default()
                })
                .await?;
            check(&made, &[change])?;
        }
        check(&save(&far, &mut lease, &[change]).await?, &[change])?;
    }
    lease.done();
    Ok(answer)
}

pub(super) async fn edit_file(
    far: Arc<Far>,
    args: edit_file::Args,
    cx: Cx,
) -> ToolResult<Answer<edit_file::Edits>> {
    let mut lease = far.pool.lease(&cx).await?;
    let mut attempts = ATTEMPTS;
    loop {
        attempts -= 1;
        let mut copies = expect_writing(&lease)?;
        let there = copies.paths_there(args.paths(), &cx).await;
        let before = bring(&mut lease, &mut copies, &there, true, &cx).await?;
        let answer = copies.mirror.edit_file(args.clone(), cx.clone()).await?;
        let all = there.iter().map(|path| copies.length(path)).sum();
        let _memory = cx.reserve(all).await?;
        let changed = there.iter().zip(before).filter_map(|(path, before)| {
            let (before, after) = (before?, copies.content(path)?);
            (sum(&after) != before.sum).then_some((path, before, after))
        });
        let mut changed: Vec<_> = changed.collect();
        // The call may have named one file twice.
        changed.dedup_by_key(|(path, ..)| copies.place(path));
        let changes = changed.iter().map(|(path, before, after)| Change {
            path,
            content: after,
            expected: Expected::Content(before),
        });
        let changes: Vec<_> = changes.collect();
        if !changes.is_empty() {
            let said = save(&far, &mut lease, &changes).await?;
            if said.part("changed").is_some() && attempts > 0 {
                continue;
            }
            check(&said, &changes)?;
        }
        lease.done();
        return Ok(answer);
    }
}

/// A file that gets new content.
#[derive(Clone, Copy)]
struct Change<'a> {
    path: &'a PathBuf,
    content: &'a [u8],
    expected: Expected<'a>,
}

/// The content of a file before the change.
struct Before {
    length: usize,
    sum: String,
    /// All of the content, if the host has no checksums, with the memory that it takes.
    content: Option<(Vec<u8>, Reservation)>,
}

/// The condition that the file must meet for the change.
#[derive(Clone, Copy)]
enum Expected<'a> {
    Anything,
    Nothing,
    /// The file has this content.
    Content(&'a Before),
    /// The file may have any content, and the new content is appended.
    Added,
}

fn expect_writing(lease: &Lease<'_>) -> ToolResult<Copies> {
    let facts = lease.facts();
    facts.expect_stat()?;
    facts.expect_room()?;
    Copies::new(&facts)
}

/// Brings files that are to be written, and returns the state of each existing file before the change. The content is only
/// brought if `with_content` is set.
async fn bring(
    lease: &mut Lease<'_>,
    copies: &mut Copies,
    there: &[PathBuf],
    with_content: bool,
    cx: &Cx,
) -> ToolResult<Vec<Option<Before>>> {
    let has_sum = lease.facts().has_sum;
    let most = if with_content { EDIT_BYTES } else { 0 };
    let answer = lease.fetch(there, most).await?;
    let mut held = Vec::new();
    for (path, file) in there.iter().zip(brought(&answer)) {
        let shown = path.display();
        let file = match &file.found {
            Found::File {
                writable: false, ..
            } => {
                let words = format!("cannot write `{shown}`");
                return Err(ToolError::new(words).source(rustix::io::Errno::ACCESS));
            }
            Found::File { size, .. } if with_content && *size > EDIT_BYTES => {
                let words =
                    format!("`{shown}` is larger than {EDIT_BYTES} bytes, too large for this");
                return Err(ToolError::new(words).hint(format!(
                    "change it with a command such as sed, or split it first; {PUSH}"
                )));
            }
            Found::File { .. } if !with_content => Brought { data: &[], ..file },
            _ => file,
        };
        let what = if with_content { "read" } else { "write" };
        copies.put(path, what, &file)?;
        held.push(match file.found {
            Found::File { .. } => Some(Before {
                length: file.data.len(),
                sum: sum(file.data),
                content: match has_sum {
                    true => None,
                    false => Some((file.data.to_vec(), cx.reserve(file.data.len()).await?)),
                },
            }),
            _ => None,
        });
    }
    Ok(held)
}

/// Writes all changes, or none of them.
async fn save(
    far: &Far,
    lease: &mut Lease<'_>,
    changes: &[Change<'_>],
) -> ToolResult<parts::Answer> {
    let names: Vec<_> = (0..changes.len())
        .map(|at| (format!("new{at}"), format!("old{at}")))
        .collect();
    let mut call = Call {
        function: "far_write",
        ..Call::default()
    };
    let mut words = Vec::new();
    for ((new, old), change) in names.iter().zip(changes) {
        call.taken.push((new, change.content));
        words.push(change.path.to_str().unwrap_or_default().to_owned());
        match change.expected {
            Expected::Anything => words.push("any".into()),
            Expected::Nothing => words.push("none".into()),
            Expected::Added => call.function = "far_append",
            Expected::Content(before) => words.push(match &before.content {
                Some((content, _)) => {
                    call.taken.push((old, content));
                    format!("={old}")
                }
                None => before.sum.clone(),
            }),
        }
        words.push(new.clone());
    }
    call.words = words.iter().map(String::as_str).collect();
    // The shell compares a file and then replaces it. No other write of this hub can come in between.
    let _alone = far.saving.lock().await;
    lease.call(&call).await
}

/// Turns the reason why a change failed into the words of the tools.
fn check(answer: &parts::Answer, changes: &[Change<'_>]) -> ToolResult<()> {
    if answer.code == 0 {
        return Ok(());
    }
    let paths: Vec<_> = changes
        .iter()
        .map(|change| format!("`{}`", change.path.display()))
        .collect();
    let shown = paths.join(" or ");
    if answer.part("changed").is_some() {
        let is_create = changes
            .iter()
            .any(|change| matches!(change.expected, Expected::Nothing));
        return Err(match is_create {
            true => ToolError::new(format!("{shown} exists already"))
                .hint("leave out `create_only` to replace it"),
            false => ToolError::new(format!(
                "{shown} was changed by somebody else meanwhile; nothing was written"
            ))
            .hint("read it again"),
        });
    }
    if answer.part("denied").is_some() {
        let words = format!("cannot write {shown}");
        return Err(ToolError::new(words).source(rustix::io::Errno::ACCESS));
    }
    let why = answer
        .part("failed")
        .map(|part| part.text())
        .unwrap_or_default();
    Err(ToolError::new(format!("cannot write {shown}: {why}")))
}
