//! The step between `lmcp run` and its command: ties the child's life to the parent's, and becomes the child.

use std::{ffi::OsString, os::unix::process::CommandExt as _, process::Command};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::report::Failure;

/// The name of this step on the command line.
pub(crate) const STEP: &str = "run-child";

/// Becomes the command, under the same process number. The kernel asks the command to end if the parent is killed.
pub(crate) fn become_it(parent: i32, command: &[OsString]) -> Failure {
    let Some((program, arguments)) = command.split_first() else {
        return Failure::misuse("there is no command to run");
    };
    let shown = program.to_string_lossy();
    if let Err(err) = set_parent_process_death_signal(Some(Signal::TERM)) {
        return Failure::new(&format!("cannot watch over `{shown}`"), err);
    }
    // The parent may have been killed before the signal was set.
    if getppid() != Pid::from_raw(parent) {
        return Failure::of("the program that started this has ended");
    }
    let err = Command::new(program).args(arguments).exec();
    // The codes are those of shells.
    let code = match err.kind() {
        std::io::ErrorKind::NotFound => 127,
        _ => 126,
    };
    Failure::new(&format!("cannot run `{shown}`"), err).code(code)
}
