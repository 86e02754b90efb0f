//! [`Child`]: a process with an identity.

use std::{
    io,
    ops::Deref,
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
    process::{self, Command},
    sync::Arc,
};

use lmcp_core::{Error, Identity};
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, pidfd_open},
};
use tokio::net::unix::pipe;

use crate::{
    belongings::Belongings,
    children,
    folder::{Credentials, Folder},
    host::Inner,
    member::{ChildHandle, Ended, Life, Member},
    random,
    reaping::Waiter,
    stat::{Started, Stat},
};

/// An identity for one process, and for what that process starts.
///
/// The identity is valid from [`Child::spawn`] or [`Child::bind`] until the process ends or this value is dropped, whichever
/// is first; then its connections end, too. A `Child` has all methods of [`ChildHandle`].
#[derive(Debug)]
pub struct Child {
    handle: ChildHandle,
    /// Absent after the child was detached.
    belongings: Option<Belongings>,
}

/// The variable that names the file with the credentials of a child.
pub const IDENTITY_FILE: &str = "LMCP_IDENTITY_FILE";

/// The variable that names the socket.
pub const SOCKET: &str = "LMCP_SOCKET";

/// The maker of a child.
#[derive(Clone, Copy)]
pub(crate) enum Maker<'a> {
    Program,
    /// The program, for a child of this child.
    ProgramFor(&'a Identity),
    /// This child makes the new one, which ends together with it.
    Child(&'a Identity),
}

impl Child {
    pub(crate) fn new(
        host: &Arc<Inner>,
        label: &str,
        role: &str,
        maker: Maker<'_>,
    ) -> Result<Self, Error> {
        let mut identity = Identity::new(random::hex::<8>(), label, role);
        identity.parent = match maker {
            Maker::Program => None,
            Maker::ProgramFor(parent) | Maker::Child(parent) => Some(parent.id.clone()),
        };
        // The token has 128 bits. Only this process, the file and its readers know it.
        let token = random::hex::<16>();
        let id = identity.id.clone();
        let (key, number) = (children::key(&token), host.children.number());
        let member = Member::new(key, number, identity, Life::Expected);
        if matches!(maker, Maker::Child(_)) {
            member.set_sub();
        }
        let credentials = Credentials {
            socket: &host.socket,
            identity: &token,
            host_lock: (!host.returns).then_some(host.lock.path()),
            returns: host.returns,
        };
        let failed = |err| Error::io(format!("cannot write the credentials of `{label}`"), err);
        let folder = Folder::make(&credentials, &id).map_err(failed)?;
        let belongings = Belongings::new(folder, host.lock.path(), &host.place);
        let settled = member.settle(&belongings.folder, host.returns);
        settled.map_err(failed)?;
        // The child has its files before anybody can have a handle of it.
        let member = host.children.expect(member)?;
        Ok(Self {
            handle: ChildHandle::new(&member, &Arc::downgrade(host)),
            belongings: Some(belongings),
        })
    }

    /// Returns a handle of this child. The handle can be cloned, and dropping it does not end the child.
    pub fn handle(&self) -> &ChildHandle {
        &self.handle
    }

    /// Sets the environment variables by which `lmcp proxy` finds the credentials.
    ///
    /// From now on, an `lmcp proxy` that runs below this program without these variables waits for [`Child::bind`], because
    /// it may belong to this child, whose process is not known yet.
    pub fn prepare(&self, command: &mut Command) {
        command.env(IDENTITY_FILE, self.credentials());
        if let Some(host) = self.host.upgrade() {
            command.env(SOCKET, &host.socket);
        }
        if let Err(err) = self.announce() {
            tracing::warn!("cannot register a child that is about to be started: {err}");
        }
    }

    /// Starts a command as this child.
    ///
    /// # Errors
    /// The command cannot be started, or the child was started before.
    pub fn spawn(&self, command: &mut Command) -> io::Result<process::Child> {
        // The child is announced before it starts, so that a proxy below it never concludes that it has no host.
        self.announce()?;
        self.prepare(command);
        let started = command.spawn();
        let mut process = started.inspect_err(|_| self.belongings().retract())?;
        let bound = self.bind(process.id());
        bound.inspect_err(|_| stop(&mut process))?;
        Ok(process)
    }

    /// Tells the host that this process is the child, and lets the host wait for it: [`Child::bind`] and
    /// [`ChildHandle::watch`] in one. If that fails, the process is killed.
    ///
    /// ```no_run
    /// # fn demo(child: &lmcp::embed::Child) -> std::io::Result<()> {
    /// let mut command = std::process::Command::new("some-agent");
    /// child.bind_watched(command.envs(child.env()).spawn()?)
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Child::bind`].
    pub fn bind_watched(&self, mut process: process::Child) -> io::Result<()> {
        let bound = self.bind(process.id());
        bound.inspect_err(|_| stop(&mut process))?;
        self.watch(process);
        Ok(())
    }

    /// Tells the host which process this child is. Use it in a program that starts the process in its own way. A connection
    /// that arrives earlier waits for this call.
    ///
    /// # Errors
    /// The process does not exist, or the child has a process already.
    pub fn bind(&self, process: u32) -> io::Result<()> {
        let host = self.host.upgrade().ok_or(io::ErrorKind::NotConnected)?;
        let register = |started| self.belongings().register(started);
        bind(&host, &self.member, process, |_| true, register)
    }

    /// Lets the child live on without this value: it ends with its process. If the host [comes back](crate::Host::start_at),
    /// the child outlives the host, too, and the next host knows it.
    pub fn detach(mut self) -> ChildHandle {
        let handle = self.handle.clone();
        if let Some(belongings) = self.belongings.take() {
            self.member.keep(belongings);
        }
        handle
    }

    /// Writes into the register that this process is about to start the child.
    fn announce(&self) -> io::Result<()> {
        self.belongings().announce(&self.identity().id)
    }

    fn belongings(&self) -> &Belongings {
        let belongings = self.belongings.as_ref();
        belongings.expect("they are taken by `detach` alone, which takes the child, too")
    }
}

impl ChildHandle {
    /// Lets the host wait for the process that [`Child::spawn`] returned, so that no zombie is left. [`ChildHandle::ended`]
    /// and [`Event::Ended`](crate::Event::Ended) tell how it ended. After [`Host::exec`](crate::Host::exec) the host of the next
    /// program waits for the process, without another call.
    pub fn watch(&self, process: process::Child) {
        self.member.watch(process);
    }

    /// Makes a child of this child: its identity names this one as its parent. The program starts it, as any other child.
    ///
    /// # Errors
    /// The host has closed, or its credentials cannot be written.
    pub fn child(&self, label: &str, role: &str) -> Result<Child, Error> {
        let closed = || Error::config(format!("`{label}`: the host has closed"));
        let host = self.host.upgrade().ok_or_else(closed)?;
        Child::new(&host, label, role, Maker::ProgramFor(&self.identity()))
    }

    /// Returns the file with the token and the socket: `{"identity": …, "socket": …}`, readable by this user alone. `lmcp
    /// proxy` takes the file as `--identity-file`.
    pub fn credentials(&self) -> &Path {
        &self.member.place().credentials
    }

    /// Returns a folder that only this user can enter, for example for a configuration of the child. The folder is removed
    /// with the child.
    pub fn folder(&self) -> &Path {
        &self.member.place().folder
    }
}

impl Deref for Child {
    type Target = ChildHandle;

    fn deref(&self) -> &ChildHandle {
        &self.handle
    }
}

/// Ends a process that has no identity.
fn stop(process: &mut process::Child) {
    let _ = process.kill();
    let _ = process.wait();
}

/// Tells the host which process a child is, if `will_do` accepts the process.
pub(crate) fn bind(
    host: &Inner,
    member: &Arc<Member>,
    process: u32,
    will_do: impl FnOnce(Pid) -> bool,
    register: impl FnOnce(Started) -> io::Result<()>,
) -> io::Result<()> {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    let process = process.ok_or(Errno::SRCH)?;
    let watched = pidfd_open(process, PidfdFlags::NONBLOCK)?;
    let started = Stat::of(process)?.process;
    // `will_do` runs before the second look, so that the checked process is the watched one.
    if !will_do(process) || Stat::of(process)?.process != started {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "you have not started it, or it belongs to another",
        ));
    }
    if !member.begin(started) {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "this child has a process already, or has ended",
        ));
    }
    host.children.judge_again(member);
    // A process that is not watched would stay this child for ever.
    register(started).inspect_err(|_| host.children.end(member, Ended::TakenBack))?;
    member.record();
    watch(host, member, watched, Waiter::Program);
    Ok(())
}

/// Ends a child when its process ends.
pub(crate) fn watch(host: &Inner, member: &Arc<Member>, process: OwnedFd, waiter: Waiter) {
    let (member, children) = (Arc::downgrade(member), Arc::clone(&host.children));
    host.runtime.spawn(async move {
        // The file is readable when the process ends. It is not a pipe, but it is only watched, so that does not matter. If
        // it cannot be watched, the child ends at once, because otherwise it would never end.
        let process = pipe::Receiver::from_owned_fd_unchecked(process);
        if let Ok(process) = &process {
            let _ = process.readable().await;
        }
        let status = || waiter.status(process.ok()?.as_fd());
        match member.upgrade() {
            Some(member) => {
                let status = member.reap(status);
                children.end(&member, Ended::Process(status));
            }
            None => drop(status()),
        }
    });
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.belongings.is_some() {
            self.end();
        }
    }
}
