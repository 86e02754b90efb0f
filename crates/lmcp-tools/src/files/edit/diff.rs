//! The changes of an edit, as a unified diff that fits into the room.

use std::{
    fmt::Write as _,
    ops::Range,
    time::{Duration, Instant},
};

use similar::{Algorithm, DiffOp};

use crate::room::Room;

/// A diff without the names of the files, and whether it is cut.
#[derive(Debug, Default)]
pub(in crate::files) struct Diff {
    pub(in crate::files) text: String,
    pub(in crate::files) truncated: bool,
    /// The new lines, by their numbers in the new text.
    pub(in crate::files) lines: Vec<Range<usize>>,
}

impl Diff {
    /// Returns the diff with the names of the files, as programs expect it.
    pub(in crate::files) fn named(&self, path: &str) -> String {
        if self.text.is_empty() {
            return String::new();
        }
        format!("--- {path}\n+++ {path}\n{}", self.text)
    }

    /// Returns the new lines in words: `line 3`, `lines 3-5, 17`. Where lines were only removed, names the line before.
    pub(in crate::files) fn places(&self) -> String {
        let told = |lines: &Range<usize>| match lines.len() {
            0 => format!("after {}", lines.start - 1),
            1 => lines.start.to_string(),
            _ => format!("{}-{}", lines.start, lines.end - 1),
        };
        let shown: Vec<String> = self.lines.iter().take(MOST_PLACES).map(told).collect();
        let mut words = match &self.lines[..] {
            [] => "many lines".into(),
            [one] if one.is_empty() => format!("what was after line {}", one.start - 1),
            [one] if one.len() == 1 => format!("line {}", one.start),
            _ => format!("lines {}", shown.join(", ")),
        };
        if self.lines.len() > MOST_PLACES {
            words.push_str(&format!(" and {} more", self.lines.len() - MOST_PLACES));
        }
        words
    }
}

/// Compares the lines from the first that differs to the last: the rest of a large file costs little.
pub(in crate::files) fn unified(old: &[u8], new: &[u8], room: &Room) -> Diff {
    if old == new {
        return Diff::default();
    }
    let (start, old, new) = changed(old, new);
    let line = memchr::memchr_iter(b'\n', start).count();
    let (old, new) = (split(old), split(new));
    let is_cut = old.len().max(new.len()) == MOST_LINES;
    let deadline = Instant::now() + TIME;
    let mut ops =
        similar::capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(deadline));
    if is_cut && ops.len() > 2 {
        // Both texts were cut, so the lines that one of them has more at its end are no difference.
        ops.pop_if(|last| !matches!(last, DiffOp::Equal { .. }));
    }
    let lines = ops
        .iter()
        .filter(|op| !matches!(op, DiffOp::Equal { .. }))
        .map(|op| line + op.new_range().start + 1..line + op.new_range().end + 1)
        .collect();
    let mut text = String::new();
    for hunk in similar::group_diff_ops(ops, CONTEXT) {
        if text.len() > room.bytes {
            break;
        }
        write_hunk(&mut text, &hunk, line, &old, &new, room.bytes);
    }
    let fits = room.fit(&text);
    let truncated = is_cut || fits < text.len();
    text.truncate(fits);
    Diff {
        text,
        truncated,
        lines,
    }
}

/// Returns the text before the context of the first change, and both texts from there to the context of the last.
fn changed<'a>(old: &'a [u8], new: &'a [u8]) -> (&'a [u8], &'a [u8], &'a [u8]) {
    let same = old
        .iter()
        .zip(new)
        .take_while(|(old, new)| old == new)
        .count();
    let mut start = same;
    // Goes to the beginning of the line that differs, and on to the lines of the context before it.
    for _ in 0..=CONTEXT {
        start = memchr::memrchr(b'\n', &old[..start]).unwrap_or(0);
    }
    if start > 0 {
        start += 1;
    }
    let (old_rest, new_rest) = (&old[same..], &new[same..]);
    let tail = old_rest
        .iter()
        .rev()
        .zip(new_rest.iter().rev())
        .take_while(|(old, new)| old == new)
        .count();
    let mut end = old.len() - tail;
    for _ in 0..=CONTEXT {
        end = memchr::memchr(b'\n', &old[end..]).map_or(old.len(), |next| end + next + 1);
    }
    let behind = old.len() - end;
    (
        &old[..start],
        &old[start..end],
        &new[start..new.len() - behind],
    )
}

