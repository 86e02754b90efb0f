//! Finds the places that are most like a text which was not found.
//!
//! This takes two steps, so that a large file costs little more than reading it. First every stretch of lines is rated
//! by the three-byte sequences that it shares with the text, and by the lines that are the same at the same place in it.
//! Then the best stretches are compared character by character.

use std::{
    cmp::Reverse,
    collections::HashMap,
    fmt::Write as _,
    time::{Duration, Instant},
};

use similar::{Algorithm, DiffOp};

use super::lines;

/// Returns a few lines about the most similar places, or an empty text if none is similar.
pub(super) fn describe(file: &[u8], old: &[u8]) -> String {
    let text = clip(lines::without_break(old));
    let mut places: Vec<Near> = candidates(file, old)
        .into_iter()
        .filter_map(|unit| Near::compare(file, unit, &text))
        .collect();
    places.sort_by_key(|near| (Reverse((near.likeness, near.unit.same)), near.unit.start));
    let mut shown: Vec<Near> = Vec::new();
    for near in places {
        let is_near = |best: &Near| near.likeness >= best.likeness - best.likeness / AS_NEAR;
        if shown.len() < SHOWN
            && shown.first().is_none_or(is_near)
            && !shown.iter().any(|better| better.unit.overlaps(&near.unit))
        {
            shown.push(near);
        }
    }
    let mut told = String::new();
    for near in shown {
        // Writing to a string cannot fail. 100 % is only for equal texts.
        let _ = write!(
            told,
            "\nline {}, {} % similar:\n{}",
            near.line(file),
            (near.likeness * 100 / WHOLE).min(99),
            difference(&text, &near.here, &near.ops)
        );
    }
    if !told.is_empty() {
        told.insert_str(0, "\nnearest ({-old_string-}{+the file+}):");
    }
    told
}

/// A line of the file, or a part of a long one; or a stretch of several.
#[derive(Clone, Copy)]
struct Unit {
    start: usize,
    end: usize,
    /// The number of sequences in it, and how many of them the text has too.
    sequences: usize,
    shared: usize,
    /// The bytes of the lines that are at the same place in the text.
    same: u32,
}

impl Unit {
    fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// Returns the best stretches of as many lines as the text has, each with a few rivals that overlap it and are rated
/// lower. For each of them, also returns the stretch that allows for missing or additional lines.
///
/// Rivals are kept because the rating is rough: where a line is repeated, a stretch that begins one line too late may be
/// rated higher than the right one. The comparison of characters decides between them.
fn candidates(file: &[u8], old: &[u8]) -> Vec<Unit> {
    let old = lines::without_break(&old[..old.len().min(MOST_BYTES)]);
    let wanted = Sequences::of(old);
    let units = units(file, old.len(), &wanted);
    let (pieces, _) = lines::pieces(old);
    let height = pieces.len().min(units.len());
    let same = same_lines(file, &units, &pieces);
    let most_same: usize = pieces.iter().map(|line| line.trim_ascii().len()).sum();
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
            same: same[first],
        };
        sequences -= units[first].sequences;
        shared -= units[first].shared;
        // The first part is twice the shared sequences divided by all sequences of both: 1000 for equal texts. A stretch
        // that begins a few lines off shares almost as much, so lines at their place count as much again.
        let score = 2000 * unit.shared as u64 / (unit.sequences + wanted.count).max(1) as u64
            + 1000 * u64::from(unit.same) / most_same.max(1) as u64;
        if score >= 100 {
            rated.push((score, first, unit));
        }
        if rated.len() >= 2 * MOST_RATED {
            keep_best(&mut rated);
        }
    }
    keep_best(&mut rated);
    let compared = (COMPARED_BYTES / old.len().max(1)).clamp(LEAST_COMPARED, MOST_COMPARED);
    let mut best: Vec<(usize, Unit)> = Vec::new();
    let mut places = 0;
    for (_, first, unit) in rated {
        let overlapped = best
            .iter()
            .filter(|(other, _)| other.abs_diff(first) < height)
            .count();
        let kept = match overlapped {
            0 => places < compared,
            overlapped => overlapped <= RIVALS,
        };
        if kept {
            places += usize::from(overlapped == 0);
            best.push((first, unit));
        }
    }
    best.into_iter()
        .flat_map(|(first, unit)| [Some(unit), aligned(file, &units, &pieces, first, unit)])
        .flatten()
        .collect()
}

