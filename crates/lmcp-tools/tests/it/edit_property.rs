//! Random edits against a model that knows nothing of bytes: a file is a list of characters, and each line break among
//! them is of one kind or the other.

use std::fs;

use crate::writing::Bench;
use proptest::{prelude::*, sample::select, test_runner::TestRunner};
use serde_json::json;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Glyph {
    Char(char),
    /// A line break: is it `\r\n`?
    Break(bool),
}

type Text = Vec<Glyph>;

fn parse(text: &str) -> Text {
    let mut glyphs = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(next) = chars.next() {
        glyphs.push(match next {
            '\r' if chars.peek() == Some(&'\n') => {
                chars.next();
                Glyph::Break(true)
            }
            '\n' => Glyph::Break(false),
            other => Glyph::Char(other),
        });
    }
    glyphs
}

fn print(glyphs: &[Glyph]) -> String {
    let print = |glyph: &Glyph| match glyph {
        Glyph::Char(character) => character.to_string(),
        Glyph::Break(true) => "\r\n".to_owned(),
        Glyph::Break(false) => "\n".to_owned(),
    };
    glyphs.iter().map(print).collect()
}

fn same(a: Glyph, b: Glyph) -> bool {
    match (a, b) {
        (Glyph::Break(_), Glyph::Break(_)) => true,
        (a, b) => a == b,
    }
}

/// Where `old` begins, without overlaps.
fn places(file: &[Glyph], old: &[Glyph], same: impl Fn(Glyph, Glyph) -> bool) -> Vec<usize> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at + old.len() <= file.len() {
        if file[at..at + old.len()]
            .iter()
            .zip(old)
            .all(|(a, b)| same(*a, *b))
        {
            found.push(at);
            at += old.len();
        } else {
            at += 1;
        }
    }
    found
}

/// `new` with the breaks it gets at one place.
fn dress(file: &[Glyph], at: usize, old: &[Glyph], new: &[Glyph]) -> Text {
    let here = &file[at..at + old.len()];
    let is_break = |glyph: &&Glyph| matches!(glyph, Glyph::Break(_));
    let kinds: Vec<Glyph> = here.iter().filter(is_break).copied().collect();
    // The line in which the match ends; the last line of a file is like the one before.
    let after = file[at + old.len()..].iter().find(is_break);
    let around = *after
        .or_else(|| file.iter().rfind(is_break))
        .unwrap_or(&Glyph::Break(false));
    let lines = |text: &[Glyph]| {
        text.split(|glyph| matches!(glyph, Glyph::Break(_)))
            .map(<[Glyph]>::to_vec)
            .collect::<Vec<_>>()
    };
    let (old, new) = (lines(old), lines(new));
    let mut top = 0;
    while top < old.len() && top < new.len() && old[top] == new[top] {
        top += 1;
    }
    let mut bottom = 0;
    while top + bottom < old.len()
        && top + bottom < new.len()
        && old[old.len() - 1 - bottom] == new[new.len() - 1 - bottom]
    {
        bottom += 1;
    }
    let mut dressed = Vec::new();
    for (n, line) in new.iter().enumerate() {
        dressed.extend(line);
        if n + 1 == new.len() {
            break;
        }
        let from_below = new.len() - n;
        let like = if n < top {
            n
        } else if from_below <= bottom {
            old.len() - from_below
        } else {
            n.min((old.len() - bottom).max(1) - 1)
        };
        dressed.push(kinds.get(like).copied().unwrap_or(around));
    }
    dressed
}

/// The file after an edit; `None` if it must not be touched.
fn model(file: &str, old: &str, new: &str, all: bool) -> Option<String> {
    let (file, old_text, new_text) = (parse(file), parse(old), parse(new));
    let mut found = Vec::new();
    if old_text.contains(&Glyph::Break(true)) {
        found = places(&file, &old_text, |a, b| a == b);
    }
    if found.is_empty() {
        found = places(&file, &old_text, same);
    }
    if old == new || found.is_empty() || found.len() > 1 && !all {
        return None;
    }
    let (mut edited, mut from) = (Vec::new(), 0);
    for at in found {
        edited.extend_from_slice(&file[from..at]);
        let exact = file[at..at + old_text.len()] == old_text;
        if exact && new_text.contains(&Glyph::Break(true)) {
            edited.extend_from_slice(&new_text);
        } else {
            edited.extend(dress(&file, at, &old_text, &new_text));
        }
        from = at + old_text.len();
    }
    edited.extend_from_slice(&file[from..]);
    Some(print(&edited))
}

