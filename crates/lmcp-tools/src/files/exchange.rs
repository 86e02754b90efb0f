//! A draft and a file change places, and no change of another program is lost.
//!
//! After the exchange, the displaced file is checked once more: it must be the file that was read, unchanged. If it only
//! grew, because a program appended to it, the new file gets the same bytes at its end. If it is another file, or has other
//! content, it gets its name back, and the change must be made again from the present content.

use std::{
    os::unix::fs::FileExt as _,
    time::{Duration, SystemTime},
};

use lmcp_core::ToolError;
use rustix::{fs::Stat, io::Errno};

use super::{
    atomic::{Failed, Replaced, size_of},
    draft::{Draft, Folder},
    hold::Held,
    target::{Snapshot, Target, id_of, state_of},
};

/// A file that was read, and its new content.
pub(crate) struct Change<'a> {
    pub(crate) target: &'a Target<'a>,
    pub(crate) found: &'a Snapshot,
    pub(crate) held: &'a Held,
    pub(crate) content: &'a [u8],
}

impl<'a> Change<'a> {
    pub(super) fn draft(&self) -> Result<Draft<'a>, Errno> {
        let old = &self.found.stat;
        let known = Some((old, self.held.file(id_of(old))));
        Draft::write(self.target, self.content, known)
    }
}

/// Why an exchange was not made.
pub(super) enum Stopped {
    Changed,
    Io(Errno),
    Told(ToolError),
}

impl Stopped {
    pub(super) fn told(self, target: &Target<'_>) -> Failed {
        match self {
            Self::Changed => Failed::Changed,
            Self::Told(err) => err.into(),
            Self::Io(err) if has_no_exchange(err) => target
                .failed(err)
                .hint("its file system cannot change several files together; one at a time")
                .into(),
            Self::Io(err) => target.failed(err).into(),
        }
    }
}

/// Puts the draft in the place of the file that was read, and of no other.
pub(super) fn exchange(draft: &mut Draft<'_>, change: &Change<'_>) -> Result<(), Stopped> {
    if !change.target.is_same(&change.found.stat) {
        return Err(Stopped::Changed);
    }
    swap(draft, change)
}

/// Does the same without checking first.
fn swap(draft: &mut Draft<'_>, change: &Change<'_>) -> Result<(), Stopped> {
    match draft.exchange() {
        Err(Errno::NOENT) => return Err(Stopped::Changed),
        done => done.map_err(Stopped::Io)?,
    }
    let displaced = draft.displaced().map(|stat| id_of(&stat));
    if displaced == Ok(id_of(&change.found.stat)) {
        return Ok(());
    }
    // Another program replaced the file in this very moment: its file gets the name back at once.
    Err(match draft.take_back() {
        Ok(()) => Stopped::Changed,
        Err(name) => Stopped::Told(kept(Failed::Changed, &[name])),
    })
}

/// Brings the folders to disk, and checks the displaced files a last time.
pub(super) fn settle(
    drafts: Vec<Draft<'_>>,
    changes: &[Change<'_>],
) -> Result<Vec<Replaced>, Failed> {
    let folders: Vec<_> = changes
        .iter()
        .map(|change| Folder::of(change.target))
        .collect();
    folders.iter().for_each(Folder::sync);
    let mut all = Vec::with_capacity(drafts.len());
    for (draft, change) in drafts.iter().zip(changes) {
        let tail = match grown_by(draft, change) {
            Some(tail) => tail,
            // The draft was renamed over the file, so nothing can be taken back.
            None if draft.has_taken_name() => Vec::new(),
            None => return Err(take_back(drafts, Failed::Changed)),
        };
        let note = draft.note;
        all.push(Replaced { note, tail });
    }
    for (draft, replaced) in drafts.iter().zip(&mut all) {
        if !replaced.tail.is_empty() && draft.add(&replaced.tail).is_err() {
            replaced.note = Some("what somebody else appended meanwhile could not be kept");
        }
    }
    // This removes the old files, which a sweep would look at otherwise.
    drop(drafts);
    folders.into_iter().for_each(Folder::sweep);
    Ok(all)
}

/// Returns the bytes that were added to a displaced file since it was read, mostly none. `None` if the file was changed
/// otherwise.
fn grown_by(draft: &Draft<'_>, change: &Change<'_>) -> Option<Vec<u8>> {
    let Snapshot { stat, bytes } = change.found;
    let opened;
    let displaced = match change.held.file(id_of(stat)) {
        Some(file) => file,
        None => {
            // A file that was renamed over, or may not be read, cannot be checked any further.
            let Ok(file) = draft.open_displaced() else {
                return Some(Vec::new());
            };
            opened = file;
            &opened
        }
    };
    let now = rustix::fs::fstat(displaced).ok()?;
    let unchanged = state_of(&now) == state_of(stat);
    if unchanged && is_settled(stat) {
        return Some(Vec::new());
    }
    let mut content = vec![0; usize::try_from(size_of(&now)).ok()?];
    if content.len() < bytes.len() || content.len() - bytes.len() > MOST_TAIL {
        return None;
    }
    displaced.read_exact_at(&mut content, 0).ok()?;
    let tail = content.split_off(bytes.len());
    (content == *bytes).then_some(tail)
}

/// Returns whether a later change would have given the file another time: file systems count time in steps.
fn is_settled(stat: &Stat) -> bool {
    let changed = Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0));
    let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + changed);
    // A time in the future tells nothing.
    age.is_ok_and(|age| age >= RECENT)
}

