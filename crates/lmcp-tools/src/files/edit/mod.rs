//! `edit_file`: replaces texts in files by others, all of them or none.
//!
//! Several files change right after each other. Only a crash of the machine between two of them can leave some old and
//! some new; each is still whole.
//!
//! | file | purpose |
//! |---|---|
//! | `plan` | the edits that the arguments ask for, file by file |
//! | `apply` | applies one edit to the bytes of one file, or says why not |
//! | `matching`, `lines` | find the places where a text occurs |
//! | `replacement`, `indent` | make the bytes that replace a match |
//! | `near` | finds the places that are most like a text that does not occur |
//! | `diff` | shows the changes |
//! | `shown` | files that are edited as another text: notebooks, other encodings |

mod apply;
pub(super) mod diff;
mod indent;
mod lines;
mod matching;
mod near;
mod plan;
mod replacement;
mod shown;

use std::sync::Arc;

use lmcp_core::{Cx, Handler, Tool, ToolResult, WithState};
use schemars::JsonSchema;
use serde::Serialize;

use self::{apply::Edited, diff::Diff, matching::Kind, plan::FilePlan, shown::Shown};
use super::{
    atomic::{self, Failed, Note},
    exchange::Change,
    hash,
    hold::{Displaced, Held},
    target::Snapshot,
    turn::{Turn, in_turn},
};
use crate::{Host, answer::Answer, here::Here, memory::Memory, room::Room, schemas};

pub(super) use apply::MOST_BYTES;
pub use plan::Args;

pub(crate) fn tool() -> Tool<Host> {
    define(edit)
}

/// Defines the tool as models know it, with the handler that does the work.
pub fn define<S: Send + Sync + 'static>(
    handler: impl Handler<S, Args, ToolResult<Answer<Edits>>, WithState>,
) -> Tool<S> {
    schemas::tool("edit_file", handler)
        .title("Edit files")
        .about(
            "Replace exact text in files, all or nothing. Returns the lines changed and the new hash; on a miss the nearest \
             place. For whole files use write_file.",
        )
        .alias("path", super::PATH_NAMES)
        .alias("old_string", ["old_str", "old_text", "search", "find"])
        .alias("new_string", ["new_str", "new_text", "replace", "replacement"])
        .alias("expected_count", ["expected_replacements"])
        .ignore(["instruction", "explanation"])
        .ask_for(["path", "old_string", "new_string"])
        .unlisted(["expected_count"])
        .show_as("edits", plan::shown_edits())
        .also_called([
            "edit",
            "multi_edit",
            "str_replace",
            "str_replace_editor",
            "str_replace_based_edit_tool",
            "apply_patch",
            "replace",
            "replace_in_file",
            "search_replace",
            "edit_block",
        ])
        .destructive()
}

/// What `edit_file` returns.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Edits {
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

pub(crate) async fn edit(host: Arc<Host>, args: Args, cx: Cx) -> ToolResult<Answer<Edits>> {
    let here = host.here(&cx, args.paths()).await?;
    let own = cx.clone();
    let done = in_turn(&cx, move |memory, turn| {
        memory.need(args.weight(&host, &here))?;
        run(&host, &here, &args, &own, (memory, turn))
    });
    let (answer, displaced) = done.await?;
    displaced.let_go();
    Ok(answer)
}

/// A file before and after an edit.
struct Edit<'a> {
    plan: &'a FilePlan<'a>,
    found: Snapshot,
    /// If the file is edited as another text (a notebook, another encoding): that text before the edit, and the file
    /// after it.
    shown: Option<(Shown, String, Vec<u8>)>,
    /// The result for the text that is edited.
    edited: Edited,
    /// The hash of the file after the edit.
    hash: String,
    note: Note,
}

