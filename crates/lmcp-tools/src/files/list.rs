//! `list_dir`: lists a folder, and the folders below it.
//!
//! A walk builds a page and stops when the page is full. The next walk goes on at the cursor. Nothing is kept in between.

mod cursor;
mod walk;

use std::sync::Arc;

use lmcp_core::{Cx, Handler, Tool, ToolError, ToolResult, WithState};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Host,
    answer::Answer,
    blocking::blocking,
    files::escape::escaped,
    here::Here,
    room::{Room, json_length},
    roots::Place,
    schemas,
};

use cursor::Trail;
use walk::Walk;

pub(crate) fn tool() -> Tool<Host> {
    define(list)
}

/// Defines the tool as models know it, with the handler that does the work.
pub fn define<S: Send + Sync + 'static>(
    handler: impl Handler<S, Args, ToolResult<Answer<Listing>>, WithState>,
) -> Tool<S> {
    schemas::tool("list_dir", handler)
        .title("List a folder")
        .about(
            "List a folder, and below it to a depth: paths, types, sizes, times, unusual modes. To find files by name or content use \
             search_files.",
        )
        .alias("path", super::PATH_NAMES)
        .alias("path", super::FOLDER_NAMES)
        .unlisted(["ignore"])
        .also_called(["ls", "dir", "list_directory", "list_files", "directory_tree", "tree"])
        .read_only()
}

/// Arguments of `list_dir`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Default: the working folder.
    #[schemars(length(min = 1))]
    path: Option<String>,
    /// Default: 1, the folder itself.
    #[schemars(range(min = 1, max = 16))]
    depth: Option<u32>,
    /// Entries at most. Default: 500.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
    /// `next_cursor`, to go on.
    #[schemars(length(min = 1))]
    cursor: Option<String>,
    /// Largest or newest first.
    #[serde(default)]
    sort: Sort,
    /// Also dot files.
    #[serde(default)]
    hidden: bool,
    /// Heed `.gitignore`. Default: if `depth` is more than 1.
    ignore: Option<bool>,
}

impl Args {
    /// Returns the folder.
    pub fn path(&self) -> &str {
        self.path.as_deref().unwrap_or(".")
    }
}

