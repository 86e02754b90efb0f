//! The last step before a command that has a terminal, a fence or a long line: this program again, which takes its place and then
//! becomes the command.
//!
//! What it is told comes in an open file, for others can read command lines; and nothing of the command's environment is
//! there before the fence is, for a loader runs what its variables name. If the command cannot be run, that is written into
//! the same file, where the guard looks for it.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, Write as _},
    os::{fd::AsRawFd as _, unix::process::CommandExt as _},
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

/// How this program is called for it.
pub(super) const NAME: &str = "__enter";

/// Stands before the reason, in the file that held the step.
const NOT_RUN: &str = "not run: ";

#[derive(Serialize, Deserialize)]
struct Step {
    argv: Vec<String>,
    /// The last word is a line that is too long for a command line.
    is_long_line: bool,
    env: BTreeMap<String, String>,
    terminal: bool,
    fence: Option<Fence>,
}

/// This program, called to become the command; and what it is told, which must stay open until it runs.
pub(super) fn command(order: &Order) -> io::Result<(Command, File)> {
    let step = Step {
        argv: order.argv.clone(),
        is_long_line: long::is_long_line(order),
        env: order.env.clone(),
        terminal: order.tty.is_some(),
        fence: order.fence.clone(),
    };
    // Without the flag that would close it: this one is to be inherited.
    let mut told = File::from(memfd_create("step", MemfdFlags::empty())?);
    told.write_all(&serde_json::to_vec(&step)?)?;
    told.rewind()?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg(NAME)
        .arg(told.as_raw_fd().to_string())
        .env_clear();
    if !step.terminal {
        command.process_group(0);
    }
    Ok((command, told))
}

/// Takes the place and becomes the command; returns only if that fails, with what shells say then.
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
    // A limit on the size of files is told as a reason, and is no reason to be killed. The command does not inherit this.
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

/// Why the command was never run, if it was not. To be asked once it has ended.
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
    // The guard keeps it open, and need not keep what is in it.
    told.set_len(0)?;
    told.rewind()?;
    // The command itself is to find nothing of it.
    close_fds::set_fds_cloexec(3, &[]);
    Ok(serde_json::from_slice(&bytes)?)
}

impl Step {
    /// Puts a line that is too long into a file that the shell reads, and that must stay open until it does.
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
        // Neither can be had where a fence around us forbids it, or on a kernel without it.
        let _ = lmcp_private::mark::set();
        let _ = die_first();
        fence::enter(fence)?;
    }
    // A command does not go on without its guard, even if nobody else is left to see to that.
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Lets the kernel end a confined command before its guard and its server, when it is out of memory: a command can fill memory
/// that counts for no process.
fn die_first() -> io::Result<()> {
    let path = "/proc/self/oom_score_adj";
    let own: i32 = fs::read_to_string(path)?
        .trim()
        .parse()
        .map_err(io::Error::other)?;
    fs::write(path, (own + 300).min(1000).to_string())
}

/// Told twice: to who waits for the command, and on the command's own standard error, for who reads its output later.
fn failed(mut told: File, words: &str, code: u8) -> ExitCode {
    let _ = io::stderr().write_all(format!("{words}\n").as_bytes());
    let _ = told.write_all(format!("{NOT_RUN}{words}").as_bytes());
    ExitCode::from(code)
}