fn split(text: &[u8]) -> Vec<&[u8]> {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    lines.take(MOST_LINES).collect()
}

fn write_hunk(
    text: &mut String,
    hunk: &[DiffOp],
    line: usize,
    old: &[&[u8]],
    new: &[&[u8]],
    most: usize,
) {
    let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else {
        return;
    };
    let old_range = first.old_range().start..last.old_range().end;
    let new_range = first.new_range().start..last.new_range().end;
    // For an empty range, the line before it is named.
    let from = |start: usize, length: usize| line + start + usize::from(length > 0);
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "@@ -{},{} +{},{} @@",
        from(old_range.start, old_range.len()),
        old_range.len(),
        from(new_range.start, new_range.len()),
        new_range.len()
    );
    for op in hunk {
        if let DiffOp::Equal { .. } = op {
            write_lines(text, ' ', &old[op.old_range()], most);
        } else {
            write_lines(text, '-', &old[op.old_range()], most);
            write_lines(text, '+', &new[op.new_range()], most);
        }
    }
}

fn write_lines(text: &mut String, sign: char, lines: &[&[u8]], most: usize) {
    for line in lines {
        if text.len() > most {
            return;
        }
        text.push(sign);
        // A line longer than all the room is cut anyway.
        let shown = &line[..line.len().min(most)];
        text.push_str(&String::from_utf8_lossy(shown));
        if !line.ends_with(b"\n") {
            text.push_str("\n\\ No newline at end of file\n");
        } else if shown.len() < line.len() {
            text.push('\n');
        }
    }
}

/// After this time the diff becomes coarser, not wrong.
const TIME: Duration = Duration::from_millis(200);

/// The most lines that are compared: more than any answer shows, and they take little memory.
const MOST_LINES: usize = 40_000;

/// The lines shown around a change.
const CONTEXT: usize = 1;

/// The most places whose lines are named.
const MOST_PLACES: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hunk_names_its_lines() {
        let old: String = (1..=20).map(|n| format!("line {n}\n")).collect();
        let new = old.replace("line 10\n", "line ten\nand more\n");
        let diff = unified(old.as_bytes(), new.as_bytes(), &Room::UNKNOWN);
        assert!(!diff.truncated);
        assert_eq!(
            diff.named("f"),
            "--- f\n+++ f\n@@ -9,3 +9,4 @@\n line 9\n-line 10\n+line ten\n+and more\n line 11\n"
        );
    }

    #[test]
    fn places_are_told_by_the_lines_of_the_new_text() {
        let old: String = (1..=20).map(|n| format!("line {n}\n")).collect();
        let places = |new: String| unified(old.as_bytes(), new.as_bytes(), &Room::UNKNOWN).places();
        assert_eq!(places(old.replace("line 7\n", "line seven\n")), "line 7");
        assert_eq!(places(old.replace("line 7\n", "7\n7\n")), "lines 7-8");
        assert_eq!(places(old.replace("line 7\n", "")), "what was after line 6");
        assert_eq!(places(old.replace("line 1\n", "")), "what was after line 0");
        let both = old.replace("line 3\n", "three\n").replace("line 9\n", "");
        assert_eq!(places(both), "lines 3, after 8");
        assert_eq!(places(old.replace("line 1", "row 1")), "lines 1, 10-19");
        assert_eq!(unified(b"", b"a\n", &Room::UNKNOWN).places(), "line 1");
    }

    #[test]
    fn a_file_that_becomes_empty_and_one_without_a_last_break() {
        let diff = unified(b"a", b"", &Room::UNKNOWN);
        assert_eq!(
            diff.text,
            "@@ -1,1 +0,0 @@\n-a\n\\ No newline at end of file\n"
        );
    }

    #[test]
    fn changes_at_both_ends_and_repeated_lines_stay_apart() {
        let diff = unified(b"a\na\na\n", b"a\na\na\na\n", &Room::UNKNOWN);
        assert_eq!(
            diff.text
                .lines()
                .filter(|line| line.starts_with('+'))
                .count(),
            1,
            "{}",
            diff.text
        );
    }

    #[test]
    fn a_large_change_is_cut_at_a_line() {
        let new = "new line\n".repeat(100_000);
        let diff = unified(b"old\n", new.as_bytes(), &Room::UNKNOWN);
        assert!(
            diff.truncated && diff.text.len() <= Room::UNKNOWN.bytes && diff.text.ends_with('\n')
        );
    }
}
