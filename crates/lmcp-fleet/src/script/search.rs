//! `search_files`: the shell is a sieve: it brings the files that may hold a match, and the tool searches them.
//!
//! Patterns mean the same as everywhere, because only the tool interprets them. The shell looks for ASCII texts that every
//! match must contain; if a pattern has no such text, all files are brought. A match in a UTF-16 file is found only in that
//! case.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
    sync::Arc,
};

use lmcp_core::{Cx, ToolError, ToolResult};
use lmcp_tools::{
    Answer,
    elsewhere::search_files::{Args, SearchResult},
};
use regex_syntax::hir::{Hir, HirKind};
use tokio::time::timeout;

use super::{
    Far,
    copies::{Copies, brought, times},
    facts::PUSH,
    link::Call,
    list::Entry,
    parts,
};
use crate::limits::{LISTING_BYTES, SEARCH_BYTES, SEARCHED_FILE_BYTES};

pub(super) async fn search_files(
    far: Arc<Far>,
    args: Args,
    cx: Cx,
) -> ToolResult<Answer<SearchResult>> {
    let mut lease = far.pool.lease(&cx).await?;
    let facts = lease.facts();
    facts.expect_stat()?;
    facts.expect_search()?;
    let mut copies = Copies::new(&facts)?;
    let there = copies.paths_there([args.path()], &cx).await;
    if let Some(path) = there.first() {
        let path_word = path.to_str().unwrap_or_default();
        let wanted = texts(&args);
        let (largest, listing) = (SEARCHED_FILE_BYTES.to_string(), LISTING_BYTES.to_string());
        let bytes = SEARCH_BYTES.to_string();
        let hidden = if args.is_hidden() { "yes" } else { "no" };
        let fold = if args.is_any_case() { "-i" } else { "" };
        let taken = wanted.join("\n") + "\n";
        let (call, most) = if args.is_by_name() {
            let words = vec![path_word, DEEPEST, &listing];
            let call = Call {
                function: "far_list",
                words,
                ..Call::default()
            };
            (call, LISTING_BYTES)
        } else {
            let mut words = vec![path_word, hidden, fold, &largest, &bytes];
            let mut call = Call {
                function: "far_search",
                ..Call::default()
            };
            if !wanted.is_empty() {
                words.push("texts");
                call.taken.push(("texts", taken.as_bytes()));
            }
            call.words = words;
            (call, SEARCH_BYTES)
        };
        let late = || {
            ToolError::new(format!(
                "the search took longer than {} s",
                args.most_time().as_secs()
            ))
            .hint("search in a smaller folder")
        };
        let said = timeout(args.most_time(), lease.link.call(&call)).await;
        let said = said.map_err(|_| late())??;
        if said.len() >= most {
            let words = format!(
                "`{}` holds too much to be searched over a shell",
                path.display()
            );
            return Err(ToolError::new(words).hint(format!(
                "search in a smaller folder, or for a longer text; {PUSH}"
            )));
        }
        for file in brought(&said) {
            copies.put(path, "search", &file)?;
        }
        let folder = copies.place(path);
        let fill = move || {
            let done = fill(&folder, &said).and_then(|()| copies.put_rules(&said));
            (copies, done)
        };
        let (copies, done) = cx.blocking(fill).await?;
        done.map_err(|err| ToolError::new("no copy of the files can be made").source(err))?;
        lease.done();
        return copies.mirror.search_files(args, cx).await;
    }
    lease.done();
    copies.mirror.search_files(args, cx).await
}

/// The number of levels of folders that are searched for names.
const DEEPEST: &str = "64";

/// Makes copies of the files that the shell brought.
fn fill(folder: &Path, said: &parts::Answer) -> io::Result<()> {
    let mut entry: Option<Entry> = None;
    for part in said.parts() {
        match (part.name(), entry.take()) {
            ("entry", _) => {
                let mut read = Entry::read(&part);
                if let Some(found) = &read {
                    // If only names were brought, an empty file is enough; the folders above are made with it.
                    if found.mode & 0o170_000 != 0o100_000 {
                        read = None;
                    } else {
                        make(folder, found, b"")?;
                    }
                }
                entry = read;
            }
            ("data", Some(found)) => make(folder, &found, part.bytes)?,
            _ => {}
        }
    }
    Ok(())
}

fn make(folder: &Path, entry: &Entry, content: &[u8]) -> io::Result<()> {
    let path = folder.join(&entry.path);
    if let Some(above) = path.parent() {
        fs::create_dir_all(above)?;
    }
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.set_times(times(entry.mtime))
}

/// Returns texts of which every match contains at least one. Empty if there are no such texts.
fn texts(args: &Args) -> Vec<String> {
    let pattern = args.pattern();
    let found = if args.is_literal() {
        Some(vec![pattern.to_owned()])
    } else {
        let parsed = regex_syntax::parse(pattern).ok();
        parsed.and_then(|hir| needed(&hir))
    };
    let texts = found.unwrap_or_default().into_iter().map(|text| {
        // The sieve looks at lines, and letters outside of ASCII have other bytes in other encodings.
        let parts =
            text.split(|letter: char| letter == '\n' || letter == '\r' || !letter.is_ascii());
        parts
            .max_by_key(|part| part.len())
            .unwrap_or_default()
            .to_owned()
    });
    let texts: Vec<String> = texts.collect();
    match texts.iter().any(String::is_empty) {
        true => Vec::new(),
        false => texts,
    }
}

/// Returns texts such that every match of a pattern contains at least one of them.
fn needed(hir: &Hir) -> Option<Vec<String>> {
    match hir.kind() {
        HirKind::Literal(literal) => Some(vec![String::from_utf8(literal.0.to_vec()).ok()?]),
        HirKind::Capture(capture) => needed(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => needed(&repetition.sub),
        // The best part is the one whose shortest text is longest: it lets the fewest files through.
        HirKind::Concat(all) => all
            .iter()
            .filter_map(needed)
            .max_by_key(|texts| texts.iter().map(String::len).min()),
        HirKind::Alternation(all) => {
            let each: Option<Vec<_>> = all.iter().map(needed).collect();
            Some(each?.concat()).filter(|texts| texts.len() <= MOST_TEXTS)
        }
        HirKind::Empty | HirKind::Class(_) | HirKind::Look(_) | HirKind::Repetition(_) => None,
    }
}

/// With more texts, the sieve would hold almost nothing back.
const MOST_TEXTS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pattern: &str) -> Option<Vec<String>> {
        needed(&regex_syntax::parse(pattern).unwrap())
    }

    #[test]
    fn every_match_contains_one_of_the_texts() {
        assert_eq!(of("hello"), Some(vec!["hello".into()]));
        assert_eq!(of(r"fn (\w+)_test\("), Some(vec!["_test(".into()]));
        assert_eq!(
            of("(alpha|beta)+x?"),
            Some(vec!["alpha".into(), "beta".into()])
        );
        assert_eq!(of(r"\d+"), None);
        assert_eq!(of("(a|b)*"), None);
        assert_eq!(of("(?i)abc"), None);
    }
}
