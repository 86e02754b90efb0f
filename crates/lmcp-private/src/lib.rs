//! Checks that files, folders and sockets on this machine belong to one user alone.
//!
//! | file | contents |
//! |---|---|
//! | `linux/` | all checks |
//! | `unix.rs` | the checks that other unixes (macOS) allow: the owners and modes on the way to a file |
//! | `windows.rs` | the checks that are possible without numbers of users: none |
//! | `untold.rs` | the user of a TCP connection, on systems that do not tell it |
//!
//! Everything that is trusted because of its place is checked here, so that there is one place to get it right. If a system
//! does not tell the owner, nothing is trusted.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(all(unix, any(test, not(target_os = "linux"))))]
#[cfg_attr(
    target_os = "linux",
    expect(dead_code, unreachable_pub, reason = "Linux only runs its tests")
)]
mod unix;
#[cfg(not(target_os = "linux"))]
mod untold;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
pub use linux::*;
#[cfg(all(unix, not(target_os = "linux")))]
pub use unix::{expect_safe_name, is_ours, is_ours_or_roots, restore_folder_of, whose};
#[cfg(not(target_os = "linux"))]
pub use untold::{expect_own_server, tcp_socket, tells_tcp_users};
#[cfg(windows)]
pub use windows::whose;

use std::ffi::{OsStr, OsString};

/// Whose something is, as seen from this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "whoever asks has to decide about each of them"
)]
pub enum Whose {
    /// The user of this process, which may be root.
    Ours,
    /// Root.
    Roots,
    /// Another user.
    Others,
    /// Unknown: the number stands for all users without one in this user namespace, or users have no numbers.
    Unknown,
}

/// A socket that a process on this machine has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpSocket {
    /// The user who made the socket.
    pub uid: u32,
    /// The number of the socket, as in `/proc/PID/fd`.
    pub inode: u64,
}

fn refused(words: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::PermissionDenied, words.to_owned())
}

/// The variables of this process that are nobody else's business: its settings, its tokens and keys, and the paths of files with
/// such. No program that it starts inherits them; one that is to have some is given them by name.
pub fn own_variables() -> impl Iterator<Item = OsString> {
    let all = std::env::vars_os().map(|(name, _)| name);
    all.filter(|name| is_own_variable(name))
}

/// Does a variable of this name belong to lmcp alone?
pub fn is_own_variable(name: impl AsRef<OsStr>) -> bool {
    const BEGINNING: &[u8] = b"LMCP_";
    let name = name.as_ref().as_encoded_bytes();
    // For Windows, names that differ in their case are one.
    name.get(..BEGINNING.len())
        .is_some_and(|beginning| beginning.eq_ignore_ascii_case(BEGINNING))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_of_lmcp_is_its_own() {
        for name in ["LMCP_TOKEN", "LMCP_HUB_BACKENDS", "LMCP_", "lmcp_token"] {
            assert!(is_own_variable(name), "{name}");
        }
        for name in ["", "LMCP", "PATH", "XLMCP_TOKEN", "ÄMCP_TOKEN"] {
            assert!(!is_own_variable(name), "{name}");
        }
    }
}
