//! The folder of one command: what is in it, and how it is written.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Read as _, Write as _},
    os::{
        fd::AsRawFd as _,
        unix::fs::{
            DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
        },
    },
    path::{Path, PathBuf},
};

use lmcp_private::remove_default_acl;
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, fallocate, memfd_create};
use serde::Serialize;

/// What a list of jobs shows, in a few hundred bytes; written by the server before the command starts.
pub(crate) const JOB: &str = "job.json";
/// What the command is started again from; as long as the command is.
pub(crate) const ORDER: &str = "order.json";
/// How it ended, written by the guard of a job.
pub(crate) const END: &str = "end.json";
/// There if it is listed as a job; holds the number of its first process.
pub(crate) const KEPT: &str = "kept";
/// Where a confined command puts its scratch files; removed with the command.
pub(crate) const SCRATCH: &str = "tmp";
/// The size of a job's terminal, if it was changed.
pub(crate) const SIZE: &str = "size.json";
/// Where the guard of a job can be reached.
pub(crate) const SOCKET: &str = "guard";

/// Does something with a file or folder of ours. If that is not permitted, the modes on the way are put right first: a
/// confined command cannot enter our folders, but it may change their modes, because they are its user's.
pub(crate) fn insist<T>(path: &Path, act: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match act() {
        Err(err) if err.kind() == io::ErrorKind::PermissionDenied => {
            lmcp_private::restore(path);
            act()
        }
        done => done,
    }
}

/// Puts the modes of a folder of ours and of the way to it right, and takes it and what is made there away from others. As root we would not
/// notice otherwise: a confined command of root has no more rights than an ordinary owner.
pub(crate) fn put_right(path: &Path) -> io::Result<()> {
    lmcp_private::restore(path);
    let found = fs::symlink_metadata(path)?;
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    }
    // It would decide what may be done with all that is made there.
    remove_default_acl(path)?;
    Ok(())
}

/// Writes a file whole or not at all.
pub(crate) fn write_whole(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    insist(dir, || {
        try_write_whole(dir, name, |mut draft| draft.write_all(bytes))
    })
}

/// The same for a value, as JSON. What it is written as is never in memory as a whole.
pub(crate) fn write_json(dir: &Path, name: &str, value: &impl Serialize) -> io::Result<()> {
    insist(dir, || {
        try_write_whole(dir, name, |draft| {
            let mut buffered = BufWriter::new(draft);
            serde_json::to_writer(&mut buffered, value)?;
            buffered.flush()
        })
    })
}

fn try_write_whole(
    dir: &Path,
    name: &str,
    write: impl FnOnce(File) -> io::Result<()>,
) -> io::Result<()> {
    let draft = dir.join(format!("{name}.new"));
    // Made anew, so that nothing somebody put there is written through.
    let _ = fs::remove_file(&draft);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    write(options.open(&draft)?)?;
    fs::rename(draft, dir.join(name))
}

/// Sets so many bytes aside for a file that is written whole later: writing it gives them free first, so that a disk that is
/// full by then has room for it.
pub(crate) fn reserve(dir: &Path, name: &str, bytes: u64) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let draft = options.open(dir.join(format!("{name}.new")))?;
    Ok(fallocate(draft, FallocateFlags::empty(), 0, bytes)?)
}

/// Reads a small file, and nothing of one that is larger than this: whoever put it there, it costs no memory.
pub(crate) fn read_small(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let mut options = OpenOptions::new();
    // Neither a link is followed nor a FIFO waited for.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    options.read(true).custom_flags(flags);
    let file = insist(path, || options.open(path))?;
    let mut bytes = Vec::new();
    let read = file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if read > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// A file without a name that holds this, open for reading. It is gone with its last reader.
pub(crate) fn nameless(dir: &Path, content: &[u8]) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let on_disk = rustix::fs::open(dir, flags, Mode::from_raw_mode(0o600))
        .map_err(io::Error::from)
        .and_then(|file| holding(file.into(), content));
    // Not every file system has such files, and it may be full.
    let file = on_disk.or_else(|_| {
        let file = memfd_create("input", MemfdFlags::CLOEXEC)?;
        holding(file.into(), content)
    })?;
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn holding(mut file: File, content: &[u8]) -> io::Result<File> {
    file.write_all(content)?;
    Ok(file)
}

/// Is there no room for a file? Then a command is run all the same, and not recorded.
pub(crate) fn is_full(err: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(err.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem)
}

/// Makes a folder that only we can enter.
pub(crate) fn create_private(path: &Path) -> io::Result<()> {
    let create = || {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
    };
    insist(path.parent().unwrap_or(path), create)
}

/// Uses a socket's path however long the way to its folder is: such paths must be short.
pub(crate) fn in_dir<T>(
    dir: &Path,
    name: &str,
    act: impl Fn(PathBuf) -> io::Result<T>,
) -> io::Result<T> {
    let opened = insist(dir, || File::open(dir))?;
    insist(dir, || act(short_path(&opened, name)))
}

/// A name in an open folder, by a short path that is good while that is open.
pub(crate) fn short_path(dir: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name)
}
