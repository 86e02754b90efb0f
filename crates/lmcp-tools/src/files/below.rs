//! Opens files below an open folder without following links, and finds the folders above one.

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

/// Opens a name in a folder to read it. Follows no link, and does not wait at a FIFO.
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
    let mut flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // An open with `PATH` never waits, and the kernel refuses these flags there.
    if !flags.contains(OFlags::PATH) {
        flags |= OFlags::NONBLOCK | OFlags::NOCTTY;
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(folder, path, flags, Mode::empty(), resolve) {
        // Without roots this also works on kernels that do not know the call.
        Err(Errno::NOSYS | Errno::PERM) if !confined => open_by_steps(folder, path, flags),
        done => done,
    }
}

/// Does the same, one folder after the other.
fn open_by_steps(folder: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let on_the_way = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut steps = path.split(|byte| *byte == b'/').peekable();
    let mut at: Option<OwnedFd> = None;
    while let Some(step) = steps.next() {
        if step == b".." {
            return Err(Errno::XDEV);
        }
        let flags = steps.peek().map_or(flags, |_| on_the_way);
        let above = at.as_ref().map_or(folder, OwnedFd::as_fd);
        at = Some(rustix::fs::openat(above, step, flags, Mode::empty())?);
    }
    at.ok_or(Errno::NOENT)
}

/// Returns the topmost folder that a call may look at, and the path from there to `base`, with a `/` at its end. The
/// topmost folder is the root that `place` is below, or `/` where nothing is confined.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_the_way_up_are_refused_with_and_without_the_call_of_the_kernel() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
        std::os::unix::fs::symlink("a", folder.path().join("l")).unwrap();
        let top = File::open(folder.path()).unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let own = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let by_steps = |path: &[u8]| open_by_steps(top.as_fd(), path, own).is_ok();
        let at_once = |path: &[u8]| open_below(top.as_fd(), path, flags, true).is_ok();
        for (path, is_fit) in [
            ("a/b", true),
            ("a", true),
            (".", true),
            ("l", false),
            ("l/b", false),
            ("a/..", false),
            ("../x", false),
            ("none", false),
        ] {
            assert_eq!(by_steps(path.as_bytes()), is_fit, "{path}");
            // `a/..` stays below the folder, so the kernel allows it.
            let is_fit = is_fit || path == "a/..";
            assert_eq!(at_once(path.as_bytes()), is_fit, "{path}");
        }
    }
}
