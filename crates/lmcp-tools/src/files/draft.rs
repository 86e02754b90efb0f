//! The new content of a file, under a name of its own in the same folder: `.name.lmcp-…`.
//!
//! A draft has the mode, owner and attributes of the file that it is for, and is on disk before it takes the file's
//! place. A killed process may leave a draft behind, which a later write to the same file removes.

use std::{
    ffi::{CStr, OsString},
    fs::File,
    io::Write as _,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::{OsStrExt as _, OsStringExt as _},
    },
    time::{Duration, SystemTime},
};

use ring::rand::{SecureRandom as _, SystemRandom};
use rustix::{
    fs::{
        AtFlags, Dir, FlockOperation, Gid, Mode, OFlags, RenameFlags, Stat, Uid, XattrFlags, flock,
    },
    io::Errno,
};

use super::target::{Target, id_of, state_of};

/// A property of the file that could not be kept, in words.
pub(crate) type Note = Option<&'static str>;

/// A draft. Dropping it removes it, unless it took the file's name for good.
pub(super) struct Draft<'a> {
    target: &'a Target<'a>,
    /// The draft's own name; after an exchange, the name of the file that it replaced. Empty if there is nothing to
    /// remove.
    name: OsString,
    file: File,
    /// The state of the draft when it was written.
    stat: Stat,
    pub(super) note: Note,
}

impl<'a> Draft<'a> {
    /// Writes a draft. `old` is the file that it replaces, if there is one.
    pub(super) fn write(
        target: &'a Target<'a>,
        content: &[u8],
        old: Option<(&Stat, Option<&File>)>,
    ) -> Result<Self, Errno> {
        let name = draft_name(target)?;
        let flags = OFlags::WRONLY
            | OFlags::APPEND
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        // For a new file, the umasks of the session and of the server apply. A draft that replaces a file is for its
        // owner alone until it has the mode of that file.
        let mode = match old {
            Some(_) => Mode::from_raw_mode(0o600),
            None => target.place().new_mode(0o666),
        };
        let file = File::from(rustix::fs::openat(&target.dir, &name, flags, mode)?);
        // A process that opens the new file waits until it is certain that the file stays.
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        let stat = rustix::fs::fstat(&file)?;
        let note = old.and_then(|old| keep(target, old, &file, &stat));
        // From here on the draft is removed if anything fails.
        let mut draft = Self {
            target,
            name,
            file,
            stat,
            note,
        };
        finish(&draft.file, content)?;
        draft.stat = rustix::fs::fstat(&draft.file)?;
        Ok(draft)
    }

    /// Takes the name, even if another file has it.
    pub(super) fn take_name(&mut self) -> Result<(), Errno> {
        let dir = &self.target.dir;
        rustix::fs::renameat(dir, &self.name, dir, &self.target.name)?;
        self.name = OsString::new();
        Ok(())
    }

    /// Takes the name, if no file has it.
    pub(super) fn take_free_name(&self) -> Result<(), Errno> {
        let (dir, name) = (&self.target.dir, &self.target.name);
        // A link fails if the name is taken, where a rename would replace the other file.
        let linked = rustix::fs::linkat(dir, &self.name, dir, name, AtFlags::empty());
        match linked {
            // The file system has no links.
            Err(Errno::PERM | Errno::OPNOTSUPP) => {
                let flags = RenameFlags::NOREPLACE;
                rustix::fs::renameat_with(dir, &self.name, dir, name, flags)
            }
            done => done,
        }
    }

    /// Returns whether the draft took the name for good, so that nothing can be taken back.
    pub(super) fn has_taken_name(&self) -> bool {
        self.name.is_empty()
    }

    /// Exchanges the names of the draft and of the file.
    pub(super) fn exchange(&self) -> Result<(), Errno> {
        let dir = &self.target.dir;
        let flags = RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(dir, &self.name, dir, &self.target.name, flags)
    }

    /// Returns the state of the file that an exchange displaced.
    pub(super) fn displaced(&self) -> Result<Stat, Errno> {
        rustix::fs::statat(&self.target.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Opens the file that an exchange displaced, to read its content.
    pub(super) fn open_displaced(&self) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::openat(&self.target.dir, &self.name, flags, Mode::empty()).map(File::from)
    }

    /// Gives the displaced file its name back after an exchange. Fails if that would undo a change that somebody made
    /// to the new file since. The displaced file is then kept, under the name that is returned.
    pub(super) fn take_back(&mut self) -> Result<(), String> {
        if self.target.leads_to(id_of(&self.stat)) && self.exchange().is_ok() {
            let here = |stat: Stat| (id_of(&stat), state_of(&stat));
            let own = self.displaced().map(here);
            if own == Ok(here(self.stat)) {
                return Ok(());
            }
            // Somebody changed the file in this moment, and their content stays.
            let _ = self.exchange();
        }
        let name = std::mem::take(&mut self.name);
        Err(format!("`{}`", name.display()))
    }

    /// Appends to the draft, whatever name it has now.
    pub(super) fn add(&self, tail: &[u8]) -> Result<(), Errno> {
        finish(&self.file, tail)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // If this fails, the draft stays, and the next write to this name removes it.
            let _ = rustix::fs::unlinkat(&self.target.dir, &self.name, AtFlags::empty());
        }
    }
}

