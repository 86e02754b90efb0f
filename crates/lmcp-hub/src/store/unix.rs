//! Files for this user alone, by their modes.

use std::{
    fs::{DirBuilder, Metadata, OpenOptions},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
};

/// Identifies a version of a file: its inode, its size, and the time of the last write.
pub(crate) type Version = (u64, u64, i64, i64);

pub(super) fn version(found: &Metadata) -> Version {
    (found.ino(), found.size(), found.mtime(), found.mtime_nsec())
}

/// Returns a builder for folders that nobody else can enter.
pub(super) fn private_folder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// Returns options for files that nobody else can read.
pub(super) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}
