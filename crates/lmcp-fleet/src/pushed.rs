//! This program as a host keeps it that it was put on: where it lies there, and what runs it. No I/O.
//!
//! The folder is named after the version and the content. So a hub finds there what was pushed by a program of its own kind, and
//! nothing else.

use std::{
    fmt::{self, Write as _},
    sync::{Arc, LazyLock},
};

use ring::digest::{SHA256, digest};

use crate::script::quoted;

/// A program as hosts keep it.
#[derive(Clone, Debug)]
pub struct Pushed {
    /// Its folder, below `~/.cache/lmcp`.
    pub(crate) folder: String,
    pub(crate) sha256: String,
}

impl Pushed {
    /// A program of this version, by all its bytes.
    pub fn new(version: &str, program: &[u8]) -> Self {
        let mut sha256 = String::new();
        for byte in digest(&SHA256, program).as_ref() {
            let _ = write!(sha256, "{byte:02x}");
        }
        Self {
            folder: format!("{version}-{}", &sha256[..16]),
            sha256,
        }
    }

    /// The name of its folder.
    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// Where it lies in the home of a user, for people.
    pub fn shown(&self) -> String {
        format!("~/{}", path_in(&self.folder))
    }
}

/// The folder of a program on the hosts to which it was pushed, for [`HostConfig::pushed`](crate::HostConfig::pushed). The program is
/// read once for all hosts, when the name of the folder is first needed.
#[derive(Clone)]
pub struct PushedFolder(Arc<LazyLock<Option<String>, Find>>);

/// Finds the name.
type Find = Box<dyn FnOnce() -> Option<String> + Send>;

impl PushedFolder {
    /// The folder of the program that this function reads. `None`: it cannot be read, and none is looked for.
    pub fn of(read: impl FnOnce() -> Option<Pushed> + Send + 'static) -> Self {
        let find: Find = Box::new(|| read().map(|pushed| pushed.folder));
        Self(Arc::new(LazyLock::new(find)))
    }

    pub(crate) fn name(&self) -> Option<&str> {
        LazyLock::force(&self.0).as_deref()
    }
}

impl PartialEq for PushedFolder {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for PushedFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PushedFolder")
    }
}

/// A line for the shell of a host that runs `lmcp` of its PATH, or else the one that was pushed.
pub(crate) fn either(folder: &str, args: &str) -> String {
    let path = path_in(folder);
    let script = [
        r#"if command -v lmcp >/dev/null 2>&1; then exec lmcp "$@"; fi;"#,
        &format!(r#"p="$HOME"/{path}; if [ -x "$p" ]; then exec "$p" "$@"; fi;"#),
        r#"echo "there is no lmcp in the PATH, and none was pushed" >&2; exit 127"#,
    ];
    format!("sh -c {} lmcp {args}", quoted(&script.join(" ")))
}

pub(crate) fn path_in(folder: &str) -> String {
    format!(".cache/lmcp/{folder}/lmcp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_tells_versions_and_builds_apart() {
        let folder = |version, program: &str| {
            let pushed = Pushed::new(version, program.as_bytes());
            pushed.folder().to_owned()
        };
        let one = folder("1.0", "a");
        assert_eq!(one, "1.0-ca978112ca1bbdca");
        assert!(one != folder("1.1", "a") && one != folder("1.0", "b"));
    }
}
