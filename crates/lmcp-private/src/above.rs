//! The folders above those of lmcp: not its own, but of the same user, so that a confined command can change their modes, too.

use std::{io, path::Path};

use rustix::io::Errno;

use crate::{
    folders::{CAN_ENTER, own_folder, remove_default_acl, restore, set_mode},
    walk::{by_descriptor, refused},
};

pub(crate) fn named(path: &Path, err: &io::Error) -> io::Error {
    io::Error::new(err.kind(), format!("{}: {err}", path.display()))
}

/// Expects that a folder for this user alone, which is not lmcp's own, can be used: `/run/user/UID`. A mode that keeps us out, or
/// lets others write it, is put right. What others put there meanwhile is theirs, and whoever uses a name there judges that.
///
/// # Errors
/// It is not there or not ours, another user could have put it there, or others can enter it and not write it.
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
        os::unix::fs::PermissionsExt as _,
    };

    use super::*;
    use crate::{expect_private, make_private};

    fn folder(mode: u32) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
        folder
    }

    fn why(refused: io::Result<()>) -> String {
        refused.unwrap_err().to_string()
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
