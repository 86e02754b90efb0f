//! Checks and makes folders and files that must be for this user alone.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, chmod, getxattr, openat, removexattr, statat},
    io::Errno,
};

use crate::{
    linux::{
        users::{is_ours, is_ours_or_roots},
        walk::{PathEnd, by_descriptor, expect_safe_folder, is_open_to_others, walk},
    },
    refused,
};

/// Makes a folder that nobody else can enter, or takes an existing one.
///
/// # Errors
/// Another user can enter it, owns it or could have put it there.
pub fn make_private(path: &Path) -> io::Result<()> {
    make(path)?;
    expect_private(path)
}

/// Makes a folder that nobody else can write, or takes an existing one: for files that are private themselves. If its owner may
/// not use it, or others may write it, its mode is corrected. Returns true if others could write it: they may have removed or
/// moved something.
///
/// # Errors
/// Another user owns it, has put something into it or could have put it there.
pub fn make_own(path: &Path) -> io::Result<bool> {
    make(path)?;
    let found = own_folder(path)?;
    let was_open = found.is_open_to_others();
    let mode = found.stat.st_mode & 0o777;
    let wanted = if was_open { 0o700 } else { mode | 0o700 };
    if mode != wanted {
        set_mode(&found.file, wanted)?;
    }
    remove_default_acl(&by_descriptor(&found.file))?;
    if was_open {
        expect_own_content(&found)?;
    }
    Ok(was_open)
}

/// Checks that a folder is ours, and that nobody else can enter it.
///
/// # Errors
/// The check fails, the folder does not exist, or another user could have put it there.
pub fn expect_private(path: &Path) -> io::Result<()> {
    let found = own_folder(path)?;
    if found.stat.st_mode & 0o077 != 0 {
        return Err(refused(CAN_ENTER));
    }
    Ok(())
}

/// Makes a folder of lmcp's own, or takes an existing one and mends it (see [`mend`]). Returns true if it had to be mended.
///
/// # Errors
/// The same as for [`mend`], or the folder cannot be made.
pub fn make_or_mend(path: &Path) -> io::Result<bool> {
    let attempt = || make(path).and_then(|()| mend(path));
    match attempt() {
        Err(err) if err.kind() == io::ErrorKind::PermissionDenied => {
            // A confined command can take away its own user's permission to enter the folder above.
            restore_folder_of(path);
            attempt()
        }
        done => done,
    }
}

/// Gives the owner back all permissions for a path, and the permission to pass through the folders above, as far as they are
/// ours. Returns whether something had to be changed.
pub fn restore(path: &Path) -> bool {
    let mut changed = false;
    let way: Vec<_> = path.ancestors().collect();
    for step in way.into_iter().rev() {
        let Ok(found) = fs::symlink_metadata(step) else {
            return changed;
        };
        let wanted = match (found.is_dir(), step == path) {
            (true, true) => 0o700,
            (true, false) => 0o100,
            (false, _) if found.is_file() || found.file_type().is_socket() => 0o600,
            (false, _) => continue,
        };
        let mode = found.mode() & 0o7777;
        if is_ours(found.uid()) && mode & wanted != wanted {
            // The code that tries again sees whether this helped.
            let _ = fs::set_permissions(step, fs::Permissions::from_mode(mode | wanted));
            changed = true;
        }
    }
    changed
}

/// Makes it possible to remove a file at a path: a confined command can take this permission away from its own user.
pub fn restore_folder_of(path: &Path) {
    if let Some(folder) = path.parent() {
        restore(folder);
    }
}

/// Gives a folder of lmcp's own the mode 0700 and no default access list, and checks that everything in it belongs to this user
/// or root. Returns true if something had to be changed.
///
/// A confined command can change the mode of every folder of its user. Files that other users put there meanwhile are never
/// trusted, because they belong to them.
///
/// # Errors
/// The folder does not exist or is not ours, something in it belongs to another user, or another user could have put it there.
pub fn mend(path: &Path) -> io::Result<bool> {
    let found = own_folder(path)?;
    let is_wrong = found.stat.st_mode & 0o777 != 0o700;
    if is_wrong {
        set_mode(&found.file, 0o700)?;
    }
    let had_acl = remove_default_acl(&by_descriptor(&found.file))?;
    expect_own_content(&found)?;
    Ok(is_wrong || had_acl)
}

/// Gives a file or socket of this user the mode 0600. Changes nothing else.
///
/// # Errors
/// The path does not exist, is neither a file nor a socket, or is not ours.
pub fn mend_file(path: &Path) -> io::Result<()> {
    let found = walk(&std::path::absolute(path)?)?;
    let has_kind = matches!(found.kind(), FileType::RegularFile | FileType::Socket);
    if !has_kind || !found.is_own() {
        return Err(refused("it is not a file of this user"));
    }
    set_mode(&found.file, 0o600)
}

