//! Finds the places where a text occurs in a file.
//!
//! The text is first searched as it is written, apart from line endings, which models do not see. Only on request,
//! whole lines are compared without the blanks at their ends, and then without their indentation. Matches never
//! overlap.

use std::{
    borrow::Cow,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    ops::Range,
};

use memchr::memmem;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    indent::Shift,
    lines::{self, Lines},
};

/// A place where the text occurs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) range: Range<usize>,
    pub(super) kind: Kind,
}

/// What a text and its match may differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Exact,
    LineEndings,
    TrailingBlanks,
    Indentation,
}

/// Returns the places where the text occurs as written, or with other line endings. At most `limit`.
pub(super) fn find(file: &[u8], old: &[u8], limit: usize) -> Vec<Match> {
    if lines::count(old) > lines::count(file) {
        return Vec::new();
    }
    // A caller that writes `\r` means it. Only if that text is not found, the `\r` was a habit.
    if old.contains(&b'\r') {
        let found = find_exactly(file, old, limit);
        if !found.is_empty() {
            return found;
        }
    }
    let old = Plain::of(old);
    let plain = Plain::of(file);
    memmem::find_iter(&plain.text, &*old.text)
        .take(limit)
        .map(|start| {
            let range = plain.original(start)..plain.original(start + old.text.len());
            // Equal lengths mean that no `\r` was left out on either side, so not one byte differs.
            let exact = range.len() == old.text.len() && old.removed.is_empty();
            let kind = if exact {
                Kind::Exact
            } else {
                Kind::LineEndings
            };
            Match { range, kind }
        })
        .collect()
}

fn find_exactly(file: &[u8], old: &[u8], limit: usize) -> Vec<Match> {
    let finder = memmem::Finder::new(old);
    let (mut found, mut from) = (Vec::new(), 0);
    while found.len() < limit
        && let Some(at) = finder.find(&file[from..])
    {
        let range = from + at..from + at + old.len();
        // A `\n` that is half of a line ending is not a line ending of its own.
        if old.starts_with(b"\n") && file[..range.start].ends_with(b"\r") {
            from = range.start + 1;
            continue;
        }
        from = range.end;
        found.push(Match {
            range,
            kind: Kind::Exact,
        });
    }
    found
}

/// Returns all matches of whole lines with the least tolerance that has any. At most `limit`.
pub(super) fn find_tolerantly(file: &[u8], old: &[u8], limit: usize) -> Vec<Match> {
    if lines::count(old) > lines::count(file) {
        return Vec::new();
    }
    let lines = Lines::of(file);
    let wanted = Wanted::of(old);
    // A text of blank lines alone would match blank lines anywhere.
    let says_something = wanted
        .lines
        .iter()
        .any(|line| !lines::trim_start(line).is_empty());
    if !says_something || lines.len() > MOST_LINES {
        return Vec::new();
    }
    let found = wanted.find(&lines, Kind::TrailingBlanks, limit);
    if found.is_empty() {
        return wanted.find(&lines, Kind::Indentation, limit);
    }
    found
}

/// A text that is searched for line by line.
struct Wanted<'a> {
    lines: Vec<&'a [u8]>,
    /// Whether the break after the last line belongs to the text.
    ends_in_break: bool,
}

impl<'a> Wanted<'a> {
    fn of(old: &'a [u8]) -> Self {
        let (mut lines, _) = lines::pieces(old);
        let ends_in_break = lines.len() > 1 && lines.last().is_some_and(|last| last.is_empty());
        if ends_in_break {
            lines.pop();
        }
        Self {
            lines,
            ends_in_break,
        }
    }

    fn find(&self, lines: &Lines<'_>, kind: Kind, limit: usize) -> Vec<Match> {
        // Each line becomes a number, and a sequence of numbers is searched: the time grows only with the length of
        // the file.
        let file = numbers((0..lines.len()).map(|line| lines.text(line)), kind);
        let wanted = numbers(self.lines.iter().copied(), kind);
        let finder = memmem::Finder::new(&wanted);
        let (mut found, mut from, mut work) = (Vec::new(), 0, 0);
        while found.len() < limit
            && let Some(at) = file.get(from..).and_then(|rest| finder.find(rest))
        {
            let (line, aligned) = ((from + at) / WIDTH, (from + at) % WIDTH == 0);
            match self.check(lines, line, kind).filter(|_| aligned) {
                Some(range) => {
                    found.push(Match { range, kind });
                    from = (line + self.lines.len()) * WIDTH;
                }
                None => {
                    from += at + 1;
                    work += self.lines.len();
                    if work > MOST_WORK {
                        // An incomplete list of matches is useless: it cannot tell whether a match is the only one.
                        return Vec::new();
                    }
                }
            }
        }
        found
    }

