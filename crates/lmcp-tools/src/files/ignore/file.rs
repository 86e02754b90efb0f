//! One ignore file, by the rules of git.
//!
//! Rules stay text, and are compared with a path one after the other, as git does. So a file takes hardly more memory
//! than it is long, whatever it holds. Of a file that is too long, only the beginning counts.

use std::{
    fs::File,
    io::{self, Read},
};

use ignore::Match;
use rustix::fs::FileType;

/// The rules of a file: which paths it leaves out, and which it includes again.
pub(super) struct IgnoreFile {
    text: Vec<u8>,
    rules: Vec<Rule>,
    is_cut: bool,
}

/// The position of a rule in the text, without its signs.
#[derive(Clone, Copy)]
struct Rule {
    start: u32,
    end: u32,
    shape: Shape,
    /// Whether the rule includes paths that others leave out.
    is_negated: bool,
    /// Whether the rule is for folders alone.
    of_folders: bool,
}

/// The part of a path that is compared, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// The name must be this text.
    Name,
    /// The name must end with this text.
    Ending,
    /// The name must match the pattern.
    Names,
    /// The path must be this text.
    Path,
    /// The path must match the pattern.
    Paths,
}

/// The most memory that one file takes, in bytes. Real files have a few hundred rules.
const FILE_BYTES: usize = 512 * 1024;
/// The most memory of all files that count for one path.
pub(super) const TOGETHER_BYTES: usize = 1024 * 1024;
/// The memory that a rule takes besides its text, rounded up, because comparing takes time, too.
const RULE_BYTES: usize = 24;
const MARK: &[u8] = b"\xef\xbb\xbf";

impl IgnoreFile {
    /// Reads an open regular file, as far as it takes no more than so many bytes.
    pub(super) fn read(file: &File, most: usize) -> Option<Self> {
        let stat = rustix::fs::fstat(file).ok()?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return None;
        }
        let most = most.min(FILE_BYTES);
        let (text, is_cut) = read_lines(file, most).ok()?;
        let read = Self::parse(text, most, is_cut);
        (!read.rules.is_empty() || read.is_cut).then_some(read)
    }

    fn parse(text: Vec<u8>, most: usize, is_cut: bool) -> Self {
        let mut file = Self {
            text,
            rules: Vec::new(),
            is_cut,
        };
        let mut start = if file.text.starts_with(MARK) {
            MARK.len()
        } else {
            0
        };
        while start < file.text.len() {
            let rest = &file.text[start..];
            let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            if let Some(rule) = Rule::parse(&rest[..end], start) {
                if start + end + (file.rules.len() + 1) * RULE_BYTES > most {
                    file.is_cut = true;
                    file.text.truncate(start);
                    file.text.shrink_to_fit();
                    break;
                }
                file.rules.push(rule);
            }
            start += end + 1;
        }
        file
    }

    /// Returns whether rules were left out, because there are too many.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the memory that the file takes.
    pub(super) fn weight(&self) -> usize {
        self.text.len() + self.rules.len() * RULE_BYTES
    }

    /// Returns the decision about a path below the file's folder: leave it out, include it in any case, or none. The last
    /// rule that matches decides.
    pub(super) fn verdict(&self, path: &[u8], is_folder: bool) -> Match<()> {
        let name = memchr::memrchr(b'/', path).map_or(path, |slash| &path[slash + 1..]);
        let fitting = self.rules.iter().rev().find(|rule| {
            let text = &self.text[rule.start as usize..rule.end as usize];
            (is_folder || !rule.of_folders)
                && match rule.shape {
                    Shape::Name => name == text,
                    Shape::Ending => name.ends_with(text),
                    Shape::Names => fits(text, name),
                    Shape::Path => path == text,
                    Shape::Paths => path_fits(text, path),
                }
        });
        match fitting {
            Some(rule) if rule.is_negated => Match::Whitelist(()),
            Some(_) => Match::Ignore(()),
            None => Match::None,
        }
    }
}

