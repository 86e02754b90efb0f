//! Files on Windows: the folder decides who may read a file. Below the profile of a user, only the user, the system and
//! administrators may.

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
