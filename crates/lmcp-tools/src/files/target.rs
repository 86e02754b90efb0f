//! The file that a write is for: its folder, held open, and its name there, which is no link.
//!
//! Links are read, and the kernel resolves each of them below the root again, step by step. All later steps use one name in
//! one open folder, so nobody can lead them elsewhere meanwhile.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, fs::FileExt as _},
    },
    path::Path,
};

use lmcp_core::{ToolError, ToolResult};
use rustix::{
    fs::{Access, AtFlags, Mode, OFlags, Stat},
    io::Errno,
};

use super::{atomic::size_of, below::open_below, hash, hold::Held, locks::Key};
use crate::roots::{HardLinks, Place};

#[derive(Debug)]
pub(crate) struct Target<'a> {
    /// The place as the caller named it, for messages.
    place: Place<'a>,
    hard_links: HardLinks,
    /// The folder, opened as a path only.
    pub(super) dir: OwnedFd,
    pub(super) name: OsString,
    key: Key,
}

/// A file as it was found.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) bytes: Vec<u8>,
    pub(crate) stat: Stat,
}

/// Whether missing folders are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parents {
    Make,
    Expect,
}

impl<'a> Target<'a> {
    /// Finds the folder and the name, following links. The file itself need not exist.
    ///
    /// # Errors
    /// The path leads out of the root, through something that is no folder, or in circles; or the folder does not exist.
    pub(crate) fn find(
        place: &Place<'a>,
        parents: Parents,
        hard_links: HardLinks,
    ) -> ToolResult<Self> {
        let shown = place.shown().display();
        let folder = || ToolError::new(format!("`{shown}` is a folder")).hint("name a file in it");
        let mut at = place.clone();
        // The kernel follows as many links.
        for _ in 0..40 {
            if at.shown().as_os_str().as_bytes().ends_with(b"/") {
                return Err(folder());
            }
            let (parent, name) = at.parent().ok_or_else(folder)?;
            let dir = open_folder(&parent, parents)?;
            match rustix::fs::readlinkat(&dir, &name, Vec::new()) {
                Ok(link) => at = parent.join(OsStr::from_bytes(link.as_bytes())),
                // The name is no link, or does not exist.
                Err(Errno::INVAL | Errno::NOENT) => {
                    return Self::at(place.clone(), dir, name, hard_links);
                }
                Err(err) => return Err(place.failed("write", err)),
            }
        }
        Err(place.failed("write", Errno::LOOP))
    }

    /// Finds a name below a folder without following links: the target of a link is not below the folder. The name itself
    /// may be that of a link, which is not followed.
    ///
    /// # Errors
    /// There is a link on the way, or something that is no folder; or the folder does not exist.
    pub(crate) fn below(top: &Place<'a>, path: &Path, hard_links: HardLinks) -> ToolResult<Self> {
        let place = top.join(path);
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let folder = top.open(flags, Mode::empty());
        let folder = folder.map_err(|err| top.failed("open", err))?;
        let above = path.parent().unwrap_or(path).as_os_str().as_bytes();
        let dir = match above.is_empty() {
            true => folder,
            false => open_below(folder.as_fd(), above, flags, place.is_confined())
                .map_err(|err| place.failed("write", err))?,
        };
        let name = path.file_name().unwrap_or_default().to_owned();
        Self::at(place, dir, name, hard_links)
    }

    fn at(
        place: Place<'a>,
        dir: OwnedFd,
        name: OsString,
        hard_links: HardLinks,
    ) -> ToolResult<Self> {
        let stat = rustix::fs::fstat(&dir).map_err(|err| place.failed("write", err))?;
        Ok(Self {
            place,
            hard_links,
            dir,
            key: (stat.st_dev, stat.st_ino, name.clone()),
            name,
        })
    }

    /// Returns whether the name is that of a link.
    pub(super) fn is_link(&self) -> bool {
        rustix::fs::readlinkat(&self.dir, &self.name, Vec::new()).is_ok()
    }

