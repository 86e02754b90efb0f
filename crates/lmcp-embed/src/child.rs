//! [`Child`]: a process with an identity.

use std::{
    io,
    path::Path,
    process::Command,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use lmcp_core::{Error, Identity};
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, pidfd_open},
};
use tokio::net::unix::pipe;

use crate::{
    children::{Life, Ticket},
    folder::{Credentials, Folder},
    host::Inner,
    random,
    register::{self, Record, Written},
    stat::{Started, Stat},
};

/// An identity for one process, and for what that process starts.
///
/// It is good from [`Child::spawn`] or [`Child::bind`] until the process ends or this value is dropped, whichever is
/// first; then the connections that were made with it end too.
#[derive(Debug)]
pub struct Child {
    ticket: Arc<Ticket>,
    folder: Folder,
    host: Weak<Inner>,
    record: Record,
    registered: Mutex<Registered>,
}

/// What the register says of a child.
#[derive(Debug, Default)]
struct Registered {
    /// It is about to be started.
    starting: Option<Written>,
    process: Option<(Started, Written)>,
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
        let ticket = host.children.expect(&token, identity)?;
        let credentials = Credentials {
            socket: &host.socket,
            identity: &token,
            host_lock: host.lock.path(),
        };
        let failed = |err| Error::io(format!("cannot write the credentials of `{label}`"), err);
        let folder = Folder::make(&credentials, &ticket.identity.id).map_err(failed)?;
        let record = Record {
            identity_file: folder.credentials().to_owned(),
            host_lock: host.lock.path().to_owned(),
            namespace: register::namespace(),
        };
        Ok(Self {
            ticket: Arc::new(ticket),
            folder,
            host: Arc::downgrade(host),
            record,
            registered: Mutex::default(),
        })
    }

    /// Who it is, for handlers: [`Caller::identity`](lmcp_core::Caller::identity).
    pub fn identity(&self) -> &Identity {
        &self.ticket.identity
    }

    /// A child of this child: its identity names this one as its parent. It is started by the program all the same.
    ///
    /// # Errors
    /// The host has closed, or its credentials cannot be written.
    pub fn child(&self, label: &str, role: &str) -> Result<Self, Error> {
        let closed = || Error::config(format!("`{label}`: the host has closed"));
        let host = self.host.upgrade().ok_or_else(closed)?;
        Self::new(&host, label, role, Some(self.identity()))
    }

    /// The file with the token and the socket: `{"identity": …, "socket": …}`, for this user alone. `lmcp proxy` takes
    /// it as `--identity-file`.
    pub fn credentials(&self) -> &Path {
        self.folder.credentials()
    }

    /// A folder for this user alone, which goes with the child: for a configuration that is made for it, say.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Tells a command where its credentials are, by environment variables that `lmcp proxy` knows.
    ///
    /// From now on, a proxy below this program that was told nothing waits for [`Child::bind`]: it could be this child's.
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
        let mut process = started.inspect_err(|_| self.registered().is_started())?;
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
        let process = i32::try_from(process).ok().and_then(Pid::from_raw);
        let process = process.ok_or(Errno::SRCH)?;
        let watched = pidfd_open(process, PidfdFlags::NONBLOCK)?;
        let started = Stat::of(process)?.process;
        if !self.ticket.begin(process) {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "this child has a process already, or has ended",
            ));
        }
        self.register(started)?;
        let ticket = Arc::downgrade(&self.ticket);
        host.runtime.spawn(async move {
            // Readable when the process ends; it is only watched, so that it is no pipe does not matter. One that cannot
            // be watched ends the child rather than never.
            if let Ok(watched) = pipe::Receiver::from_owned_fd_unchecked(watched) {
                let _ = watched.readable().await;
            }
            if let Some(ticket) = ticket.upgrade() {
                ticket.end();
            }
        });
        Ok(())
    }

    /// Notes which process it is, for those below it that were told nothing, and for whoever cleans up some day.
    fn register(&self, process: Started) -> io::Result<()> {
        self.folder.note(process)?;
        let written = self.record.write_process(process)?;
        let mut registered = self.registered();
        registered.process = Some((process, written));
        registered.is_started();
        Ok(())
    }

    /// Notes that it is about to be started by this process.
    fn announce(&self) -> io::Result<()> {
        let mut registered = self.registered();
        if registered.starting.is_none() && registered.process.is_none() {
            let host = Stat::of_this_process()?.process;
            let child = &self.ticket.identity.id;
            registered.starting = Some(self.record.write_starting(host, child)?);
        }
        Ok(())
    }

    fn registered(&self) -> MutexGuard<'_, Registered> {
        let registered = self.registered.lock();
        registered.unwrap_or_else(PoisonError::into_inner)
    }

    /// Has its process ended, or was it ended here?
    pub fn has_ended(&self) -> bool {
        *self.ticket.life.borrow() == Life::Ended
    }

    /// Ends the identity, whatever its process does.
    pub fn end(&self) {
        self.ticket.end();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
        let mut registered = self.registered();
        registered.is_started();
        // A process that goes on keeps its record: it had an identity, and what it starts must not pass for nobody's.
        if let Some((process, written)) = registered.process.take()
            && process.has_ended()
        {
            written.remove();
        }
    }
}

impl Registered {
    /// It is no longer about to be started.
    fn is_started(&mut self) {
        if let Some(starting) = self.starting.take() {
            starting.remove();
        }
    }
}
