//! The page of results that fits into one answer.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::room::{Room, json_length};

use super::{
    args::{Args, Mode},
    cursor::{Cursor, Position},
    result::{Count, Match, SearchResult, Skipped},
};

/// Why a search ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stop {
    Limit,
    Room,
    Time,
}

/// The answer, which grows in order.
pub(super) struct Page {
    want: Want,
    entries: Vec<Entry>,
    used: Budget,
    pub(super) searched: u64,
    skipped: Skipped,
    /// The answer holds everything up to this position.
    reached: Option<Position>,
    pub(super) stop: Option<Stop>,
}

/// The limits of the answer.
#[derive(Clone, Copy)]
pub(super) struct Want {
    limit: Budget,
    /// How many bytes a path is longer than the name below the folder that is searched.
    prefix_bytes: usize,
}

/// A number of results, and their size.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    items: usize,
    bytes: usize,
    lines: usize,
}

/// One result.
pub(super) struct Entry {
    /// The path below the folder that is searched.
    pub(super) file: Arc<[u8]>,
    pub(super) kept: Kept,
}

/// A result as it is kept.
pub(super) enum Kept {
    /// A match; its path is filled in at the end.
    Line(Match),
    File,
    Count(u64),
}

/// The results of some files next to each other.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) entries: Vec<Entry>,
    pub(super) used: Budget,
    pub(super) searched: u64,
    pub(super) skipped: Skipped,
    /// The outcome holds everything up to this position.
    pub(super) reached: Option<Position>,
    pub(super) end: End,
}

/// Whether all the files were searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum End {
    #[default]
    All,
    /// No: there are already more results than the answer has room for.
    Full,
    /// No: the search was stopped.
    Stopped,
}

/// The most results that are kept, even if more would fit.
const ITEMS: usize = 10_000;

impl Want {
    pub(super) fn new(args: &Args, room: Room) -> Self {
        let limit = Budget {
            items: args.limit.unwrap_or(ITEMS).min(ITEMS),
            bytes: room.bytes,
            lines: room.lines,
        };
        Self {
            limit,
            prefix_bytes: args.path.len() + 1,
        }
    }
}

impl Page {
    pub(super) fn new(want: Want) -> Self {
        Self {
            want,
            entries: Vec::new(),
            used: Budget::default(),
            searched: 0,
            skipped: Skipped::default(),
            reached: None,
            stop: None,
        }
    }

    /// Adds the next outcome in order. After the first that is not whole there is nothing more to add.
    pub(super) fn take(&mut self, outcome: Outcome) {
        self.searched += outcome.searched;
        self.skipped.add(outcome.skipped);
        for entry in outcome.entries {
            let mut used = self.used;
            used.add(entry.cost(self.want.prefix_bytes));
            if !self.entries.is_empty() && used.exceeds(&self.want.limit) {
                self.stop = Some(Stop::Room);
                return;
            }
            self.used = used;
            self.reached = Some(entry.position());
            self.entries.push(entry);
            // Results after a full answer may have been dropped, so the answer must be full to the
            // byte.
            if self.used.reaches(&self.want.limit) {
                let by_limit = self.used.items >= self.want.limit.items;
                self.stop = Some(if by_limit { Stop::Limit } else { Stop::Room });
                return;
            }
        }
        self.reached = outcome.reached.or(self.reached.take());
        match outcome.end {
            End::All => {}
            End::Full => self.stop = Some(Stop::Room),
            End::Stopped => self.stop = Some(Stop::Time),
        }
    }

    /// Returns how much room is left.
    pub(super) fn left(&self) -> Budget {
        self.want.limit.minus(&self.used)
    }