impl Rule {
    /// Reads a line that begins at `start` of the text. `None` if the line has no rule.
    fn parse(line: &[u8], start: usize) -> Option<Self> {
        let mut rest = without_blanks(line);
        if rest.starts_with(b"#") {
            return None;
        }
        let is_negated = rest.starts_with(b"!");
        rest = rest.strip_prefix(b"!").unwrap_or(rest);
        let of_folders = rest.ends_with(b"/");
        rest = rest.strip_suffix(b"/").unwrap_or(rest);
        let is_path = rest.contains(&b'/');
        rest = rest.strip_prefix(b"/").unwrap_or(rest);
        if rest.is_empty() {
            return None;
        }
        let is_plain = |text: &[u8]| !text.iter().any(|byte| b"*?[\\".contains(byte));
        let shape = match (is_path, rest) {
            (false, [b'*', ending @ ..]) if is_plain(ending) => {
                rest = ending;
                Shape::Ending
            }
            (false, _) if is_plain(rest) => Shape::Name,
            (false, _) => Shape::Names,
            (true, _) if is_plain(rest) => Shape::Path,
            (true, _) => Shape::Paths,
        };
        let before = rest.as_ptr().addr() - line.as_ptr().addr();
        let start = u32::try_from(start + before).ok()?;
        Some(Self {
            start,
            end: start + u32::try_from(rest.len()).ok()?,
            shape,
            is_negated,
            of_folders,
        })
    }
}

/// Returns the whole lines at the beginning of a file, and whether there are more.
fn read_lines(file: &File, most: usize) -> io::Result<(Vec<u8>, bool)> {
    let mut text = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut text)?;
    let is_cut = text.len() > most;
    if is_cut {
        // A part of a rule would be another rule.
        let end = memchr::memrchr(b'\n', &text).unwrap_or(0);
        text.truncate(end);
    }
    text.shrink_to_fit();
    Ok((text, is_cut))
}

/// Returns a line without the blanks at its end, unless a backslash keeps them.
fn without_blanks(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let end = line.iter().rposition(|byte| *byte != b' ');
    let end = end.map_or(0, |last| last + 1);
    let backslashes = line[..end].iter().rev().take_while(|byte| **byte == b'\\');
    let is_kept = end < line.len() && backslashes.count() % 2 == 1;
    &line[..end + usize::from(is_kept)]
}

/// Returns whether a path matches a pattern, name by name. `**` stands for any number of names, at the end for at least
/// one.
fn path_fits(pattern: &[u8], path: &[u8]) -> bool {
    let (mut pattern, mut path) = (Some(pattern), Some(path));
    // The pattern after the last `**`, and the path that this `**` has not taken. It takes as little as it can: a later
    // one takes the rest.
    let mut retry: Option<(Option<&[u8]>, &[u8])> = None;
    loop {
        match (pattern, path) {
            (None, None) => return true,
            (Some(wanted), Some(found)) => {
                let (first, rest) = cut(wanted);
                if first == b"**" {
                    if rest.is_none() {
                        return true;
                    }
                    retry = Some((rest, found));
                    pattern = rest;
                    continue;
                }
                let (name, below) = cut(found);
                if fits(first, name) {
                    (pattern, path) = (rest, below);
                    continue;
                }
            }
            (Some(_), None) | (None, Some(_)) => {}
        }
        let Some((behind, from)) = retry else {
            return false;
        };
        let Some(below) = cut(from).1 else {
            return false;
        };
        retry = Some((behind, below));
        (pattern, path) = (behind, Some(below));
    }
}

/// Returns the first name of a path, and the path below it.
fn cut(path: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'/', path) {
        Some(slash) => (&path[..slash], Some(&path[slash + 1..])),
        None => (path, None),
    }
}

/// Returns whether a name matches a pattern of `*`, `?`, `[…]` and characters.
fn fits(mut pattern: &[u8], mut name: &[u8]) -> bool {
    // The pattern after the last `*`, and the part of the name that this `*` has not taken. As above, it takes as little
    // as it can.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            if rest.is_empty() {
                return true;
            }
            retry = Some((rest, name));
            pattern = rest;
            continue;
        }
        match (pattern, name) {
            ([], []) => return true,
            (_, [first, rest @ ..]) => {
                if let Some(behind) = behind_one(pattern, *first) {
                    (pattern, name) = (behind, rest);
                    continue;
                }
            }
            (_, []) => return false,
        }
        let Some((behind, [_, rest @ ..])) = retry else {
            return false;
        };
        retry = Some((behind, rest));
        (pattern, name) = (behind, rest);
    }
}