impl<'a> Edit<'a> {
    fn of(
        (plan, held): (&'a FilePlan<'a>, &Held),
        fuzzy: bool,
        memory: &mut Memory,
    ) -> Result<Self, Failed> {
        let found = plan.read(held)?;
        memory.need_in_all(shown::weight(&plan.target, &found.bytes))?;
        let shown = Shown::of(&plan.target, &found.bytes);
        let as_shown = shown.as_ref().map(|(shown, text)| {
            let edited = plan.apply(text.as_bytes(), fuzzy, memory)?;
            let after = shown.write(&edited.bytes, &plan.target, memory)?;
            ToolResult::Ok((edited, after))
        });
        let applied = match as_shown {
            None => plan
                .apply(&found.bytes, fuzzy, memory)
                .map(|edited| (edited, None)),
            Some(Ok((edited, after))) => Ok((edited, Some(after))),
            Some(Err(err)) if memory.is_refused() => Err(err),
            // A caller that read the JSON of a notebook may mean the JSON.
            Some(Err(err)) => match plan.apply(&found.bytes, fuzzy, memory) {
                Ok(edited) if matches!(shown, Some((Shown::Notebook(_), _))) => Ok((edited, None)),
                _ => Err(err),
            },
        };
        let (edited, after) = match applied {
            // Another program may be writing the file just now, so that the edit saw only half of it.
            Err(_) if !plan.target.is_same(&found.stat) => return Err(Failed::Changed),
            done => done?,
        };
        let shown = shown
            .zip(after)
            .map(|((shown, before), after)| (shown, before, after));
        Ok(Self {
            plan,
            found,
            shown,
            edited,
            hash: String::new(),
            note: None,
        })
    }

    /// Returns the file after the edit.
    fn content(&self) -> &[u8] {
        match &self.shown {
            Some((_, _, after)) => after,
            None => &self.edited.bytes,
        }
    }

    /// Returns the text before the edit.
    fn before(&self) -> &[u8] {
        match &self.shown {
            Some((_, before, _)) => before.as_bytes(),
            None => &self.found.bytes,
        }
    }

    /// Adds bytes that another program appended meanwhile. They are no part of this edit, so they stand before and after
    /// it.
    fn extend(&mut self, tail: &[u8]) {
        self.found.bytes.extend_from_slice(tail);
        match &mut self.shown {
            Some((_, _, after)) => after.extend_from_slice(tail),
            None => self.edited.bytes.extend_from_slice(tail),
        }
    }
}

fn run(
    host: &Host,
    here: &Here,
    args: &Args,
    cx: &Cx,
    (memory, turn): (&mut Memory, &Turn),
) -> Result<(Answer<Edits>, Displaced), Failed> {
    let plans = args.plan(host, here)?;
    let keys = plans.iter().map(|plan| plan.target.key());
    let _alone = turn.take(&host.locks, keys)?;
    let before = memory.wanted();
    let (mut edits, held) = atomic::undisturbed(cx, || {
        memory.begin_again(before);
        let held = hold(&plans, turn)?;
        let mut edits = Vec::with_capacity(plans.len());
        for file in plans.iter().zip(&held) {
            atomic::expect_wanted(cx)?;
            edits.push(Edit::of(file, args.fuzzy, memory)?);
        }
        atomic::expect_wanted(cx)?;
        if !args.dry_run {
            save(&mut edits, &held)?;
        }
        Ok((edits, held))
    })?;
    for edit in &mut edits {
        edit.hash = hash::of(edit.content());
    }
    if !args.dry_run {
        for edit in &mut edits {
            let contents = [Some(edit.found.bytes.as_slice()), Some(edit.content())];
            let kept = host.remember(cx, "edit_file", &edit.plan.target, contents, &edit.hash);
            edit.note = edit.note.or(kept);
        }
    }
    let answer = answer(&edits, args.dry_run, &Room::of(cx));
    Ok((answer, Displaced::of(held)))
}

