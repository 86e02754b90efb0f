//! `file_history`: the last edits and writes of a caller, and how they are undone.
//!
//! An undo is a change like any other, and is kept too, so it can be undone itself.
//!
//! | file | purpose |
//! |---|---|
//! | `change` | the change that a write made to a file, in few bytes |
//! | `store` | where changes are kept, for whom, and how many |
//! | `log` | a file with many changes |
//! | `undo` | undoes a change, and keeps what was changed since |

mod change;
mod log;
mod store;
mod undo;

use std::{os::fd::AsRawFd as _, sync::Arc};

use lmcp_core::{Cx, Tool, ToolError, ToolResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::{change::Change, store::Entry};
use super::{draft::Note, target::Target, turn::in_turn};
use crate::{Host, answer::Answer, room::Room, schemas, time::rfc3339};

pub(crate) use store::History;

pub(crate) fn tool() -> Tool<Host> {
    schemas::tool("file_history", history)
        .title("Show and undo file changes")
        .about(
            "List your last edit_file and write_file changes, newest first, or undo one, keeping what was changed since \
             elsewhere in the file. Not for changes made by commands.",
        )
        .alias("path", super::PATH_NAMES)
        .also_called(["undo", "undo_edit", "history"])
        .destructive()
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Only changes of this file.
    #[schemars(length(min = 1))]
    path: Option<String>,
    /// Undo the change with this id, or `last`.
    #[schemars(length(min = 1))]
    undo: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Changes {
    /// The newest first; with `undo` the one that was made.
    changes: Vec<Listed>,
    /// What an undo changed, as a unified diff.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
    /// How many older ones there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Listed {
    /// For `undo`.
    id: String,
    path: String,
    /// When, in UTC.
    time: String,
    tool: String,
    /// What changed.
    about: String,
    /// Was it taken back?
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    undone: bool,
}

async fn history(host: Arc<Host>, args: Args, cx: Cx) -> ToolResult<Answer<Changes>> {
    let path = args.path.filter(|path| !path.is_empty());
    let here = host.here(&cx, path.as_deref()).await?;
    let path = path.map(|path| here.join(&path).to_string_lossy().into_owned());
    let own = cx.clone();
    in_turn(&cx, move |memory, turn| {
        let history = host.history.as_ref().ok_or_else(|| {
            ToolError::new("this server keeps no history of changes")
                .hint("it needs a state folder, `--state-dir`, outside of its roots, and `--changes-kept` above 0")
        })?;
        match args.undo.as_deref().filter(|id| !id.is_empty()) {
            Some(id) => undo::undo((&host, history), id, path.as_deref(), &own, (memory, turn)),
            None => Ok(list(&host, history, path.as_deref(), &own)?),
        }
    })
    .await
}

fn list(
    host: &Host,
    history: &History,
    path: Option<&str>,
    cx: &Cx,
) -> ToolResult<Answer<Changes>> {
    let entries = of_path(host, history, path, cx)?;
    let undone = undo::undone(&entries);
    let room = Room::of(cx);
    let (mut text, mut changes, mut used) = (String::new(), Vec::new(), 0);
    for entry in &entries {
        let listed = Listed::of(entry, undone.contains(&entry.id));
        let line = listed.line();
        used += line.len() + listed.path.len() + LISTED_BYTES;
        if changes.len() >= MOST_LISTED || used > room.bytes {
            break;
        }
        text.push_str(&line);
        changes.push(listed);
    }
    let more = Some(entries.len() - changes.len()).filter(|more| *more > 0);
    if changes.is_empty() {
        text.push_str("No changes are kept.");
    }
    if let Some(more) = more {
        text.push_str(&format!(
            "and {more} older ones; `path` shows those of one file"
        ));
    }
    let value = Changes {
        changes,
        diff: None,
        more,
    };
    Ok(Answer::new(value, text))
}

/// Returns the caller's changes, only those of one file if it is named.
fn of_path(host: &Host, history: &History, path: Option<&str>, cx: &Cx) -> ToolResult<Vec<Entry>> {
    let mut entries = history.list(&cx.caller().owner());
    if let Some(path) = path {
        let target = undo::target(host, path, cx)?;
        let real = real_path(&target)
            .ok_or_else(|| ToolError::new(format!("cannot tell where `{path}` is")))?;
        entries.retain(|entry| entry.path == real);
    }
    Ok(entries)
}

impl Listed {
    fn of(entry: &Entry, undone: bool) -> Self {
        Self {
            id: entry.id.clone(),
            path: entry.path.clone(),
            time: rfc3339(i64::try_from(entry.time).unwrap_or_default(), 0),
            tool: entry.tool.clone(),
            about: entry.about.clone(),
            undone,
        }
    }

    fn line(&self) -> String {
        let undone = if self.undone { " (undone)" } else { "" };
        format!(
            "{} {} {} {}: {}{undone}\n",
            self.id, self.time, self.tool, self.path, self.about
        )
    }
}

impl Host {
    /// Returns whether a change of this many bytes is kept.
    pub(crate) fn remembers(&self, bytes: u64) -> bool {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.history
            .as_ref()
            .is_some_and(|history| history.takes(bytes))
    }

    /// Returns a note if changes are kept, and one that needs so many bytes is too large for that.
    pub(crate) fn forgets(&self, bytes: u64) -> Note {
        let keeps = self.history.is_some();
        TOO_LARGE.filter(|_| keeps && !self.remembers(bytes))
    }

    /// Records a change of a file from one content to another with this hash. The change is made whether it can be recorded
    /// or not; the note says if it cannot be undone.
    pub(crate) fn remember(
        &self,
        cx: &Cx,
        tool: &str,
        target: &Target<'_>,
        [old, new]: [Option<&[u8]>; 2],
        hash: &str,
    ) -> Note {
        let history = self.history.as_ref()?;
        let lengths = [old, new].map(|content| content.map_or(0, <[u8]>::len));
        // Nearly all changes are small, and need no exact size.
        let size = match lengths.iter().sum() {
            ..=LARGE_BYTES => 0,
            _ => Change::size(old, new),
        };
        let Ok(_held) = cx.try_reserve(size) else {
            return TOO_LARGE;
        };
        let change = Change::with_hash(old, new, hash.to_owned());
        if !history.takes(change.bytes.len()) {
            return TOO_LARGE;
        }
        let path = real_path(target)?;
        let about = about(&change);
        let mut entry = history.entry(&cx.caller().owner(), path, tool, change);
        entry.about = about;
        let _ = history.add(entry);
        None
    }
}

/// The note about a change that is not kept.
const TOO_LARGE: Note = Some("the change is too large to be kept: file_history cannot undo it");

/// Returns the change in one line.
fn about(change: &Change) -> String {
    let (old, new) = (change.old(), change.new_bytes());
    match change.existed {
        [false, _] => return format!("new file, {} bytes", new.len()),
        [_, false] => return format!("removed, {} bytes", old.len()),
        [true, true] => {}
    }
    let lines = |bytes: &[u8]| {
        let ends = memchr::memchr_iter(b'\n', bytes).count();
        ends + usize::from(bytes.last().is_some_and(|last| *last != b'\n'))
    };
    let shown = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * SHOWN_CHARACTERS)]);
        let line = text.trim().lines().next().unwrap_or_default().to_owned();
        let cut: String = line.chars().take(SHOWN_CHARACTERS).collect();
        let cut = cut.replace(|character: char| character.is_control(), " ");
        let rest = if lines(bytes) > 1 || cut.len() < line.len() {
            "…"
        } else {
            ""
        };
        format!("`{cut}{rest}`")
    };
    match (old.is_empty(), new.is_empty()) {
        (true, _) => format!("added {}", shown(new)),
        (_, true) => format!("removed {}", shown(old)),
        _ => format!("{} became {}", shown(old), shown(new)),
    }
}

/// Returns the file's path without links.
fn real_path(target: &Target<'_>) -> Option<String> {
    let folder = format!("/proc/self/fd/{}", target.dir.as_raw_fd());
    let folder = std::fs::read_link(folder).ok()?;
    Some(folder.join(&target.name).to_str()?.to_owned())
}

/// If the contents before and after have more bytes than this, the memory for the change is computed exactly.
const LARGE_BYTES: usize = 256 * 1024;

const MOST_LISTED: usize = 50;
const SHOWN_CHARACTERS: usize = 40;

/// The bytes that an entry takes besides its words, roughly.
const LISTED_BYTES: usize = 100;
