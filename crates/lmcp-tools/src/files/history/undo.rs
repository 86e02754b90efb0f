//! Undoes a change, and keeps what was changed since.

use std::collections::HashSet;

use lmcp_core::{Cx, ToolError, ToolResult};
use rustix::fs::AtFlags;

use super::{
    Changes, Listed, about,
    change::{Change as Kept, Stuck},
    store::{Entry, History},
};
use crate::{
    Host,
    answer::Answer,
    files::{
        atomic::{self, Failed, Note},
        edit::{MOST_BYTES, diff},
        exchange::Change,
        hold::Held,
        target::{Parents, Target},
        turn::Turn,
    },
    here::Here,
    memory::Memory,
    room::Room,
};

/// Undoes the change with this id, or the last one.
pub(super) fn undo(
    (host, history): (&Host, &History),
    id: &str,
    path: Option<&str>,
    cx: &Cx,
    (memory, turn): (&mut Memory, &Turn),
) -> Result<Answer<Changes>, Failed> {
    let id = match id {
        "last" => last(host, history, path, cx)?,
        id => id.to_owned(),
    };
    let kept = history.find(&id, &cx.caller().owner())?;
    // Memory for the change as it is kept, for the undo as it is kept, and for its record.
    memory.need(3 * kept.size())?;
    let entry = kept.load()?;
    let target = target(host, &entry.path, cx)?;
    let size = target.look()?.map_or(0, |stat| atomic::size_of(&stat));
    memory.need(usize::try_from(size.min(MOST_BYTES)).unwrap_or(usize::MAX) * 2)?;
    let _alone = turn.take(&host.locks, [target.key()])?;
    let Taken {
        contents: [before, after],
        note,
    } = atomic::undisturbed(cx, || {
        let held = Held::take(&target, &[], turn)?;
        take_back(&entry, &target, &held)
    })?;
    let change = Kept::new(before.as_deref(), after.as_deref());
    let about = format!("undo of {}: {}", entry.id, about(&change));
    let owner = cx.caller().owner();
    let mut made = history.entry(&owner, entry.path.clone(), "file_history", change);
    made.undoes = Some(entry.id.clone());
    made.about = about;
    // The undo is done, whether it can be recorded or not.
    made.id = history.add(made.clone()).unwrap_or_default();
    let room = Room::of(cx);
    let [before, after] = [&before, &after].map(|bytes| bytes.as_deref().unwrap_or_default());
    let diff = diff::unified(before, after, &room);
    let mut text = format!("Undone in {}: {}\n", entry.path, entry.about);
    if !made.id.is_empty() {
        text.push_str(&format!("to take that back: undo {}\n", made.id));
    }
    if let Some(note) = note {
        text.push_str(&format!("note: {note}\n"));
    }
    text.push_str(&diff.text);
    let value = Changes {
        changes: vec![Listed::of(&made, false)],
        diff: room.structured_copy(&diff.named(&entry.path)),
        more: None,
    };
    Ok(Answer::new(value, text))
}

/// Returns the changes that were undone by an undo that was not undone itself. The entries must have
/// the newest first.
pub(super) fn undone(entries: &[Entry]) -> HashSet<String> {
    let mut undone = HashSet::new();
    for entry in entries {
        if let Some(earlier) = &entry.undoes
            && !undone.contains(&entry.id)
        {
            undone.insert(earlier.clone());
        }
    }
    undone
}

/// Returns the file of a change.
pub(super) fn target<'a>(host: &'a Host, path: &str, cx: &Cx) -> ToolResult<Target<'a>> {
    let place = host.roots.find(&Here::anywhere(cx), path)?;
    Target::find(&place, Parents::Expect, host.hard_links())
}

/// Returns the newest change that is neither an undo nor undone.
fn last(host: &Host, history: &History, path: Option<&str>, cx: &Cx) -> ToolResult<String> {
    let entries = super::of_path(host, history, path, cx)?;
    let undone = undone(&entries);
    let mut own = entries
        .iter()
        .filter(|entry| entry.undoes.is_none() && !undone.contains(&entry.id));
    let last = own.next().map(|entry| entry.id.clone());
    last.ok_or_else(|| ToolError::new("there is no change left to undo"))
}

/// An undo that was done.
struct Taken {
    /// The file before and after; `None` where there was none.
    contents: [Option<Vec<u8>>; 2],
    note: Note,
}

fn take_back(entry: &Entry, target: &Target<'_>, held: &Held) -> Result<Taken, Failed> {
    let kept = &entry.change;
    let Some(mut found) = target.read(held, MOST_BYTES)? else {
        if kept.existed[1] {
            return Err(ToolError::new(format!("`{}` does not exist any more", entry.path)).into());
        }
        let made = atomic::create(target, kept.old())?;
        return Ok(Taken {
            contents: [None, Some(kept.old().to_vec())],
            note: made.note,
        });
    };
    if !kept.existed[1] {
        return Err(ToolError::new(format!("`{}` exists again", entry.path)).into());
    }
    let mut content = kept
        .take_back(&found.bytes)
        .map_err(|stuck| refused(entry, stuck))?;
    if !kept.existed[0] {
        if !target.is_same(&found.stat) {
            return Err(Failed::Changed);
        }
        rustix::fs::unlinkat(&target.dir, &target.name, AtFlags::empty())
            .map_err(|err| target.failed(err))?;
        return Ok(Taken {
            contents: [Some(found.bytes), None],
            note: None,
        });
    }
    let change = Change {
        target,
        found: &found,
        held,
        content: &content,
    };
    let mut note = None;
    for replaced in atomic::replace_all(&[change])? {
        // Bytes that another program appended meanwhile stand after the old content and after the new
        // one.
        found.bytes.extend_from_slice(&replaced.tail);
        content.extend_from_slice(&replaced.tail);
        note = replaced.note;
    }
    Ok(Taken {
        contents: [Some(found.bytes), Some(content)],
        note,
    })
}

/// Returns the error about a change whose bytes are not as it left them.
fn refused(entry: &Entry, stuck: Stuck) -> ToolError {
    let why = match stuck {
        Stuck::Gone => "was changed since, at this very place",
        Stuck::Several => "has this text several times by now",
    };
    let mut told = String::new();
    for (sign, bytes) in [('-', entry.change.new_bytes()), ('+', entry.change.old())] {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MOST_TOLD)]);
        for line in text.lines() {
            told.push_str(&format!("\n{sign}{line}"));
        }
        if bytes.len() > MOST_TOLD {
            told.push('…');
        }
    }
    ToolError::new(format!(
        "`{}` {why}; nothing was undone. It would have been:{told}",
        entry.path
    ))
    .hint("undo later changes first, or put it back with edit_file")
}

/// The most bytes that are shown of the new text, and of the old text.
const MOST_TOLD: usize = 1000;
