//! Where the sockets and records of a user are.

use std::{env, fs, io, path::PathBuf};

use rustix::process::geteuid;

use crate::linux::{
    above::{expect_or_mend, named},
    make_or_mend,
};

/// `$XDG_RUNTIME_DIR/lmcp`, if that variable names a folder that is private. A mode that a confined command gave that folder is
/// put right first.
pub fn runtime_folder() -> Option<PathBuf> {
    let runtime = PathBuf::from(env::var_os("XDG_RUNTIME_DIR")?);
    let is_safe = runtime.is_absolute() && expect_or_mend(&runtime).is_ok();
    is_safe.then(|| runtime.join("lmcp"))
}

/// The folders that do not depend on the environment, the best first: programs that start others with hardly any
/// variables must not lead them to another place.
pub fn fixed_folders() -> Vec<PathBuf> {
    folders_of(geteuid().as_raw())
}

/// The same folders of the same user as it is called outside of this user namespace. Empty where that is no other name.
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

/// A folder in the home, for when somebody else has taken the name in `/tmp`: whoever starts programs with few variables
/// leaves them `HOME`.
pub fn spare_folder() -> Option<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from);
    let home = home.filter(|home| home.is_absolute());
    Some(home?.join(".local/state/lmcp/run"))
}

/// The first of some folders that can be had for this user alone, made where it is missing. True if its mode was wrong
/// and was put right.
///
/// # Errors
/// There is none; the error is that of the first, with its name.
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

/// What a user is called in the namespace around this one.
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