/// Holds all the files, in an order that is the same for every call: else two calls that get one file each could go on
/// finding the other one in use.
fn hold(plans: &[FilePlan<'_>], turn: &Turn) -> Result<Vec<Held>, Failed> {
    let mut order: Vec<usize> = (0..plans.len()).collect();
    order.sort_by_key(|at| plans[*at].target.key());
    let mut held = Vec::with_capacity(plans.len());
    for at in &order {
        let one = Held::take(&plans[*at].target, &held, turn)?;
        held.push(one);
    }
    let mut in_order: Vec<_> = order.into_iter().zip(held).collect();
    in_order.sort_by_key(|(at, _)| *at);
    Ok(in_order.into_iter().map(|(_, held)| held).collect())
}

fn save(edits: &mut [Edit<'_>], held: &[Held]) -> Result<(), Failed> {
    let changes: Vec<_> = edits
        .iter()
        .zip(held)
        .map(|(edit, held)| Change {
            target: &edit.plan.target,
            found: &edit.found,
            held,
            content: edit.content(),
        })
        .collect();
    let replaced = atomic::replace_all(&changes)?;
    for (edit, replaced) in edits.iter_mut().zip(replaced) {
        edit.extend(&replaced.tail);
        edit.note = replaced.note;
    }
    Ok(())
}

fn answer(edits: &[Edit<'_>], dry_run: bool, room: &Room) -> Answer<Edits> {
    let room = room.share(edits.len());
    let mut text = String::new();
    let files = edits.iter().map(|edit| {
        let path = edit.plan.target.place().shown().display().to_string();
        let diff = diff::unified(edit.before(), &edit.edited.bytes, &room);
        let file = EditedFile {
            replacements: edit.edited.replacements,
            matched: edit.edited.kind,
            hash: hash::shown(&edit.hash),
            diff: room.structured_copy(&diff.named(&path)),
            diff_truncated: diff.truncated,
            note: edit.note.map(str::to_owned),
            path,
        };
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&edit.tell(&file, dry_run, &diff));
        file
    });
    let files = files.collect();
    Answer::new(Edits { dry_run, files }, text)
}

impl Edit<'_> {
    /// Returns the words about the edit, for people and models. The caller knows the texts of its edit, so a diff is
    /// shown only where it tells more: lines that were not as expected, or many places.
    fn tell(&self, file: &EditedFile, dry_run: bool, diff: &Diff) -> String {
        let shown = self.shown.as_ref().map(|(shown, ..)| shown);
        let mut text = self.plan.name.to_owned();
        if let Some(shown) = shown {
            text.push_str(&format!(" ({})", shown.name()));
        }
        let done = if dry_run { "would change" } else { "changed" };
        text.push_str(&format!(": {done} {}", diff.places()));
        if file.replacements > 1 {
            text.push_str(&format!(" in {} places", file.replacements));
        }
        match file.matched {
            Kind::Exact => {}
            Kind::LineEndings => text.push_str(", line endings kept"),
            Kind::TrailingBlanks => text.push_str(" (fuzzy: other blanks at the ends of lines)"),
            Kind::Indentation => text.push_str(" (fuzzy: other indentation)"),
        }
        if !dry_run {
            text.push_str(&format!(", hash {}", file.hash));
        }
        if let Some(note) = &file.note {
            text.push_str(&format!("\nnote: {note}"));
        }
        let is_other = matches!(file.matched, Kind::TrailingBlanks | Kind::Indentation)
            || matches!(shown, Some(Shown::Notebook(_)));
        let told = match (dry_run || is_other, self.edited.is_spread) {
            (true, _) => diff.text.len(),
            (false, true) => SPREAD.fit(&diff.text),
            (false, false) => return text,
        };
        text.push('\n');
        text.push_str(diff.text[..told].trim_end_matches('\n'));
        if diff.truncated || told < diff.text.len() {
            text.push_str("\n(the diff goes on; read_file shows the file)");
        }
        text
    }
}

/// How much of a diff is shown where one text was replaced in many places.
const SPREAD: Room = Room {
    bytes: 2048,
    lines: 60,
    in_structured: false,
};
