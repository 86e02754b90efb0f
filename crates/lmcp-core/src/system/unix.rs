//! What the system lets this process have: unix.

use rustix::process::{Resource, getrlimit};

/// The files that the process may have open at once, sockets among them. `None`: as many as it likes.
pub(crate) fn most_open_files() -> Option<usize> {
    let files = getrlimit(Resource::Nofile).current;
    files.and_then(|files| usize::try_from(files).ok())
}
