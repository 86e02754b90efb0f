//! The folders for the sockets and records of a user.

use std::{env, fs, io, path::PathBuf};

use rustix::process::geteuid;

use crate::linux::{
    above::{expect_or_mend, named},
    make_or_mend,
};

/// Returns `$XDG_RUNTIME_DIR/lmcp`, if that variable names a private folder. If a confined command has changed the mode of that
/// folder, the mode is corrected first.
pub fn runtime_folder() -> Option<PathBuf> {
    let runtime = PathBuf::from(env::var_os("XDG_RUNTIME_DIR")?);
    let is_safe = runtime.is_absolute() && expect_or_mend(&runtime).is_ok();
    is_safe.then(|| runtime.join("lmcp"))
}

/// Returns the folders that do not depend on the environment, the best first: a program that starts others with hardly any
/// variables must not lead them to another place.
pub fn fixed_folders() -> Vec<PathBuf> {
    folders_of(geteuid().as_raw())
}

/// Returns the same folders under the number that this user has outside of this user namespace. Empty if that is the same
/// number.
pub fn outer_folders() -> Vec<PathBuf> {
    let user = geteuid().as_raw();
    let outer = outer_user(user).filter(|outer| *outer != user);
    outer.map(folders_of).unwrap_or_default()
}

fn folders_of(user: u32) -> Vec<PathBuf> {
    let runtime = PathBuf::from(format!("/run/user/{user}"));
    let runtime = Some(runtime).filter(|runtime| expect_or_mend(runtime).is_ok());
    let runtime = runtime.map(|runtime| runtime.join("lmcp"));
    let temporary = PathBuf::from(format!("/tmp/lmcp-{user}"));
    runtime.into_iter().chain([temporary]).collect()
}

/// Returns a folder in the home, for the case that another user has taken the name in `/tmp`. Programs that start others with
/// few variables leave them `HOME`.
pub fn spare_folder() -> Option<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from);
    let home = home.filter(|home| home.is_absolute());
    Some(home?.join(".local/state/lmcp/run"))
}

/// Returns the first of some folders that can be used by this user alone, and makes it if it is missing. The flag is true if
/// its mode was wrong and was corrected.
///
/// # Errors
/// No folder can be used. The error is that of the first, with its name.
pub fn first_usable(folders: impl IntoIterator<Item = PathBuf>) -> io::Result<(PathBuf, bool)> {
    let mut failed = None;
    for folder in folders {
        match make_or_mend(&folder) {
            Ok(mended) => return Ok((folder, mended)),
            Err(err) => {
                failed.get_or_insert_with(|| named(&folder, &err));
            }
        }
    }
    Err(failed.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

/// Returns the number of a user in the namespace around this one.
fn outer_user(user: u32) -> Option<u32> {
    let map = fs::read_to_string("/proc/self/uid_map").ok()?;
    map.lines().find_map(|line| {
        let numbers: Vec<u32> = line
            .split_ascii_whitespace()
            .filter_map(|number| number.parse().ok())
            .collect();
        let [inner, outer, count] = numbers[..] else {
            return None;
        };
        let offset = user.checked_sub(inner).filter(|offset| *offset < count)?;
        outer.checked_add(offset)
    })
}