    /// Makes sure that the lines are equal: equal numbers only make that likely.
    fn check(&self, lines: &Lines<'_>, line: usize, kind: Kind) -> Option<Range<usize>> {
        let last = line + self.lines.len() - 1;
        let texts = || (line..=last).map(|line| lines.text(line));
        let same = last < lines.len()
            && texts()
                .zip(&self.lines)
                .all(|(text, wanted)| reduce(text, kind) == reduce(wanted, kind));
        let breaks = !self.ends_in_break || lines.has_break(last);
        let shifts = || {
            kind != Kind::Indentation
                || Shift::between(self.lines.iter().copied(), texts()).is_some()
        };
        if !same || !breaks || !shifts() {
            return None;
        }
        let end = if self.ends_in_break {
            lines.start(last + 1)
        } else {
            lines.start(last) + lines.text(last).len()
        };
        Some(lines.start(line)..end)
    }
}

/// Returns the part of a line that is compared.
fn reduce(line: &[u8], kind: Kind) -> &[u8] {
    match kind {
        Kind::Exact | Kind::LineEndings => line,
        Kind::TrailingBlanks => lines::trim_end(line),
        Kind::Indentation => lines::trim_start(lines::trim_end(line)),
    }
}

fn numbers<'a>(lines: impl Iterator<Item = &'a [u8]>, kind: Kind) -> Vec<u8> {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    lines
        .flat_map(|line| hasher.hash_one(reduce(line, kind)).to_ne_bytes())
        .collect()
}

/// A text with `\n` alone at the ends of its lines, and the way back to the original.
struct Plain<'a> {
    text: Cow<'a, [u8]>,
    /// The positions in the plain text at which a `\r` was left out before a `\n`, in order.
    removed: Vec<u32>,
}

impl<'a> Plain<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        if memmem::find(bytes, b"\r\n").is_none() {
            return Self {
                text: bytes.into(),
                removed: Vec::new(),
            };
        }
        let (mut text, mut removed, mut from) = (Vec::with_capacity(bytes.len()), Vec::new(), 0);
        for at in memmem::find_iter(bytes, b"\r\n") {
            text.extend_from_slice(&bytes[from..at]);
            removed.extend(u32::try_from(text.len()));
            from = at + 1;
        }
        text.extend_from_slice(&bytes[from..]);
        Self {
            text: text.into(),
            removed,
        }
    }

    /// Returns the position in the original of a position in the plain text. For a `\n`, it is that of its `\r`.
    fn original(&self, at: usize) -> usize {
        at + self
            .removed
            .partition_point(|removed| (*removed as usize) < at)
    }
}

/// The bytes of a line's number.
const WIDTH: usize = 8;

/// Files with more lines are not compared line by line.
const MOST_LINES: usize = 500_000;

/// The most lines that are compared without a match.
const MOST_WORK: usize = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(found: &[Match]) -> Vec<(Range<usize>, Kind)> {
        found
            .iter()
            .map(|found| (found.range.clone(), found.kind))
            .collect()
    }

    #[test]
    fn line_endings_do_not_matter_unless_they_are_written_out() {
        let file = b"a\r\nb\na\nb";
        assert_eq!(
            ranges(&find(file, b"a\nb", 9)),
            [(0..4, Kind::LineEndings), (5..8, Kind::Exact)]
        );
        assert_eq!(ranges(&find(file, b"a\r\nb", 9)), [(0..4, Kind::Exact)]);
        assert_eq!(
            ranges(&find(b"\r\na\r\n\na\r\n", b"\na\r\n", 9)),
            [(5..9, Kind::Exact)]
        );
        assert_eq!(
            ranges(&find(b"a\nb", b"a\r\nb", 9)),
            [(0..3, Kind::LineEndings)]
        );
    }

    #[test]
    fn a_match_takes_the_whole_break() {
        assert_eq!(
            ranges(&find(b"x\r\ny", b"\ny", 9)),
            [(1..4, Kind::LineEndings)]
        );
        assert_eq!(
            ranges(&find(b"x\r\ny", b"x\n", 9)),
            [(0..3, Kind::LineEndings)]
        );
    }

    #[test]
    fn matches_do_not_overlap() {
        assert_eq!(find(b"aaaaa", b"aa", 9).len(), 2);
        assert_eq!(
            find_tolerantly(b" a\n a\n a\n a\n a\n", b"a\na\n", 9).len(),
            2
        );
    }

    #[test]
    fn blanks_are_tolerated_at_the_end_before_the_beginning() {
        let file = b"if x:  \n    y\n";
        assert_eq!(
            ranges(&find_tolerantly(file, b"if x:\n    y", 9)),
            [(0..13, Kind::TrailingBlanks)]
        );
        assert_eq!(
            ranges(&find_tolerantly(file, b"  if x:\n      y\n", 9)),
            [(0..14, Kind::Indentation)]
        );
        assert!(find_tolerantly(file, b"\n  \n", 9).is_empty());
    }

    #[test]
    fn indentation_that_does_not_shift_evenly_is_no_match() {
        assert!(find_tolerantly(b"a\n  b\n    c\n", b"a\n  b\n  c\n", 9).is_empty());
    }
}