/// Returns the rest of a pattern after its first element, if this byte matches that element.
fn behind_one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [] | [b'\\'] => None,
        [b'?', rest @ ..] => Some(rest),
        [b'[', set @ ..] => behind_set(set, byte),
        [b'\\', same, rest @ ..] | [same, rest @ ..] => (*same == byte).then_some(rest),
    }
}

/// Does the same for a set of bytes, after its `[`. A set without an end matches nothing.
fn behind_set(mut set: &[u8], byte: u8) -> Option<&[u8]> {
    let is_negated = matches!(set, [b'!' | b'^', ..]);
    set = &set[usize::from(is_negated)..];
    let (mut is_in, mut is_first) = (false, true);
    loop {
        match set {
            [b']', rest @ ..] if !is_first => return (is_in != is_negated).then_some(rest),
            [b'[', b':', named @ ..] if memchr::memmem::find(named, b":]").is_some() => {
                let end = memchr::memmem::find(named, b":]")?;
                is_in |= is_of(&named[..end], byte)?;
                set = &named[end + 2..];
            }
            _ => {
                let (low, rest) = member(set)?;
                let (high, rest) = match rest {
                    [b'-', last @ ..] if !matches!(last, [] | [b']', ..]) => member(last)?,
                    _ => (low, rest),
                };
                is_in |= (low..=high).contains(&byte);
                set = rest;
            }
        }
        is_first = false;
    }
}

fn member(set: &[u8]) -> Option<(u8, &[u8])> {
    match set {
        [b'\\', byte, rest @ ..] | [byte, rest @ ..] => Some((*byte, rest)),
        [] => None,
    }
}

