//! Goes on with what a confined command forbids by changing modes: it may change those of all files of its user, without pause.

use std::{
    io,
    path::Path,
    time::{Duration, Instant},
};

use super::restore;

/// How long modes are put right that change again and again.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often everything may be found right, and not be permitted all the same, before that is believed.
const BELIEVED: usize = 16;

/// Does something with a file or folder of lmcp. If that is not permitted, puts the modes on the way right and tries again: for a
/// while, one try right after the other.
///
/// # Errors
/// Those of the act.
pub fn insist<T>(path: &Path, act: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let mut insistence = Insistence::default();
    loop {
        match act() {
            Err(err) if insistence.mends(path, &err) => {}
            done => return done,
        }
    }
}

/// The tries so far to do something with a file or folder of lmcp.
#[derive(Debug, Default)]
pub struct Insistence {
    until: Option<Instant>,
    /// How often in a row all modes were found right.
    right: usize,
}

impl Insistence {
    /// Puts the modes on the way right if this error of the kernel comes from them. Returns whether another try makes sense.
    pub fn mends(&mut self, path: &Path, err: &io::Error) -> bool {
        // A refusal with words is our own: somebody else could change the way.
        if err.kind() != io::ErrorKind::PermissionDenied || err.get_ref().is_some() {
            return false;
        }
        let was_wrong = restore(path);
        self.right = if was_wrong { 0 } else { self.right + 1 };
        let now = Instant::now();
        self.right < BELIEVED && now < *self.until.get_or_insert(now + PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        fs,
        os::unix::fs::{MetadataExt as _, PermissionsExt as _},
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    use super::*;

    #[test]
    fn a_folder_that_is_closed_without_pause_is_used_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        // Root may enter the folder whatever its mode is, so the mode itself is looked at.
        let enter = || match fs::symlink_metadata(path)?.mode() & 0o700 {
            0o700 => Ok(()),
            _ => Err(io::ErrorKind::PermissionDenied.into()),
        };
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
                }
            });
            let used: Vec<io::Result<()>> = (0..100).map(|_| insist(path, enter)).collect();
            is_over.store(true, Ordering::Relaxed);
            assert!(used.iter().all(Result::is_ok), "{used:?}");
        });
    }

    #[test]
    fn what_is_forbidden_for_another_reason_is_soon_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let tries = Cell::new(0);
        let refused = insist(folder.path(), || {
            tries.set(tries.get() + 1);
            Err::<(), _>(io::ErrorKind::PermissionDenied.into())
        });
        assert!(refused.is_err());
        assert_eq!(tries.get(), BELIEVED);
    }
}
