//! The variables of a process above this one, and whether that process uses the same register.

use std::{
    ffi::OsString,
    fs,
    os::unix::{ffi::OsStringExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use lmcp_private::{Whose, fixed_folders, is_ours, whose};
use rustix::process::Pid;

use crate::IDENTITY_FILE;

/// The reason why a process that can be seen cannot be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hidden {
    /// The process is in another user namespace, and its variables cannot be read from here.
    Variables,
    /// The process finds another register than this one.
    Register,
}

impl Hidden {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Variables => {
                "a process above this one is in another user namespace, which hides its variables"
            }
            Self::Register => "a process above this one finds another register of identities",
        }
    }
}

/// Returns the credentials file in the variables of a process above. This helps if a process was adopted by another, or if
/// the register was removed.
///
/// # Errors
/// The process may have an identity that cannot be seen from here.
pub(crate) fn variable(process: Pid) -> Result<Option<PathBuf>, Hidden> {
    let path = format!("/proc/{process}/environ");
    let Ok(environment) = fs::read(&path) else {
        // If a process hides its secrets from its own user, the kernel gives the file to root: the register has such a
        // process. A file that is ours and cannot be read belongs to another namespace.
        let is_apart = fs::metadata(&path).is_ok_and(|found| is_ours(found.uid()));
        let is_hidden = is_apart && !is_in_first_user_namespace();
        return if is_hidden {
            Err(Hidden::Variables)
        } else {
            Ok(None)
        };
    };
    let mut variables = environment.split(|byte| *byte == 0);
    let value = variables.find_map(|text| {
        text.strip_prefix(IDENTITY_FILE.as_bytes())?
            .strip_prefix(b"=")
    });
    match value {
        Some(value) => Ok(Some(OsString::from_vec(value.to_vec()).into())),
        None if finds_another_register(process) => Err(Hidden::Register),
        None => Ok(None),
    }
}

/// Returns whether a process sees a register folder of our user where this process sees another one, or none. That happens
/// if somebody has mounted another file system on `/tmp`.
fn finds_another_register(process: Pid) -> bool {
    let root = PathBuf::from(format!("/proc/{process}/root"));
    let file = |path: &Path| {
        let found = fs::symlink_metadata(path).ok()?;
        let is_users = found.is_dir() && matches!(whose(found.uid()), Whose::Ours | Whose::Unknown);
        is_users.then(|| (found.dev(), found.ino()))
    };
    fixed_folders().iter().any(|folder| {
        let below = folder.strip_prefix("/").unwrap_or(folder);
        let theirs = file(&root.join(below));
        theirs.is_some() && theirs != file(folder)
    })
}

/// The first user namespace of a system. No process above is in another one, unless root put it there.
const FIRST_USER_NAMESPACE: &str = "user:[4026531837]";

fn is_in_first_user_namespace() -> bool {
    fs::read_link("/proc/self/ns/user").is_ok_and(|link| link == Path::new(FIRST_USER_NAMESPACE))
}
