//! Makes the allocator give memory back.
//!
//! glibc keeps what was freed for later: under a hostile load a server then holds several times its budget of memory. Two
//! of its settings change that, but they can only be set in the environment a program starts with. So a server that
//! others connect to starts itself once more. That takes a millisecond, and nothing is open yet.

use std::{env, os::unix::process::CommandExt as _, process::Command};

use crate::report;

const NAME: &str = "GLIBC_TUNABLES";
/// Large pieces are taken from the system one by one, and all threads share one heap.
const SETTINGS: &str = "glibc.malloc.mmap_threshold=131072:glibc.malloc.arena_max=1";

/// Says that the settings are ours: commands are not to get them.
const MARK: &str = "LMCP_ALLOCATOR";

/// Becomes the same program with these settings, unless it has them, somebody set others, or this is not glibc.
pub(crate) fn settle() {
    if !cfg!(target_env = "gnu") || env::var_os(NAME).is_some() {
        return;
    }
    let mut args = env::args_os();
    let name = args.next().unwrap_or_else(|| "lmcp".into());
    let err = Command::new("/proc/self/exe")
        .arg0(name)
        .args(args)
        .env(NAME, SETTINGS)
        .env(MARK, "set")
        .exec();
    // Without them the server works as well, and holds more memory.
    report::note(&format!("warning: the allocator cannot be set up: {err}"));
}
