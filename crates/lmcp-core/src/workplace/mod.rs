//! The workplace of a caller: its folder, the variables that shape its tool chain, and its umask.
//!
//! Linux tells them for the process at the other end of a unix socket, so a client need not send anything. They are read once,
//! when the process connects, and stay the same for the whole connection. A workplace gives no rights: other code decides what
//! a tool may touch.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(all(unix, not(target_os = "linux")))]
mod unix;
mod variables;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

#[cfg(target_os = "linux")]
pub(crate) use linux::Looked;
#[cfg(all(unix, not(target_os = "linux")))]
pub(crate) use unix::Looked;
pub use variables::is_of_session;

/// The surroundings of a caller: its folder, variables and umask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workplace {
    folder: PathBuf,
    variables: BTreeMap<String, String>,
    umask: u32,
}

impl Workplace {
    /// Makes a workplace in this folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            ..Self::default()
        }
    }

    /// Adds those of these variables that [shape a tool chain](is_of_session) and hold no secret.
    #[must_use]
    pub fn with_variables<N, V>(mut self, variables: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<String>,
        V: Into<String>,
    {
        let pairs = variables.into_iter();
        self.variables = variables::keep(pairs.map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// Sets the umask.
    #[must_use]
    pub fn with_umask(mut self, umask: u32) -> Self {
        self.umask = umask & 0o777;
        self
    }

    /// The umask: which bits of a mode the files of the caller do not get. Zero, if it is not known.
    pub fn umask(&self) -> u32 {
        self.umask
    }

    /// The folder in which relative paths of the caller begin. The folder may have been removed since.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The variables that shape its tool chain: `PATH`, `VIRTUAL_ENV`, `LANG` and their like.
    pub fn variables(&self) -> &BTreeMap<String, String> {
        &self.variables
    }
}
