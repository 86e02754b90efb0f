//! The parts of a copy, and the place where an interrupted copy goes on. No I/O.

use std::collections::BTreeSet;

use lmcp_tools::elsewhere::copy::{Entry, Kind, PART_BYTES};
use ring::digest::{Context, SHA256};

/// The entries below a folder, sorted so that a folder comes before its entries.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) folders: Vec<Entry>,
    pub(super) files: Vec<Entry>,
    pub(super) links: Vec<Entry>,
    pub(super) bytes: u64,
}

impl Tree {
    /// Sorts the entries that a host reports below a folder.
    ///
    /// # Errors
    /// An entry cannot be copied; or the host names a path that is not below the folder, which must not be written on
    /// another host.
    pub(super) fn of(mut entries: Vec<Entry>) -> Result<Self, String> {
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        let mut tree = Self::default();
        let mut known: BTreeSet<String> = [String::new()].into();
        let mut seen = BTreeSet::new();
        for entry in entries {
            let path = &entry.path;
            let above = path.rsplit_once('/').map_or("", |(above, _)| above);
            let is_plain = path
                .split('/')
                .all(|step| !step.is_empty() && step != "." && step != "..");
            if !is_plain || path.contains('\0') || !seen.insert(path.clone()) {
                return Err(format!(
                    "the host lists `{path}`, which is no name in a folder"
                ));
            }
            if !known.contains(above) {
                return Err(format!("the host lists `{path}` below no folder"));
            }
            match entry.kind {
                Kind::Folder => {
                    known.insert(path.clone());
                    tree.folders.push(entry);
                }
                Kind::File => {
                    tree.bytes = tree.bytes.saturating_add(entry.size);
                    tree.files.push(entry);
                }
                Kind::Link => tree.links.push(entry),
                other => {
                    let what = special(other);
                    return Err(format!("`{path}` is {what}, which cannot be copied"));
                }
            }
        }
        Ok(tree)
    }

    /// Returns a digest of all entries: any other content has another digest.
    pub(super) fn digest(&self) -> String {
        let all = self.folders.iter().chain(&self.files).chain(&self.links);
        let lines = all.map(|entry| {
            // The time of a folder may change when something in the folder was only looked for.
            let stamp = match entry.kind {
                Kind::Folder => "",
                _ => known_by_all(&entry.stamp),
            };
            let target = entry.target.as_deref().unwrap_or_default();
            let kind = entry.kind;
            format!(
                "{}\0{kind:?}\0{stamp}\0{target}\0{:o}",
                entry.path, entry.mode
            )
        });
        hash(lines)
    }
}

fn special(kind: Kind) -> &'static str {
    match kind {
        Kind::Fifo => "a FIFO",
        Kind::Socket => "a socket",
        Kind::Device => "a device",
        _ => "something unknown",
    }
}

/// Returns the part of a stamp that both lmcp and a shell know: everything except the nanoseconds.
fn known_by_all(stamp: &str) -> &str {
    let end = stamp.match_indices('-').nth(2).map(|(at, _)| at);
    end.and_then(|end| stamp.get(..end)).unwrap_or(stamp)
}

/// Returns the name of a copy that is not complete: the same for the same content of the same file, so that the next call
/// finds it.
pub(super) fn key(host: &str, source: &Entry, content: &str) -> String {
    let stamp = known_by_all(content).to_owned();
    let all = hash([host.to_owned(), source.path.clone(), stamp].into_iter());
    all.chars().take(12).collect()
}

