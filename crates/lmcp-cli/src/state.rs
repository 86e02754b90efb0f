//! What the program keeps between two runs: the key of its sessions, so that a restart strands no client, and jobs.

use std::{
    env,
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use crate::{options::Options, report::Failure};

/// The key's file.
const KEY: &str = "session.key";

type Key = [u8; 32];

/// The key that was kept; a new one is kept first.
pub(crate) fn key(directory: Option<&Path>) -> Result<Kept, Failure> {
    let Some(directory) = directory else {
        return Ok(Kept::Not("there is no place for it".into()));
    };
    let path = directory.join(KEY);
    match find(directory, &path) {
        Ok(bytes) => check(&path, bytes).map(Kept::Key),
        Err(err) => Ok(Kept::Not(format!("{}: {err}", path.display()))),
    }
}

/// Where things are kept, made first where it is missing: where the operator says, and then it must do; else the
/// usual place. Never below a root: what is kept there could be read and changed by every client.
pub(crate) fn directory(options: &Options) -> Result<Option<PathBuf>, Failure> {
    if let Some(named) = &options.state_dir {
        let failed = |err| {
            let words = format!("nothing can be kept at {}", named.display());
            Failure::new(&words, err).hint("name another directory with --state-dir, or none")
        };
        make_private(named).map_err(failed)?;
        options.expect_outside(named)?;
        return Ok(Some(named.clone()));
    }
    let Some(usual) = default_directory() else {
        return Ok(None);
    };
    let is_outside = |path: &PathBuf| options.expect_outside(path).is_ok();
    if is_outside(&usual) {
        return Ok(Some(usual).filter(|path| make_private(path).is_ok()));
    }
    let mut others = other_directories().filter(is_outside);
    Ok(others.find(|path| make_private(path).is_ok()))
}

/// Makes a directory for us alone, or takes one that is.
fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let found = fs::symlink_metadata(path)?;
    let ours = found.uid() == rustix::process::geteuid().as_raw();
    if found.is_dir() && !ours {
        return Err(io::Error::other("it belongs to somebody else"));
    }
    Ok(())
}

/// For when the home itself is what clients work in.
fn other_directories() -> impl Iterator<Item = PathBuf> {
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(|path| PathBuf::from(path).join("lmcp"));
    let user = rustix::process::geteuid().as_raw();
    runtime
        .into_iter()
        .chain([PathBuf::from(format!("/var/tmp/lmcp-{user}"))])
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