/// Removes the default access list of a folder of this user. Returns true if it had one.
///
/// Such a list decides the permissions of everything that is made in the folder, whatever its mode: it can keep the owner out.
///
/// # Errors
/// The list cannot be removed, or the folder does not exist.
pub fn remove_default_acl(folder: &Path) -> io::Result<bool> {
    // The list is looked for first, because removing one that does not exist costs a write to the disk.
    match getxattr(folder, DEFAULT_ACL, &mut [0; 0]) {
        Err(Errno::NODATA | Errno::OPNOTSUPP) => return Ok(false),
        found => found?,
    };
    removexattr(folder, DEFAULT_ACL)?;
    Ok(true)
}

const DEFAULT_ACL: &str = "system.posix_acl_default";

/// Checks that no other user can change the way to a file or folder. The caller checks the file or folder itself.
///
/// # Errors
/// The path does not exist, or another user could have put it there.
pub fn expect_safe(path: &Path) -> io::Result<()> {
    walk(&std::path::absolute(path)?).map(drop)
}

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
    expect_safe_folder(&walk(above)?, name)
}

/// Checks that only this user and root can have written an open file, for content that is no secret but must be trusted. The
/// way to the file is checked, too. If the file was opened by a name that nobody could change, such as `/dev/fd/3`, there is no
/// way to check.
///
/// # Errors
/// The owner of the file is another user, others may write it, or another user could have put it there.
pub fn expect_trusted(file: &File, path: &Path) -> io::Result<()> {
    match expect_safe(path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => {}
        walked => walked?,
    }
    let stat = rustix::fs::fstat(file)?;
    let mode = stat.st_mode & 0o7777;
    if !is_ours_or_roots(stat.st_uid) {
        let words = format!(
            "it belongs to user {}, and its mode is {mode:04o}",
            stat.st_uid
        );
        return Err(refused(&words));
    }
    if is_open_to_others(&stat, file) {
        let words = format!(
            "others can write it, its mode is {mode:04o} or its access list names them (chmod go-w mends both)"
        );
        return Err(refused(&words));
    }
    Ok(())
}

/// Opens a file with a secret in it: it must be no link, ours, and nobody else can read or write it.
///
/// # Errors
/// The file breaks one of these rules, cannot be opened, or another user could have put it there.
pub fn open_secret(path: &Path) -> io::Result<File> {
    let path = std::path::absolute(path)?;
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(refused("it is not a file"));
    };
    let folder = walk(above)?;
    // A pipe in its place must not make us wait, and a link may lead anywhere.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = openat(&folder.file, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    let found = PathEnd {
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
        return Err(refused(OPEN_TO_OTHERS));
    }
    // This check comes last: if the file itself is wrong, people should read that first.
    walk(&path)?;
    Ok(File::from(found.file))
}

/// Refuses an open file that others could have written or can read. Only processes that were handed it can have a file without
/// a name (a pipe, a file in memory), so it is accepted.
///
/// # Errors
/// The file belongs to another user, or others can open it.
pub fn expect_secret(file: &File) -> io::Result<()> {
    let stat = rustix::fs::fstat(file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink == 0 {
        return Ok(());
    }
    if !is_ours_or_roots(stat.st_uid) {
        return Err(refused("it belongs to another user"));
    }
    if stat.st_mode & 0o077 != 0 {
        return Err(refused(OPEN_TO_OTHERS));
    }
    Ok(())
}

pub(crate) const CAN_ENTER: &str = "others can enter it (chmod 700 mends that)";

const OPEN_TO_OTHERS: &str = "others can read or write it; its mode must be 0600";

fn expect_own_content(folder: &PathEnd) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(&folder.file, ".", flags, Mode::empty())?;
    for entry in Dir::read_from(&opened)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c".." {
            continue;
        }
        let stat = match statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => continue,
            stat => stat?,
        };
        let owner = stat.st_uid;
        if !is_ours_or_roots(owner) {
            let name = name.to_string_lossy();
            return Err(refused(&format!(
                "`{name}` in it belongs to user {owner}; remove it"
            )));
        }
    }
    Ok(())
}

/// Changes the mode of an open file that we may not read.
pub(crate) fn set_mode(file: &OwnedFd, mode: u32) -> io::Result<()> {
    Ok(chmod(by_descriptor(file), Mode::from_raw_mode(mode))?)
}