impl Args {
    /// Returns how many levels of folders are listed.
    pub fn depth(&self) -> u32 {
        self.depth.unwrap_or(1)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Sort {
    #[default]
    Name,
    Size,
    Mtime,
}

/// What `list_dir` returns.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Listing {
    /// The folder.
    path: String,
    /// What is in it; each folder is followed by what it holds. Missing if it stands in the text of the result only.
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<Vec<Entry>>,
    /// How many entries this page has.
    entry_count: usize,
    /// Is left out what ignore files such as `.gitignore` say?
    ignore: bool,
    /// Was something left out for that, in the folders of this page?
    left_out: bool,
    /// Ignore files have too many rules: what some of them leave out is shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    rules_cut: bool,
    /// There is more: pass this as `cursor`. Missing on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// Why the folder could not be read to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A file, a folder, or something else. Links are not followed.
#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    /// Below the folder that was listed.
    path: String,
    /// The name is not UTF-8: `path` shows it with `�` for what is wrong, and cannot be used to reach it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    lossy_name: bool,
    /// What it is.
    r#type: EntryType,
    /// Of files.
    #[serde(skip_serializing_if = "Option::is_none")]
    size_bytes: Option<u64>,
    /// When it was last changed, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    mtime: Option<String>,
    /// Permissions, in octal.
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    /// Where a link leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// Why nothing more is known of it, or why it could not be entered.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum EntryType {
    File,
    Dir,
    Link,
    Fifo,
    Socket,
    Device,
    Unknown,
}

pub(crate) async fn list(host: Arc<Host>, args: Args, cx: Cx) -> ToolResult<Answer<Listing>> {
    let room = Room::of(&cx);
    let here = host.here(&cx, [args.path()]).await?;
    let own = cx.clone();
    blocking(&cx, move || page(&host, &here, &args, room, &own)).await
}

fn page(host: &Host, here: &Here, args: &Args, room: Room, cx: &Cx) -> ToolResult<Answer<Listing>> {
    let trail = match &args.cursor {
        Some(cursor) => Trail::decode(cursor, args.sort)?,
        None => Trail::default(),
    };
    let depth = args.depth.unwrap_or(1);
    let ignore = args.ignore.unwrap_or(depth > 1);
    let place = host.roots.find(here, args.path())?;
    let dir = place.open_dir().map_err(|err| cannot_list(&place, err))?;
    let limit = usize::try_from(args.limit.unwrap_or(DEFAULT_LIMIT)).unwrap_or(usize::MAX);
    let mut walk = Walk::new(cx, args.sort, depth, room, limit);
    walk.hidden = args.hidden;
    if ignore {
        walk.heed(&place, &dir, host.hard_links())?;
    }
    let error = match walk.folder(dir, &trail) {
        // The error is part of the result: the entries that were read still count.
        Err(err) => Some(reason(err)),
        Ok(()) => None,
    };
    if cx.is_cancelled() {
        return Err(ToolError::new("cancelled"));
    }
    let next_cursor = walk.more.then(|| walk.last.encode(args.sort));
    let rules_cut = walk.rules_cut();
    let text = render(&walk, next_cursor.as_deref(), error.as_deref());
    let listing = Listing {
        path: place.shown().display().to_string(),
        entry_count: walk.found.len(),
        entries: room.in_structured.then_some(walk.found),
        ignore,
        left_out: walk.left_out,
        rules_cut,
        next_cursor,
        error,
    };
    Ok(Answer::new(listing, text))
}

fn cannot_list(place: &Place<'_>, err: Errno) -> ToolError {
    // The path itself may be no folder, or a part of it.
    let is_other = err == Errno::NOTDIR && place.stat().is_ok();
    if is_other {
        let shown = place.shown().display();
        return ToolError::new(format!("`{shown}` is not a folder")).hint("read_file reads files");
    }
    place.failed("list", err)
}

fn reason(err: Errno) -> String {
    match err {
        Errno::ACCESS | Errno::PERM => "permission denied".into(),
        // A folder a moment ago, it is none now.
        Errno::NOTDIR | Errno::LOOP | Errno::NOENT => "changed while it was listed".into(),
        err => err.to_string(),
    }
}

fn render(walk: &Walk<'_>, next: Option<&str>, error: Option<&str>) -> String {
    let mut text = String::new();
    text.extend(walk.found.iter().map(Entry::line));
    let count = walk.found.len();
    let plural = if count == 1 { "entry" } else { "entries" };
    text.push_str(&format!("[{count} {plural}"));
    if walk.left_out {
        text.push_str(", without ignored ones (`ignore: false` shows them)");
    }
    if walk.rules_cut() {
        text.push_str(", ignore files have too many rules: what some of them leave out is shown");
    }
    if let Some(error) = error {
        text.push_str(&format!(", not all: {error}"));
    }
    if let Some(next) = next {
        text.push_str(&format!(", next cursor={next}"));
    }
    text.push_str("]\n");
    text
}

impl Entry {
    /// Returns one line of the text: the mode unless it is a usual one, the size of a file, time, path, and the type as
    /// `ls -F` shows it.
    fn line(&self) -> String {
        let usual: &[&str] = match self.r#type {
            EntryType::File => &["0644", "0664"],
            EntryType::Dir => &["0755", "0775"],
            EntryType::Link => &["0777"],
            EntryType::Fifo | EntryType::Socket | EntryType::Device | EntryType::Unknown => &[],
        };
        let mode = self.mode.as_deref().filter(|mode| !usual.contains(mode));
        let size = self.size_bytes.map(|size| size.to_string());
        let facts = [mode, size.as_deref(), self.mtime.as_deref()];
        let mut line = String::new();
        for fact in facts.into_iter().flatten() {
            line.push_str(fact);
            line.push(' ');
        }
        // A name may hold a line break, and must not look like two entries.
        let path = escaped(&self.path);
        line.push_str(&path);
        match (self.r#type, &self.target) {
            (EntryType::Dir, _) => line.push('/'),
            (EntryType::Link, Some(target)) => line.push_str(&format!(" -> {}", escaped(target))),
            (EntryType::Link, None) => line.push('@'),
            (EntryType::Fifo, _) => line.push('|'),
            (EntryType::Socket, _) => line.push('='),
            (EntryType::Device, _) => line.push_str(" (device)"),
            (EntryType::File | EntryType::Unknown, _) => {}
        }
        if self.lossy_name {
            line.push_str(" (name is not UTF-8)");
        }
        if let Some(error) = &self.error {
            line.push_str(&format!(" ({error})"));
        }
        line.push('\n');
        line
    }

    /// Returns how much of the room the entry takes, in the text or in the structured result, whichever is more.
    fn cost(&self, room: &Room) -> usize {
        let in_text: usize = self.line().chars().map(json_length).sum();
        let in_structured = match room.in_structured {
            true => serde_json::to_vec(self).map_or(0, |json| json.len() + 1),
            false => 0,
        };
        in_text.max(in_structured)
    }
}

/// Enough for most folders, and small enough for every client.
const DEFAULT_LIMIT: u64 = 500;
