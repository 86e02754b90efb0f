//! The one way files are replaced.
//!
//! The new content is written to a file of its own in the same folder, given the mode, owner and attributes of the old
//! one, and brought to disk; then it takes the name. Whoever reads, and whoever finds the disk after a crash, sees the
//! old file or the new one. What a killed process may leave behind is a file `.name.lmcp-…`, which a later write to the
//! same name removes.

use std::{
    ffi::OsString,
    fs::File,
    io::Write as _,
    os::{
        fd::AsFd,
        unix::ffi::{OsStrExt as _, OsStringExt as _},
    },
    time::{Duration, SystemTime},
};

use lmcp_core::{ToolError, ToolResult};
use ring::rand::{SecureRandom as _, SystemRandom};
use rustix::{
    fs::{AtFlags, Dir, Gid, Mode, OFlags, RenameFlags, Stat, Uid, XattrFlags},
    io::Errno,
};

use super::target::Target;

/// What must stand at the name when the new file takes it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Before<'a> {
    /// Nothing.
    Absent,
    /// Whatever stands there; this was seen.
    Any(Option<&'a Stat>),
    /// What was read, unchanged.
    Same(&'a Stat),
}

/// What could not be kept as it should be.
pub(crate) type Note = Option<&'static str>;

/// Replaces a file, or makes it.
///
/// # Errors
/// Nothing was changed.
pub(crate) fn replace(target: &Target<'_>, content: &[u8], before: Before<'_>) -> ToolResult<Note> {
    let old = before.stat();
    let replaced = Draft::write(target, content, old)
        .map_err(Failed::Io)
        .and_then(|draft| draft.take_name(before));
    match (replaced, old) {
        (Ok(note), _) => {
            sync_folder(target);
            remove_stale(target);
            Ok(note)
        }
        (Err(Failed::Told(err)), _) => Err(err),
        (Err(Failed::Io(err)), Some(old)) if cannot_replace(err) => {
            if target.place().is_confined() {
                return Err(target.failed(err).hint(
                    "its folder does not allow to replace it, and below a root nothing is written in place",
                ));
            }
            write_in_place(target, content, old)
        }
        (Err(Failed::Io(err)), _) => Err(target.failed(err)),
    }
}

/// Replaces several files, or none of them.
///
/// They change one after the other: only a crash in between can leave some old and some new, each of them whole.
///
/// # Errors
/// Nothing was changed, unless the error says otherwise.
pub(crate) fn replace_all(changes: &[(&Target<'_>, &[u8], &Stat)]) -> ToolResult<Vec<Note>> {
    let drafts = changes
        .iter()
        .map(|(target, content, old)| {
            Draft::write(target, content, Some(old)).map_err(|err| target.failed(err))
        })
        .collect::<ToolResult<Vec<_>>>()?;
    for (done, (draft, (target, _, old))) in drafts.iter().zip(changes).enumerate() {
        // An exchange leaves the old file under the draft's name, where it can be had back whatever else fails.
        let exchanged = target.expect_same(old).and_then(|()| draft.exchange());
        if let Err(err) = exchanged {
            return Err(undo(drafts, done, err));
        }
    }
    for (target, ..) in changes {
        sync_folder(target);
        remove_stale(target);
    }
    // Dropping the drafts removes the old files.
    Ok(drafts.iter().map(|draft| draft.note).collect())
}

/// Changes back the first files of several. An old file that cannot have its name back stays under the draft's.
fn undo(drafts: Vec<Draft<'_>>, done: usize, err: ToolError) -> ToolError {
    let mut kept = Vec::new();
    for mut draft in drafts.into_iter().take(done) {
        if draft.exchange().is_err() {
            let name = std::mem::take(&mut draft.name);
            kept.push(format!("`{}`", name.display()));
        }
    }
    if kept.is_empty() {
        return err;
    }
    ToolError::new(format!(
        "{err}; files changed before could not be changed back, and their old content is kept as {}",
        kept.join(", ")
    ))
}

/// Adds to a file that is too large to be replaced. One write at its end, as the kernel orders them.
pub(crate) fn append_in_place(target: &Target<'_>, content: &[u8]) -> ToolResult<Note> {
    let file = target
        .open(OFlags::WRONLY | OFlags::APPEND)
        .map_err(|err| target.failed(err))?;
    let stat = rustix::fs::fstat(&file).map_err(|err| target.failed(err))?;
    target.expect(&stat)?;
    finish(&file, content).map_err(|err| target.failed(err))?;
    Ok(Some("added in place, because the file is large"))
}

/// New content under a name of its own. Removed when dropped, unless it took the file's name.
struct Draft<'a> {
    target: &'a Target<'a>,
    name: OsString,
    note: Note,
}

enum Failed {
    Io(Errno),
    Told(ToolError),
}

impl<'a> Draft<'a> {
    fn write(target: &'a Target<'a>, content: &[u8], old: Option<&Stat>) -> Result<Self, Errno> {
        let name = draft_name(target)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // The umask applies to a new file. What replaces another is for its owner alone until it has the other's mode.
        let mode = Mode::from_raw_mode(if old.is_some() { 0o600 } else { 0o666 });
        let file = File::from(rustix::fs::openat(&target.dir, &name, flags, mode)?);
        let mut draft = Self {
            target,
            name,
            note: None,
        };
        if let Some(old) = old {
            draft.note = keep(target, old, &file);
        }
        finish(&file, content)?;
        Ok(draft)
    }

    fn take_name(mut self, before: Before<'_>) -> Result<Note, Failed> {
        let dir = &self.target.dir;
        let name = &self.target.name;
        match before {
            Before::Any(_) => {}
            Before::Same(stat) => self.target.expect_same(stat).map_err(Failed::Told)?,
            Before::Absent => {
                // Fails if the name is taken, where a rename would replace what took it.
                rustix::fs::linkat(dir, &self.name, dir, name, AtFlags::empty())
                    .or_else(|err| match err {
                        // A file system without links.
                        Errno::PERM | Errno::OPNOTSUPP => rustix::fs::renameat_with(
                            dir,
                            &self.name,
                            dir,
                            name,
                            RenameFlags::NOREPLACE,
                        ),
                        err => Err(err),
                    })
                    .map_err(Failed::Io)?;
                return Ok(self.note);
            }
        }
        rustix::fs::renameat(dir, &self.name, dir, name).map_err(Failed::Io)?;
        self.name = OsString::new();
        Ok(self.note)
    }

    /// The file and the draft change places.
    fn exchange(&self) -> ToolResult<()> {
        let dir = &self.target.dir;
        let flags = RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(dir, &self.name, dir, &self.target.name, flags).map_err(|err| {
            let failed = self.target.failed(err);
            match err {
                Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP => failed
                    .hint("its file system cannot change several files together; one at a time"),
                _ => failed,
            }
        })
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // Nothing can be done about one that stays; the next write to this name removes it.
            let _ = rustix::fs::unlinkat(&self.target.dir, &self.name, AtFlags::empty());
        }
    }
}

impl<'a> Before<'a> {
    fn stat(self) -> Option<&'a Stat> {
        match self {
            Before::Absent => None,
            Before::Any(stat) => stat,
            Before::Same(stat) => Some(stat),
        }
    }
}