/// Makes the missing folders, below existing ones that are safe.
fn make(path: &Path) -> io::Result<()> {
    let path = std::path::absolute(path)?;
    let mut there: &Path = &path;
    loop {
        match walk(there) {
            Ok(_) => break,
            Err(err) if err.kind() == io::ErrorKind::NotFound => {}
            Err(err) => return Err(err),
        }
        // The root always exists.
        there = there.parent().ok_or(io::ErrorKind::NotFound)?;
    }
    if there == path {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(&path)
}

pub(crate) fn own_folder(path: &Path) -> io::Result<PathEnd> {
    let path: PathBuf = std::path::absolute(path)?;
    let found = walk(&path)?;
    if found.kind() != FileType::Directory {
        return Err(refused("it is no folder"));
    }
    if !found.is_own() {
        let owner = found.stat.st_uid;
        return Err(refused(&format!("it belongs to user {owner}")));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::{
            fd::AsRawFd as _,
            unix::fs::{PermissionsExt as _, chown, lchown, symlink},
        },
    };

    use rustix::process::{getegid, geteuid};

    use super::*;
    use crate::linux::fixtures::{NOBODY, folder, why};

    #[test]
    fn a_folder_is_made_for_this_user_alone_and_found_again() {
        let above = folder(0o755);
        let path = above.path().join("a/b");
        make_private(&path).unwrap();
        make_private(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        // A link of our own is as good as its target.
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
        assert!(!make_own(open.path()).unwrap());
        // Nor are names below a folder that others can write, unless names there belong to their owners.
        let open = folder(0o757);
        let below = open.path().join("below");
        assert!(why(expect_safe_name(&below)).contains("others can write the folder of `below`"));
        fs::create_dir(&below).unwrap();
        assert!(why(make_private(&below)).contains("others can write the folder of `below`"));
        let shared = folder(0o1777);
        make_private(&shared.path().join("below")).unwrap();
        expect_safe_name(&shared.path().join("free")).unwrap();
    }

    /// An access list in the kernel's form: tag, permissions and number of each entry.
    fn access_list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut list = 2_u32.to_le_bytes().to_vec();
        for (tag, permissions, number) in entries {
            list.extend(tag.to_le_bytes());
            list.extend(permissions.to_le_bytes());
            list.extend(number.to_le_bytes());
        }
        list
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "says what was not tested")]
    fn the_group_may_write_unless_an_access_list_speaks_for_others() {
        const ANY: u32 = u32::MAX;
        if geteuid().as_raw() != getegid().as_raw() {
            eprintln!("note: this user has no group of its own, so this is not tested");
            return;
        }
        let folder = folder(0o770);
        let path = folder.path().join("config");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o660)).unwrap();
        let trusted = || expect_trusted(&File::open(&path).unwrap(), &path);
        trusted().unwrap();
        // The owner, one user, the group, the mask that shows as the group's bits, all others.
        let list = access_list(&[
            (1, 7, ANY),
            (2, 6, NOBODY),
            (4, 0, ANY),
            (16, 6, ANY),
            (32, 0, ANY),
        ]);
        let give = |path: &Path| {
            rustix::fs::setxattr(
                path,
                "system.posix_acl_access",
                &list,
                rustix::fs::XattrFlags::empty(),
            )
        };
        if give(&path).is_err() {
            eprintln!("note: this file system has no access lists, so this is not tested");
            return;
        }
        assert!(
            why(trusted()).contains("its access list names them"),
            "{:?}",
            trusted()
        );
        // As the words of the error say, chmod takes the permission away from those that the list names.
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        trusted().unwrap();
        give(folder.path()).unwrap();
        assert!(why(trusted()).contains("others can write the folder of `config`"));
        assert!(make_own(folder.path()).unwrap());
        trusted().unwrap();
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "says what was not tested")]
    fn what_another_user_put_into_a_shared_folder_is_refused() {
        if !geteuid().is_root() {
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
        assert_eq!(why(make_own(&link.join("state")).map(drop)), words);
        assert_eq!(why(expect_safe_name(&link)), words);
        fs::write(own.path().join("secret"), "x").unwrap();
        fs::set_permissions(own.path().join("secret"), Permissions::from_mode(0o600)).unwrap();
        assert!(open_secret(&own.path().join("secret")).is_ok());
        assert_eq!(why(open_secret(&link.join("secret")).map(drop)), words);
        // Nor is their link followed where only we can write.
        let moved = own.path().join("moved");
        symlink(own.path().join("secret"), &moved).unwrap();
        let file = File::open(&moved).unwrap();
        expect_trusted(&file, &moved).unwrap();
        lchown(&moved, Some(NOBODY), Some(NOBODY)).unwrap();
        let words = "`moved` is a link of user 65534";
        assert_eq!(why(expect_trusted(&file, &moved)), words);
        // Their folder on the way is no better than their link.
        let theirs = own.path().join("theirs");
        fs::create_dir_all(theirs.join("ours")).unwrap();
        chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
        assert!(why(make_private(&theirs.join("ours"))).contains("belongs to user 65534"));
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "says what was not tested")]
    fn a_folder_with_a_wrong_mode_is_mended_unless_another_user_put_something_there() {
        let own = folder(0o700);
        let path = own.path().join("lmcp");
        assert!(!make_or_mend(&path).unwrap());
        fs::write(path.join("file"), "").unwrap();
        for mode in [0o755, 0o000, 0o777, 0o500] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert!(mend(&path).unwrap());
            expect_private(&path).unwrap();
        }
        if !geteuid().is_root() {
            eprintln!("note: only root can give a file away, so that is not tested");
            return;
        }
        lchown(path.join("file"), Some(NOBODY), Some(NOBODY)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        for _ in 0..2 {
            assert!(why(mend(&path).map(drop)).contains("`file` in it belongs to user 65534"));
        }
        chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        assert!(why(mend(&path).map(drop)).contains("it belongs to user 65534"));
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "says what was not tested")]
    fn a_folder_that_others_could_write_is_closed_unless_they_put_something_there() {
        let own = folder(0o700);
        let path = own.path().join("state");
        assert!(!make_own(&path).unwrap());
        fs::write(path.join("file"), "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        assert!(make_own(&path).unwrap());
        expect_private(&path).unwrap();
        assert!(!make_own(&path).unwrap());
        if !geteuid().is_root() {
            eprintln!("note: only root can give a file away, so that is not tested");
            return;
        }
        lchown(path.join("file"), Some(NOBODY), Some(NOBODY)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        let words = "`file` in it belongs to user 65534; remove it";
        assert_eq!(why(make_own(&path).map(drop)), words);
    }

    /// An access list that allows nothing to anybody, in the form of the kernel.
    const NO_LEAVE: &[u8] = b"\x02\0\0\0\
        \x01\0\0\0\xff\xff\xff\xff\x04\0\0\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";

    #[test]
    #[expect(clippy::print_stderr, reason = "says what was not tested")]
    fn a_default_access_list_is_taken_off() {
        let own = folder(0o700);
        let set = || {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(own.path(), DEFAULT_ACL, NO_LEAVE, flags)
        };
        if set() == Err(Errno::OPNOTSUPP) {
            eprintln!("note: this file system has no access lists, so they are not tested");
            return;
        }
        assert!(mend(own.path()).unwrap());
        assert!(!mend(own.path()).unwrap());
        set().unwrap();
        make_own(own.path()).unwrap();
        fs::write(own.path().join("file"), "").unwrap();
        let mode = fs::metadata(own.path().join("file")).unwrap();
        assert_ne!(mode.permissions().mode() & 0o600, 0);
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "says what was not tested")]
    fn a_file_that_others_could_have_written_is_not_trusted() {
        let own = folder(0o700);
        let path = own.path().join("file");
        fs::write(&path, "").unwrap();
        let trust = |mode| {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            expect_trusted(&File::open(&path).unwrap(), &path)
        };
        for mode in [0o400, 0o600, 0o644, 0o444] {
            trust(mode).unwrap();
        }
        for mode in [0o666, 0o602] {
            let words = format!("others can write it, its mode is {mode:04o}");
            assert!(why(trust(mode)).contains(&words));
        }
        // An open file that was handed to us has no name that could be changed.
        let (given, _other) = io::pipe().unwrap();
        let name = PathBuf::from(format!("/dev/fd/{}", given.as_raw_fd()));
        expect_trusted(&File::open(&name).unwrap(), &name).unwrap();
        if !geteuid().is_root() {
            eprintln!("note: only root can give a file away, so that is not tested");
            return;
        }
        // Root's own group has the number of root.
        trust(0o664).unwrap();
        chown(&path, None, Some(NOBODY)).unwrap();
        assert!(why(trust(0o664)).contains("others can write it, its mode is 0664"));
        chown(&path, Some(NOBODY), None).unwrap();
        let words = "it belongs to user 65534, and its mode is 0644";
        assert_eq!(why(trust(0o644)), words);
    }

    #[test]
    fn links_in_a_circle_end() {
        let own = folder(0o700);
        symlink("b", own.path().join("a")).unwrap();
        symlink("a", own.path().join("b")).unwrap();
        assert!(why(expect_private(&own.path().join("a"))).contains("too many links"));
    }
}
