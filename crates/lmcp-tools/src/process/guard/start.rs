//! Starts the command: with pipes or a terminal, in its own group or session, and with no file of the guard
//! left open in it.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::process::CommandExt as _,
    },
    process::{Command, Stdio},
};

use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    process::Pid,
    pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use super::super::{
    enter, long,
    program::Program,
    protocol::{Order, Size, Stdin},
    spool::Stream,
};

/// A command that was started, and the guard's ends of its pipes, which never block.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) pid: Pid,
    pub(super) outputs: Vec<(Stream, File)>,
    pub(super) input: Option<File>,
    /// The guard's end of the terminal.
    pub(super) terminal: Option<File>,
    /// The file in which the last step before the command says why the command cannot be run.
    pub(super) step: Option<File>,
}

/// Starts the command.
pub(super) fn start(order: &Order) -> io::Result<Started> {
    // If something must be done just before the command runs, this program is started again; else the
    // command itself.
    let is_prepared = order.tty.is_some() || order.fence.is_some() || long::is_long_line(order);
    let program = Program::own_with(order.program_mode);
    let (mut command, step) = if is_prepared {
        let (command, step) = enter::command(program.path(), order)?;
        (command, Some(step))
    } else {
        (plain(order)?, None)
    };
    command.current_dir(&order.cwd);
    // The guard waits for every child alike, so the handle is not needed.
    let spawn = |mut command: Command| {
        let child = match is_prepared {
            true => program.start(|| command.spawn()),
            false => command.spawn(),
        }?;
        Ok(Pid::from_child(&child))
    };
    let started = match order.tty {
        Some(size) => on_terminal(command, size, spawn),
        None => on_pipes(command, &order.stdin, spawn),
    }?;
    Ok(Started { step, ..started })
}

fn plain(order: &Order) -> io::Result<Command> {
    let (program, args) = order
        .argv
        .split_first()
        .ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(&order.env)
        .process_group(0);
    Ok(command)
}

/// Starts the command, and closes the guard's copies of the command's ends.
fn on_pipes(
    mut command: Command,
    stdin: &Stdin,
    spawn: impl Fn(Command) -> io::Result<Pid>,
) -> io::Result<Started> {
    let (stdout, out) = io::pipe()?;
    let (stderr, err) = io::pipe()?;
    command.stdout(out).stderr(err);
    let input = match stdin {
        Stdin::Closed => {
            command.stdin(Stdio::null());
            None
        }
        Stdin::Given | Stdin::Open => {
            let (theirs, ours) = io::pipe()?;
            command.stdin(theirs);
            Some(ready(ours.into())?)
        }
    };
    let pid = spawn(command)?;
    Ok(Started {
        pid,
        outputs: vec![
            (Stream::Stdout, ready(stdout.into())?),
            (Stream::Stderr, ready(stderr.into())?),
        ],
        input,
        terminal: None,
        step: None,
    })
}

/// Does the same on a terminal.
fn on_terminal(
    mut command: Command,
    size: Size,
    spawn: impl Fn(Command) -> io::Result<Pid>,
) -> io::Result<Started> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    resize(&ours, size)?;
    let theirs = ioctl_tiocgptpeer(
        &ours,
        OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC,
    )?;
    command
        .stdin(theirs.try_clone()?)
        .stdout(theirs.try_clone()?)
        .stderr(theirs);
    let pid = spawn(command)?;
    let ours = ready(ours)?;
    Ok(Started {
        pid,
        outputs: vec![(Stream::Stdout, ours.try_clone()?)],
        input: Some(ours.try_clone()?),
        terminal: Some(ours),
        step: None,
    })
}

/// Sets a terminal's size. The kernel informs its programs.
pub(super) fn resize(terminal: impl std::os::fd::AsFd, size: Size) -> io::Result<()> {
    let size = Winsize {
        ws_row: size.rows,
        ws_col: size.cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    Ok(tcsetwinsize(terminal, size)?)
}

/// Makes a descriptor that never blocks.
fn ready(fd: OwnedFd) -> io::Result<File> {
    let flags = fcntl_getfl(fd.as_fd())?;
    fcntl_setfl(fd.as_fd(), flags | OFlags::NONBLOCK)?;
    Ok(fd.into())
}
