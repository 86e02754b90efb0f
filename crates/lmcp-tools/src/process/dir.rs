//! The folder of one command: what is in it, and how it is written.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::{
        fd::AsRawFd as _,
        unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

/// What the command is, written by the server before it starts.
pub(crate) const JOB: &str = "job.json";
/// How it ended, written by the guard of a job.
pub(crate) const END: &str = "end.json";
/// There if it is listed as a job; holds the number of its first process.
pub(crate) const KEPT: &str = "kept";
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
