//! Where the sockets and records of a user are.

use std::{
    env, io,
    path::{Path, PathBuf},
};

use rustix::process::geteuid;

use crate::{expect_private, make_private};

/// `$XDG_RUNTIME_DIR/lmcp`, if that variable names a folder that is private.
pub fn runtime_folder() -> Option<PathBuf> {
    let runtime = PathBuf::from(env::var_os("XDG_RUNTIME_DIR")?);
    let is_safe = runtime.is_absolute() && expect_private(&runtime).is_ok();
    is_safe.then(|| runtime.join("lmcp"))
}

/// The folders that do not depend on the environment, the best first: programs that start others with hardly any
/// variables must not lead them to another place.
pub fn fixed_folders() -> Vec<PathBuf> {
    let user = geteuid().as_raw();
    let runtime = PathBuf::from(format!("/run/user/{user}"));
    let runtime = Some(runtime).filter(|runtime| expect_private(runtime).is_ok());
    let runtime = runtime.map(|runtime| runtime.join("lmcp"));
    let temporary = PathBuf::from(format!("/tmp/lmcp-{user}"));
    runtime.into_iter().chain([temporary]).collect()
}

/// A folder in the home, for when somebody else has taken the name in `/tmp`: whoever starts programs with few variables
/// leaves them `HOME`.
pub fn spare_folder() -> Option<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from);
    let home = home.filter(|home| home.is_absolute());
    Some(home?.join(".local/state/lmcp/run"))
}

/// The first of some folders that can be had for this user alone, made where it is missing.
///
/// # Errors
/// There is none; the error is that of the first, with its name.
pub fn first_usable(folders: impl IntoIterator<Item = PathBuf>) -> io::Result<PathBuf> {
    let mut failed = None;
    for folder in folders {
        match make_private(&folder) {
            Ok(()) => return Ok(folder),
            Err(err) => {
                failed.get_or_insert_with(|| named(&folder, &err));
            }
        }
    }
    Err(failed.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

fn named(folder: &Path, err: &io::Error) -> io::Error {
    io::Error::new(err.kind(), format!("{}: {err}", folder.display()))
}
