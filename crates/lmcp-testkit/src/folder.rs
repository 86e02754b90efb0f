//! A folder that is removed when its test ends.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

/// A folder for one test, removed with its contents.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes a folder.
    ///
    /// # Panics
    /// The folder for temporary files cannot be written.
    #[expect(clippy::new_without_default, reason = "a folder is made on the disk")]
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("lmcp-it-{}-{count}", process::id()));
        fs::create_dir_all(&path).expect("the folder for temporary files can be written");
        Self(path)
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a name in the folder.
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
