//! The folders above those of lmcp. They belong to the same user, so a confined command can change their modes, too.

use std::{
    io,
    path::{Path, PathBuf},
};

use rustix::{fs::FileType, io::Errno};

use crate::{
    linux::{
        folders::{CAN_ENTER, own_folder, remove_default_acl, restore, set_mode},
        insist::insist,
        walk::{by_descriptor, walk},
    },
    refused,
};

/// Corrects the modes of the folders above a path, as far as they are ours: their owner may pass through them, and not
/// everybody may write them. Returns the folders that everybody could write: others may have moved or removed something there.
///
/// Folders that only a group may write stay as they are, because people share folders in that way.
///
/// # Errors
/// A folder on the way cannot be read or changed, or another user could still change the way.
pub fn mend_way(path: &Path) -> io::Result<Vec<PathBuf>> {
    let path = std::path::absolute(path)?;
    let mut way: Vec<_> = path.ancestors().skip(1).collect();
    way.reverse();
    let mut closed = Vec::new();
    for step in way {
        let found = match insist(step, || walk(step)) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => break,
            found => found.map_err(|err| named(step, &err))?,
        };
        if found.kind() != FileType::Directory || !found.is_own() {
            continue;
        }
        let mode = found.stat.st_mode & 0o7777;
        let was_open = mode & 0o002 != 0 && mode & 0o1000 == 0;
        let mut wanted = if was_open { mode & !0o022 } else { mode };
        if wanted & 0o100 == 0 {
            wanted |= 0o700;
        }
        if wanted != mode {
            set_mode(&found.file, wanted).map_err(|err| named(step, &err))?;
        }
        if was_open {
            closed.push(step.to_owned());
        }
    }
    Ok(closed)
}

pub(crate) fn named(path: &Path, err: &io::Error) -> io::Error {
    io::Error::new(err.kind(), format!("{}: {err}", path.display()))
}

/// Checks that a folder for this user alone, which is not lmcp's own, can be used: `/run/user/UID`. A mode that keeps its owner
/// out, or lets others write, is corrected. Names that others put there meanwhile belong to them, and are checked by the code
/// that uses such a name.
///
/// # Errors
/// The folder does not exist or is not ours, another user could have put it there, or others can enter it but not write it.
pub(crate) fn expect_or_mend(path: &Path) -> io::Result<()> {
    let found = match own_folder(path) {
        Err(err) if err.raw_os_error() == Some(Errno::ACCESS.raw_os_error()) => {
            restore(path);
            own_folder(path)
        }
        found => found,
    }?;
    match found.stat.st_mode & 0o777 {
        0o700 => Ok(()),
        mode if mode & 0o077 != 0 && !found.is_open_to_others() => Err(refused(CAN_ENTER)),
        _ => {
            set_mode(&found.file, 0o700)?;
            remove_default_acl(&by_descriptor(&found.file)).map(drop)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt as _, chown, lchown},
    };

    use rustix::process::geteuid;

    use super::*;
    use crate::linux::{
        expect_private,
        fixtures::{NOBODY, folder, why},
        make_own, make_private,
    };

    #[test]
    #[expect(clippy::print_stderr, reason = "says what was not tested")]
    fn the_way_to_a_folder_is_opened_for_its_owner_and_closed_to_everybody() {
        let own = folder(0o700);
        let (above, path) = (own.path().join("above"), own.path().join("above/state"));
        make_private(&path).unwrap();
        let set = |mode| fs::set_permissions(&above, Permissions::from_mode(mode)).unwrap();
        for (mode, then) in [
            (0o000, 0o700),
            (0o444, 0o744),
            (0o500, 0o500),
            (0o755, 0o755),
        ] {
            set(mode);
            assert!(mend_way(&path).unwrap().is_empty(), "{mode:o}");
            let now = fs::metadata(&above).unwrap().permissions().mode();
            assert_eq!(now & 0o7777, then);
        }
        set(0o777);
        assert!(why(make_own(&path).map(drop)).contains("others can write the folder"));
        assert_eq!(mend_way(&path).unwrap(), std::slice::from_ref(&above));
        make_own(&path).unwrap();
        // A shared folder is for its users to close.
        set(0o1777);
        assert!(mend_way(&path).unwrap().is_empty());
        if !geteuid().is_root() {
            eprintln!("note: only root can give a folder away, so that is not tested");
            return;
        }
        set(0o770);
        chown(&above, None, Some(NOBODY)).unwrap();
        assert!(mend_way(&path).unwrap().is_empty());
        assert!(why(make_own(&path).map(drop)).contains("others can write the folder"));
        // Nor does this correct a folder that another user put on the way.
        set(0o777);
        lchown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        mend_way(&path.join("inner")).unwrap();
        assert!(why(make_own(&path).map(drop)).contains("it belongs to user 65534"));
    }

    #[test]
    fn a_runtime_folder_that_its_owner_or_everybody_was_let_into_is_put_right() {
        let own = folder(0o700);
        let path = own.path().join("run");
        make_private(&path).unwrap();
        for mode in [0o000, 0o600, 0o777, 0o702] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            expect_or_mend(&path).unwrap();
            expect_private(&path).unwrap();
        }
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        assert!(why(expect_or_mend(&path)).contains("others can enter it"));
    }
}