/// Gives a draft the properties of the old file. If one cannot be kept, the draft never gets one that allows more.
fn keep(
    target: &Target<'_>,
    (old, opened): (&Stat, Option<&File>),
    draft: &File,
    now: &Stat,
) -> Note {
    let mut note = None;
    // The special bits are cleared, as the kernel does on a write: the trust was in the old content, not in the new
    // one.
    let mut mode = old.st_mode & 0o1777;
    let differs = (now.st_uid, now.st_gid) != (old.st_uid, old.st_gid);
    let (owner, group) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
    if differs && rustix::fs::fchown(draft, Some(owner), Some(group)).is_err() {
        note = Some("the owner could not be kept");
        if rustix::fs::fchown(draft, None, Some(group)).is_err() {
            note = Some("owner and group could not be kept");
            // Another group gets no more rights than everybody.
            mode = mode & !0o070 | mode & (mode & 0o007) << 3;
        }
    }
    match opened {
        Some(old) => keep_attributes(old, draft),
        None => {
            if let Ok(old) = target.open(OFlags::RDONLY) {
                keep_attributes(&old, draft);
            }
        }
    }
    if rustix::fs::fchmod(draft, Mode::from_raw_mode(mode)).is_err() {
        note = note.or(Some("the mode could not be kept"));
    }
    let several = "it had other names, which keep the old content";
    note.or_else(|| (old.st_nlink > 1).then_some(several))
}

/// Copies extended attributes and access lists, as far as the file system allows, but none that stand for trust.
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
            // A file system that refuses an attribute does not support it.
            let _ = rustix::fs::fsetxattr(draft, name, &value[..length], XattrFlags::empty());
        }
    }
}

/// Writes the content, and waits until it is on disk.
pub(super) fn finish(mut file: &File, content: &[u8]) -> Result<(), Errno> {
    let number = |err: std::io::Error| Errno::from_io_error(&err).unwrap_or(Errno::IO);
    file.write_all(content).map_err(number)?;
    match rustix::fs::fsync(file) {
        // The file system does not support this.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
        done => done,
    }
}

/// The folder of a file, opened for reading. A folder that may not be read is not synced, and not swept.
pub(super) struct Folder<'a> {
    target: &'a Target<'a>,
    dir: Option<OwnedFd>,
}

impl<'a> Folder<'a> {
    pub(super) fn of(target: &'a Target<'a>) -> Self {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(&target.dir, ".", flags, Mode::empty()).ok();
        Self { target, dir }
    }

    /// Brings the folder to disk: only then is a new name there.
    pub(super) fn sync(&self) {
        if let Some(dir) = &self.dir {
            // The content of the file is on disk in any case.
            let _ = rustix::fs::fsync(dir);
        }
    }

    /// Removes drafts of this file that killed processes left.
    pub(super) fn sweep(self) {
        let Some(entries) = self.dir.and_then(|dir| Dir::new(dir).ok()) else {
            return;
        };
        let dir = &self.target.dir;
        let prefix = draft_prefix(self.target);
        for entry in entries.take(MOST_ENTRIES).flatten() {
            let name = entry.file_name();
            let random = name.to_bytes().strip_prefix(prefix.as_slice());
            let ours = random.is_some_and(|random| {
                random.len() == 2 * RANDOM && random.iter().all(u8::is_ascii_hexdigit)
            });
            if ours && is_stale(dir, name) {
                // Another process may have been quicker.
                let _ = rustix::fs::unlinkat(dir, name, AtFlags::empty());
            }
        }
    }
}

/// Returns whether a draft is old, and no process holds it. A file that was just displaced is as old as its content,
/// but is held.
fn is_stale(dir: impl AsFd, name: &CStr) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::openat(dir, name, flags, Mode::empty()) else {
        return false;
    };
    let Ok(stat) = rustix::fs::fstat(&file) else {
        return false;
    };
    let is_old = |seconds: i64| {
        let then = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + then);
        age.is_ok_and(|age| age > STALE)
    };
    is_old(stat.st_mtime)
        && match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => true,
            Err(Errno::WOULDBLOCK) => false,
            // Without locks, the time when the file got its name is used.
            Err(_) => is_old(stat.st_ctime),
        }
}

/// Returns the beginning of the names of a file's drafts. Twelve hexadecimal digits follow.
pub(super) fn draft_prefix(target: &Target<'_>) -> Vec<u8> {
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

/// The number of random bytes in a draft's name.
const RANDOM: usize = 6;

/// The age of a stale draft. No write takes this long.
const STALE: Duration = Duration::from_secs(3600);

/// The most entries of a folder that are read. In a larger folder some stale drafts may stay, so that no write becomes
/// slow.
const MOST_ENTRIES: usize = 4096;
