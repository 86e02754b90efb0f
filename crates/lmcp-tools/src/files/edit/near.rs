//! The places that are most like a text which was not found.
//!
//! In two steps, so that a large file costs no more than reading it: first every stretch of lines is rated by the
//! three-byte sequences it shares with the text, then the few best ones are compared character by character.

use std::{
    cmp::Reverse,
    fmt::Write as _,
    time::{Duration, Instant},
};

use similar::{Algorithm, DiffOp};

use super::lines;

/// A few lines about the most similar places, or nothing if none is similar.
pub(super) fn describe(file: &[u8], old: &[u8]) -> String {
    let text = clip(old);
    let candidates = candidates(file, old);
    let deadline = Instant::now() + TIME;
    let mut places: Vec<Near> = candidates
        .into_iter()
        .filter_map(|unit| Near::compare(file, unit, &text, deadline))
        .collect();
    places.sort_by_key(|near| (Reverse(near.percent), near.line));
    places.truncate(SHOWN);
    let mut told = String::new();
    for near in places {
        // Writing to a string cannot fail.
        let _ = write!(
            told,
            "\nline {}, {} % similar:\n{}",
            near.line, near.percent, near.difference
        );
    }
    if !told.is_empty() {
        told.insert_str(
            0,
            "\nnearest places ({-only in old_string-}{+only in the file+}):",
        );
    }
    told
}

/// A stretch of the file, at most a line.
#[derive(Clone, Copy)]
struct Unit {
    start: usize,
    end: usize,
    /// Sequences in it, and how many of them the text has too.
    sequences: usize,
    shared: usize,
}

/// The best stretches of as many lines as the text has, without those that overlap a better one.
fn candidates(file: &[u8], old: &[u8]) -> Vec<Unit> {
    let old = &old[..old.len().min(MOST_BYTES)];
    let wanted = Sequences::of(old);
    let units = units(file, old.len(), &wanted);
    let height = lines::pieces(lines::without_break(old))
        .0
        .len()
        .min(units.len());
    let mut rated: Vec<(u64, usize, Unit)> = Vec::new();
    let (mut sequences, mut shared) = (0, 0);
    for (at, last) in units.iter().enumerate() {
        sequences += last.sequences;
        shared += last.shared;
        let Some(first) = (at + 1).checked_sub(height) else {
            continue;
        };
        let unit = Unit {
            start: units[first].start,
            end: last.end,
            sequences,
            shared,
        };
        sequences -= units[first].sequences;
        shared -= units[first].shared;
        // Twice what is shared, by what there is in both: 1000 if they are the same.
        let score = 2000 * unit.shared as u64 / (unit.sequences + wanted.count).max(1) as u64;
        if score >= 100 {
            rated.push((score, first, unit));
        }
    }
    rated.sort_by_key(|(score, first, _)| (Reverse(*score), *first));
    let mut best: Vec<(usize, Unit)> = Vec::new();
    for (_, first, unit) in rated.into_iter().take(MOST_RATED) {
        if best.len() < COMPARED
            && best
                .iter()
                .all(|(other, _)| other.abs_diff(first) >= height)
        {
            best.push((first, unit));
        }
    }
    best.into_iter().map(|(_, unit)| unit).collect()
}

/// The file in stretches: its lines, and long ones in parts that overlap.
fn units(file: &[u8], width: usize, wanted: &Sequences) -> Vec<Unit> {
    let part = (2 * width).clamp(256, MOST_BYTES);
    let mut units = Vec::new();
    let mut start = 0;
    for line in file.split_inclusive(|byte| *byte == b'\n') {
        if units.len() > MOST_UNITS {
            break;
        }
        let end = start + line.len();
        while end - start > part {
            units.push(wanted.rate(file, start, start + part));
            start += part / 2;
        }
        units.push(wanted.rate(file, start, end));
        start = end;
    }
    units
}

/// The three-byte sequences of a text, as a set with a little noise. Blanks do not count.
struct Sequences {
    set: Vec<u64>,
    count: usize,
}

impl Sequences {
    fn of(text: &[u8]) -> Self {
        let mut this = Self {
            set: vec![0; SET_BITS / 64],
            count: 0,
        };
        each(text, |hash| {
            this.set[hash / 64] |= 1 << (hash % 64);
            this.count += 1;
        });
        this
    }

    fn rate(&self, file: &[u8], start: usize, end: usize) -> Unit {
        let mut unit = Unit {
            start,
            end,
            sequences: 0,
            shared: 0,
        };
        each(&file[start..end], |hash| {
            unit.sequences += 1;
            unit.shared += usize::from(self.set[hash / 64] >> (hash % 64) & 1 == 1);
        });
        unit
    }
}

/// Each sequence of a text as a number below [`SET_BITS`].
fn each(text: &[u8], mut take: impl FnMut(usize)) {
    let (mut last, mut seen) = (0_u32, 0);
    for byte in text.iter().filter(|byte| !byte.is_ascii_whitespace()) {
        last = last << 8 & 0x00ff_ffff | u32::from(*byte);
        seen += 1;
        // Short texts have no three bytes; their single ones are better than nothing.
        if seen >= 3 || text.len() < 8 {
            take((last.wrapping_mul(0x9e37_79b1) >> 16) as usize % SET_BITS);
        }
    }
}

