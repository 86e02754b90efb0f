//! The program file from which guards, and the last steps before commands, are started.
//!
//! The file may belong to the user of the commands, so a confined command can take away the leave to run it (`chmod 0`). The
//! process that runs from the file gives the leave back.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// The program of this process. The path stays valid when the file is replaced by a newer one.
const OWN: &str = "/proc/self/exe";
/// How long a program is started again and again that somebody closes without pause.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often in a row a program may be open, and not be started all the same, before that is believed.
const BELIEVED: usize = 16;

#[derive(Clone, Debug)]
pub(super) struct Program {
    path: PathBuf,
    /// The mode that the file gets back. `None`: the mode of this file is not ours to change.
    mode: Option<u32>,
}

impl Program {
    /// Returns the program of this process, and notes the mode of its file.
    pub(super) fn own() -> Self {
        let found = fs::metadata(OWN).ok();
        Self::own_with(found.map(|found| found.mode() & 0o7777))
    }

    /// Returns the program of this process, whose file had this mode before any command could change it.
    pub(super) fn own_with(mode: Option<u32>) -> Self {
        Self {
            path: OWN.into(),
            mode,
        }
    }

    /// Returns another program.
    pub(super) fn other(path: PathBuf) -> Self {
        Self { path, mode: None }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn mode(&self) -> Option<u32> {
        self.mode
    }

    /// Starts the program. If that is not permitted, gives the file its mode back and tries again.
    pub(super) fn start<T>(&self, mut start: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        match (start(), self.mode) {
            (Err(err), Some(mode)) if is_denied(&err) => self.start_anyway(mode, start),
            (started, _) => started,
        }
    }

    fn start_anyway<T>(
        &self,
        mode: u32,
        mut start: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        let (until, is_over) = (Instant::now() + PATIENCE, AtomicBool::new(false));
        let opening = || {
            while !is_over.load(Ordering::Relaxed) && self.open(mode).is_ok() {
                std::hint::spin_loop();
            }
        };
        thread::scope(|scope| {
            let (mut right, mut helps) = (0, None);
            let started = loop {
                match self.open(mode) {
                    Ok(was_right) => right = if was_right { right + 1 } else { 0 },
                    Err(_) => break start(),
                }
                match start() {
                    Err(err) if is_denied(&err) && right < BELIEVED && Instant::now() < until => {}
                    started => break started,
                }
                // A command may close the file again before each start. With this thread the file is open half of the time.
                helps = helps.or_else(|| thread::Builder::new().spawn_scoped(scope, opening).ok());
            };
            is_over.store(true, Ordering::Relaxed);
            started
        })
    }

    /// Gives the file this mode. Returns whether the file had the mode already.
    fn open(&self, mode: u32) -> io::Result<bool> {
        let was_right = fs::metadata(&self.path)?.mode() & 0o7777 == mode;
        if !was_right {
            fs::set_permissions(&self.path, fs::Permissions::from_mode(mode))?;
        }
        Ok(was_right)
    }
}

fn is_denied(err: &io::Error) -> bool {
    err.kind() == io::ErrorKind::PermissionDenied
}

#[cfg(test)]
mod tests {
    use std::process::{Command, ExitStatus};

    use super::*;

    fn run(program: &Program) -> io::Result<ExitStatus> {
        program.start(|| Command::new(program.path()).status())
    }

    fn program(folder: &Path) -> Program {
        let path = folder.join("program");
        // A program that is open for writing cannot be run, so no process of this test opens it.
        let copied = Command::new("cp").arg("/bin/true").arg(&path).status();
        assert!(copied.unwrap().success());
        let mode = Some(0o755);
        Program { path, mode }
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_program_that_was_closed_is_opened_and_started() {
        let folder = tempfile::tempdir().unwrap();
        let program = program(folder.path());
        set_mode(program.path(), 0);
        assert!(run(&program).unwrap().success());
        assert_eq!(fs::metadata(program.path()).unwrap().mode() & 0o7777, 0o755);
        set_mode(program.path(), 0);
        let other = Program::other(program.path().to_owned());
        assert!(is_denied(&run(&other).unwrap_err()));
        assert_eq!(fs::metadata(program.path()).unwrap().mode() & 0o7777, 0);
    }

    #[test]
    fn a_program_that_is_closed_without_pause_is_started_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let program = program(folder.path());
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    set_mode(program.path(), 0);
                }
            });
            let started: Vec<_> = (0..20).map(|_| run(&program)).collect();
            is_over.store(true, Ordering::Relaxed);
            assert!(started.iter().all(Result::is_ok), "{started:?}");
        });
    }

    #[test]
    fn what_is_forbidden_for_another_reason_is_soon_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let program = program(folder.path());
        let mut tries = 0;
        let refused = program.start(|| {
            tries += 1;
            Err::<(), _>(io::ErrorKind::PermissionDenied.into())
        });
        assert!(refused.is_err());
        assert!(tries <= BELIEVED + 2, "{tries}");
    }
}
