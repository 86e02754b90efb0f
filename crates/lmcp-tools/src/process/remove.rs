//! Removes a folder with everything in it, however a command built it: nested deeper than a stack or a path reaches, with
//! modes that forbid to enter, full of links.
//!
//! There is no recursion. Nested folders are moved up into the first folder and removed there, so that only two folders
//! are open at a time. Every name is resolved in an open folder: no link is followed and no mount is entered.

use std::{
    ffi::{CStr, CString},
    io,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{
        AtFlags, CWD, Dir, Mode, OFlags, ResolveFlags, chmod, fstat, open, openat, openat2,
        renameat, unlinkat,
    },
    io::{Errno, Result},
};

use super::{dir, store::random_name};

/// The most moved folders whose names are remembered, so that they need not be searched for.
const MOST_MOVED: usize = 4096;

/// Removes a file, or a folder with all that is in it. A path that does not exist is no error.
///
/// If the modes of the folders above forbid this, they are put right first. Removing many files takes time: do not call
/// this on a thread that serves.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    let above = path.parent().unwrap_or(path);
    dir::insist(above, || try_remove_tree(path))
}

fn try_remove_tree(path: &Path) -> io::Result<()> {
    match unlinkat(CWD, path, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        // For a folder, Linux returns the first of these errors, POSIX names the second.
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(err) => return Err(err.into()),
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = match open(path, flags, Mode::empty()) {
        Ok(top) => ours(&top)?,
        Err(Errno::NOENT) => return Ok(()),
        Err(err) => return Err(err.into()),
    };
    Removal::of(top).empty()?;
    match unlinkat(CWD, path, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(err) => Err(err.into()),
    }
}

/// The removal of one tree.
struct Removal {
    top: OwnedFd,
    /// The beginning of the names of folders that were moved up. No other file has such a name.
    name: String,
    /// The numbers in the names of the folders that were moved up. Folders beyond the limit are found by reading the first
    /// folder again.
    moved: Vec<u32>,
    /// Numbers that are free again. If names recur, the first folder stays small and quick to read.
    free: Vec<u32>,
    next: u32,
    /// How many files and folders were removed or moved.
    done: u64,
}

impl Removal {
    fn of(top: OwnedFd) -> Self {
        Self {
            top,
            name: random_name(),
            moved: Vec::new(),
            free: Vec::new(),
            next: 0,
            done: 0,
        }
    }

    /// Removes all that is in the first folder. Each round removes the entries, and moves up the folders below them.
    fn empty(&mut self) -> Result<()> {
        loop {
            let (before, mut seen, mut failed) = (self.done, false, Errno::NOTEMPTY);
            for entry in Dir::read_from(&self.top)? {
                let entry = entry?;
                let name = entry.file_name();
                if is_real(name) {
                    seen = true;
                    if let Err(err) = self.remove_all(name) {
                        failed = err;
                    }
                }
            }
            if !seen {
                return Ok(());
            }
            if self.done == before {
                return Err(failed);
            }
        }
    }

    /// Removes one entry of the first folder, and then the folders that this moved up.
    fn remove_all(&mut self, name: &CStr) -> Result<()> {
        self.remove(name)?;
        while let Some(number) = self.moved.pop() {
            let name = CString::new(self.name_of(number)).map_err(|_| Errno::INVAL)?;
            self.remove(&name)?;
            self.free.push(number);
        }
        Ok(())
    }

    fn name_of(&self, number: u32) -> String {
        format!("{}-{number}", self.name)
    }

    /// Removes one entry of the first folder, and moves up the full folders below it.
    fn remove(&mut self, name: &CStr) -> Result<()> {
        let top = self.top.try_clone().map_err(|_| Errno::MFILE)?;
        if !self.is_full_folder(top.as_fd(), name)? {
            return Ok(());
        }
        let folder = enter(top.as_fd(), name)?;
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let child = entry.file_name();
            if is_real(child) && self.is_full_folder(folder.as_fd(), child)? {
                self.move_up(folder.as_fd(), child)?;
            }
        }
        self.note(unlinkat(&top, name, AtFlags::REMOVEDIR))
    }

    /// Removes a file, a link or an empty folder. Returns true for a folder with something in it, which stays.
    fn is_full_folder(&mut self, folder: BorrowedFd<'_>, name: &CStr) -> Result<bool> {
        match unlinkat(folder, name, AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) => {}
            removed => return self.note(removed).map(|()| false),
        }
        match unlinkat(folder, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(true),
            removed => self.note(removed).map(|()| false),
        }
    }

    fn move_up(&mut self, folder: BorrowedFd<'_>, name: &CStr) -> Result<()> {
        let number = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next
        });
        let to = self.name_of(number);
        match renameat(folder, name, &self.top, &to) {
            // The kernel does not move a folder whose mode forbids to write. `enter` puts the mode right.
            Err(Errno::ACCESS) => {
                enter(folder, name)?;
                let moved = renameat(folder, name, &self.top, &to);
                self.note(moved)?;
            }
            moved => self.note(moved)?,
        }
        if self.moved.len() < MOST_MOVED {
            self.moved.push(number);
        }
        Ok(())
    }

    /// Counts a step. An entry that another process has removed meanwhile counts as well.
    fn note(&mut self, result: Result<()>) -> Result<()> {
        match result {
            Ok(()) | Err(Errno::NOENT) => {
                self.done += 1;
                Ok(())
            }
            Err(err) => Err(err),
        }
    }
}

