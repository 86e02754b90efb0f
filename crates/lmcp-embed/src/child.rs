//! [`Child`]: a process with an identity.

use std::{
    io,
    ops::Deref,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::process::ExitStatusExt as _,
    },
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    sync::Arc,
};

use lmcp_core::{Error, Identity};
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid},
};
use tokio::net::unix::pipe;

use crate::{
    belongings::Belongings,
    folder::{Credentials, Folder},
    host::Inner,
    member::{ChildHandle, Ended, Member},
    random,
    stat::{Started, Stat},
};

/// An identity for one process, and for what that process starts.
///
/// It is good from [`Child::spawn`] or [`Child::bind`] until the process ends or this value is dropped, whichever is
/// first; then the connections that were made with it end too. All that a [`ChildHandle`] can do, it can do as well.
#[derive(Debug)]
pub struct Child {
    handle: ChildHandle,
    /// Absent once it is detached.
    belongings: Option<Belongings>,
    credentials: PathBuf,
    folder: PathBuf,
}

/// Where a child finds its credentials.
pub const IDENTITY_FILE: &str = "LMCP_IDENTITY_FILE";

/// Where it finds the socket.
pub const SOCKET: &str = "LMCP_SOCKET";

impl Child {
    pub(crate) fn new(
        host: &Arc<Inner>,
        label: &str,
        role: &str,
        parent: Option<&Identity>,
    ) -> Result<Self, Error> {
        let mut identity = Identity::new(random::hex::<8>(), label, role);
        identity.parent = parent.map(|parent| parent.id.clone());
        // 128 bits, known to this process, to the file and to whoever reads it.
        let token = random::hex::<16>();
        let id = identity.id.clone();
        let member = host.children.expect(&token, identity)?;
        let handle = ChildHandle::new(&member, &Arc::downgrade(host));
        let credentials = Credentials {
            socket: &host.socket,
            identity: &token,
            host_lock: (!host.returns).then_some(host.lock.path()),
            returns: host.returns,
        };
        let failed = |err| Error::io(format!("cannot write the credentials of `{label}`"), err);
        let made = Folder::make(&credentials, &id);
        let made = made.and_then(|folder| {
            let belongings = Belongings::new(folder, host.lock.path());
            member.settle(belongings.folder.path(), host.returns)?;
            Ok(belongings)
        });
        let belongings = made.inspect_err(|_| handle.end()).map_err(failed)?;
        Ok(Self {
            handle,
            credentials: belongings.folder.credentials().to_owned(),
            folder: belongings.folder.path().to_owned(),
            belongings: Some(belongings),
        })
    }

    /// A handle of this child, which may be cloned and does not end it.
    pub fn handle(&self) -> &ChildHandle {
        &self.handle
    }

    /// A child of this child: its identity names this one as its parent. It is started by the program all the same.
    ///
    /// # Errors
    /// The host has closed, or its credentials cannot be written.
    pub fn child(&self, label: &str, role: &str) -> Result<Self, Error> {
        let closed = || Error::config(format!("`{label}`: the host has closed"));
        let host = self.host.upgrade().ok_or_else(closed)?;
        Self::new(&host, label, role, Some(&self.identity()))
    }

    /// The file with the token and the socket: `{"identity": …, "socket": …}`, for this user alone. `lmcp proxy` takes
    /// it as `--identity-file`.
    pub fn credentials(&self) -> &Path {
        &self.credentials
    }

    /// A folder for this user alone, which goes with the child: for a configuration that is made for it, say.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Tells a command where its credentials are, by environment variables that `lmcp proxy` knows.
    ///
    /// From now on `lmcp proxy` waits for [`Child::bind`] if it runs below this program and has no such variables: it may belong to this
    /// child, whose process is not known yet.
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
    /// It cannot be started, or one was started already.
    pub fn spawn(&self, command: &mut Command) -> io::Result<std::process::Child> {
        // Nobody is started who could take itself for nobody's child.
        self.announce()?;
        self.prepare(command);
        let started = command.spawn();
        let mut process = started.inspect_err(|_| self.belongings().retract())?;
        if let Err(err) = self.bind(process.id()) {
            let _ = process.kill();
            let _ = process.wait();
            return Err(err);
        }
        Ok(process)
    }

    /// Says which process this child is, for programs that start it in a way of their own. A connection that comes
    /// sooner waits for it.
    ///
    /// # Errors
    /// There is no such process, or it was said already.
    pub fn bind(&self, process: u32) -> io::Result<()> {
        let host = self.host.upgrade().ok_or(io::ErrorKind::NotConnected)?;
        let register = |started| self.belongings().register(started);
        bind(&host, &self.member, process, |_| true, register)
    }

    /// Leaves it to the host to wait for the process that [`Child::spawn`] gave: how it ends is told by
    /// [`ChildHandle::ended`] and by [`Event::Ended`](crate::Event::Ended), and no zombie is left.
    pub fn watch(&self, process: std::process::Child) {
        self.member.watch(process);
    }

    /// Leaves it to itself: it ends with its process, and not with this value. Where the host [comes
    /// back](crate::Host::start_at), it outlives the host, too, and the next one knows it.
    pub fn detach(mut self) -> ChildHandle {
        let handle = self.handle.clone();
        if let Some(belongings) = self.belongings.take() {
            self.member.keep(belongings);
        }
        handle
    }

    /// Notes that it is about to be started by this process.
    fn announce(&self) -> io::Result<()> {
        self.belongings().announce(&self.identity().id)
    }

    fn belongings(&self) -> &Belongings {
        let belongings = self.belongings.as_ref();
        belongings.expect("they are taken by `detach` alone, which takes the child, too")
    }
}

impl Deref for Child {
    type Target = ChildHandle;

    fn deref(&self) -> &ChildHandle {
        &self.handle
    }
}

/// How a process ended, if it was started by this one and nobody has asked yet. It can be asked again.
fn status_of(process: BorrowedFd<'_>) -> Option<ExitStatus> {
    let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::PidFd(process), peek).ok().flatten()?;
    let code = status.exit_status().map(|code| (code & 0xff) << 8);
    let signal = status.terminating_signal();
    Some(ExitStatus::from_raw(code.or(signal)?))
}

/// Says which process a child is, if that one will do.
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
    // In this order: what was looked at is what is watched.
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
    // A process that nobody watches would be this child for ever.
    register(started).inspect_err(|_| host.children.end(member, Ended::TakenBack))?;
    member.record();
    watch(host, member, watched);
    Ok(())
}

/// Ends a child with its process.
pub(crate) fn watch(host: &Inner, member: &Arc<Member>, process: OwnedFd) {
    let (member, children) = (Arc::downgrade(member), Arc::clone(&host.children));
    host.runtime.spawn(async move {
        // Readable when the process ends; it is only watched, so that it is no pipe does not matter. One that cannot be
        // watched ends the child rather than never.
        let mut status = None;
        if let Ok(process) = pipe::Receiver::from_owned_fd_unchecked(process) {
            let _ = process.readable().await;
            status = status_of(process.as_fd());
        }
        if let Some(member) = member.upgrade() {
            let status = member.reap().or(status);
            children.end(&member, Ended::Process(status));
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