/// Gives the files their old contents back.
pub(super) fn take_back(drafts: Vec<Draft<'_>>, failed: Failed) -> Failed {
    let back = drafts.into_iter().map(|mut draft| draft.take_back());
    let names: Vec<_> = back.filter_map(Result::err).collect();
    if names.is_empty() {
        return failed;
    }
    kept(failed, &names).into()
}

/// Returns the error about files that could not get their names back, and are kept under others.
fn kept(failed: Failed, names: &[String]) -> ToolError {
    let why = match failed {
        Failed::Told(err) => err.to_string(),
        Failed::Changed | Failed::Taken(_) | Failed::Locked => {
            "a file was changed by several others at once".into()
        }
    };
    ToolError::new(format!(
        "{why}; files changed before could not be changed back, and their old content is kept as {}",
        names.join(", ")
    ))
}

/// Returns whether the error says that the file system can rename, but not exchange.
pub(super) fn has_no_exchange(err: Errno) -> bool {
    matches!(err, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}

/// Twice the coarsest step in which file systems count time, which is two seconds.
const RECENT: Duration = Duration::from_secs(4);

/// The most bytes that another program appended meanwhile and that the new file takes over.
const MOST_TAIL: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use std::{fs, io::Write as _, path::Path};

    use super::*;
    use crate::{
        files::{atomic::replace_all, target::Parents, turn::Turn},
        here::Here,
        roots::{HardLinks, Roots},
    };

    /// A folder for the files of a test.
    struct Bench {
        folder: tempfile::TempDir,
        roots: Roots,
    }

    impl Bench {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let roots = Roots::open(&[folder.path().into()]).unwrap();
            Self { folder, roots }
        }

        fn target(&self, name: &str) -> Target<'_> {
            let place = self.roots.find(&Here::default(), name).unwrap();
            Target::find(&place, Parents::Expect, HardLinks::Refuse).unwrap()
        }

        fn path(&self) -> &Path {
            self.folder.path()
        }

        fn write(&self, name: &str, content: &str) {
            fs::write(self.path().join(name), content).unwrap();
        }

        fn content(&self, name: &str) -> String {
            fs::read_to_string(self.path().join(name)).unwrap()
        }

        fn names(&self) -> usize {
            fs::read_dir(self.path()).unwrap().count()
        }
    }

    /// Returns a file as it was read, and held.
    fn read(target: &Target<'_>) -> (Snapshot, Held) {
        let held = Held::take(target, &[], &Turn::default()).unwrap();
        (target.read(&held, 99).unwrap().unwrap(), held)
    }

    fn change<'a>(target: &'a Target<'a>, (found, held): &'a (Snapshot, Held)) -> Change<'a> {
        Change {
            target,
            found,
            held,
            content: b"ours",
        }
    }

    /// Runs a test with a file `a` that says "old", and a draft that is about to change places with it.
    fn amid_an_exchange(test: impl FnOnce(&Bench, &Change<'_>, Draft<'_>)) {
        let bench = Bench::new();
        bench.write("a", "old");
        let a = bench.target("a");
        let read_a = read(&a);
        let change = change(&a, &read_a);
        let draft = change.draft().unwrap();
        test(&bench, &change, draft);
    }

    #[test]
    fn a_file_that_somebody_else_changed_meanwhile_is_not_overwritten() {
        let bench = Bench::new();
        bench.write("a", "old");
        bench.write("b", "old");
        let (a, b) = (bench.target("a"), bench.target("b"));
        let (read_a, read_b) = (read(&a), read(&b));
        bench.write("b", "theirs");
        let alone = replace_all(&[change(&b, &read_b)]);
        assert!(matches!(alone, Err(Failed::Changed)));
        let both = replace_all(&[change(&a, &read_a), change(&b, &read_b)]);
        assert!(matches!(both, Err(Failed::Changed)));
        assert_eq!(bench.content("a"), "old");
        assert_eq!(bench.content("b"), "theirs");
        assert_eq!(bench.names(), 2);
    }

    #[test]
    fn a_file_that_was_replaced_in_the_very_moment_of_the_exchange_comes_back() {
        amid_an_exchange(|bench, change, mut draft| {
            bench.write("theirs", "theirs");
            fs::rename(bench.path().join("theirs"), bench.path().join("a")).unwrap();
            assert!(matches!(swap(&mut draft, change), Err(Stopped::Changed)));
            drop(draft);
            assert_eq!(bench.content("a"), "theirs");
            assert_eq!(bench.names(), 1);
        });
    }

    #[test]
    fn a_file_that_is_written_after_the_exchange_comes_back_too() {
        amid_an_exchange(|bench, change, mut draft| {
            // A program that opened the file before writes as many bytes as there were, at the same time by the file's
            // clock.
            let mut theirs = fs::File::options()
                .write(true)
                .open(bench.path().join("a"))
                .unwrap();
            swap(&mut draft, change).ok().unwrap();
            assert_eq!(bench.content("a"), "ours");
            theirs.write_all(b"new").unwrap();
            let modified = SystemTime::UNIX_EPOCH
                + Duration::new(
                    u64::try_from(change.found.stat.st_mtime).unwrap(),
                    u32::try_from(change.found.stat.st_mtime_nsec).unwrap(),
                );
            theirs.set_modified(modified).unwrap();
            let settled = settle(vec![draft], std::slice::from_ref(change));
            assert!(matches!(settled, Err(Failed::Changed)));
            assert_eq!(bench.content("a"), "new");
            assert_eq!(bench.names(), 1);
        });
    }

    #[test]
    fn a_line_that_is_appended_after_the_exchange_is_taken_over() {
        amid_an_exchange(|bench, change, mut draft| {
            let mut theirs = fs::File::options()
                .append(true)
                .open(bench.path().join("a"))
                .unwrap();
            swap(&mut draft, change).ok().unwrap();
            theirs.write_all(b" and theirs").unwrap();
            let settled = settle(vec![draft], std::slice::from_ref(change)).unwrap();
            assert_eq!(settled[0].tail, b" and theirs");
            assert_eq!(bench.content("a"), "ours and theirs");
            assert_eq!(bench.names(), 1);
        });
    }

    #[test]
    fn nothing_is_taken_from_whoever_changes_the_new_file_meanwhile() {
        amid_an_exchange(|bench, change, mut draft| {
            let mut first = fs::File::options()
                .write(true)
                .open(bench.path().join("a"))
                .unwrap();
            swap(&mut draft, change).ok().unwrap();
            first.write_all(b"1st").unwrap();
            bench.write("b", "second");
            fs::rename(bench.path().join("b"), bench.path().join("a")).unwrap();
            let settled = settle(vec![draft], std::slice::from_ref(change));
            let Err(Failed::Told(err)) = settled else {
                panic!("{settled:?}");
            };
            assert_eq!(bench.content("a"), "second");
            let kept = err.to_string();
            let kept = kept.rsplit('`').nth(1).unwrap();
            assert_eq!(bench.content(kept), "1st");
        });
    }
}
