//! The last step before a command that has a terminal, a fence or a long line: this program runs again, enters the command's
//! place, and then becomes the command.
//!
//! The program reads the step from an open file, because others can read command lines. The command's environment is not set
//! before the fence is, because a loader runs the files that its variables name. If the command cannot be run, the reason is
//! written into the same file, where the guard looks for it.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, Write as _},
    os::{fd::AsRawFd as _, unix::process::CommandExt as _},
    path::Path,
    process::{Command, ExitCode},
};

use nix::sys::signal::{SigSet, Signal as Kind};
use rustix::{
    fs::{MemfdFlags, memfd_create},
    process::{Signal, ioctl_tiocsctty, set_parent_process_death_signal, setsid},
};
use serde::{Deserialize, Serialize};

use super::{
    fence, long,
    protocol::{Fence, Order},
};

/// The first argument with which this program is called for this step.
pub(super) const NAME: &str = "__enter";

/// Stands before the reason, in the file that held the step.
const NOT_RUN: &str = "not run: ";

#[derive(Serialize, Deserialize)]
struct Step {
    argv: Vec<String>,
    /// Whether the last word is a line that is too long for a command line.
    is_long_line: bool,
    env: BTreeMap<String, String>,
    terminal: bool,
    fence: Option<Fence>,
}

/// Returns a call of this program that becomes the command, and the file with the step, which must stay open until the call
/// runs.
pub(super) fn command(program: &Path, order: &Order) -> io::Result<(Command, File)> {
    let step = Step {
        argv: order.argv.clone(),
        is_long_line: long::is_long_line(order),
        env: order.env.clone(),
        terminal: order.tty.is_some(),
        fence: order.fence.clone(),
    };
    // The close-on-exec flag is left out: the program inherits this file.
    let mut told = File::from(memfd_create("step", MemfdFlags::empty())?);
    told.write_all(&serde_json::to_vec(&step)?)?;
    told.rewind()?;
    let mut command = Command::new(program);
    command
        .arg(NAME)
        .arg(told.as_raw_fd().to_string())
        .env_clear();
    if !step.terminal {
        command.process_group(0);
    }
    Ok((command, told))
}

/// Enters the command's place and becomes the command. Returns only if that fails, with the exit code that shells use for
/// the failure.
pub(super) fn run(descriptor: Option<&str>) -> ExitCode {
    let opened = descriptor
        .ok_or_else(|| io::ErrorKind::InvalidInput.into())
        .and_then(open);
    let Ok(mut told) = opened else {
        return ExitCode::from(125);
    };
    let mut step = match read(&mut told) {
        Ok(step) => step,
        Err(err) => return failed(told, &format!("cannot tell what to run: {err}"), 125),
    };
    // With the signal blocked, a limit on the size of files gives an error that can be reported, instead of killing this
    // process. The signal is unblocked before the command runs.
    let too_large = SigSet::from(Kind::SIGXFSZ);
    let _ = too_large.thread_block();
    if let Err(err) = prepare(&step) {
        return failed(told, &format!("cannot confine the command: {err}"), 125);
    }
    let line = match step.shorten() {
        Ok(line) => line,
        Err(err) => return failed(told, &format!("cannot pass the command on: {err}"), 125),
    };
    let Some((program, args)) = step.argv.split_first() else {
        return ExitCode::FAILURE;
    };
    let _ = too_large.thread_unblock();
    let err = Command::new(program)
        .args(args)
        .env_clear()
        .envs(&step.env)
        .exec();
    drop(line);
    let code = if err.kind() == io::ErrorKind::NotFound {
        127
    } else {
        126
    };
    failed(told, &format!("cannot run `{program}`: {err}"), code)
}

/// Returns why the command was never run, if it was not. Call this once the command has ended.
pub(super) fn why_not_run(mut told: &File) -> Option<String> {
    let mut words = String::new();
    told.rewind().ok()?;
    told.read_to_string(&mut words).ok()?;
    let why = words.strip_prefix(NOT_RUN)?;
    Some(why.to_owned())
}

fn open(descriptor: &str) -> io::Result<File> {
    let descriptor: u32 = descriptor.parse().map_err(io::Error::other)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    options.open(format!("/proc/self/fd/{descriptor}"))
}

fn read(told: &mut File) -> io::Result<Step> {
    let mut bytes = Vec::new();
    told.read_to_end(&mut bytes)?;
    // The guard keeps the file open; its content is not needed any more.
    told.set_len(0)?;
    told.rewind()?;
    // The command must not inherit any of these files.
    close_fds::set_fds_cloexec(3, &[]);
    Ok(serde_json::from_slice(&bytes)?)
}

impl Step {
    /// Puts a line that is too long into a file that the shell reads. The file must stay open until the shell has read it.
    fn shorten(&mut self) -> io::Result<Option<File>> {
        if !self.is_long_line {
            return Ok(None);
        }
        let shell = self.argv.first().cloned().unwrap_or_default();
        let Some(line) = self.argv.last_mut() else {
            return Ok(None);
        };
        let (short, file) = long::short_form(&shell, line)?;
        *line = short;
        Ok(Some(file))
    }
}

fn prepare(step: &Step) -> io::Result<()> {
    if step.terminal {
        setsid()?;
        ioctl_tiocsctty(io::stdin())?;
    }
    if let Some(fence) = &step.fence {
        // Both fail where a fence around this process forbids them, or on a kernel without them.
        let _ = lmcp_private::mark::set();
        let _ = die_first();
        fence::enter(fence)?;
    }
    // The command must not go on without its guard, even if no other process is left to end it.
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Makes the kernel end a confined command before its guard and its server when memory runs out: a command can fill memory
/// that counts for no process.
fn die_first() -> io::Result<()> {
    let path = "/proc/self/oom_score_adj";
    let own: i32 = fs::read_to_string(path)?
        .trim()
        .parse()
        .map_err(io::Error::other)?;
    fs::write(path, (own + 300).min(1000).to_string())
}

/// Writes the reason twice: into the file for the guard, and on the command's own standard error for later readers of its
/// output.
fn failed(mut told: File, words: &str, code: u8) -> ExitCode {
    let _ = io::stderr().write_all(format!("{words}\n").as_bytes());
    let _ = told.write_all(format!("{NOT_RUN}{words}").as_bytes());
    ExitCode::from(code)
}
