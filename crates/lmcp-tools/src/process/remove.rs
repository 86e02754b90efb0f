//! Removing a folder with everything in it, however a command built it: nested deeper than a stack or a path reaches,
//! without leave to enter, full of links.
//!
//! There is no recursion. What is nested is moved up into the first folder and removed there, so that two folders are open
//! at a time, and every name is resolved in an open folder: no link is followed and no mount is entered.

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

/// Folders that were moved up and are remembered, so that they are not looked for.
const MOST_MOVED: usize = 4096;

/// Removes a file, or a folder with all that is in it. It is no error if there is none.
///
/// If the folders above do not let us, their modes are put right first. It takes its time with many files: not on a
/// thread that serves.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    let above = path.parent().unwrap_or(path);
    dir::insist(above, || try_remove_tree(path))
}

fn try_remove_tree(path: &Path) -> io::Result<()> {
    match unlinkat(CWD, path, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        // Linux says the first of a folder, POSIX the second.
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

/// The work on one tree.
struct Removal {
    top: OwnedFd,
    /// How names of what is moved up begin: nothing else is called that.
    name: String,
    /// What was moved up, by the numbers in its names. More than so many are found by reading the folder again.
    moved: Vec<u32>,
    /// Numbers that were in use and are free: a folder stays small, and quick to read, if names in it recur.
    free: Vec<u32>,
    next: u32,
    /// So much was removed or moved.
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

    /// Removes all that is in the first folder. Each round removes what is there, and brings up what was below that.
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

    /// Removes one entry of the first folder, and then what that brought up.
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

    /// Removes one entry of the first folder, and moves up what is below.
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

    /// Removes a file, a link or an empty folder. True if it is a folder with something in it.
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
            // A folder without leave to write stays where it is.
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

    /// Counts what was done. What somebody else has removed meanwhile is as good.
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

/// Opens a folder for reading, with leave to do so if its owner took that away.
fn ours(folder: &OwnedFd) -> Result<OwnedFd> {
    let mode = Mode::from_raw_mode(fstat(folder)?.st_mode);
    if !mode.contains(Mode::RWXU) {
        // Through the descriptor: a name could be another folder's by now.
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
        // As small a stack as a thread can have.
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
        // A link in the place of the folder itself, too.
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
