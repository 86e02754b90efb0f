//! The text of an answer: the lines that ripgrep would print, and a summary.

use std::fmt::Write;

use crate::files::escape::escaped;

use super::{
    args::{Args, Mode},
    page::Stop,
    result::{Match, SearchResult},
};

/// Returns the text for people.
pub(super) fn render(found: &SearchResult, args: &Args) -> String {
    let mut text = summary(found, args);
    if found.found > 0 {
        text.push('\n');
    }
    write_matches(&mut text, found.matches.as_deref().unwrap_or_default());
    for path in found.files.iter().flatten() {
        let _ = write!(text, "\n{}", escaped(path));
    }
    for count in found.counts.iter().flatten() {
        let _ = write!(text, "\n{}:{}", escaped(&count.path), count.lines);
    }
    text
}

fn summary(found: &SearchResult, args: &Args) -> String {
    let what = match found.mode {
        Mode::Content => plural(found.found as u64, "match", "matches"),
        Mode::Files | Mode::Count => plural(found.found as u64, "file", "files") + " with matches",
        Mode::Names => plural(found.found as u64, "file", "files"),
    };
    let mut text = format!(
        "{what}; {} searched",
        plural(found.searched_files, "file", "files")
    );
    let skipped = &found.skipped;
    let left_out = [
        (skipped.binary_files, "binary"),
        (skipped.hard_linked_files, "with another name elsewhere"),
        (skipped.too_large_files, "skipped as too large"),
        (skipped.unreadable, "unreadable"),
    ];
    for (count, what) in left_out.iter().filter(|(count, _)| *count > 0) {
        let _ = write!(text, ", {count} {what}");
    }
    let too_large = match args.multiline {
        true => "too large for a multiline search with this pattern",
        false => "has a line too long to search with this pattern",
    };
    for example in &skipped.too_large_examples {
        let _ = write!(text, "\n{too_large}: {}", escaped(example));
    }
    if skipped.ignore_rules {
        text.push_str(
            "\nignore files have too many rules: what some of them leave out was searched",
        );
    }
    for example in &skipped.unreadable_examples {
        let _ = write!(text, "\nunreadable: {}", escaped(example));
    }
    if let Some(hint) = &found.hint {
        let _ = write!(text, "\n{}", escaped(hint));
    }
    let why = match found.stopped_by {
        None => return text,
        Some(Stop::Limit) => "the limit is reached".to_owned(),
        Some(Stop::Room) => "the answer is full".to_owned(),
        Some(Stop::Time) => format!("{} s are over", args.max_seconds),
    };
    let _ = match &found.next_cursor {
        Some(cursor) => write!(
            text,
            "\n{why}, there may be more: go on with cursor {cursor}"
        ),
        None => write!(
            text,
            "\n{why} and nothing was found: narrow `path` or `globs`, or raise `max_seconds`"
        ),
    };
    text
}

fn write_matches(text: &mut String, matches: &[Match]) {
    let has_context = matches
        .iter()
        .any(|found| !found.before.is_empty() || !found.after.is_empty());
    let mut last: Option<&Match> = None;
    for found in matches {
        let first_line = found.line - found.before.len() as u64;
        match last.filter(|last| last.path == found.path) {
            None => {
                let gap = if last.is_some() { "\n" } else { "" };
                let _ = write!(text, "{gap}\n{}", escaped(&found.path));
            }
            Some(last) if has_context && last_line(last) + 1 < first_line => text.push_str("\n--"),
            Some(_) => {}
        }
        for (number, line) in (first_line..).zip(&found.before) {
            let _ = write!(text, "\n{number}-{line}");
        }
        for (number, line) in (found.line..).zip(found.text.split('\n')) {
            let _ = write!(text, "\n{number}:{}", line.trim_end_matches('\r'));
        }
        if let Some(clipped) = found.clipped {
            let _ = write!(
                text,
                " [match at column {}; shown from {} of {} bytes]",
                found.column, clipped.from_column, clipped.full_bytes
            );
        }
        for (number, line) in (end_line(found) + 1..).zip(&found.after) {
            let _ = write!(text, "\n{number}-{line}");
        }
        last = Some(found);
    }
}

/// Returns the last line of a match, without context.
fn end_line(found: &Match) -> u64 {
    found.line + found.text.matches('\n').count() as u64
}

fn last_line(found: &Match) -> u64 {
    end_line(found) + found.after.len() as u64
}

fn plural(count: u64, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {many}"),
    }
}
