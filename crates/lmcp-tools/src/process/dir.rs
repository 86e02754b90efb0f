//! The folder of one command: the files in it, and how they are written.

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
pub(crate) use lmcp_private::{Insistence, insist};
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, fallocate, memfd_create};
use serde::Serialize;

/// The record that a list of jobs shows, in a few hundred bytes. The server writes it before the command starts.
pub(crate) const JOB: &str = "job.json";
/// The order from which the command can be started again; as long as the command is.
pub(crate) const ORDER: &str = "order.json";
/// How the command ended, written by the guard of a job.
pub(crate) const END: &str = "end.json";
/// Exists if the command is listed as a job. Holds the number of its first process.
pub(crate) const KEPT: &str = "kept";
/// The folder for scratch files of a confined command; removed with the command.
pub(crate) const SCRATCH: &str = "tmp";
/// The size of a job's terminal, if a caller changed it.
pub(crate) const SIZE: &str = "size.json";
/// The socket on which the guard of a job can be reached.
pub(crate) const SOCKET: &str = "guard";

/// Opens a file for reading. Does not follow a link, nor wait at a FIFO: a command may have put one there.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags);
    insist(path, || options.open(path))
}

/// Returns whether there is a file or folder of this name. What cannot be looked at counts as being there, because a file that
/// is not there is the reason to remove others.
pub(crate) fn is_there(path: &Path) -> bool {
    let above = path.parent().unwrap_or(path);
    let found = insist(above, || fs::symlink_metadata(path));
    found.map_or_else(|err| !is_absent(&err), |_| true)
}

/// Returns whether an error says that there is no file of this name.
pub(crate) fn is_absent(err: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(err.kind(), NotFound | NotADirectory)
}

/// Puts the modes of a folder of the server, and of the folders above it, right. Takes the folder, and new files in it, away
/// from other users. Without this call a server of root would not notice wrong modes, while its confined commands have no
/// more rights than an ordinary owner.
pub(crate) fn put_right(path: &Path) -> io::Result<()> {
    lmcp_private::restore(path);
    insist(path, || {
        let found = fs::symlink_metadata(path)?;
        if found.mode() & 0o077 != 0 {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        }
        // A default access list would decide who may use the files that are made in the folder.
        remove_default_acl(path)?;
        Ok(())
    })
}

/// Writes a file whole or not at all.
pub(crate) fn write_whole(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    insist(dir, || {
        try_write_whole(dir, name, |mut draft| draft.write_all(bytes))
    })
}

/// Does the same for a value, as JSON. The JSON text is never in memory as a whole.
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
    // The draft is created anew, so that nothing is written through a link that somebody put there.
    let _ = fs::remove_file(&draft);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    write(options.open(&draft)?)?;
    fs::rename(draft, dir.join(name))
}

/// Reserves so many bytes on the disk for a file that is written whole later. That write frees them first, so the file has
/// room even if the disk is full by then.
pub(crate) fn reserve(dir: &Path, name: &str, bytes: u64) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let draft = options.open(dir.join(format!("{name}.new")))?;
    Ok(fallocate(draft, FallocateFlags::empty(), 0, bytes)?)
}

/// Reads a small file. Fails for a file larger than `most`, so that a large file put there by somebody else costs no memory.
pub(crate) fn read_small(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let mut bytes = Vec::new();
    let read = file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if read > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Makes a file without a name that holds `content`, open for reading. The file is gone once its last reader closes it.
pub(crate) fn nameless(dir: &Path, content: &[u8]) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let on_disk = rustix::fs::open(dir, flags, Mode::from_raw_mode(0o600))
        .map_err(io::Error::from)
        .and_then(|file| holding(file.into(), content));
    // Not every file system has files without a name, and the disk may be full.
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

/// Returns whether there is no room for a file. In that case a command runs all the same, and is not recorded.
pub(crate) fn is_full(err: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(err.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem)
}

/// Makes a folder that only the server's user can enter.
pub(crate) fn create_private(path: &Path) -> io::Result<()> {
    let create = || {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .or_else(|err| match fs::symlink_metadata(path) {
                // It was closed when it was looked at.
                Ok(found) if found.is_dir() => Ok(()),
                _ => Err(err),
            })
    };
    insist(path.parent().unwrap_or(path), create)
}

/// Uses the path of a socket in a folder, however long the folder's path is: the system allows only short socket paths.
pub(crate) fn in_dir<T>(
    dir: &Path,
    name: &str,
    act: impl Fn(PathBuf) -> io::Result<T>,
) -> io::Result<T> {
    let opened = insist(dir, || File::open(dir))?;
    insist(dir, || act(short_path(&opened, name)))
}

/// Returns a short path to a name in an open folder. The path is valid while the folder is open.
pub(crate) fn short_path(dir: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_that_is_absent_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        assert!(is_there(folder.path()));
        assert!(!is_there(&folder.path().join("absent")));
        assert!(
            is_there(&folder.path().join("x".repeat(1000))),
            "nobody can tell"
        );
    }
}
