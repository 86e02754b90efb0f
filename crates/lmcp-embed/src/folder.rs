//! A folder for one child, which only this user can enter: its credentials, and whatever else is made for it.
//!
//! A secret goes into a file, never on a command line, where everybody reads it.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use serde::Serialize;

/// How the folders of children end: should the host die, the next one removes them with the socket.
pub(crate) const SUFFIX: &str = ".child";

/// What a child needs to come in.
#[derive(Serialize)]
pub(crate) struct Credentials<'a> {
    pub(crate) socket: &'a Path,
    pub(crate) identity: &'a str,
}

/// The folder. Goes when this goes, with all that is in it.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    credentials: PathBuf,
}

impl Folder {
    /// Makes it beside the socket, under a name that says whose it is.
    pub(crate) fn make(credentials: &Credentials<'_>, child: &str) -> io::Result<Self> {
        let path = credentials
            .socket
            .with_extension(format!("{child}{SUFFIX}"));
        DirBuilder::new().mode(0o700).create(&path)?;
        let folder = Self {
            credentials: path.join("identity.json"),
            path,
        };
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&folder.credentials)?;
        file.write_all(&serde_json::to_vec(credentials)?)?;
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn credentials(&self) -> &Path {
        &self.credentials
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
