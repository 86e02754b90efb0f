//! The folder of one command: what is in it, and how it is written.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::{
        fd::AsRawFd as _,
        unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};

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
/// Where the guard of a job can be reached.
pub(crate) const SOCKET: &str = "guard";

/// Writes a file whole or not at all.
pub(crate) fn write_whole(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let draft = dir.join(format!("{name}.new"));
    // Made anew, so that nothing somebody put there is written through.
    let _ = fs::remove_file(&draft);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(&draft)?.write_all(bytes)?;
    fs::rename(draft, dir.join(name))
}

/// Reads a small file, and nothing of one that is larger than this: whoever put it there, it costs no memory.
pub(crate) fn read_small(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let mut options = OpenOptions::new();
    // Neither a link is followed nor a FIFO waited for.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = options.read(true).custom_flags(flags).open(path)?;
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
    let mut file = match rustix::fs::open(dir, flags, Mode::from_raw_mode(0o600)) {
        Ok(file) => File::from(file),
        // Not every file system has such files.
        Err(_) => File::from(memfd_create("input", MemfdFlags::CLOEXEC)?),
    };
    file.write_all(content)?;
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Makes a folder that only we can enter.
pub(crate) fn create_private(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// Uses a socket's path however long the way to its folder is: such paths must be short.
pub(crate) fn in_dir<T>(
    dir: &Path,
    name: &str,
    act: impl FnOnce(PathBuf) -> io::Result<T>,
) -> io::Result<T> {
    act(short_path(&File::open(dir)?, name))
}

/// A name in an open folder, by a short path that is good while that is open.
pub(crate) fn short_path(dir: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name)
}
