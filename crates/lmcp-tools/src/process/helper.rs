//! How this program is called to be a guard, and not a server.

use std::{env, path::PathBuf, process::ExitCode};

use lmcp_private::guards::GUARD;
use nix::sys::signal::SigSet;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use super::{enter, guard, program::Program};

/// The program that guards commands: the one that runs, called once more with another first argument.
///
/// ```no_run
/// use std::process::ExitCode;
/// use lmcp_tools::Helper;
///
/// fn main() -> ExitCode {
///     let helper = match Helper::this_program() {
///         Ok(helper) => helper,
///         Err(code) => return code,
///     };
///     // … read the command line, serve with `settings.helper = Some(helper)`
///     # drop(helper);
///     ExitCode::SUCCESS
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Helper(Program);

impl Helper {
    /// Becomes a guard if the program was called as one. Call this first in `main`, before any thread is started.
    ///
    /// From then on no signal is blocked: a signal that the program's parent had blocked would be blocked in every
    /// command.
    ///
    /// # Errors
    /// The program was called to guard a command, has done so, and must now end with this code.
    pub fn this_program() -> Result<Self, ExitCode> {
        // Cannot fail: the mask is a valid one.
        let _ = SigSet::empty().thread_set_mask();
        let mut args = env::args_os().skip(1);
        match args.next().as_deref().and_then(|first| first.to_str()) {
            Some(GUARD) => {
                show_itself();
                Err(guard::run())
            }
            Some(enter::NAME) => {
                show_itself();
                let step = args.next();
                Err(enter::run(step.as_deref().and_then(|it| it.to_str())))
            }
            _ => Ok(Self(Program::own())),
        }
    }

    /// Names another program that begins with [`Helper::this_program`].
    pub fn program(path: impl Into<PathBuf>) -> Self {
        Self(Program::other(path.into()))
    }

    pub(super) fn starts(&self) -> &Program {
        &self.0
    }
}

/// Lets this process use its own folder in `/proc`, even if a command took away the leave to read the program file: there a
/// confined command gets its mark.
fn show_itself() {
    // Cannot fail: every process may do this.
    let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
}
