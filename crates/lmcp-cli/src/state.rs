//! What the program keeps between two runs: the key of its sessions, so that a restart strands no client.

use std::{
    env,
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    process,
};

use crate::report::Failure;

/// The key's file.
const KEY: &str = "session.key";

type Key = [u8; 32];

/// The key that was kept; a new one is kept first.
pub(crate) fn key(directory: Option<PathBuf>) -> Result<Kept, Failure> {
    let Some(directory) = directory.or_else(default_directory) else {
        return Ok(Kept::Not("there is no home directory".into()));
    };
    let path = directory.join(KEY);
    match read(&path)? {
        Some(key) => return Ok(Kept::Key(key)),
        None => match make(&directory, &path) {
            Ok(()) => {}
            Err(err) => return Ok(Kept::Not(format!("{}: {err}", path.display()))),
        },
    }
    // Another process may have been quicker; its key is as good.
    let gone = || Failure::of(format!("{} was there and is gone", path.display()));
    read(&path)?.map(Kept::Key).ok_or_else(gone)
}

/// Whether there is a key that outlives this run.
pub(crate) enum Kept {
    Key(Key),
    /// Why not.
    Not(String),
}

fn default_directory() -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let state = absolute("XDG_STATE_HOME");
    let state = state.or_else(|| Some(absolute("HOME")?.join(".local/state")));
    Some(state?.join("lmcp"))
}

/// The key in a file. A key that others can read, or that is none, is a reason to stop: it would be trusted.
fn read(path: &Path) -> Result<Option<Key>, Failure> {
    let failed = |err| Failure::new(&format!("cannot read {}", path.display()), err);
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(err) => return Err(failed(err)),
    };
    if fs::metadata(path).map_err(failed)?.mode() & 0o077 != 0 {
        let failure = Failure::of(format!("{} can be read by others", path.display()));
        return Err(
            failure.hint("delete it to have a new one made; clients then begin new sessions")
        );
    }
    match Key::try_from(bytes) {
        Ok(key) => Ok(Some(key)),
        Err(_) => {
            let failure = Failure::of(format!("{} is not a key of 32 bytes", path.display()));
            Err(failure.hint("delete it to have a new one made; clients then begin new sessions"))
        }
    }
}

/// Puts a new key there, whole or not at all, unless somebody else does meanwhile.
fn make(directory: &Path, path: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    let draft = directory.join(format!("{KEY}.{}", process::id()));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)?;
    let made = file
        .write_all(&lmcp::Server::random_key())
        .and_then(|()| file.sync_all())
        .and_then(|()| match fs::hard_link(&draft, path) {
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        });
    fs::remove_file(&draft)?;
    made
}
