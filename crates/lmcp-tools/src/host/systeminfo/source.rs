//! The files in which a host describes itself; in tests, a folder that looks like them.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    str::FromStr,
};

/// A value that was read, or the reason why not.
pub(super) type Reading<T> = Result<T, String>;

/// The folder that holds `/proc`, `/sys` and `/etc`.
#[derive(Debug)]
pub(super) struct Source {
    root: PathBuf,
}

/// The largest file that is read, in bytes. `/proc/cpuinfo` of some hundred processors fits.
const FILE_BYTES: u64 = 4 * 1024 * 1024;

impl Source {
    /// Returns the source for this host.
    pub(super) fn host() -> Self {
        Self { root: "/".into() }
    }

    /// Returns the source for a folder with copies of such files of another host.
    pub(super) fn copies(folder: &Path) -> Self {
        Self {
            root: folder.to_owned(),
        }
    }

    /// Makes a folder with these files.
    #[cfg(test)]
    pub(super) fn fake(files: &[(&str, &str)]) -> (tempfile::TempDir, Self) {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let root = dir.path().to_owned();
        (dir, Self { root })
    }

    /// Returns whether this is the host itself, and not a folder that looks like one.
    pub(super) fn is_host(&self) -> bool {
        self.root.as_os_str() == "/"
    }

    /// Reads a text file.
    pub(super) fn read(&self, path: &str) -> Reading<String> {
        let mut text = Vec::new();
        File::open(self.root.join(path))
            .and_then(|file| file.take(FILE_BYTES).read_to_end(&mut text))
            .map_err(|err| format!("cannot read /{path}: {err}"))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Reads a file that holds one value.
    pub(super) fn value<T: FromStr>(&self, path: &str) -> Option<T> {
        self.read(path).ok()?.trim().parse().ok()
    }

    /// Returns whether a file or folder exists.
    pub(super) fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// Returns the names in a folder.
    pub(super) fn names(&self, path: &str) -> Reading<impl Iterator<Item = String>> {
        let entries = fs::read_dir(self.root.join(path))
            .map_err(|err| format!("cannot list /{path}: {err}"))?;
        Ok(entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok()))
    }
}

/// Returns the value after a key, in lines of `key: value` or `key=value`.
pub(super) fn field<'a>(text: &'a str, separator: char, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(separator)?;
        (name.trim() == key).then(|| value.trim())
    })
}