/// A place that is like the text.
struct Near {
    line: usize,
    percent: u32,
    difference: String,
}

impl Near {
    fn compare(file: &[u8], unit: Unit, old: &[char], deadline: Instant) -> Option<Self> {
        let here = clip(lines::without_break(&file[unit.start..unit.end]));
        let mut ops =
            similar::capture_diff_slices_deadline(Algorithm::Myers, old, &here, Some(deadline));
        // What the file has before and behind is no difference: the text may be a part of a line.
        let mut from = 0;
        if let Some(DiffOp::Insert { new_len, .. }) = ops.first() {
            from = *new_len;
            ops.remove(0);
        }
        let to = match ops.last() {
            Some(DiffOp::Insert { new_index, .. }) => *new_index,
            _ => here.len(),
        };
        if to < here.len() {
            ops.pop();
        }
        let same: usize = ops
            .iter()
            .filter_map(|op| match op {
                DiffOp::Equal { len, .. } => Some(*len),
                DiffOp::Delete { .. } | DiffOp::Insert { .. } | DiffOp::Replace { .. } => None,
            })
            .sum();
        let all = old.len() + to.saturating_sub(from);
        let percent = u32::try_from(200 * same / all.max(1)).unwrap_or(0);
        let breaks = here[..from.min(here.len())]
            .iter()
            .filter(|c| **c == '\n')
            .count();
        (percent >= LEAST_PERCENT).then(|| Self {
            line: lines::number(file, unit.start) + breaks,
            // 100 is for what is the same.
            percent: percent.min(99),
            difference: difference(old, &here, &ops),
        })
    }
}

/// `{-old-}{+file+}`, with what is the same shortened.
fn difference(old: &[char], here: &[char], ops: &[DiffOp]) -> String {
    let mut told = String::new();
    for op in ops {
        if told.len() > MOST_TOLD {
            told.push('…');
            break;
        }
        let (old, here) = (&old[op.old_range()], &here[op.new_range()]);
        match op {
            DiffOp::Equal { len, .. } if *len > 2 * CONTEXT => {
                told.extend(&old[..CONTEXT]);
                told.push('…');
                told.extend(&old[len - CONTEXT..]);
            }
            DiffOp::Equal { .. } => told.extend(old),
            DiffOp::Delete { .. } => mark(&mut told, '-', old),
            DiffOp::Insert { .. } => mark(&mut told, '+', here),
            DiffOp::Replace { .. } => {
                mark(&mut told, '-', old);
                mark(&mut told, '+', here);
            }
        }
    }
    told
}

/// Only here are tabs and line breaks written out: they are often the difference.
fn mark(told: &mut String, sign: char, text: &[char]) {
    told.extend(['{', sign]);
    for character in text.iter().take(MOST_TOLD / 4) {
        match character {
            '\n' | '\r' | '\t' | '\0' => told.extend(character.escape_default()),
            _ => told.push(*character),
        }
    }
    if text.len() > MOST_TOLD / 4 {
        told.push('…');
    }
    told.extend([sign, '}']);
}

fn clip(bytes: &[u8]) -> Vec<char> {
    let bytes = &bytes[..bytes.len().min(4 * MOST_CHARS)];
    String::from_utf8_lossy(bytes)
        .chars()
        .take(MOST_CHARS)
        .collect()
}

/// For comparing characters, all places together.
const TIME: Duration = Duration::from_millis(100);
const SHOWN: usize = 3;
const COMPARED: usize = 6;
/// Of a file with more lines only the beginning is looked at.
const MOST_UNITS: usize = 500_000;
const MOST_RATED: usize = 10_000;
const MOST_BYTES: usize = 64 << 10;
const MOST_CHARS: usize = 2000;
const LEAST_PERCENT: u32 = 40;
const SET_BITS: usize = 1 << 16;
/// How much of a place is told, in bytes.
const MOST_TOLD: usize = 1200;
/// Characters shown around a difference.
const CONTEXT: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_line_comes_first_with_its_difference() {
        let told = describe(
            b"fn one() {}\nfn tow() -> u32 {}\nfn three() {}\n",
            b"fn two() -> u32 {}",
        );
        let first = told.lines().nth(3).unwrap();
        assert!(told.contains("line 2, "), "{told}");
        assert!(first.contains("{+") && first.contains("{-"), "{told}");
    }

    #[test]
    fn a_part_of_a_very_long_line_is_found() {
        let mut file = b"x = 1; ".repeat(20_000);
        file.splice(70_000..70_000, *b"let needle = haystack.find(it)?; ");
        let told = describe(&file, b"let needle = haystack.find(that)?;");
        assert!(told.contains("needle"), "{told}");
    }

    #[test]
    fn nothing_similar_is_nothing_told() {
        assert_eq!(describe(b"alpha\nbeta\n", b"0123456789"), "");
        assert_eq!(describe(b"", b"a"), "");
    }
}
