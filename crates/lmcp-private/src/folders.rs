//! Folders and files that must be for this user alone.

use std::{
    fs::{DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::{FileType, Mode, OFlags, openat};

use crate::walk::{Found, expect_safe_folder, refused, walk};

/// Makes a folder that nobody else can enter, or takes one that is there.
///
/// # Errors
/// Another user can enter it, owns it or could have put it there.
pub fn make_private(path: &Path) -> io::Result<()> {
    make(path)?;
    expect_private(path)
}

/// Makes a folder that nobody else can write, or takes one that is there: for files that are private themselves.
///
/// # Errors
/// Another user can write it, owns it or could have put it there.
pub fn make_own(path: &Path) -> io::Result<()> {
    make(path)?;
    let found = own_folder(path)?;
    if found.is_open_to_others() {
        return Err(refused("others can write it (chmod go-w mends that)"));
    }
    Ok(())
}

/// A folder that is ours and that nobody else can enter.
///
/// # Errors
/// It is not, it is not there, or another user could have put it there.
pub fn expect_private(path: &Path) -> io::Result<()> {
    let found = own_folder(path)?;
    if found.stat.st_mode & 0o077 != 0 {
        return Err(refused("others can enter it (chmod 700 mends that)"));
    }
    Ok(())
}

/// The way to a file or folder is out of the hands of other users. What it is itself is for the caller to judge.
///
/// # Errors
/// It is not there, or another user could have put it there.
pub fn expect_safe(path: &Path) -> io::Result<()> {
    walk(&std::path::absolute(path)?).map(drop)
}

/// A name that is free, or taken by something of ours, in a folder where nobody else can change it.
///
/// # Errors
/// Its folder is not there, or another user could put something there or has done so.
pub fn expect_safe_name(path: &Path) -> io::Result<()> {
    let path = std::path::absolute(path)?;
    match walk(&path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => {}
        walked => return walked.map(drop),
    }
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    expect_safe_folder(&walk(above)?, name)
}

/// Opens a file with a secret in it: no link, ours, and nobody else can read or write it.
///
/// # Errors
/// It is not like that, cannot be opened, or another user could have put it there.
pub fn open_secret(path: &Path) -> io::Result<File> {
    let path = std::path::absolute(path)?;
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(refused("it is not a file"));
    };
    let folder = walk(above)?;
    // A pipe in its place must not hold us, and a link may lead anywhere.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = openat(&folder.file, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    let found = Found {
        file,
        stat,
        path: folder.path.join(name),
    };
    if found.kind() != FileType::RegularFile {
        return Err(refused("it is not a file"));
    }
    if !found.is_own() {
        return Err(refused("it belongs to another user"));
    }
    if found.stat.st_mode & 0o077 != 0 {
        return Err(refused(
            "others can read or write it; its mode must be 0600",
        ));
    }
    // After that, because of a file that is wrong in itself people are to hear that first.
    walk(&path)?;
    Ok(File::from(found.file))
}

/// Makes the folders that are missing, below what is there and safe.
fn make(path: &Path) -> io::Result<()> {
    let path = std::path::absolute(path)?;
    let mut there: &Path = &path;
    loop {
        match walk(there) {
            Ok(_) => break,
            Err(err) if err.kind() == io::ErrorKind::NotFound => {}
            Err(err) => return Err(err),
        }
        // The root is always there.
        there = there.parent().ok_or(io::ErrorKind::NotFound)?;
    }
    if there == path {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(&path)
}

fn own_folder(path: &Path) -> io::Result<Found> {
    let path: PathBuf = std::path::absolute(path)?;
    let found = walk(&path)?;
    if found.kind() != FileType::Directory {
        return Err(refused("it is no folder"));
    }
    if !found.is_own() {
        return Err(refused("it belongs to somebody else"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt as _, chown, lchown, symlink},
    };

    use super::*;

    /// Somebody who is neither root nor us.
    const NOBODY: u32 = 65_534;

    fn folder(mode: u32) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
        folder
    }

    fn why(refused: io::Result<()>) -> String {
        refused.unwrap_err().to_string()
    }

    #[test]
    fn a_folder_is_made_for_this_user_alone_and_found_again() {
        let above = folder(0o755);
        let path = above.path().join("a/b");
        make_private(&path).unwrap();
        make_private(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        // A link of our own is as good as what it leads to.
        symlink("a", above.path().join("link")).unwrap();
        make_private(&above.path().join("link/b")).unwrap();
        expect_private(&above.path().join("a/../link/./b")).unwrap();
        fs::write(above.path().join("file"), "").unwrap();
        assert!(why(make_private(&above.path().join("file"))).contains("no folder"));
    }

    #[test]
    fn what_others_can_enter_or_write_is_refused() {
        let open = folder(0o750);
        assert!(why(make_private(open.path())).contains("others can enter it"));
        make_own(open.path()).unwrap();
        let open = folder(0o757);
        assert!(why(make_own(open.path())).contains("others can write it"));
        // Nor is anything below it, unless names there belong to their owners.
        let below = open.path().join("below");
        assert!(why(expect_safe_name(&below)).contains("others can write the folder of `below`"));
        fs::create_dir(&below).unwrap();
        assert!(why(make_private(&below)).contains("others can write the folder of `below`"));
        let shared = folder(0o1777);
        make_private(&shared.path().join("below")).unwrap();
        expect_safe_name(&shared.path().join("free")).unwrap();
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "says what was not tested")]
    fn what_another_user_put_into_a_shared_folder_is_refused() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("note: only root can give a file away, so this is not tested");
            return;
        }
        let (shared, own) = (folder(0o1777), folder(0o700));
        let link = shared.path().join("link");
        symlink(own.path(), &link).unwrap();
        make_private(&link).unwrap();
        lchown(&link, Some(NOBODY), Some(NOBODY)).unwrap();
        let words = "`link` is a link that user 65534 made in a shared folder";
        assert_eq!(why(make_private(&link)), words);
        assert_eq!(why(make_own(&link.join("state"))), words);
        assert_eq!(why(expect_safe_name(&link)), words);
        fs::write(own.path().join("secret"), "x").unwrap();
        fs::set_permissions(own.path().join("secret"), Permissions::from_mode(0o600)).unwrap();
        assert!(open_secret(&own.path().join("secret")).is_ok());
        assert_eq!(why(open_secret(&link.join("secret")).map(drop)), words);
        // Their folder on the way is not better than their link.
        let theirs = own.path().join("theirs");
        fs::create_dir_all(theirs.join("ours")).unwrap();
        chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
        assert!(why(make_private(&theirs.join("ours"))).contains("belongs to user 65534"));
    }

    #[test]
    fn links_in_a_circle_end() {
        let own = folder(0o700);
        symlink("b", own.path().join("a")).unwrap();
        symlink("a", own.path().join("b")).unwrap();
        assert!(why(expect_private(&own.path().join("a"))).contains("too many links"));
    }
}
