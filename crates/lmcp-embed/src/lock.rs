//! Files whose lock says that somebody is alive. The kernel lets go of a lock when its holder ends, however it ends.

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

/// A lock that this program holds. The file goes with it.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// Takes the lock of a file, which is made where it is missing. `None`: somebody has it.
    pub(crate) fn take(path: &Path) -> io::Result<Option<Self>> {
        loop {
            let file = open(
                OpenOptions::new().write(true).create(true).mode(0o600),
                path,
            )?;
            if !lock(&file, FlockOperation::NonBlockingLockExclusive)? {
                return Ok(None);
            }
            // Whoever held it before may have removed the file between the two steps: then the lock is worth nothing.
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
        // Before it is let go, so that nobody takes the lock of a file that is about to go.
        let _ = fs::remove_file(&self.path);
    }
}

/// Does somebody hold the lock of this file? What cannot be told counts as held.
pub(crate) fn is_held(path: &Path) -> bool {
    match open(OpenOptions::new().read(true), path) {
        Ok(file) => !matches!(lock(&file, FlockOperation::NonBlockingLockShared), Ok(true)),
        Err(err) => err.kind() != io::ErrorKind::NotFound,
    }
}

/// Opens a file and no link, and waits for nobody.
fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options
        .custom_flags(i32::try_from(flags.bits()).unwrap_or_default())
        .open(path)
}

/// Takes the lock, unless somebody else has it.
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
        // What a dead holder left is free.
        fs::write(&path, "").unwrap();
        assert!(!is_held(&path));
        assert!(Lock::take(&path).unwrap().is_some());
    }
}
