//! The results of `search_files`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::room::Room;

use super::{args::Mode, page::Stop};

/// What was found.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SearchResult {
    /// What the results are: the argument `mode`.
    pub(super) mode: Mode,
    /// Mode `content`: the matching lines, by path and line. Absent if this client reads them in the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) matches: Option<Vec<Match>>,
    /// Modes `files` and `names`: the paths. Absent if this client reads them in the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) files: Option<Vec<String>>,
    /// Mode `count`: matching lines of each file that has some. Absent if this client reads them in the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) counts: Option<Vec<Count>>,
    /// Results in this answer.
    pub(super) found: usize,
    /// Results in this answer and those before it, along the cursors.
    pub(super) found_so_far: u64,
    /// Files that were looked into for this answer; in mode `names`, whose names were looked at.
    pub(super) searched_files: u64,
    /// What was not searched.
    pub(super) skipped: Skipped,
    /// Nothing was left out but what the arguments say and binary files.
    pub(super) complete: bool,
    /// Why the search ended early: `limit` results were found, the answer is full (`room`), or `max_seconds` are over
    /// (`time`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stopped_by: Option<Stop>,
    /// Why nothing may have been found, and what to try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
    /// Pass it as `cursor` for what comes after this answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_cursor: Option<String>,
}

/// A matching line.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Match {
    /// The file.
    pub(super) path: String,
    /// The line, counted from 1.
    pub(super) line: u64,
    /// Where in the line the first match begins, in bytes, counted from 1.
    pub(super) column: u64,
    /// The line without its end; in multiline searches all lines of the match. Part of it, if `clipped` says so.
    pub(super) text: String,
    /// If `text` is part of a long line: which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) clipped: Option<Clipped>,
    /// Lines before it that do not match, the nearest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) before: Vec<String>,
    /// Lines after it that do not match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) after: Vec<String>,
}

/// Which part of a long line is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Clipped {
    /// The column that `text` begins with, in bytes, counted from 1.
    pub(super) from_column: u64,
    /// The length of all of it.
    pub(super) full_bytes: u64,
}

/// Matching lines of one file.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Count {
    /// The file.
    pub(super) path: String,
    /// How many lines match.
    pub(super) lines: u64,
}

/// What was not searched, or not to its end.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Skipped {
    /// Binary files: those with a NUL byte, from there on.
    pub(super) binary_files: u64,
    /// Files with another name, perhaps outside of what this server may touch.
    pub(super) hard_linked_files: u64,
    /// Files with a line that is longer than the memory that is free, or than 64 MiB; in multiline searches, files of
    /// that size.
    pub(super) too_large_files: u64,
    /// Some of those.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) too_large_examples: Vec<String>,
    /// Some rules of ignore files, which have too many: what they leave out was searched.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) ignore_rules: bool,
    /// Files and folders that could not be read.
    pub(super) unreadable: u64,
    /// Some of those, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unreadable_examples: Vec<String>,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl SearchResult {
    /// Removes the results where the client reads them in the text.
    pub(super) fn fit_for(mut self, room: Room) -> Self {
        if !room.in_structured {
            (self.matches, self.files, self.counts) = (None, None, None);
        }
        self
    }
}

impl Skipped {
    /// How many unreadable or too large files are named.
    const EXAMPLES: usize = 5;

    pub(super) fn unreadable(
        &mut self,
        path: impl FnOnce() -> String,
        why: &dyn std::fmt::Display,
    ) {
        self.unreadable += 1;
        if self.unreadable_examples.len() < Self::EXAMPLES {
            self.unreadable_examples.push(format!("{}: {why}", path()));
        }
    }

    pub(super) fn too_large(&mut self, path: impl FnOnce() -> String) {
        self.too_large_files += 1;
        if self.too_large_examples.len() < Self::EXAMPLES {
            self.too_large_examples.push(path());
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.too_large_files += other.too_large_files;
        let left = Self::EXAMPLES.saturating_sub(self.too_large_examples.len());
        self.too_large_examples
            .extend(other.too_large_examples.into_iter().take(left));
        self.ignore_rules |= other.ignore_rules;
        self.binary_files += other.binary_files;
        self.hard_linked_files += other.hard_linked_files;
        self.unreadable += other.unreadable;
        let left = Self::EXAMPLES.saturating_sub(self.unreadable_examples.len());
        self.unreadable_examples
            .extend(other.unreadable_examples.into_iter().take(left));
    }
}