/// Sorts the best first, and drops those that are not among the best.
fn keep_best(rated: &mut Vec<(u64, usize, Unit)>) {
    rated.sort_by_key(|(score, first, _)| (Reverse(*score), *first));
    rated.truncate(MOST_RATED);
}

/// Returns the stretch that really corresponds to the text, if lines are missing or added in one of them. The first and
/// the last line that both have tell where the stretch begins and ends.
fn aligned(file: &[u8], units: &[Unit], old: &[&[u8]], first: usize, unit: Unit) -> Option<Unit> {
    let margin = MARGIN.min(old.len());
    let from = first.saturating_sub(margin);
    let to = (first + old.len() + margin).min(units.len());
    let here: Vec<&[u8]> = units[from..to]
        .iter()
        .map(|unit| file[unit.start..unit.end].trim_ascii())
        .collect();
    let old: Vec<&[u8]> = old.iter().map(|line| line.trim_ascii()).collect();
    let deadline = Some(Instant::now() + TIME);
    let ops = similar::capture_diff_slices_deadline(Algorithm::Myers, &old, &here, deadline);
    let known = |op: &&DiffOp| match op {
        DiffOp::Equal { old_index, len, .. } => {
            let bytes: usize = old[*old_index..old_index + len]
                .iter()
                .map(|line| line.len())
                .sum();
            bytes >= SAYS_SOMETHING
        }
        DiffOp::Delete { .. } | DiffOp::Insert { .. } | DiffOp::Replace { .. } => false,
    };
    let (top, bottom) = (ops.iter().find(known)?, ops.iter().rfind(known)?);
    let above = top.old_range().start;
    let below = old.len() - bottom.old_range().end;
    let start = (from + top.new_range().start).saturating_sub(above);
    let last = (from + bottom.new_range().end + below).min(units.len()) - 1;
    let (start, end) = (units[start].start, units[last].end);
    ((start, end) != (unit.start, unit.end)).then_some(Unit { start, end, ..unit })
}

/// Returns for each line of the file, taken as the first of a stretch, how many bytes are in lines that the text has at
/// the same distance from its own first line. Blanks around lines do not count.
fn same_lines(file: &[u8], units: &[Unit], old: &[&[u8]]) -> Vec<u32> {
    let mut known: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (at, line) in old.iter().enumerate() {
        let places = known.entry(line.trim_ascii()).or_default();
        // Lines like `}` are everywhere, and say little.
        if places.len() < MOST_REPEATED {
            places.push(at);
        }
    }
    known.remove(&b""[..]);
    let mut same = vec![0; units.len()];
    for (at, unit) in units.iter().enumerate() {
        let line = file[unit.start..unit.end].trim_ascii();
        for below in known.get(line).into_iter().flatten() {
            if let Some(first) = at.checked_sub(*below) {
                same[first] += u32::try_from(line.len()).unwrap_or(0);
            }
        }
    }
    same
}

/// Splits the file into units: its lines, and parts of long lines that overlap.
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

/// The three-byte sequences of a text, as a set that may hold a few others. Blanks do not count.
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
            same: 0,
        };
        each(&file[start..end], |hash| {
            unit.sequences += 1;
            unit.shared += usize::from(self.set[hash / 64] >> (hash % 64) & 1 == 1);
        });
        unit
    }
}

