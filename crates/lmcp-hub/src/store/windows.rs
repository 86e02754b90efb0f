//! Files on Windows: who may read them is decided by the folder they are in. Below the profile of a user that is the user,
//! the system and administrators.

use std::{
    fs::{DirBuilder, Metadata, OpenOptions},
    time::SystemTime,
};

/// The size of a file, and when it was written.
pub(crate) type Version = (u64, Option<SystemTime>);

pub(super) fn version(found: &Metadata) -> Version {
    (found.len(), found.modified().ok())
}

pub(super) fn private_folder() -> DirBuilder {
    DirBuilder::new()
}

pub(super) fn private_file() -> OpenOptions {
    OpenOptions::new()
}