    /// Returns the identity of the file, which is the same for every path to it.
    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the place as the caller named it.
    pub(crate) fn place(&self) -> &Place<'a> {
        &self.place
    }

    /// Returns the state of the file, if it may be written; `None` if there is no file.
    ///
    /// # Errors
    /// The name is no regular file, or one that this server may not write.
    pub(crate) fn look(&self) -> ToolResult<Option<Stat>> {
        let stat = match rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(err) => return Err(self.failed(err)),
        };
        self.expect(&stat)?;
        // The folder alone decides whether a file can be replaced. But a file that was made read-only is not meant to be
        // written.
        let flags = AtFlags::EACCESS | AtFlags::SYMLINK_NOFOLLOW;
        match rustix::fs::accessat(&self.dir, &self.name, Access::WRITE_OK, flags) {
            Err(err @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => Err(self.failed(err)),
            _ => Ok(Some(stat)),
        }
    }

    /// Reads the whole file, if there is one: through the held file, if that is the same.
    ///
    /// # Errors
    /// As for [`Target::look`]; or the file is larger than `limit` bytes.
    pub(crate) fn read(&self, held: &Held, limit: u64) -> ToolResult<Option<Snapshot>> {
        let Some(stat) = self.look()? else {
            return Ok(None);
        };
        self.read_seen(stat, held, limit).map(Some)
    }

    /// Reads a file that was looked at.
    ///
    /// # Errors
    /// The file is larger than `limit` bytes, does not exist any more, or may not be read.
    pub(crate) fn read_seen(&self, stat: Stat, held: &Held, limit: u64) -> ToolResult<Snapshot> {
        let size = size_of(&stat);
        if size > limit {
            return Err(self.too_large(limit));
        }
        match held.file(id_of(&stat)) {
            // Some file systems report size 0 for files that they make up when they are read.
            Some(file) if size > 0 => {
                let bytes = read_at_most(file, size).map_err(|err| self.unreadable(err))?;
                Ok(Snapshot { bytes, stat })
            }
            _ => self.read_opened(limit),
        }
    }

    fn read_opened(&self, limit: u64) -> ToolResult<Snapshot> {
        let file = match self.open(OFlags::RDONLY) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::LOOP) => return Err(self.changed()),
            Err(err) => return Err(self.place.failed("read", err)),
        };
        let stat = rustix::fs::fstat(&file).map_err(|err| self.place.failed("read", err))?;
        self.expect(&stat)?;
        let mut bytes =
            Vec::with_capacity(usize::try_from(stat.st_size).unwrap_or(0).min(64 << 20));
        file.take(limit + 1)
            .read_to_end(&mut bytes)
            .map_err(|err| self.unreadable(err))?;
        if bytes.len() as u64 > limit {
            return Err(self.too_large(limit));
        }
        Ok(Snapshot { bytes, stat })
    }

    fn unreadable(&self, err: io::Error) -> ToolError {
        ToolError::new(format!("cannot read `{}`", self.place.shown().display())).source(err)
    }

    fn too_large(&self, limit: u64) -> ToolError {
        ToolError::new(format!(
            "`{}` is larger than {limit} bytes, too large for this",
            self.place.shown().display()
        ))
        .hint("change it with a command such as sed, or split it first")
    }

    /// Opens the file, unless the name is a link.
    pub(super) fn open(&self, flags: OFlags) -> Result<File, Errno> {
        // Without O_NONBLOCK the open itself would wait at a FIFO.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.dir, &self.name, flags, Mode::empty()).map(File::from)
    }

    /// Checks that this is a file that this server may touch.
    pub(super) fn expect(&self, stat: &Stat) -> ToolResult<()> {
        self.place.expect_file(stat, self.hard_links)
    }

    /// Returns whether the name still leads to the file that was found, unchanged.
    pub(super) fn is_same(&self, found: &Stat) -> bool {
        let now = rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        let of = |stat: &Stat| (id_of(stat), state_of(stat));
        now.is_ok_and(|now| of(&now) == of(found))
    }

    /// Returns whether the name leads to this very file.
    pub(super) fn leads_to(&self, id: (u64, u64)) -> bool {
        let now = rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        now.is_ok_and(|now| id_of(&now) == id)
    }

    pub(super) fn failed(&self, err: Errno) -> ToolError {
        if err == Errno::NOENT {
            // A free or taken name was handled before, so the folder itself does not allow a new file.
            return ToolError::new(format!(
                "cannot write `{}`: its folder takes no new files, or is gone",
                self.place.shown().display()
            ))
            .hint("files of the system, as in /proc, can only be written by a command");
        }
        self.place.failed("write", err)
    }

    pub(super) fn changed(&self) -> ToolError {
        ToolError::new(format!(
            "`{}` was changed by somebody else meanwhile; nothing was written",
            self.place.shown().display()
        ))
        .hint("read it again")
    }
}

impl Snapshot {
    /// Checks that the content has the hash that an earlier result returned.
    ///
    /// # Errors
    /// The content has another hash.
    pub(crate) fn expect_hash(&self, wanted: &str, target: &Target<'_>) -> ToolResult<()> {
        let now = hash::of(&self.bytes);
        if hash::is_meant(wanted, &now) {
            return Ok(());
        }
        let (shown, now) = (target.place.shown().display(), hash::shown(&now));
        Err(ToolError::new(format!(
            "`{shown}` has changed: its hash is `{now}`, not `{wanted}`; nothing was written"
        ))
        .hint("read it again"))
    }
}

/// Returns the identity of a file.
pub(super) fn id_of(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// Reads the first `size` bytes of a file; fewer if the file became shorter.
fn read_at_most(file: &File, size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(size).map_err(io::Error::other)?];
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], length as u64) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
            Err(err) => return Err(err),
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// Returns the properties that change with the content of a file. Of two changes in quick succession, the second may leave
/// them as they were.
pub(super) fn state_of(stat: &Stat) -> impl PartialEq + use<> {
    (stat.st_size, (stat.st_mtime, stat.st_mtime_nsec))
}

/// Opens a folder, and makes missing folders if asked to. The folder is always below the root, whatever links say.
fn open_folder(place: &Place<'_>, parents: Parents) -> ToolResult<OwnedFd> {
    let open = || place.open(OFlags::PATH | OFlags::DIRECTORY, Mode::empty());
    let failed = |err| place.failed("open", err);
    match open() {
        Err(Errno::NOENT) if parents == Parents::Make => {}
        Err(Errno::NOENT) => {
            return Err(
                ToolError::new(format!("`{}` does not exist", place.shown().display()))
                    .hint("`parents: true` of write_file makes missing folders"),
            );
        }
        done => return done.map_err(failed),
    }
    let (above, name) = place.parent().ok_or_else(|| failed(Errno::NOENT))?;
    let dir = open_folder(&above, parents)?;
    match rustix::fs::mkdirat(&dir, &name, place.new_mode(0o777)) {
        // Another process was quicker; or the name is a link that leads nowhere, and then opening it fails.
        Ok(()) | Err(Errno::EXIST) => open().map_err(failed),
        Err(err) => Err(place.failed("make", err)),
    }
}
