//! What the program keeps between two runs: the key of its sessions, so that a restart strands no client.

use std::{
    env,
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use crate::report::Failure;

/// The key's file.
const KEY: &str = "session.key";

type Key = [u8; 32];

/// The key that was kept; a new one is kept first. A directory that somebody named must do; the usual one may fail.
pub(crate) fn key(named: Option<PathBuf>) -> Result<Kept, Failure> {
    let must_do = named.is_some();
    let Some(directory) = named.or_else(default_directory) else {
        return Ok(Kept::Not("there is no home directory".into()));
    };
    let path = directory.join(KEY);
    match find(&directory, &path) {
        Ok(bytes) => check(&path, bytes).map(Kept::Key),
        Err(err) if must_do => {
            let failure = Failure::new(&format!("no key can be kept at {}", path.display()), err);
            Err(failure.hint("name another directory with --state-dir, or none"))
        }
        Err(err) => Ok(Kept::Not(format!("{}: {err}", path.display()))),
    }
}

/// What is in the key's file, which is made first where there is none.
fn find(directory: &Path, path: &Path) -> io::Result<Vec<u8>> {
    match fs::read(path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => {
            make(directory, path)?;
            // Another process may have been quicker; its key is as good.
            fs::read(path)
        }
        read => read,
    }
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
fn check(path: &Path, bytes: Vec<u8>) -> Result<Key, Failure> {
    let refused = |words: &str| {
        let failure = Failure::of(format!("{} {words}", path.display()));
        failure.hint("delete it to have a new one made; clients then begin new sessions")
    };
    let metadata = fs::metadata(path);
    let open = metadata.is_ok_and(|metadata| metadata.mode() & 0o077 != 0);
    if open {
        return Err(refused("can be read by others"));
    }
    Key::try_from(bytes).map_err(|_| refused("is not a key of 32 bytes"))
}

/// Puts a new key there, whole or not at all, unless somebody else does meanwhile.
fn make(directory: &Path, path: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    // A name that nobody else has: in containers that share the directory, process ids are the same.
    let (key, other) = (lmcp::Server::random_key(), lmcp::Server::random_key());
    let name = other.iter().take(8).map(|byte| format!("{byte:02x}"));
    let draft = directory.join(format!("{KEY}.{}", name.collect::<String>()));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)?;
    let made = file
        .write_all(&key)
        .and_then(|()| file.sync_all())
        .and_then(|()| match fs::hard_link(&draft, path) {
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        });
    fs::remove_file(&draft)?;
    made
}
