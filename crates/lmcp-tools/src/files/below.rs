//! Opens what lies below an open folder, through no link, and finds the folders above one.

use std::{
    fs::File,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::PathBuf,
};

use rustix::{
    fs::{Mode, OFlags, ResolveFlags},
    io::Errno,
};

use crate::roots::Place;

/// Opens a name in a folder to read it: no link is followed, and no FIFO waited for.
pub(crate) fn open_here(folder: BorrowedFd<'_>, name: &[u8]) -> Result<File, Errno> {
    let flags =
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::empty()).map(File::from)
}

/// Opens a path below a folder, through no link.
pub(crate) fn open_below(
    folder: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    confined: bool,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(folder, path, flags, Mode::empty(), resolve) {
        // Without roots the search works on kernels too that do not know the call.
        Err(Errno::NOSYS | Errno::PERM) if !confined => {
            rustix::fs::openat(folder, path, flags, Mode::empty())
        }
        done => done,
    }
}

/// The topmost folder that a call may look at, and the path from there to `base`, with a `/` at its end. The topmost folder
/// is the root that `place` is below, or `/` where nothing is confined.
pub(crate) fn folders_above(place: &Place<'_>, base: &OwnedFd) -> Option<(OwnedFd, Vec<u8>)> {
    let real = real_path(base.as_fd())?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let (top, below) = if place.is_confined() {
        let top = rustix::fs::openat(place.base(), ".", flags, Mode::empty()).ok()?;
        let below = real.strip_prefix(real_path(top.as_fd())?).ok()?.to_owned();
        (top, below)
    } else {
        let top = rustix::fs::open("/", flags, Mode::empty()).ok()?;
        (top, real.strip_prefix("/").ok()?.to_owned())
    };
    let mut above = below.as_os_str().as_bytes().to_vec();
    if !above.is_empty() {
        above.push(b'/');
    }
    Some((top, above))
}

fn real_path(folder: BorrowedFd<'_>) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd())).ok()
}
