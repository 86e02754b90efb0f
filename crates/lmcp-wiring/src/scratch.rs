//! Writes the plan to disk: for this user alone, and removed again when it is dropped.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink},
    path::{Path, PathBuf},
};

use super::{Step, Wiring};
use crate::error::Error;

/// More entries than any folder of settings or any home has.
const MOST_LINKS: usize = 4096;

/// The files and links of one start. Dropping this value removes them.
#[derive(Debug, Default)]
#[must_use = "what was made goes with it"]
pub struct Made(Vec<PathBuf>);

impl Wiring {
    /// Makes the files and links of the plan. A file that is in the way is an error, and stays.
    ///
    /// # Errors
    /// A file is in the way, or cannot be read or written. Everything that was made before is removed again.
    pub fn make(&self) -> Result<Made, Error> {
        let mut made = Made::default();
        for step in &self.steps {
            let (path, result) = match step {
                Step::Folder(path) => (path, made.folder(path)),
                Step::File { path, text } => (path, made.file(path, text)),
                Step::Links { of, at, but } => (of, link_all(of, at, but.as_ref())),
            };
            result.map_err(|err| {
                let words = format!("cannot prepare `{}`", path.display());
                Error::new(&words, err)
            })?;
        }
        Ok(made)
    }
}

impl Made {
    fn folder(&mut self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(path)?;
        self.0.push(path.to_owned());
        Ok(())
    }

    fn file(&mut self, path: &Path, text: &str) -> io::Result<()> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path);
        let mut file = file?;
        self.0.push(path.to_owned());
        file.write_all(text.as_bytes())
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for path in self.0.iter().rev() {
            // A link is removed, and not its target. A folder is removed with all files that the program left in it.
            let is_folder = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
            let _ = if is_folder {
                fs::remove_dir_all(path)
            } else {
                fs::remove_file(path)
            };
        }
    }
}

/// Links everything in a folder, except one name. The folder need not exist.
fn link_all(of: &Path, at: &Path, but: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(of) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read?,
    };
    for (count, entry) in entries.enumerate() {
        let name = entry?.file_name();
        if count == MOST_LINKS {
            return Err(io::Error::other(format!(
                "there are more than {MOST_LINKS} files in it"
            )));
        }
        if Path::new(&name) != but {
            symlink(of.join(&name), at.join(&name))?;
        }
    }
    Ok(())
}
