//! The folder of a server that keeps nothing. The server removes it at its end; the next server removes one that a
//! killed server left.

use std::{
    env,
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

use super::store::{is_locked, random_name};

const PREFIX: &str = "lmcp-";

/// Makes a folder. Its lock is held as long as the returned file is open, and tells other servers that this one lives.
pub(super) fn make() -> io::Result<(PathBuf, File)> {
    let path = env::temp_dir().join(format!("{PREFIX}{}", random_name()));
    // The folder gets its final name after it is locked, so that no server takes it for a folder that was left behind.
    let draft = path.with_extension("new");
    DirBuilder::new().mode(0o700).create(&draft)?;
    match lock(&draft).and_then(|lock| fs::rename(&draft, &path).map(|()| lock)) {
        Ok(lock) => Ok((path, lock)),
        Err(err) => {
            let _ = fs::remove_dir(&draft);
            Err(err)
        }
    }
}

fn lock(folder: &Path) -> io::Result<File> {
    let lock = File::open(folder)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    Ok(lock)
}

/// Returns the folders that killed servers of this user left behind, unless a command still runs there.
pub(super) fn left_over() -> Vec<PathBuf> {
    let entries = fs::read_dir(env::temp_dir())
        .into_iter()
        .flatten()
        .flatten();
    let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_name));
    let paths = named.map(|entry| entry.path());
    paths.filter(|path| is_left_over(path)).collect()
}

/// Removes the folder of a server that keeps nothing, if that server and its last command are gone. The guard of a
/// command and the server end in any order, so each of them calls this when it is done.
pub(super) fn remove_if_over(path: &Path) {
    let name = path.file_name().and_then(|name| name.to_str());
    if name.is_some_and(is_name) && File::open(path).is_ok_and(|folder| is_free(&folder)) {
        // This fails while another command has its folder there.
        let _ = fs::remove_dir(path);
    }
}

/// Returns whether the server that made the folder is gone. Several processes may ask at once, so each asks with a
/// shared lock.
fn is_free(folder: &File) -> bool {
    flock(folder, FlockOperation::NonBlockingLockShared).is_ok()
}

fn is_name(name: &str) -> bool {
    let rest = name.strip_prefix(PREFIX).unwrap_or_default();
    rest.len() == random_name().len() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn is_left_over(path: &Path) -> bool {
    let found = fs::symlink_metadata(path);
    if !found.is_ok_and(|found| found.is_dir() && lmcp_private::is_ours(found.uid())) {
        return false;
    }
    let Ok(folder) = File::open(path) else {
        return false;
    };
    let jobs = fs::read_dir(path).into_iter().flatten().flatten();
    is_free(&folder) && !jobs.into_iter().any(|job| is_locked(&job.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_living_server_has_stays_and_what_a_killed_one_left_is_found() {
        let (path, lock) = make().unwrap();
        assert!(!left_over().contains(&path));
        // A server that is killed lets go of the lock like this.
        drop(lock);
        fs::write(path.join("x"), "").unwrap();
        assert!(left_over().contains(&path));
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn whoever_is_last_removes_it() {
        let (path, lock) = make().unwrap();
        fs::create_dir(path.join("command")).unwrap();
        remove_if_over(&path);
        assert!(path.exists(), "the server lives");
        drop(lock);
        remove_if_over(&path);
        assert!(path.exists(), "a command is not done");
        fs::remove_dir(path.join("command")).unwrap();
        remove_if_over(&path);
        assert!(!path.exists());
        let other = tempfile::tempdir().unwrap();
        remove_if_over(other.path());
        assert!(other.path().exists(), "it is none of ours");
    }

    #[test]
    fn only_names_of_ours_are_looked_at() {
        assert!(is_name(&format!("lmcp-{}", random_name())));
        for other in [
            "lmcp-0",
            "lmcp-65534",
            "lmcp-abcdefghijklmnop.new",
            "x-abcdefghijklmnop",
        ] {
            assert!(!is_name(other), "{other}");
        }
    }
}