/// Passes each sequence of a text to `take`, as a number below [`SET_BITS`].
fn each(text: &[u8], mut take: impl FnMut(usize)) {
    let (mut last, mut seen) = (0_u32, 0);
    for byte in text.iter().filter(|byte| !byte.is_ascii_whitespace()) {
        last = last << 8 & 0x00ff_ffff | u32::from(*byte);
        seen += 1;
        // A short text may have no three bytes. Its single bytes are better than nothing.
        if seen >= 3 || text.len() < 8 {
            take((last.wrapping_mul(0x9e37_79b1) >> 16) as usize % SET_BITS);
        }
    }
}

/// A place that is like the text.
struct Near {
    unit: Unit,
    here: Vec<char>,
    /// The steps from the text to the file, without those for the bytes that the file has before and after: the text may
    /// be a part of a line.
    ops: Vec<DiffOp>,
    /// The position in `here` at which the steps begin.
    from: usize,
    /// The part that is the same, of [`WHOLE`].
    likeness: usize,
}

impl Near {
    fn compare(file: &[u8], unit: Unit, old: &[char]) -> Option<Self> {
        let here = clip(lines::without_break(&file[unit.start..unit.end]));
        let deadline = Some(Instant::now() + TIME);
        let mut ops = similar::capture_diff_slices_deadline(Algorithm::Myers, old, &here, deadline);
        let mut from = 0;
        if let Some(DiffOp::Insert { new_len, .. }) = ops.first() {
            from = *new_len;
            ops.remove(0);
        }
        let mut to = here.len();
        if let Some(DiffOp::Insert { new_index, .. }) = ops.last() {
            to = *new_index;
            ops.pop();
        }
        let same: usize = ops
            .iter()
            .filter_map(|op| match op {
                DiffOp::Equal { len, .. } => Some(*len),
                DiffOp::Delete { .. } | DiffOp::Insert { .. } | DiffOp::Replace { .. } => None,
            })
            .sum();
        let likeness = 2 * WHOLE * same / (old.len() + to - from).max(1);
        (likeness >= LEAST_LIKENESS).then_some(Self {
            unit,
            here,
            ops,
            from,
            likeness,
        })
    }

    fn line(&self, file: &[u8]) -> usize {
        let before = &self.here[..self.from];
        let breaks = before.iter().filter(|c| **c == '\n').count();
        lines::number(file, self.unit.start) + breaks
    }
}

/// Returns the difference as `{-old-}{+file+}`, with equal parts shortened.
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

/// Marks a difference. Tabs and line breaks are written as escapes only here: they are often the difference.
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