/// Returns whether a byte is in a named class. `None` if there is no such class.
fn is_of(class: &[u8], byte: u8) -> Option<bool> {
    Some(match class {
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"alpha" => byte.is_ascii_alphabetic(),
        b"blank" => matches!(byte, b' ' | b'\t'),
        b"cntrl" => byte.is_ascii_control(),
        b"digit" => byte.is_ascii_digit(),
        b"graph" => byte.is_ascii_graphic(),
        b"lower" => byte.is_ascii_lowercase(),
        b"print" => byte.is_ascii_graphic() || byte == b' ',
        b"punct" => byte.is_ascii_punctuation(),
        b"space" => byte.is_ascii_whitespace() || byte == 0x0b,
        b"upper" => byte.is_ascii_uppercase(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ignore::gitignore::GitignoreBuilder;
    use proptest::prelude::*;

    use super::*;

    fn file(rules: &str) -> IgnoreFile {
        IgnoreFile::parse(rules.into(), FILE_BYTES, false)
    }

    fn says(rules: &str, path: &str) -> char {
        let (path, is_folder) = match path.strip_suffix('/') {
            Some(folder) => (folder, true),
            None => (path, false),
        };
        sign(&file(rules).verdict(path.as_bytes(), is_folder))
    }

    fn sign<T>(verdict: &Match<T>) -> char {
        match verdict {
            Match::Ignore(_) => '-',
            Match::Whitelist(_) => '+',
            Match::None => '.',
        }
    }

    #[test]
    fn rules_mean_what_the_manual_of_git_says() {
        for (rules, path, verdict) in [
            ("", "a", '.'),
            ("# a\n\n", "# a", '.'),
            ("\\#a", "#a", '-'),
            ("\\!a", "!a", '-'),
            ("a", "a", '-'),
            ("a", "b/c/a", '-'),
            ("a", "ab", '.'),
            ("a\r\nb\r\n", "a", '-'),
            ("\u{feff}a", "a", '-'),
            ("a   ", "a", '-'),
            ("a\\ ", "a ", '-'),
            ("a\\ ", "a", '.'),
            ("*.log\n!keep.log", "x/a.log", '-'),
            ("*.log\n!keep.log", "x/keep.log", '+'),
            ("!keep.log\n*.log", "keep.log", '-'),
            ("build/", "build", '.'),
            ("build/", "x/build/", '-'),
            ("/top", "top", '-'),
            ("/top", "x/top", '.'),
            ("doc/*.txt", "doc/a.txt", '-'),
            ("doc/*.txt", "doc/x/a.txt", '.'),
            ("doc/*.txt", "x/doc/a.txt", '.'),
            ("**/foo", "foo", '-'),
            ("**/foo", "a/b/foo", '-'),
            ("**/foo/bar", "a/foo/bar", '-'),
            ("**/foo/bar", "a/foo/x/bar", '.'),
            ("abc/**", "abc/x/y", '-'),
            ("abc/**", "abc/", '.'),
            ("a/**/b", "a/b", '-'),
            ("a/**/b", "a/x/y/b", '-'),
            ("a/**/b/*c", "a/b/b/xc", '-'),
            ("a/**/b", "ab", '.'),
            ("a/**/**/b", "a/x/b", '-'),
            ("**", "a/b", '-'),
            ("a**b", "axxb", '-'),
            ("a?c", "abc", '-'),
            ("a?c", "a/c", '.'),
            ("[a-c]x", "bx", '-'),
            ("[!a-c]x", "bx", '.'),
            ("[^a-c]x", "dx", '-'),
            ("[]x]", "]", '-'),
            ("[a-]", "-", '-'),
            ("[[:digit:]_]x", "7x", '-'),
            ("[\\]]", "]", '-'),
            ("[a", "[a", '.'),
            ("a\\", "a\\", '.'),
            ("a\\*", "a*", '-'),
            ("a\\*", "ab", '.'),
            ("*a*b*c", "xaybzcc", '-'),
            ("*a*b*c", "xaybz", '.'),
            ("{a,b}", "a", '.'),
            ("{a,b}", "{a,b}", '-'),
            ("/", "a", '.'),
        ] {
            assert_eq!(says(rules, path), verdict, "{rules:?} of {path:?}");
        }
    }

    #[test]
    fn of_too_many_rules_the_first_count_and_that_is_told() {
        let short = IgnoreFile::parse(b"aa\nbb\ncc\n".to_vec(), 60, false);
        assert!(short.is_cut());
        assert!(short.verdict(b"aa", false).is_ignore());
        assert!(short.verdict(b"cc", false).is_none());
        assert!(!file("aa\nbb\n").is_cut());

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rules");
        std::fs::write(&path, "a\n".repeat(FILE_BYTES)).unwrap();
        let long = IgnoreFile::read(&File::open(path).unwrap(), usize::MAX).unwrap();
        assert!(long.is_cut() && long.weight() <= FILE_BYTES);
    }

    #[test]
    fn no_rule_takes_for_ever() {
        let name = "a".repeat(255);
        let rules = "*a".repeat(200) + "b\n" + &"**/*a*a/".repeat(200) + "b";
        let path = vec![name; 16].join("/");
        assert_eq!(says(&rules, &path), '.');
    }

    /// A pattern for the text between two slashes.
    const SEGMENT: &str =
        "(\\*\\*|[ab?.]|\\*[ab?.]|[ab?.]\\*|\\*[ab]\\*|[ab]\\*\\*[ab]|\\[[!^]?[ab]\\]\\*)";

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn another_reader_of_ignore_files_says_the_same(
            lines in prop::collection::vec("!?/?(\\*\\*/)?SEGMENT(/SEGMENT){0,2}(/\\*\\*)?/?".replace("SEGMENT", SEGMENT).as_str(), 1..4),
            path in "[ab][ab.]{0,2}(/[ab][ab.]{0,2}){0,3}",
            is_folder: bool,
        ) {
            let mut theirs = GitignoreBuilder::new("");
            for line in &lines {
                prop_assume!(theirs.add_line(None, line).is_ok());
            }
            let theirs = theirs.build().unwrap();
            let ours = file(&lines.join("\n"));
            prop_assert_eq!(
                sign(&ours.verdict(path.as_bytes(), is_folder)),
                sign(&theirs.matched(Path::new(&path), is_folder)),
                "{:?} of {:?}", lines, path
            );
        }

        #[test]
        fn whatever_stands_in_a_file_is_read(text: Vec<u8>, path: Vec<u8>) {
            let _ = IgnoreFile::parse(text, FILE_BYTES, false).verdict(&path, false);
        }
    }
}