fn hash(texts: impl Iterator<Item = String>) -> String {
    let mut context = Context::new(&SHA256);
    for text in texts {
        context.update(text.as_bytes());
        context.update(b"\0\0");
    }
    let digest = context.finish();
    digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Returns the path of the copy: `to_path`, or the path of the original.
///
/// # Errors
/// The original has no name of its own.
pub(super) fn target(path: &str, to_path: Option<&str>) -> Result<String, String> {
    let to = to_path.unwrap_or(path);
    let Some(folder) = to.strip_suffix('/').filter(|_| to_path.is_some()) else {
        let whole = to.trim_end_matches('/');
        return match whole.is_empty() {
            true => Err("`/` cannot be copied, nor be a copy: name something in it".to_owned()),
            false => Ok(whole.to_owned()),
        };
    };
    let name = path.trim_end_matches('/').rsplit('/').next();
    match name.unwrap_or_default() {
        "" | "." | ".." | "~" => Err(format!(
            "say in `to_path` what the copy of `{path}` is called"
        )),
        name => Ok(format!("{}/{name}", folder.trim_end_matches('/'))),
    }
}

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// Returns the part that begins at this offset. `None`: the file ends before it.
pub(super) fn part(offset: u64, size: u64) -> Option<Part> {
    let length = size.saturating_sub(offset).min(PART_BYTES);
    (length > 0).then_some(Part { offset, length })
}

/// Returns whether the whole file is one part.
pub(super) fn is_small(size: u64) -> bool {
    size <= PART_BYTES
}

/// Returns the offset at which to go on with a file, of which `kept` bytes are already there. If more bytes are there than
/// the file has, they do not belong to the file.
pub(super) fn resume_at(kept: u64, size: u64) -> u64 {
    match kept > size {
        true => 0,
        false => kept - kept % PART_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, mode: u32) -> Entry {
        let mut entry = Entry::new(path.to_owned(), mode);
        entry.size = 3;
        entry.stamp = "1-3-9-5".to_owned();
        entry
    }

    const FILE: u32 = 0o100_644;
    const FOLDER: u32 = 0o040_755;
    const LINK: u32 = 0o120_777;

    #[test]
    fn what_is_above_comes_first_and_bytes_are_counted() {
        let entries = vec![
            entry("b/x", FILE),
            entry("b", FOLDER),
            entry("a", FILE),
            entry("b/c", FOLDER),
            entry("b-", LINK),
        ];
        let tree = Tree::of(entries).unwrap();
        let names = |list: &[Entry]| {
            list.iter()
                .map(|entry| entry.path.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&tree.folders), ["b", "b/c"]);
        assert_eq!(names(&tree.files), ["a", "b/x"]);
        assert_eq!(names(&tree.links), ["b-"]);
        assert_eq!(tree.bytes, 6);
    }

    #[test]
    fn a_host_cannot_name_what_is_not_below_the_folder() {
        for path in ["../x", "/etc/x", "a/../../x", "", "a//b", "./x", "none/x"] {
            let entries = vec![entry("a", FOLDER), entry(path, FILE)];
            let words = Tree::of(entries).unwrap_err();
            assert!(words.contains("the host lists"), "{path}: {words}");
        }
        // A path through a link that the host lists itself is refused, too.
        let through = vec![entry("l", LINK), entry("l/x", FILE)];
        assert!(Tree::of(through).is_err());
        let twice = vec![entry("l", LINK), entry("l", FOLDER), entry("l/x", FILE)];
        assert!(Tree::of(twice).is_err());
    }

    #[test]
    fn what_is_no_file_is_refused_by_its_name() {
        for (mode, words) in [
            (0o010_600, "`p` is a FIFO"),
            (0o140_600, "`p` is a socket"),
            (0o020_600, "`p` is a device"),
        ] {
            let said = Tree::of(vec![entry("p", mode)]).unwrap_err();
            assert!(said.starts_with(words), "{said}");
        }
    }

    #[test]
    fn a_folder_is_another_when_something_in_it_is() {
        let digest = |entries| Tree::of(entries).unwrap().digest();
        let one = digest(vec![entry("a", FILE), entry("b", FILE)]);
        assert_eq!(one, digest(vec![entry("b", FILE), entry("a", FILE)]));
        assert_ne!(one, digest(vec![entry("a", FILE)]));
        let mut changed = entry("b", FILE);
        changed.stamp = "1-3-10-5".to_owned();
        assert_ne!(one, digest(vec![entry("a", FILE), changed]));
        // A shell knows no nanoseconds.
        let mut coarse = entry("b", FILE);
        coarse.stamp = "1-3-9".to_owned();
        assert_eq!(one, digest(vec![entry("a", FILE), coarse]));
    }

    #[test]
    fn what_is_not_complete_is_found_again_by_the_next_call() {
        let source = entry("/a/b", FILE);
        let own = key("web", &source, "1-3-9-5");
        assert_eq!(own.len(), 12);
        assert_eq!(own, key("web", &source, "1-3-9"));
        assert_ne!(own, key("db", &source, "1-3-9-5"));
        assert_ne!(own, key("web", &source, "1-3-10-5"));
        assert_ne!(own, key("web", &entry("/a/c", FILE), "1-3-9-5"));
    }

    #[test]
    fn the_copy_is_called_as_to_path_says() {
        for (path, to, called) in [
            ("/a/b", None, "/a/b"),
            ("/a/b/", None, "/a/b"),
            ("/a/b", Some("/c"), "/c"),
            ("/a/b", Some("/c/"), "/c/b"),
            ("/a/b/", Some("/"), "/b"),
            ("b", Some("~/x/"), "~/x/b"),
        ] {
            assert_eq!(target(path, to).as_deref(), Ok(called), "{path} {to:?}");
        }
        for (path, to) in [("/", None), ("..", Some("/c/")), ("/", Some("/c/"))] {
            assert!(target(path, to).is_err(), "{path} {to:?}");
        }
    }

    #[test]
    fn parts_are_blocks_and_a_cut_off_one_is_read_again() {
        let size = 2 * PART_BYTES + 5;
        let mut offset = 0;
        let mut lengths = Vec::new();
        while let Some(part) = part(offset, size) {
            lengths.push(part.length);
            offset += part.length;
        }
        assert_eq!(lengths, [PART_BYTES, PART_BYTES, 5]);
        assert_eq!(part(0, 0), None);
        assert_eq!(resume_at(0, size), 0);
        assert_eq!(resume_at(PART_BYTES + 1, size), PART_BYTES);
        assert_eq!(resume_at(size, size), 2 * PART_BYTES);
        assert_eq!(resume_at(size + 1, size), 0);
    }
}
