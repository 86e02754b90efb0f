//! Walks along a path one step at a time, and refuses steps that another user could change.
//!
//! Whoever can write a folder can change the names in it. So each folder on the way must belong to this user or root, and
//! nobody else may write it. In a shared folder with the sticky bit (`/tmp`), only owners can change their names, so the name
//! must belong to this user or root. The same holds for the targets of links, and no link of another user is followed.

use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    io,
    os::{
        fd::{AsFd, AsRawFd as _, OwnedFd},
        unix::ffi::OsStringExt as _,
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{CWD, FileType, Mode, OFlags, Stat, fstat, getxattr, openat, readlinkat},
    io::Errno,
    process::{getegid, geteuid},
};

use crate::{
    Whose,
    linux::users::{is_ours, is_ours_or_roots, is_shared_group, whose},
    refused,
};

/// The most links, as in the kernel.
const MOST_LINKS: usize = 40;

/// Write permission of the group, and of everybody.
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Folders that belong to root on every system, and contain folders of users.
const SYSTEM: &[&str] = &[
    "/",
    "/dev",
    "/dev/shm",
    "/etc",
    "/home",
    "/opt",
    "/run",
    "/run/user",
    "/srv",
    "/tmp",
    "/usr",
    "/usr/local",
    "/var",
    "/var/home",
    "/var/lib",
    "/var/tmp",
];

/// The end of a path. It is not opened for reading.
pub(crate) struct PathEnd {
    pub(crate) file: OwnedFd,
    pub(crate) stat: Stat,
    /// The real path, without links.
    pub(crate) path: PathBuf,
}

impl PathEnd {
    fn root() -> io::Result<Self> {
        Self::open(CWD, OsStr::new("/"), PathBuf::from("/"))
    }

    /// Opens the entry of this name in this folder. The name may be `..`.
    fn step(&self, name: &OsStr) -> io::Result<Self> {
        let mut path = self.path.clone();
        if name == ".." {
            path.pop();
        } else {
            path.push(name);
        }
        Self::open(&self.file, name, path)
    }

    fn open(folder: impl AsFd, name: &OsStr, path: PathBuf) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(folder, name, flags, Mode::empty())?;
        let stat = fstat(&file)?;
        Ok(Self { file, stat, path })
    }

    pub(crate) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    /// Whether it belongs to this user.
    pub(crate) fn is_own(&self) -> bool {
        is_ours(self.stat.st_uid)
    }

    fn is_own_or_roots(&self) -> bool {
        is_ours_or_roots(self.stat.st_uid)
    }

    /// Whether this is a folder of the system whose owner has no number in this user namespace. Root has no number in some
    /// namespaces, but neither have other users. Only the place tells them apart.
    fn is_systems(&self) -> bool {
        SYSTEM.iter().any(|folder| self.path == Path::new(folder))
            && whose(self.stat.st_uid) == Whose::Unknown
    }

    pub(crate) fn is_open_to_others(&self) -> bool {
        is_open_to_others(&self.stat, &self.file)
    }
}

/// Whether users other than the owner may write it. The group may write if only this user is in it, as far as numbers tell:
/// many systems give each user a group with the same number. With an access list, the bits of the group stand for all users and
/// groups in the list.
pub(crate) fn is_open_to_others(stat: &Stat, file: &impl AsFd) -> bool {
    match stat.st_mode & (GROUP_WRITES | OTHERS_WRITE) {
        0 => false,
        GROUP_WRITES => !is_own_group(stat.st_gid) || may_have_access_list(file),
        _ => true,
    }
}

fn is_own_group(group: u32) -> bool {
    let own = getegid().as_raw();
    group == own && geteuid().as_raw() == own && !is_shared_group(group)
}

/// Whether there is an access list beside the mode. If that is not known, the answer is yes.
fn may_have_access_list(file: &impl AsFd) -> bool {
    let list = getxattr(by_descriptor(file), ACCESS_LIST, &mut [0; 0]);
    !matches!(list, Err(Errno::NODATA | Errno::OPNOTSUPP))
}

const ACCESS_LIST: &str = "system.posix_acl_access";

/// Returns the name of an open file in `/proc`: without permission to read the file, many calls work only by a name.
pub(crate) fn by_descriptor(file: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))
}

/// Walks to the end of an absolute path. No other user may be able to change the way.
///
/// # Errors
/// `NotFound` if the path does not exist; `PermissionDenied`, with words, if another user could change the way.
pub(crate) fn walk(path: &Path) -> io::Result<PathEnd> {
    let mut folder = PathEnd::root()?;
    let mut steps = steps(path);
    let mut links = 0;
    while let Some(name) = steps.pop_front() {
        if folder.kind() != FileType::Directory {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        if name == ".." {
            folder = folder.step(&name)?;
            continue;
        }
        let found = folder.step(&name)?;
        expect_safe_step(&folder, &found, &name)?;
        if found.kind() != FileType::Symlink {
            folder = found;
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(refused("there are too many links on the way"));
        }
        let target = readlinkat(&found.file, "", Vec::new())?;
        let target = OsString::from_vec(target.into_bytes());
        let target = Path::new(&target);
        if target.is_absolute() {
            folder = PathEnd::root()?;
        }
        for step in self::steps(target).into_iter().rev() {
            steps.push_front(step);
        }
    }
    Ok(folder)
}

/// Checks that this folder can hold a new name, which nobody else can change later.
pub(crate) fn expect_safe_folder(folder: &PathEnd, name: &OsStr) -> io::Result<()> {
    let shown = name.display();
    if !folder.is_own_or_roots() && !folder.is_systems() {
        let owner = folder.stat.st_uid;
        return Err(refused(&format!(
            "the folder of `{shown}` belongs to user {owner}, who can put anything there"
        )));
    }
    if folder.is_open_to_others() && folder.stat.st_mode & STICKY == 0 {
        return Err(refused(&format!(
            "others can write the folder of `{shown}`, and put anything there"
        )));
    }
    Ok(())
}

fn expect_safe_step(folder: &PathEnd, found: &PathEnd, name: &OsStr) -> io::Result<()> {
    expect_safe_folder(folder, name)?;
    let shown = name.display();
    let (owner, is_link) = (found.stat.st_uid, found.kind() == FileType::Symlink);
    if folder.is_open_to_others() && !found.is_own_or_roots() {
        let what = if is_link { "a link" } else { "something" };
        return Err(refused(&format!(
            "`{shown}` is {what} that user {owner} made in a shared folder"
        )));
    }
    // The owner of a link chose its target, even if only we can change the link now.
    if is_link && whose(owner) == Whose::Others {
        return Err(refused(&format!("`{shown}` is a link of user {owner}")));
    }
    Ok(())
}

/// Returns the names of a path, without the root and single dots.
fn steps(path: &Path) -> VecDeque<OsString> {
    let named = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_what_was_found_is_known() {
        let found = walk(Path::new("/usr/../usr/bin/..")).unwrap();
        // Some systems have a link there.
        assert!(["/usr", "/"].contains(&found.path.to_str().unwrap()));
    }
}
