//! The limits that the system sets for this process: unix.

use rustix::process::{Resource, getrlimit};

/// The number of files that the process may have open at once, sockets among them. `None`: no limit.
pub(crate) fn most_open_files() -> Option<usize> {
    let files = getrlimit(Resource::Nofile).current;
    files.and_then(|files| usize::try_from(files).ok())
}
