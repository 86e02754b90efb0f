//! What a child needs to come in, in a file for this user alone. Never on a command line, where everybody reads it.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use serde::Serialize;

/// What is in the file.
#[derive(Serialize)]
pub(crate) struct Credentials<'a> {
    pub(crate) socket: &'a Path,
    pub(crate) identity: &'a str,
}

/// The file. Goes when this goes.
#[derive(Debug)]
pub(crate) struct CredentialsFile(PathBuf);

impl CredentialsFile {
    /// Writes it beside the socket, under a name that says whose it is: should the host die, the next one removes it
    /// with the socket.
    pub(crate) fn write(credentials: &Credentials<'_>, child: &str) -> io::Result<Self> {
        let path = credentials.socket.with_extension(format!("{child}.child"));
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        let written = Self(path);
        file.write_all(&serde_json::to_vec(credentials)?)?;
        Ok(written)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for CredentialsFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
