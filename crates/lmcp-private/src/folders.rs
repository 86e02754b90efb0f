//! Folders and files that must be for this user alone.

use std::{
    fs::{DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::{FileType, Mode, OFlags, openat};

use crate::walk::{Found, refused, walk};

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
    let found = Found { file, stat };
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
