//! Files whose lock shows that their holder is alive. The kernel releases a lock when its holder ends, however it ends.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};

/// A lock that this program holds. The file is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// Takes the lock of a file, and creates the file if it does not exist. `None`: another process holds the lock.
    pub(crate) fn take(path: &Path) -> io::Result<Option<Self>> {
        loop {
            let file = open(
                OpenOptions::new().write(true).create(true).mode(0o600),
                path,
            )?;
            if !lock(&file, FlockOperation::NonBlockingLockExclusive)? {
                return Ok(None);
            }
            // The earlier holder may have removed the file between the two steps. Then the lock protects nothing.
            if is_at(&file, path) {
                return Ok(Some(Self {
                    path: path.to_owned(),
                    _file: file,
                }));
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        lmcp_private::restore_folder_of(&self.path);
        // The file is removed before the lock is released, so that nobody takes the lock of a file that is about to be
        // removed.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns whether a process holds the lock of this file. If that cannot be read, the lock counts as held.
pub(crate) fn is_held(path: &Path) -> bool {
    match open(OpenOptions::new().read(true), path) {
        Ok(file) => !matches!(lock(&file, FlockOperation::NonBlockingLockShared), Ok(true)),
        Err(err) => err.kind() != io::ErrorKind::NotFound,
    }
}

/// Opens a file. Does not follow a link, and does not wait at a pipe.
pub(crate) fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options
        .custom_flags(i32::try_from(flags.bits()).unwrap_or_default())
        .open(path)
}

/// Takes the lock, unless another process has it.
fn lock(file: &File, how: FlockOperation) -> io::Result<bool> {
    match flock(file, how) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(err) => Err(err.into()),
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    let opened = file.metadata().map(identity);
    let named = fs::symlink_metadata(path).map(identity);
    matches!((opened, named), (Ok(opened), Ok(named)) if opened == named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_has_one_holder_and_goes_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        assert!(!is_held(&path));
        let held = Lock::take(&path).unwrap().unwrap();
        assert!(is_held(&path));
        assert!(Lock::take(&path).unwrap().is_none());
        drop(held);
        assert!(!is_held(&path) && !path.exists());
        // A file that a dead holder left can be locked.
        fs::write(&path, "").unwrap();
        assert!(!is_held(&path));
        assert!(Lock::take(&path).unwrap().is_some());
    }
}