/// Gives a draft what the old file had. What it cannot have is never replaced by something that allows more.
fn keep(target: &Target<'_>, old: &Stat, draft: &File) -> Note {
    let mut note = None;
    // As the kernel does on a write: what the old content was trusted with is not the new one's.
    let mut mode = old.st_mode & 0o1777;
    let now = rustix::fs::fstat(draft).ok();
    let differs = now.is_none_or(|now| (now.st_uid, now.st_gid) != (old.st_uid, old.st_gid));
    let (owner, group) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
    if differs && rustix::fs::fchown(draft, Some(owner), Some(group)).is_err() {
        note = Some("the owner could not be kept");
        if rustix::fs::fchown(draft, None, Some(group)).is_err() {
            note = Some("owner and group could not be kept");
            // Another group gets no more than everybody.
            mode = mode & !0o070 | mode & (mode & 0o007) << 3;
        }
    }
    if let Ok(old) = target.open(OFlags::RDONLY) {
        keep_attributes(&old, draft);
    }
    if rustix::fs::fchmod(draft, Mode::from_raw_mode(mode)).is_err() {
        note = note.or(Some("the mode could not be kept"));
    }
    let several = "it had other names, which keep the old content";
    note.or_else(|| (old.st_nlink > 1).then_some(several))
}

/// Copies extended attributes and access lists, as far as the file system lets us. None that stand for trust.
fn keep_attributes(old: &File, draft: &File) {
    let mut names = vec![0; 16 << 10];
    let length = rustix::fs::flistxattr(old, names.as_mut_slice()).unwrap_or(0);
    let mut value = vec![0; if length > 0 { 64 << 10 } else { 0 }];
    for name in names[..length].split(|byte| *byte == 0) {
        let wanted = name.starts_with(b"user.")
            || name == b"system.posix_acl_access"
            || name == b"security.selinux";
        if !wanted {
            continue;
        }
        if let Ok(length) = rustix::fs::fgetxattr(old, name, value.as_mut_slice()) {
            // A file system that refuses has told us that it does not know them.
            let _ = rustix::fs::fsetxattr(draft, name, &value[..length], XattrFlags::empty());
        }
    }
}

/// Writes, and waits for the disk.
fn finish(mut file: &File, content: &[u8]) -> Result<(), Errno> {
    let number = |err: std::io::Error| Errno::from_io_error(&err).unwrap_or(Errno::IO);
    file.write_all(content).map_err(number)?;
    match rustix::fs::fsync(file) {
        // A file system that knows no such thing.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
        done => done,
    }
}

/// Could the file itself be written where its folder does not let it be replaced? A mount point is such a one.
fn cannot_replace(err: Errno) -> bool {
    matches!(
        err,
        Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::BUSY | Errno::XDEV
    )
}

