//! State that the program keeps between two runs: jobs, and the key of its sessions, so that clients keep their sessions
//! after a restart.

use std::{
    env,
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use lmcp_private::{insist, make_own, mend_file, mend_way, open_secret, runtime_folder};

use crate::{
    options::Options,
    report::{self, Failure},
};

/// The name of the key's file.
const KEY: &str = "session.key";

type Key = [u8; 32];

/// More bytes than a key has.
const MOST: u64 = 64;

/// Returns the kept key, or makes and keeps a new one.
pub(crate) fn key(directory: Option<&Path>) -> Result<Kept, Failure> {
    let Some(directory) = directory else {
        return Ok(Kept::Not("there is no place for it".into()));
    };
    let path = directory.join(KEY);
    // If others can write the key, or the file is not a key, the program stops, because it would trust the key.
    let refused = |words: &str| {
        let failure = Failure::of(format!("{} {words}", path.display()));
        failure.hint("delete it to have a new one made; clients then begin new sessions")
    };
    match find(directory, &path) {
        Ok(bytes) => {
            let key = Key::try_from(bytes).map_err(|_| refused("is not a key of 32 bytes"));
            key.map(Kept::Key)
        }
        // The error comes from our own check of the owner, and not from the system.
        Err(err)
            if err.kind() == io::ErrorKind::PermissionDenied && err.raw_os_error().is_none() =>
        {
            Err(refused(&format!("is no key to trust: {err}")))
        }
        Err(err) => Ok(Kept::Not(format!("{}: {err}", path.display()))),
    }
}

/// Returns the folder for state, and creates it if it does not exist. A folder that the operator names must be usable;
/// otherwise the usual place is used. The folder is never below a root, because every client could read and change the state
/// there.
pub(crate) fn directory(options: &Options) -> Result<Option<PathBuf>, Failure> {
    if options.keeps_nothing() {
        return Ok(None);
    }
    if let Some(named) = &options.state_dir {
        let failed = |err| {
            let words = format!("nothing can be kept at {}", named.display());
            Failure::new(&words, err)
                .hint("name another directory, or keep nothing: --state-dir none")
        };
        take(named).map_err(failed)?;
        options.expect_outside(named)?;
        return Ok(Some(named.clone()));
    }
    let Some(usual) = default_directory() else {
        return Ok(None);
    };
    let is_outside = |path: &PathBuf| options.expect_outside(path).is_ok();
    let places = if is_outside(&usual) {
        vec![usual]
    } else {
        other_directories().filter(is_outside).collect()
    };
    let mut why = Vec::new();
    for place in places {
        match take(&place) {
            Ok(()) => return Ok(Some(place)),
            Err(err) => why.push(format!("{}: {err}", place.display())),
        }
    }
    if !why.is_empty() {
        let words = "warning: nothing is kept, jobs end with this server";
        report::note(&format!("{words}: {}", why.join("; ")));
    }
    Ok(None)
}

/// Creates a folder, or uses one of ours. A mode that let others write it or a folder above does not stop the start, nor
/// does a mode that keeps us out of a folder above, because a confined command can change such modes. But the folder and the
/// way to it must not contain anything of another user.
fn take(folder: &Path) -> io::Result<()> {
    for above in mend_way(folder)? {
        report::note(&format!(
            "warning: everybody could write {}, and may have moved something there; its owner alone can now",
            above.display()
        ));
    }
    if insist(folder, || make_own(folder))? {
        report::note(&format!(
            "warning: others could write {}, and may have removed something there; its mode is 0700 again",
            folder.display()
        ));
    }
    Ok(())
}

/// Returns other folders, for the case that the home itself is a root of clients.
fn other_directories() -> impl Iterator<Item = PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    runtime_folder()
        .into_iter()
        .chain([PathBuf::from(format!("/var/tmp/lmcp-{user}"))])
}

/// Reads the key's file, and creates the file if it does not exist. A confined command can change the file's mode, because
/// both belong to one user; the server must start even then.
fn find(directory: &Path, path: &Path) -> io::Result<Vec<u8>> {
    remove_if_open(path)?;
    let opened = match open_secret(path) {
        Err(err)
            if err.raw_os_error().is_some() && err.kind() == io::ErrorKind::PermissionDenied =>
        {
            let opened = insist(path, || mend_file(path).and_then(|()| open_secret(path)))?;
            let words = "had a wrong mode; it is 0600 again";
            report::note(&format!("warning: {} {words}", path.display()));
            Ok(opened)
        }
        Err(err) if err.kind() == io::ErrorKind::NotFound => {
            make(directory, path)?;
            // Another process may have been faster; its key can be used, too.
            open_secret(path)
        }
        opened => opened,
    };
    let mut bytes = Vec::new();
    opened?.take(MOST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Removes a key of ours that others could have read or written, because it is not secret any more.
fn remove_if_open(path: &Path) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    let is_own = found.is_file() && lmcp_private::is_ours(found.uid());
    if is_own && found.mode() & 0o077 != 0 {
        fs::remove_file(path)?;
        let words = "could be read or written by others, so it is replaced by a new key";
        report::note(&format!(
            "warning: {} {words}; clients begin new sessions",
            path.display()
        ));
    }
    Ok(())
}

/// Says whether there is a key that outlives this run.
pub(crate) enum Kept {
    Key(Key),
    /// The reason why there is none.
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

/// Writes a new key, whole or not at all, unless another process does so meanwhile.
fn make(directory: &Path, path: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    // A random name is used, because process numbers can be equal in containers that share the folder.
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
