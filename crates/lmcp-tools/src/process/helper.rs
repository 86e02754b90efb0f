//! How this program is called to be a guard, and not a server.

use std::{env, ffi::OsString, path::PathBuf, process::ExitCode};

use lmcp_private::guards::GUARD;
use nix::sys::signal::SigSet;

use super::{enter, guard};

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
pub struct Helper(PathBuf);

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
            Some(GUARD) => Err(guard::run()),
            Some(enter::NAME) => Err(enter::run(
                args.next().as_deref().and_then(|it| it.to_str()),
            )),
            // This path stays valid when the file is replaced by a newer one.
            _ => Ok(Self("/proc/self/exe".into())),
        }
    }

    /// Names another program that begins with [`Helper::this_program`].
    pub fn program(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub(crate) fn command(&self) -> (&PathBuf, OsString) {
        (&self.0, GUARD.into())
    }
}