fn write_in_place(target: &Target<'_>, content: &[u8], old: &Stat) -> ToolResult<Note> {
    let failed = |err| target.failed(err);
    let file = target.open(OFlags::WRONLY).map_err(failed)?;
    let stat = rustix::fs::fstat(&file).map_err(failed)?;
    target.expect(&stat)?;
    target.expect_same(old)?;
    // Shortened last: a reader meanwhile sees old bytes behind new ones, never an empty file.
    finish(&file, content).map_err(failed)?;
    rustix::fs::ftruncate(&file, content.len() as u64).map_err(failed)?;
    finish(&file, b"").map_err(failed)?;
    Ok(Some(
        "written in place, because its folder does not allow to replace it: a crash could have torn it",
    ))
}

/// A new name is only on disk once its folder is.
fn sync_folder(target: &Target<'_>) {
    if let Some(dir) = readable_folder(target) {
        // The file has its content either way.
        let _ = rustix::fs::fsync(dir);
    }
}

/// Removes what killed processes left of this very file.
fn remove_stale(target: &Target<'_>) {
    let Some(entries) = readable_folder(target).and_then(|dir| Dir::new(dir).ok()) else {
        return;
    };
    let prefix = draft_prefix(target);
    for entry in entries.take(MOST_ENTRIES).flatten() {
        let name = entry.file_name();
        let random = name.to_bytes().strip_prefix(prefix.as_slice());
        let ours = random.is_some_and(|random| {
            random.len() == 2 * RANDOM && random.iter().all(u8::is_ascii_hexdigit)
        });
        if ours && is_old(&target.dir, name) {
            // Somebody else may have been quicker.
            let _ = rustix::fs::unlinkat(&target.dir, name, AtFlags::empty());
        }
    }
}

fn is_old(dir: impl AsFd, name: &std::ffi::CStr) -> bool {
    let Ok(stat) = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) else {
        return false;
    };
    let changed = u64::try_from(stat.st_mtime).unwrap_or(0);
    let age =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + Duration::from_secs(changed));
    age.is_ok_and(|age| age > STALE)
}

/// The folder again, this time to read it. A folder that may not be read is not swept, and not synced.
fn readable_folder(target: &Target<'_>) -> Option<std::os::fd::OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(&target.dir, ".", flags, Mode::empty()).ok()
}

fn draft_prefix(target: &Target<'_>) -> Vec<u8> {
    let name = target.name.as_bytes();
    // A name has at most 255 bytes, and the dot, the marker and the random part need some of them.
    [
        b".",
        &name[..name.len().min(255 - 1 - MARKER.len() - 2 * RANDOM)],
        MARKER,
    ]
    .concat()
}

fn draft_name(target: &Target<'_>) -> Result<OsString, Errno> {
    let mut random = [0; RANDOM];
    SystemRandom::new()
        .fill(&mut random)
        .map_err(|_| Errno::IO)?;
    let mut name = draft_prefix(target);
    for byte in random {
        name.extend(format!("{byte:02x}").bytes());
    }
    Ok(OsString::from_vec(name))
}

const MARKER: &[u8] = b".lmcp-";

/// Random bytes in a draft's name.
const RANDOM: usize = 6;

/// No write takes this long.
const STALE: Duration = Duration::from_secs(3600);

/// In a larger folder not every stale draft is found, and no write becomes slow.
const MOST_ENTRIES: usize = 4096;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        files::target::Parents,
        roots::{HardLinks, Roots},
    };

    #[test]
    fn what_somebody_else_changed_meanwhile_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::open(&[folder.path().into()]).unwrap();
        let find = |name: &str| {
            fs::write(folder.path().join(name), "old").unwrap();
            Target::find(
                &roots.find(name).unwrap(),
                Parents::Expect,
                HardLinks::Refuse,
            )
            .unwrap()
        };
        let (a, b) = (find("a"), find("b"));
        let [found_a, found_b] = [&a, &b].map(|target| target.read(99).unwrap().unwrap());
        fs::write(folder.path().join("b"), "theirs").unwrap();
        let alone = replace(&b, b"ours", Before::Same(&found_b.stat));
        assert!(
            alone
                .unwrap_err()
                .to_string()
                .contains("changed by somebody else")
        );
        let both = [
            (&a, &b"ours"[..], &found_a.stat),
            (&b, &b"ours"[..], &found_b.stat),
        ];
        assert!(replace_all(&both).is_err());
        assert_eq!(fs::read(folder.path().join("a")).unwrap(), b"old");
        assert_eq!(fs::read(folder.path().join("b")).unwrap(), b"theirs");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_somebody_else_made_meanwhile_is_not_replaced_by_a_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::open(&[]).unwrap();
        let path = folder.path().join("a");
        let place = roots.find(path.to_str().unwrap()).unwrap();
        let target = Target::find(&place, Parents::Expect, HardLinks::Refuse).unwrap();
        fs::write(&path, "theirs").unwrap();
        assert!(replace(&target, b"ours", Before::Absent).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
    }
}
