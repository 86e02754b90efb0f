//! `edit_file`: texts in files are replaced by others, all of them or none.
//!
//! Several files change right after each other. A crash of the machine between two of them is the one thing that can
//! leave some old and some new; each is still whole.
//!
//! | file | what it does |
//! |---|---|
//! | `plan` | what the arguments ask for, file by file |
//! | `apply` | one edit on the bytes of one file, or the reason why not |
//! | `matching`, `lines` | where a text occurs |
//! | `replacement`, `indent` | what stands there afterwards |
//! | `near` | what is most like a text that does not occur |
//! | `diff` | what has changed |

mod apply;
mod diff;
mod indent;
mod lines;
mod matching;
mod near;
mod plan;
mod replacement;

use std::sync::Arc;

use lmcp_core::{Cx, Tool, ToolError, ToolResult};
use schemars::JsonSchema;
use serde::Serialize;

use self::{
    apply::Edited,
    diff::Diff,
    matching::Kind,
    plan::{Args, FilePlan},
};
use super::{
    atomic::{self, Before, Note},
    hash,
    target::Found,
};
use crate::{Host, answer::Answer, blocking::blocking, room::Room};

pub(crate) fn tool() -> Tool<Host> {
    Tool::new("edit_file", edit)
        .title("Edit files")
        .about(
            "Replace exact text in one or several files, all or nothing. Returns a diff and the new hash; on a miss \
             the nearest places. For whole files use write_file.",
        )
        .destructive()
}

#[derive(Debug, Serialize, JsonSchema)]
struct Edits {
    /// Was nothing written, because `dry_run` was asked for?
    dry_run: bool,
    /// The files, in the order of their first edits.
    files: Vec<EditedFile>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct EditedFile {
    /// The file.
    path: String,
    /// Places replaced, by all edits together.
    replacements: usize,
    /// What the texts found differ in from those looked for: `exact` nothing, `line_endings`, `trailing_blanks` or
    /// `indentation`. The last two only with `fuzzy`. Of several edits the widest.
    matched: Kind,
    /// The hash of the content after the edits, for `if_hash`.
    hash: String,
    /// What changed, as a unified diff.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
    /// Is the diff only the beginning? read_file shows the file as it is now.
    diff_truncated: bool,
    /// What could not be done as it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

async fn edit(host: Arc<Host>, args: Args, cx: Cx) -> ToolResult<Answer<Edits>> {
    blocking(move || run(&host, &args, &cx)).await
}

/// A file before and after.
struct Change<'a> {
    plan: FilePlan<'a>,
    found: Found,
    edited: Edited,
}

fn run(host: &Host, args: &Args, cx: &Cx) -> ToolResult<Answer<Edits>> {
    let plans = args.plan(host)?;
    let keys: Vec<_> = plans.iter().map(|plan| plan.target.key().clone()).collect();
    let _alone = host.locks.lock(keys.iter());
    let mut changes = Vec::with_capacity(plans.len());
    for plan in plans {
        expect_wanted(cx)?;
        let found = plan.read()?;
        let edited = plan.apply(&found.bytes, args.fuzzy)?;
        changes.push(Change {
            plan,
            found,
            edited,
        });
    }
    expect_wanted(cx)?;
    let notes = if args.dry_run {
        Vec::new()
    } else {
        save(&changes)?
    };
    Ok(answer(&changes, notes, args.dry_run, &Room::of(cx)))
}

fn expect_wanted(cx: &Cx) -> ToolResult<()> {
    if cx.is_cancelled() {
        return Err(ToolError::new("cancelled; nothing was written"));
    }
    Ok(())
}

fn save(changes: &[Change<'_>]) -> ToolResult<Vec<Note>> {
    if let [change] = changes {
        let before = Before::Same(&change.found.stat);
        return Ok(vec![atomic::replace(
            &change.plan.target,
            &change.edited.bytes,
            before,
        )?]);
    }
    let changes: Vec<_> = changes
        .iter()
        .map(|change| {
            (
                &change.plan.target,
                change.edited.bytes.as_slice(),
                &change.found.stat,
            )
        })
        .collect();
    atomic::replace_all(&changes)
}

fn answer(changes: &[Change<'_>], notes: Vec<Note>, dry_run: bool, room: &Room) -> Answer<Edits> {
    let room = room.share(changes.len());
    let mut notes = notes.into_iter();
    let mut text = String::new();
    let files = changes.iter().map(|change| {
        let path = change.plan.target.place().shown().display().to_string();
        let diff = diff::unified(&path, &change.found.bytes, &change.edited.bytes, &room);
        let file = EditedFile {
            replacements: change.edited.replacements,
            matched: change.edited.kind,
            hash: hash::of(&change.edited.bytes),
            diff: room.structured_copy(&diff.text),
            diff_truncated: diff.truncated,
            note: notes.next().flatten().map(str::to_owned),
            path,
        };
        file.tell(&mut text, dry_run, room.in_text.then_some(&diff));
        file
    });
    let files = files.collect();
    Answer::new(Edits { dry_run, files }, text)
}

impl EditedFile {
    /// Adds this file to the text for people and models.
    fn tell(&self, text: &mut String, dry_run: bool, diff: Option<&Diff>) {
        if !text.is_empty() {
            text.push('\n');
        }
        let done = if dry_run { "Would replace" } else { "Replaced" };
        let places = if self.replacements == 1 {
            "place"
        } else {
            "places"
        };
        text.push_str(&format!(
            "{done} {} {places} in {}",
            self.replacements, self.path
        ));
        match self.matched {
            Kind::Exact => {}
            Kind::LineEndings => text.push_str(" (other line endings, kept as they are)"),
            Kind::TrailingBlanks => text.push_str(" (fuzzy: other blanks at the ends of lines)"),
            Kind::Indentation => text.push_str(" (fuzzy: other indentation)"),
        }
        text.push_str(&format!("\nhash: {}", self.hash));
        if let Some(note) = &self.note {
            text.push_str(&format!("\nnote: {note}"));
        }
        if let Some(diff) = diff {
            text.push('\n');
            text.push_str(&diff.text);
            if diff.truncated {
                text.push_str("(the diff goes on; read_file shows the file)\n");
            }
        }
    }
}
