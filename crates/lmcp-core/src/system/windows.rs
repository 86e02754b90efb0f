//! The limits that the system sets for this process: Windows.

/// The number of sockets that the process may have open at once. `None`: only memory limits it.
pub(crate) fn most_open_files() -> Option<usize> {
    None
}