/// The longest time for comparing one place. A place that is like the text takes far less.
const TIME: Duration = Duration::from_millis(20);
const SHOWN: usize = 3;
/// Another place is shown if it is less like the text than the best place by at most this part: a twentieth.
const AS_NEAR: usize = 20;
/// How many places are compared: more if the text is short, because a typo changes most of a short text.
const COMPARED_BYTES: usize = 16 << 10;
const LEAST_COMPARED: usize = 6;
const MOST_COMPARED: usize = 500;
/// How many stretches that overlap a better one are compared as well.
const RIVALS: usize = 3;
const MOST_REPEATED: usize = 16;
/// The lines around a place that may belong to it.
const MARGIN: usize = 8;
/// The least bytes of equal lines that are hardly equal by chance.
const SAYS_SOMETHING: usize = 4;
/// The most lines of a file that are rated. Of a longer file only the beginning is.
const MOST_UNITS: usize = 200_000;
const MOST_RATED: usize = 10_000;
const MOST_BYTES: usize = 64 << 10;
const MOST_CHARS: usize = 16_000;
const WHOLE: usize = 1_000_000;
const LEAST_LIKENESS: usize = WHOLE * 40 / 100;
const SET_BITS: usize = 1 << 16;
/// The most bytes of a place that are shown.
const MOST_TOLD: usize = 1200;
/// The characters shown around a difference.
const CONTEXT: usize = 40;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
    fn other_places_are_told_if_they_are_as_near() {
        let file = b"let apple = fetch(1);\nlet apply = fetch(1);\nlet pear = find(fetch(2));\n";
        let told = describe(file, b"let appla = fetch(1);");
        assert!(
            told.contains("line 1, ") && told.contains("line 2, "),
            "{told}"
        );
        assert!(!told.contains("line 3, "), "{told}");
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

    /// Returns the line of the first place that is named.
    fn first(told: &str) -> Option<usize> {
        let (_, rest) = told.split_once("\nline ")?;
        rest.split_once(',')?.0.parse().ok()
    }

    #[test]
    fn a_place_a_few_lines_off_does_not_hide_the_right_one() {
        let file = "fn a() {\n    one();\n    two();\n}\nfn b() {\n    one();\n    tow();\n}\n";
        let told = describe(file.as_bytes(), b"fn b() {\n    one();\n    two();\n}\n");
        assert_eq!(first(&told), Some(5), "{told}");
        assert!(told.contains("line 1, "), "{told}");
    }

    #[test]
    fn a_repeated_line_does_not_move_the_place() {
        let other = "fn stte8() {\n    three();\n    three();\n}\n\n";
        let file = format!(
            "{other}fn dxehg4() {{\n    two();\n}}\n\nfn pfie1() {{\n    one();\n    one();\n}}\n"
        );
        let told = describe(file.as_bytes(), b"}\n\nfn sfie1() {\n    one();");
        assert_eq!(first(&told), Some(8), "{told}");
    }

    #[test]
    fn a_line_too_few_or_too_many_does_not_move_the_place() {
        let file: String = (0..200)
            .map(|n| format!("fn f{n}() {{\n    one();\n    let x = {n};\n    two(x);\n}}\n\n"))
            .collect();
        let without = "fn f77() {\n    let x = 77;\n    two(x);\n}\n";
        let with = "fn f77() {\n    one();\n    more();\n    let x = 77;\n    two(x);\n}\n";
        for old in [without, with] {
            let told = describe(file.as_bytes(), old.as_bytes());
            assert_eq!(first(&told), Some(77 * 6 + 1), "{told}");
        }
    }

    /// Returns lines as in source code: few words, many repetitions.
    fn source() -> impl Strategy<Value = Vec<String>> {
        let body = "(let (item|place) = (next|find)[1-9]\\(\\);|(one|two|three)\\(\\);|return (item|place)[1-9];|// [a-z]{3} [a-z]{4})";
        let body = prop::collection::vec(body, 1..9);
        let function = ("[a-z]{2,5}[0-9]", body).prop_map(|(name, body)| {
            let body = body.into_iter().map(|line| format!("    {line}"));
            let head = [format!("fn {name}() {{")];
            let tail = ["}".to_owned(), String::new()];
            head.into_iter().chain(body).chain(tail).collect::<Vec<_>>()
        });
        prop::collection::vec(function, 10..30).prop_map(|functions| functions.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_text_with_one_wrong_character_is_found_where_it_was_taken_from(
            lines in source(),
            at: prop::sample::Index,
            height in 3..16_usize,
            wrong: prop::sample::Index,
            character in "[a-z0-9]",
        ) {
            let at = at.index(lines.len() - height);
            let taken = lines[at..at + height].join("\n");
            let wrong = wrong.index(taken.len());
            let mut old = taken.clone();
            old.replace_range(wrong..=wrong, &character);
            // The text may begin with a blank line, or differ in a blank only.
            prop_assume!(!lines[at].is_empty() && !taken[wrong..].starts_with([' ', '\n']));
            // Another place may be equally near.
            let wanted: Vec<&str> = old.lines().collect();
            let differing = |window: &[String]| window.iter().zip(&wanted).filter(|(a, b)| a != b).count();
            prop_assume!(lines.windows(height).filter(|window| differing(window) <= 1).count() == 1);
            let told = describe(lines.join("\n").as_bytes(), old.as_bytes());
            prop_assert_eq!(first(&told), Some(at + 1), "{} in {}", told, lines.join("\n"));
        }
    }
}