    /// Returns the answer.
    pub(super) fn into_found(self, args: &Args, earlier: Option<&Cursor>) -> SearchResult {
        let seen = earlier.map_or(0, |cursor| cursor.seen) + self.entries.len() as u64;
        let reached = self
            .reached
            .or_else(|| earlier.map(|cursor| cursor.after.clone()));
        let next_cursor = self
            .stop
            .and(reached)
            .map(|after| Cursor { after, seen }.write(args.fingerprint()));
        let skipped = &self.skipped;
        let left_out = skipped.unreadable + skipped.hard_linked_files + skipped.too_large_files;
        let complete = self.stop.is_none() && left_out == 0;
        let mut found = SearchResult {
            mode: args.mode,
            matches: (args.mode == Mode::Content).then(Vec::new),
            files: matches!(args.mode, Mode::Files | Mode::Names).then(Vec::new),
            counts: (args.mode == Mode::Count).then(Vec::new),
            found: self.entries.len(),
            found_so_far: seen,
            searched_files: self.searched,
            skipped: self.skipped,
            complete,
            stopped_by: self.stop,
            hint: args.hint().filter(|_| seen == 0),
            next_cursor,
        };
        for Entry { file, kept } in self.entries {
            let path = args.shown(&file);
            match kept {
                Kept::Line(line) => found
                    .matches
                    .get_or_insert_default()
                    .push(Match { path, ..line }),
                Kept::File => found.files.get_or_insert_default().push(path),
                Kept::Count(lines) => found
                    .counts
                    .get_or_insert_default()
                    .push(Count { path, lines }),
            }
        }
        found
    }
}

impl Entry {
    fn position(&self) -> Position {
        let line = match &self.kept {
            Kept::Line(line) => Some(line.line),
            Kept::File | Kept::Count(_) => None,
        };
        Position {
            path: self.file.to_vec(),
            line,
        }
    }

    fn cost(&self, prefix_bytes: usize) -> Budget {
        let path_bytes = self.file.len() + prefix_bytes;
        match &self.kept {
            Kept::Line(line) => {
                let mut cost = Budget::of_match(line, path_bytes);
                line.after
                    .iter()
                    .for_each(|line| cost.add(Budget::of_context(line)));
                cost
            }
            Kept::File | Kept::Count(_) => Budget::of_file(path_bytes),
        }
    }
}

impl Budget {
    /// Returns the cost of a match, without the lines after it.
    pub(super) fn of_match(found: &Match, path_bytes: usize) -> Self {
        /// The names of the members and their punctuation.
        const MEMBERS: usize = 64;
        let clipped = if found.clipped.is_some() { 56 } else { 0 };
        let mut cost = Self {
            items: 1,
            bytes: path_bytes + MEMBERS + clipped + json_bytes(&found.text),
            lines: 1 + found.text.matches('\n').count(),
        };
        found
            .before
            .iter()
            .for_each(|line| cost.add(Self::of_context(line)));
        cost
    }

    /// Returns the cost of a line of context.
    pub(super) fn of_context(line: &str) -> Self {
        Self {
            items: 0,
            bytes: json_bytes(line) + 8,
            lines: 1,
        }
    }

    /// Returns the cost of a path, perhaps with a number.
    pub(super) fn of_file(path_bytes: usize) -> Self {
        Self {
            items: 1,
            bytes: path_bytes + 24,
            lines: 1,
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.items += other.items;
        self.bytes += other.bytes;
        self.lines += other.lines;
    }

    /// Returns whether nothing is left of a limit.
    pub(super) fn reaches(&self, limit: &Self) -> bool {
        self.items >= limit.items || self.bytes >= limit.bytes || self.lines >= limit.lines
    }

    pub(super) fn minus(&self, used: &Self) -> Self {
        Self {
            items: self.items.saturating_sub(used.items),
            bytes: self.bytes.saturating_sub(used.bytes),
            lines: self.lines.saturating_sub(used.lines),
        }
    }

    fn exceeds(&self, limit: &Self) -> bool {
        self.items > limit.items || self.bytes > limit.bytes || self.lines > limit.lines
    }
}

/// Returns how many bytes a text takes in JSON.
fn json_bytes(text: &str) -> usize {
    text.chars().map(json_length).sum()
}
