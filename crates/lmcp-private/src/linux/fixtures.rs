//! Folders and users that the tests of this crate share.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt as _,
};

/// A user who is neither root nor ours.
pub(crate) const NOBODY: u32 = 65_534;

pub(crate) fn folder(mode: u32) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
    folder
}

pub(crate) fn why(refused: io::Result<()>) -> String {
    refused.unwrap_err().to_string()
}
