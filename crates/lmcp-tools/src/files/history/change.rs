//! A change that a write made to a file, kept so that it can be undone: the bytes between the first and the last that
//! differ, and a few bytes around them. A small edit of a large file is small.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::files::hash;

/// A change of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Change {
    /// Whether the file existed before, and after.
    pub(super) existed: [bool; 2],
    /// The hash of the whole file afterwards.
    hash: String,
    /// The position of the first byte that differs.
    at: usize,
    /// The lengths of the parts in `bytes`: the old bytes, the new bytes, the bytes before them, and those after them.
    lengths: [usize; 4],
    #[serde(skip)]
    pub(super) bytes: Vec<u8>,
}

/// Why a change cannot be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stuck {
    /// The new bytes are not there any more.
    Gone,
    /// The new bytes are there several times by now.
    Several,
}

impl Change {
    /// Returns the change from one content to another; `None` where there is no file.
    pub(super) fn new(old: Option<&[u8]>, new: Option<&[u8]>) -> Self {
        let hash = hash::of(new.unwrap_or_default());
        Self::with_hash(old, new, hash)
    }

    /// Does the same where the hash of the new content is known.
    pub(super) fn with_hash(old: Option<&[u8]>, new: Option<&[u8]>, hash: String) -> Self {
        let existed = [old.is_some(), new.is_some()];
        let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
        let at = same_at_the_beginning(old, new);
        let (old_rest, new_rest) = (&old[at..], &new[at..]);
        let behind = same_at_the_end(old_rest, new_rest);
        let (old_part, tail) = old_rest.split_at(old_rest.len() - behind);
        let new_part = &new_rest[..new_rest.len() - behind];
        let front = &new[at.saturating_sub(AROUND)..at];
        let back = &tail[..tail.len().min(AROUND)];
        Self {
            existed,
            hash,
            at,
            lengths: [old_part, new_part, front, back].map(<[u8]>::len),
            bytes: [old_part, new_part, front, back].concat(),
        }
    }

    /// Returns the memory that the change from one content to another takes, twice: the record that is written holds a
    /// copy.
    pub(super) fn size(old: Option<&[u8]>, new: Option<&[u8]>) -> usize {
        let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
        let at = same_at_the_beginning(old, new);
        let behind = same_at_the_end(&old[at..], &new[at..]);
        2 * (old.len() + new.len() - 2 * (at + behind) + 2 * AROUND)
    }

    /// Returns the old bytes.
    pub(super) fn old(&self) -> &[u8] {
        self.part(0)
    }

    /// Returns the new bytes.
    pub(super) fn new_bytes(&self) -> &[u8] {
        self.part(1)
    }

    /// Returns the present content without this change. Other changes since then stay.
    pub(super) fn take_back(&self, now: &[u8]) -> Result<Vec<u8>, Stuck> {
        let range = self.place(now)?;
        Ok([&now[..range.start], self.old(), &now[range.end..]].concat())
    }

    /// Returns whether the file is as this change left it.
    pub(super) fn is_last(&self, now: &[u8]) -> bool {
        hash::of(now) == self.hash
    }

    /// Returns where the new bytes are now.
    fn place(&self, now: &[u8]) -> Result<Range<usize>, Stuck> {
        let length = self.lengths[1];
        if self.is_last(now) {
            return Ok(self.at..self.at + length);
        }
        let (front, back) = (self.part(2), self.part(3));
        let known = [front, self.new_bytes(), back].concat();
        if known.is_empty() || !self.existed[0] {
            return Err(Stuck::Gone);
        }
        let mut found = memchr::memmem::find_iter(now, &known);
        let start = found.next().ok_or(Stuck::Gone)? + front.len();
        // Bytes at the beginning or the end of the file must still be there.
        let at_edge = (self.at > 0 || start == front.len())
            && (back.len() == AROUND || start + length + back.len() == now.len());
        match (found.next(), at_edge) {
            (Some(_), _) => Err(Stuck::Several),
            (None, false) => Err(Stuck::Gone),
            (None, true) => Ok(start..start + length),
        }
    }

    fn part(&self, number: usize) -> &[u8] {
        let start: usize = self.lengths.iter().take(number).sum();
        let end = start.saturating_add(self.lengths[number]);
        self.bytes.get(start..end).unwrap_or_default()
    }
}

/// Returns how many of the first bytes are equal. Comparing whole blocks is many times as fast.
fn same_at_the_beginning(one: &[u8], other: &[u8]) -> usize {
    let blocks = one.chunks_exact(BLOCK).zip(other.chunks_exact(BLOCK));
    let start = blocks.take_while(|(one, other)| one == other).count() * BLOCK;
    let rest = one[start..].iter().zip(&other[start..]);
    start + rest.take_while(|(one, other)| one == other).count()
}

/// Returns how many of the last bytes are equal.
fn same_at_the_end(one: &[u8], other: &[u8]) -> usize {
    let blocks = one.rchunks_exact(BLOCK).zip(other.rchunks_exact(BLOCK));
    let start = blocks.take_while(|(one, other)| one == other).count() * BLOCK;
    let (one, other) = (&one[..one.len() - start], &other[..other.len() - start]);
    let rest = one.iter().rev().zip(other.iter().rev());
    start + rest.take_while(|(one, other)| one == other).count()
}

/// The bytes that are compared at once.
const BLOCK: usize = 256;

/// The bytes that are kept on each side of a change.
const AROUND: usize = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn taken_back(old: &str, new: &str, now: &str) -> Result<String, Stuck> {
        let change = Change::new(Some(old.as_bytes()), Some(new.as_bytes()));
        let back = change.take_back(now.as_bytes())?;
        Ok(String::from_utf8(back).unwrap())
    }

    #[test]
    fn a_change_is_undone_around_others() {
        let lines: Vec<String> = (0..40).map(|n| format!("line {n}\n")).collect();
        let old = lines.concat();
        let new = old.replace("line 20\n", "edited\nand more\n");
        let since = new.replace("line 0\n", "first\n").replace("line 39\n", "");
        let expected = old.replace("line 0\n", "first\n").replace("line 39\n", "");
        assert_eq!(taken_back(&old, &new, &since), Ok(expected));
        let other = new.replace("edited", "changed");
        assert_eq!(taken_back(&old, &new, &other), Err(Stuck::Gone));
        assert_eq!(taken_back(&old, &new, &new.repeat(2)), Err(Stuck::Several));
        // The change was at the end of the file, so nothing may have been added there.
        assert_eq!(taken_back("a\n", "a\nb\n", "a\nb\nc\n"), Err(Stuck::Gone));
    }

    #[test]
    fn a_file_that_was_made_is_not_unmade_when_it_has_changed() {
        let change = Change::new(None, Some(b"new"));
        assert_eq!(change.take_back(b"new"), Ok(Vec::new()));
        assert_eq!(change.take_back(b"new and more"), Err(Stuck::Gone));
    }

    proptest! {
        #[test]
        fn whatever_was_written_is_taken_back(
            old in "[ab\n]{0,200}", new in "[ab\n]{0,200}", front in 0..600_usize, back in 0..600_usize,
        ) {
            // The text is short, and much around it is the same.
            let [old, new] = [old, new].map(|text| format!("{}{text}{}", "a".repeat(front), "b".repeat(back)));
            let back = taken_back(&old, &new, &new);
            prop_assert_eq!(back, Ok(old));
        }
    }
}
