//! Unix without `/proc`: checks the owners and modes of the steps of a path.
//!
//! Each step is checked by its path. Steps that another user could change are refused, so nobody else can change a step between
//! its check and its use. Access lists of macOS (`chmod +a`) are not checked: a folder in which such a list lets another user
//! write counts as its owner's alone.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Component, Path, PathBuf},
};

use rustix::process::geteuid;

use crate::{Whose, refused};

/// The most links, as in the systems.
const MOST_LINKS: usize = 32;

/// Write permission of the group and of everybody.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Returns the owner of a file, a process or a socket by its user.
pub fn whose(user: u32) -> Whose {
    match user {
        user if user == geteuid().as_raw() => Whose::Ours,
        0 => Whose::Roots,
        _ => Whose::Others,
    }
}

/// Whether this is the user of this process.
pub fn is_ours(user: u32) -> bool {
    whose(user) == Whose::Ours
}

/// Whether this is the user of this process or root.
pub fn is_ours_or_roots(user: u32) -> bool {
    matches!(whose(user), Whose::Ours | Whose::Roots)
}

/// Does nothing: only a confined command takes permissions from its own user, and commands are confined on Linux only.
pub fn restore_folder_of(_: &Path) {}

/// Checks that a name is free, or taken by something of ours, in a folder where nobody else can change it.
///
/// # Errors
/// The folder of the name does not exist, or another user could put something there or has done so.
pub fn expect_safe_name(path: &Path) -> io::Result<()> {
    let path = std::path::absolute(path)?;
    match walk(&path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => {}
        walked => return walked.map(drop),
    }
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    walk(above)?.expect_safe(Path::new(name))
}

/// One step of a path after links were resolved.
struct Step {
    path: PathBuf,
    found: Metadata,
}

impl Step {
    fn at(path: PathBuf) -> io::Result<Self> {
        let found = fs::symlink_metadata(&path)?;
        Ok(Self { path, found })
    }

    fn is_open_to_others(&self) -> bool {
        self.found.mode() & OTHERS_WRITE != 0
    }

    /// Checks that this folder can hold a name that nobody else can change.
    fn expect_safe(&self, name: &Path) -> io::Result<()> {
        let (shown, owner) = (name.display(), self.found.uid());
        if !is_ours_or_roots(owner) {
            return Err(refused(&format!(
                "the folder of `{shown}` belongs to user {owner}, who can put anything there"
            )));
        }
        if self.is_open_to_others() && self.found.mode() & STICKY == 0 {
            return Err(refused(&format!(
                "others can write the folder of `{shown}`, and put anything there"
            )));
        }
        Ok(())
    }

    /// Opens the entry of this name in this folder, if no other user put it there.
    fn enter(&self, name: &OsString) -> io::Result<Self> {
        if !self.found.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        self.expect_safe(Path::new(name))?;
        let step = Self::at(self.path.join(name))?;
        let owner = step.found.uid();
        let is_chosen_by_others = self.is_open_to_others() || step.found.is_symlink();
        if is_chosen_by_others && !is_ours_or_roots(owner) {
            let shown = name.display();
            return Err(refused(&format!("`{shown}` was made by user {owner}")));
        }
        Ok(step)
    }
}

/// Walks to the end of an absolute path. No other user may be able to change the way.
fn walk(path: &Path) -> io::Result<Step> {
    let root = || Step::at(PathBuf::from("/"));
    let mut step = root()?;
    let mut names = names(path);
    let mut links = 0;
    while let Some(name) = names.pop_front() {
        if name == ".." {
            step.path.pop();
            step = Step::at(step.path)?;
            continue;
        }
        let next = step.enter(&name)?;
        if !next.found.is_symlink() {
            step = next;
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(refused("there are too many links on the way"));
        }
        let target = fs::read_link(&next.path)?;
        if target.is_absolute() {
            step = root()?;
        }
        for name in self::names(&target).into_iter().rev() {
            names.push_front(name);
        }
    }
    Ok(step)
}

/// Returns the names of a path, without the root and single dots.
fn names(path: &Path) -> VecDeque<OsString> {
    let named = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use std::{
        fs::Permissions,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    use super::*;

    fn folder(mode: u32) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
        folder
    }

    fn why(path: &Path) -> String {
        expect_safe_name(path).unwrap_err().to_string()
    }

    #[test]
    fn a_name_is_safe_in_a_folder_that_nobody_else_can_write() {
        let own = folder(0o755);
        expect_safe_name(&own.path().join("free")).unwrap();
        fs::write(own.path().join("taken"), "").unwrap();
        expect_safe_name(&own.path().join("taken")).unwrap();
        symlink(own.path(), own.path().join("link")).unwrap();
        expect_safe_name(&own.path().join("link/../link/free")).unwrap_err();
        expect_safe_name(&own.path().join("link/link/free")).unwrap();
        let missing = expect_safe_name(&own.path().join("missing/free")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_name_that_others_could_change_is_refused() {
        for mode in [0o777, 0o775, 0o757] {
            let open = folder(mode);
            assert!(why(&open.path().join("free")).contains("others can write the folder"));
            // Nor is a folder below such a folder.
            fs::create_dir(open.path().join("below")).unwrap();
            assert!(why(&open.path().join("below/free")).contains("others can write"));
        }
        expect_safe_name(&folder(0o1777).path().join("free")).unwrap();
        let looped = folder(0o700);
        symlink("loop", looped.path().join("loop")).unwrap();
        assert!(why(&looped.path().join("loop/free")).contains("too many links"));
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "says what was not tested")]
    fn what_another_user_made_is_refused() {
        const NOBODY: u32 = 65_534;
        if !geteuid().is_root() {
            eprintln!("note: only root can give a file away, so that is not tested");
            return;
        }
        let own = folder(0o1777);
        let (given, link) = (own.path().join("given"), own.path().join("link"));
        fs::create_dir(&given).unwrap();
        std::os::unix::fs::chown(&given, Some(NOBODY), None).unwrap();
        assert!(why(&given.join("free")).contains("`given` was made by user 65534"));
        fs::set_permissions(own.path(), Permissions::from_mode(0o755)).unwrap();
        assert!(why(&given.join("free")).contains("belongs to user 65534"));
        symlink("/", &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(NOBODY), None).unwrap();
        assert!(why(&link.join("free")).contains("`link` was made by user 65534"));
    }
}
