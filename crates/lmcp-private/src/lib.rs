//! What belongs to one user alone, and how to tell: files, folders and sockets on this machine.
//!
//! | file | what lives there |
//! |---|---|
//! | `linux/` | all of it |
//! | `unix.rs` | what other unixes tell: the owners and modes on the way to a file. macOS |
//! | `windows.rs` | what is left without numbers of users: nothing |
//! | `untold.rs` | whose a TCP connection is, on systems that do not tell |
//!
//! Everything that is trusted because of where it lies goes through here, so that there is one place to get it right.
//! What a system does not tell is not trusted there.

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

/// Whose something is, as seen from this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "whoever asks has to decide about each of them"
)]
pub enum Whose {
    /// This process's user's, which may be root.
    Ours,
    /// Root's.
    Roots,
    /// Another user's.
    Others,
    /// Nobody can tell: the number stands for all users without one in this user namespace, or users have no numbers.
    Unknown,
}

/// A socket of some process on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpSocket {
    /// The user who made it.
    pub uid: u32,
    /// Its number, as in `/proc/PID/fd`.
    pub inode: u64,
}

fn refused(words: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::PermissionDenied, words.to_owned())
}
