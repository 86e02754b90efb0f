//! The folder that is searched, as an open directory. All files are opened below it, through no link.

use std::{
    fs::File,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use lmcp_core::ToolResult;
use rustix::{
    fs::{FileType, OFlags},
    io::Errno,
};

use crate::{
    files::{
        below::{folders_above, open_below, open_here},
        ignore::{Reach, Rules},
        meter::Meter,
    },
    roots::{HardLinks, Place},
};

use super::args::Args;

/// The place where the search begins.
pub(super) enum Start {
    /// A folder.
    Folder(Arc<Rules>),
    /// One file.
    File(File),
}

/// The folder that is searched.
pub(super) struct Tree {
    /// `None` if a single file is searched.
    base: Option<OwnedFd>,
    /// The path from the topmost folder whose ignore files count to `base`, with a `/` at its end. All paths in the
    /// search begin with it.
    pub(super) above: Vec<u8>,
    /// The path as the caller named it.
    shown: PathBuf,
    confined: bool,
    hard_links: HardLinks,
}

/// Why a file is not searched.
pub(super) enum Refused {
    /// The name is no regular file, or does not exist any more.
    NotAFile,
    /// The file has several names.
    HardLink,
    /// The system returned this error.
    Unreadable(Errno),
}

impl Tree {
    /// Opens the folder or file that the arguments name.
    pub(super) fn open(
        place: &Place<'_>,
        args: &Args,
        hard_links: HardLinks,
        meter: &Arc<Meter>,
    ) -> ToolResult<(Self, Start)> {
        let mut tree = Self {
            base: None,
            above: Vec::new(),
            shown: PathBuf::from(&args.path),
            confined: place.is_confined(),
            hard_links,
        };
        let base = match place.open_dir() {
            Ok(base) => base,
            Err(Errno::NOTDIR) => {
                let (file, _) = place.open_file(hard_links)?;
                return Ok((tree, Start::File(file)));
            }
            Err(err) => return Err(place.failed("search", err)),
        };
        let mut rules = Arc::default();
        if !args.ignored
            && let Some((top, above)) = folders_above(place, &base)
        {
            rules = Rules::above(&top, &above, tree.reach(), meter);
            tree.above = above;
        }
        tree.base = Some(base);
        Ok((tree, Start::Folder(rules)))
    }

    /// Opens a folder below the base, to list it.
    pub(super) fn open_folder(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let below = match &path[self.above.len()..] {
            [] => b".",
            [below @ .., b'/'] => below,
            below => below,
        };
        let base = self.base.as_ref().ok_or(Errno::NOTDIR)?;
        open_below(
            base.as_fd(),
            below,
            OFlags::RDONLY | OFlags::DIRECTORY,
            self.confined,
        )
    }

    /// Opens a regular file in an open folder, and nothing else.
    pub(super) fn open_file(&self, folder: BorrowedFd<'_>, name: &[u8]) -> Result<File, Refused> {
        let file = match open_here(folder, name) {
            Ok(file) => file,
            // The file is gone, or was replaced by a link, a socket or a device without a driver since it was
            // listed.
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::NODEV) => {
                return Err(Refused::NotAFile);
            }
            Err(err) => return Err(Refused::Unreadable(err)),
        };
        let stat = rustix::fs::fstat(&file).map_err(Refused::Unreadable)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Refused::NotAFile);
        }
        if self.confined && self.hard_links == HardLinks::Refuse && stat.st_nlink > 1 {
            return Err(Refused::HardLink);
        }
        Ok(file)
    }

    /// Returns which ignore files may be read.
    pub(super) fn reach(&self) -> Reach {
        Reach {
            confined: self.confined,
            hard_links: self.hard_links,
        }
    }

    /// Returns the part of a path below the folder that is searched.
    pub(super) fn below<'a>(&self, path: &'a [u8]) -> &'a [u8] {
        path.get(self.above.len()..).unwrap_or_default()
    }

    /// Returns a path of this search, for messages.
    pub(super) fn shown(&self, path: &[u8]) -> String {
        let below = self.below(path);
        if below.is_empty() {
            return self.shown.display().to_string();
        }
        let below = Path::new(std::ffi::OsStr::from_bytes(below));
        self.shown.join(below).display().to_string()
    }
}