/// Few different lines, so that they repeat.
fn line() -> impl Strategy<Value = String> {
    select(&["", "a", "b", "ab", "é", "日本", "\t{", "a  ", "🦀x"][..]).prop_map(str::to_owned)
}

fn file() -> impl Strategy<Value = String> {
    let lines = prop::collection::vec((line(), select(&["\n", "\r\n"][..])), 0..12);
    (any::<bool>(), lines, line()).prop_map(|(mark, lines, last)| {
        let lines: String = lines.into_iter().map(|(line, end)| line + end).collect();
        format!("{}{lines}{last}", if mark { "\u{feff}" } else { "" })
    })
}

/// Mostly with `\n` alone, as models write.
fn snippet() -> impl Strategy<Value = String> {
    let ends = select(&["\n", "\n", "\n", "\r\n"][..]);
    (prop::collection::vec(line(), 0..5), ends).prop_map(|(lines, end)| lines.join(end))
}

/// One edit: a part of the file, by two places in it, or anything; what to put there; all of them?
#[derive(Clone, Debug)]
struct Edit {
    part: Option<(prop::sample::Index, prop::sample::Index)>,
    old: String,
    new: String,
    all: bool,
    /// With the line ends of the file, not with `\n` alone?
    ends: bool,
}

fn edit() -> impl Strategy<Value = Edit> {
    let part = prop::option::weighted(0.8, any::<(prop::sample::Index, prop::sample::Index)>());
    let flags = any::<(bool, bool)>();
    (part, snippet(), snippet(), flags).prop_map(|(part, old, new, (all, ends))| Edit {
        part,
        old,
        new,
        all,
        ends,
    })
}

impl Edit {
    /// The text to look for, as a model writes it: often with `\n` alone, and without a byte order mark.
    fn old(&self, file: &str) -> String {
        let Some((a, b)) = &self.part else {
            return self.old.clone();
        };
        let glyphs = parse(file.trim_start_matches('\u{feff}'));
        let (a, b) = (a.index(glyphs.len() + 1), b.index(glyphs.len() + 1));
        let part = print(&glyphs[a.min(b)..a.max(b)]);
        if self.ends {
            return part;
        }
        part.replace("\r\n", "\n")
    }
}

#[test]
fn a_thousand_edit_scripts_do_what_the_model_says_or_nothing() {
    let bench = Bench::open();
    let path = bench.path("file");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let config = ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let scripts = (file(), prop::collection::vec(edit(), 1..4));
    let applied = std::cell::Cell::new(0);
    TestRunner::new(config)
        .run(&scripts, |(content, script)| {
            fs::write(&path, &content).unwrap();
            let mut expected = Some(content.clone());
            let mut edits = Vec::new();
            for edit in script {
                let now = expected.as_ref().unwrap_or(&content);
                let old = edit.old(now);
                edits.push(
                    json!({ "old_string": old, "new_string": edit.new, "replace_all": edit.all }),
                );
                // An edit that changes nothing is a mistake, too.
                let step = (!old.is_empty())
                    .then(|| model(now, &old, &edit.new, edit.all))
                    .flatten();
                expected = expected.and_then(|now| step.filter(|step| *step != now));
            }
            let called =
                runtime.block_on(bench.call("edit_file", json!({ "path": path, "edits": edits })));
            let after = fs::read_to_string(&path).unwrap();
            prop_assert_eq!(called.failed, expected.is_none(), "{}", called.text);
            applied.set(applied.get() + usize::from(expected.is_some()));
            prop_assert_eq!(after, expected.unwrap_or(content));
            Ok(())
        })
        .unwrap();
    assert!(
        applied.get() > 200,
        "only {} scripts changed anything",
        applied.get()
    );
}