/// Opens a folder in another one, unless something is mounted there.
fn enter(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    ours(&openat2(parent, name, flags, Mode::empty(), resolve)?)
}

/// Opens a folder for reading, and restores its owner's rights first if they are missing.
fn ours(folder: &OwnedFd) -> Result<OwnedFd> {
    let mode = Mode::from_raw_mode(fstat(folder)?.st_mode);
    if !mode.contains(Mode::RWXU) {
        // The mode is changed through the descriptor: a name could belong to another folder by now.
        chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), Mode::RWXU)?;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(folder, c".", flags, Mode::empty())
}

fn is_real(name: &CStr) -> bool {
    name != c"." && name != c".."
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use rustix::fs::mkdirat;

    use super::*;

    #[test]
    fn nesting_has_no_limit() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        fs::create_dir(&top).unwrap();
        let flags = OFlags::DIRECTORY | OFlags::RDONLY;
        let mut at = open(&top, flags, Mode::empty()).unwrap();
        for _ in 0..5_000 {
            mkdirat(&at, c"d", Mode::RWXU).unwrap();
            mkdirat(&at, c"e", Mode::RWXU).unwrap();
            at = openat(&at, c"d", flags, Mode::empty()).unwrap();
        }
        // This is the smallest stack that a thread can have.
        let thread = std::thread::Builder::new().stack_size(128 * 1024);
        let removed = thread.spawn(move || remove_tree(&top)).unwrap();
        removed.join().unwrap().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn links_are_removed_and_what_they_lead_to_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (top, outside) = (dir.path().join("top"), dir.path().join("outside"));
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "stays").unwrap();
        for link in ["link", "a/link", "a/b/link"] {
            std::os::unix::fs::symlink(&outside, top.join(link)).unwrap();
        }
        remove_tree(&top).unwrap();
        assert!(!top.exists());
        assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "stays");
        // The folder itself is replaced by a link, too.
        std::os::unix::fs::symlink(&outside, &top).unwrap();
        remove_tree(&top).unwrap();
        assert!(!top.is_symlink() && outside.join("file").exists());
    }

    #[test]
    fn folders_without_leave_are_removed_too() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        fs::create_dir_all(top.join("a/b/c")).unwrap();
        fs::write(top.join("a/b/c/file"), "").unwrap();
        for folder in ["a/b/c", "a/b", "a", ""] {
            let nothing = fs::Permissions::from_mode(0o0);
            fs::set_permissions(top.join(folder), nothing).unwrap();
        }
        remove_tree(&top).unwrap();
        assert!(!top.exists());
        remove_tree(&top).unwrap();
    }
}
