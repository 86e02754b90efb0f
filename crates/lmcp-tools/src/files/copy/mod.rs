//! Files on their way to another host: read here part by part, or put together here from parts.
//!
//! No model calls these two tools. The fleet of a hub calls them for `remote_copy`. So they are in no list, and a server
//! offers them where it offers `read_file` and `write_file`. Their answers are JSON as text, which every client gets as it
//! is.

pub(crate) mod into;
pub(crate) mod out;

use std::time::Duration;

use lmcp_core::ToolResult;
use rustix::fs::{FileType, Stat};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::atomic::size_of;

/// The most bytes of one part. Parts begin at multiples of it, because `dd` counts in blocks.
pub const PART_BYTES: u64 = 1 << 20;

/// The most entries of a folder, those of folders below it included.
pub const MOST_ENTRIES: usize = 20_000;

/// How long one call may take: one call computes the hash of a large file.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// A file or folder at a path, or somewhere below a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Entry {
    /// The path: absolute, or relative to the folder that is listed.
    pub path: String,
    /// A file, a folder, or something else.
    pub kind: Kind,
    /// Bytes of a file.
    #[serde(default)]
    pub size: u64,
    /// The nine permission bits.
    #[serde(default)]
    pub mode: u32,
    /// Changes with the content: inode, size, time in seconds, and nanoseconds where they are known.
    #[serde(default)]
    pub stamp: String,
    /// The target of a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// What something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// A regular file.
    #[default]
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A device.
    Device,
}

impl Kind {
    /// Returns the kind by the mode that `stat` returns.
    pub fn of(mode: u32) -> Self {
        match FileType::from_raw_mode(mode) {
            FileType::Directory => Self::Folder,
            FileType::Symlink => Self::Link,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            FileType::CharacterDevice | FileType::BlockDevice => Self::Device,
            FileType::RegularFile | FileType::Unknown => Self::File,
        }
    }
}

impl Entry {
    /// Returns an entry for a path, by the mode that `stat` returns.
    pub fn new(path: String, mode: u32) -> Self {
        Self {
            path,
            kind: Kind::of(mode),
            mode: mode & PERMISSIONS,
            ..Self::default()
        }
    }

    fn of(path: String, stat: &Stat) -> Self {
        Self {
            size: size_of(stat),
            stamp: stamp_of(stat),
            ..Self::new(path, stat.st_mode)
        }
    }
}

/// The bits for the owner, the group and all others. Bits that lend somebody's rights are not copied.
const PERMISSIONS: u32 = 0o777;

fn stamp_of(stat: &Stat) -> String {
    let (inode, size) = (stat.st_ino, stat.st_size);
    format!("{inode}-{size}-{}-{}", stat.st_mtime, stat.st_mtime_nsec)
}

/// Returns whether two stamps are of the same content. A stamp from a shell has no nanoseconds.
pub fn is_same_stamp(one: &str, other: &str) -> bool {
    let fields = |stamp: &str| stamp.split('-').map(str::to_owned).collect::<Vec<_>>();
    let (one, other) = (fields(one), fields(other));
    let known = one.len().min(other.len());
    known >= 3 && one.get(..known) == other.get(..known)
}

/// Returns an answer as JSON text.
fn said(value: &impl Serialize) -> ToolResult<String> {
    Ok(serde_json::to_string(value)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_without_nanoseconds_is_as_good_as_one_with_them() {
        assert!(is_same_stamp("1-2-3-4", "1-2-3-4"));
        assert!(is_same_stamp("1-2-3", "1-2-3-4"));
        assert!(!is_same_stamp("1-2-3-4", "1-2-3-5"));
        assert!(!is_same_stamp("1-2-3", "1-3-3-4"));
        assert!(!is_same_stamp("", ""));
        assert!(!is_same_stamp("1-2", "1-2"));
    }
}
