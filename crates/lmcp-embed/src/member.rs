//! One child, as its host knows it, and [`ChildHandle`], which any code may hold.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt, io,
    path::PathBuf,
    process::{self, ExitStatus},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use lmcp_core::{Caller, Cx, Identity, ToolError, ToolResult};
use rustix::process::Pid;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::sync::watch;

use crate::{
    belongings::Belongings,
    descriptors::Descriptors,
    event::{Event, Teller},
    family::Allowance,
    folder::Folder,
    host::Inner,
    inbox::Inbox,
    links::Links,
    stat::{self, Started},
    state::ChildState,
};

/// The key of a child: a digest of its token.
pub(crate) type Key = [u8; 32];

/// One child. It stays in the table of the host until it ends.
pub(crate) struct Member {
    pub(crate) key: Key,
    /// Counts the children of the host, and of the hosts before it that had the same children.
    pub(crate) number: u64,
    pub(crate) identity: watch::Sender<Arc<Identity>>,
    pub(crate) life: watch::Sender<Life>,
    pub(crate) gone: watch::Sender<bool>,
    /// The program's data, one value for each type.
    data: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    /// Also locked while events of this child are sent, so that they keep their order.
    connections: Mutex<Vec<Connection>>,
    pub(crate) links: Links,
    /// The process that the host waits for instead of the program.
    watched: Mutex<Option<process::Child>>,
    /// The host waits for the process, whichever program this is by then.
    is_left: AtomicBool,
    /// The place of its files. Set before there is a handle of the child.
    place: OnceLock<Place>,
    /// The value that the program stored. Also locked while it is written to disk.
    stored: Mutex<Value>,
    /// Messages of the program that the child has not taken yet.
    pub(crate) inbox: Mutex<Inbox>,
    /// The files of a detached child, which ends with its process alone.
    kept: Mutex<Option<Belongings>>,
    /// Open files that the program keeps for the program that it becomes.
    pub(crate) descriptors: Mutex<Descriptors>,
    /// The limits for its sub-agents.
    family: Mutex<Option<Allowance>>,
    /// Another child made this one, which ends with that child.
    is_sub: AtomicBool,
    /// Processes that the child has not started may use its identity.
    adopts: AtomicBool,
}

#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    pub(crate) credentials: PathBuf,
    /// The child is saved for the next host.
    returns: bool,
}

/// The state of a child's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Not started yet, as far as the host knows.
    Expected,
    Running(Started),
    Ended(Ended),
}

impl Life {
    pub(crate) fn process(self) -> Option<Started> {
        match self {
            Self::Running(process) => Some(process),
            Self::Expected | Self::Ended(_) => None,
        }
    }
}

/// How a child ended. As text: `exit status: 3`, `signal: 9 (SIGKILL)`, or a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// Its process has ended. The status is known if this process has started it, also before it became another program by
    /// `exec`, and nobody has waited for it before. A program that waits for the process itself learns the status there; a
    /// program that used [`ChildHandle::watch`] learns it here.
    Process(Option<ExitStatus>),
    /// The program has taken the identity back.
    TakenBack,
    /// The host has closed, and does not watch the process any more.
    HostClosed,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(Some(status)) => status.fmt(f),
            Self::Process(None) => f.write_str("the exit status of its process is not known"),
            Self::TakenBack => f.write_str("the program has taken its identity back"),
            Self::HostClosed => f.write_str("the host has closed"),
        }
    }
}

/// One connection of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Connection {
    /// Tells this connection from all others: [`Caller::connection`].
    pub name: String,
    /// The process that connected: the process of the child, or one below it, such as `lmcp proxy`.
    pub process: Option<u32>,
}

impl Member {
    pub(crate) fn new(key: Key, number: u64, identity: Identity, life: Life) -> Self {
        Self {
            key,
            number,
            identity: watch::Sender::new(Arc::new(identity)),
            life: watch::Sender::new(life),
            gone: watch::Sender::new(false),
            data: Mutex::default(),
            connections: Mutex::default(),
            links: Links::default(),
            watched: Mutex::default(),
            is_left: AtomicBool::new(false),
            place: OnceLock::new(),
            stored: Mutex::default(),
            inbox: Mutex::new(Inbox::with(Vec::new())),
            kept: Mutex::default(),
            descriptors: Mutex::default(),
            family: Mutex::default(),
            is_sub: AtomicBool::new(false),
            adopts: AtomicBool::new(false),
        }
    }

    /// Sets the place of its files, and saves the child there if the host comes back.
    pub(crate) fn settle(&self, folder: &Folder, returns: bool) -> io::Result<()> {
        let place = Place {
            folder: folder.path().to_owned(),
            credentials: folder.credentials().to_owned(),
            returns,
        };
        let _ = self.place.set(place);
        self.try_record()
    }

    pub(crate) fn place(&self) -> &Place {
        let place = self.place.get();
        place.expect("it is set before there is a handle of the child")
    }

    /// Saves the changes to disk.
    pub(crate) fn record(&self) {
        if let Err(err) = self.try_record() {
            let label = &self.identity.borrow().label;
            tracing::warn!("cannot write down what is known of `{label}`: {err}");
        }
    }

    fn try_record(&self) -> io::Result<()> {
        let Some(place) = self.place.get().filter(|place| place.returns) else {
            return Ok(());
        };
        let stored = self.stored();
        if matches!(self.life(), Life::Ended(_)) {
            return Ok(());
        }
        ChildState::of(self, &place.folder, &stored).write()
    }

    /// Returns the state for the next host, if the child has files.
    pub(crate) fn state(&self) -> Option<ChildState> {
        let place = self.place.get()?;
        let stored = self.stored();
        Some(ChildState::of(self, &place.folder, &stored))
    }

    /// Does it live, and is its folder there?
    pub(crate) fn has_files(&self) -> bool {
        let is_there = self.place.get().is_some_and(|place| place.folder.exists());
        is_there && !matches!(self.life(), Life::Ended(_))
    }

    /// Keeps its files until it ends.
    pub(crate) fn keep(&self, belongings: Belongings) {
        *self.kept() = Some(belongings);
        if matches!(self.life(), Life::Ended(_)) {
            drop(self.take_kept());
        }
    }

    pub(crate) fn take_kept(&self) -> Option<Belongings> {
        self.kept().take()
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.kept().is_some()
    }

    pub(crate) fn kept(&self) -> MutexGuard<'_, Option<Belongings>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stored(&self) -> MutexGuard<'_, Value> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the host wait for the process after its end, instead of the program.
    pub(crate) fn watch(&self, process: process::Child) {
        *self.watched() = Some(process);
        self.leave_to_host();
        self.record();
        if matches!(self.life(), Life::Ended(_)) {
            self.reap(|| None);
        }
    }

    /// Notes that the program leaves it to the host to wait for the process, also when it has become another program.
    pub(crate) fn leave_to_host(&self) {
        self.is_left.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_left_to_host(&self) -> bool {
        self.is_left.load(Ordering::Relaxed)
    }

    /// Returns how the process ended: as this function says, which may wait for it, or else by waiting for the process that the
    /// program gave to the host.
    pub(crate) fn reap(&self, status: impl FnOnce() -> Option<ExitStatus>) -> Option<ExitStatus> {
        let mut watched = self.watched();
        let status = status();
        let watched = watched.take();
        watched
            .and_then(|mut process| process.try_wait().ok()?)
            .or(status)
    }

    /// Locked while somebody waits for the process. Until it is unlocked, the number of a process that the program has left to
    /// the host stays its own.
    pub(crate) fn watched(&self) -> MutexGuard<'_, Option<process::Child>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn life(&self) -> Life {
        *self.life.borrow()
    }

    /// Returns its process, while it is known to run.
    pub(crate) fn process(&self) -> Option<Started> {
        self.life().process()
    }

    /// Sets its process. `false`: the child has a process already, or has ended.
    pub(crate) fn begin(&self, process: Started) -> bool {
        self.life.send_if_modified(|life| {
            let is_expected = *life == Life::Expected;
            if is_expected {
                *life = Life::Running(process);
            }
            is_expected
        })
    }

    /// Who is in goes, and that is told, if it had not ended before. Gives the process that it was until now.
    pub(crate) fn end(
        self: &Arc<Self>,
        how: Ended,
        host: &Weak<Inner>,
        teller: &Teller,
    ) -> Option<Started> {
        let mut connections = self.connections();
        let mut process = None;
        let ends = self.life.send_if_modified(|life| {
            process = life.process();
            let lives = !matches!(life, Life::Ended(_));
            if lives {
                *life = Life::Ended(how);
            }
            lives
        });
        if ends {
            let child = || ChildHandle::new(self, host);
            for connection in connections.drain(..) {
                teller.tell(|| Event::Detached(child(), connection));
            }
            teller.tell(|| Event::Ended(child(), how));
            self.gone.send_replace(true);
            self.links.end_all();
        }
        process
    }

    /// Gives the child another role, and sends the event. `false`: the child has that role, or has ended.
    pub(crate) fn set_role(
        self: &Arc<Self>,
        role: &str,
        host: &Weak<Inner>,
        teller: &Teller,
    ) -> bool {
        let _in_order = self.connections();
        if matches!(self.life(), Life::Ended(_)) || self.identity.borrow().role == role {
            return false;
        }
        let mut from = role.to_owned();
        self.identity.send_modify(|identity| {
            let mut changed = Identity::clone(identity);
            std::mem::swap(&mut changed.role, &mut from);
            *identity = Arc::new(changed);
        });
        teller.tell(|| Event::RoleChanged {
            child: ChildHandle::new(self, host),
            from,
        });
        true
    }

    pub(crate) fn id(&self) -> String {
        self.identity.borrow().id.clone()
    }

    pub(crate) fn family(&self) -> MutexGuard<'_, Option<Allowance>> {
        self.family.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_sub(&self) {
        self.is_sub.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_sub(&self) -> bool {
        self.is_sub.load(Ordering::Relaxed)
    }

    pub(crate) fn adopts(&self) -> bool {
        self.adopts.load(Ordering::Relaxed)
    }

    /// Whether a process with this owner may use the identity of the child with this process.
    pub(crate) fn owns(&self, owner: Option<Pid>, child: Pid) -> bool {
        owner == Some(child) || owner.is_none() && self.adopts()
    }

    pub(crate) fn set_adopts(&self) {
        self.adopts.store(true, Ordering::Relaxed);
    }

    pub(crate) fn entered(self: &Arc<Self>, caller: &Caller, host: &Weak<Inner>, teller: &Teller) {
        let mut connections = self.connections();
        if !matches!(self.life(), Life::Ended(_)) {
            let connection = Connection::of(caller);
            connections.push(connection.clone());
            teller.tell(|| Event::Attached(ChildHandle::new(self, host), connection));
        }
    }

    pub(crate) fn left(self: &Arc<Self>, caller: &Caller, host: &Weak<Inner>, teller: &Teller) {
        let mut connections = self.connections();
        let is_it = |known: &Connection| Some(known.name.as_str()) == caller.connection();
        if let Some(at) = connections.iter().position(is_it) {
            let connection = connections.remove(at);
            teller.tell(|| Event::Detached(ChildHandle::new(self, host), connection));
        }
    }

    fn connections(&self) -> MutexGuard<'_, Vec<Connection>> {
        let connections = self.connections.lock();
        connections.unwrap_or_else(PoisonError::into_inner)
    }

    fn data(&self) -> MutexGuard<'_, HashMap<TypeId, Arc<dyn Any + Send + Sync>>> {
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    fn of(caller: &Caller) -> Self {
        Self {
            name: caller.connection().unwrap_or_default().to_owned(),
            process: caller.peer().and_then(|peer| stat::number(peer.pid)),
        }
    }
}

/// A handle of a child, for code that reads its state or sends it messages: tools, other threads, a window. Cheap to clone,
/// and holding it keeps nothing alive. The [`Child`](crate::Child) that owns it has all its methods, too.
#[derive(Clone)]
pub struct ChildHandle {
    pub(crate) member: Arc<Member>,
    pub(crate) host: Weak<Inner>,
}

impl ChildHandle {
    pub(crate) fn new(member: &Arc<Member>, host: &Weak<Inner>) -> Self {
        Self {
            member: Arc::clone(member),
            host: Weak::clone(host),
        }
    }

    /// Returns the child that a request comes from: the same as [`ChildOf::child`], for a [`Caller`].
    pub fn of(caller: &Caller) -> Option<&Self> {
        caller.extension()
    }

    /// Returns its current identity, for handlers: [`Caller::identity`].
    pub fn identity(&self) -> Arc<Identity> {
        Arc::clone(&self.member.identity.borrow())
    }

    /// Returns its label, the name for people.
    ///
    /// ```no_run
    /// # use lmcp::{Cx, ToolResult, embed::{ChildHandle, ChildOf as _}};
    /// # fn send(to: &ChildHandle, cx: Cx) -> ToolResult<()> {
    /// let from = cx.calling_child()?.label();
    /// to.deliver(format!("{from}: hello"))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn label(&self) -> String {
        self.member.identity.borrow().label.clone()
    }

    /// Returns its current role.
    ///
    /// ```no_run
    /// # fn is_lead(child: &lmcp::embed::ChildHandle) -> bool {
    /// child.role() == "lead"
    /// # }
    /// ```
    pub fn role(&self) -> String {
        self.member.identity.borrow().role.clone()
    }

    /// Returns the number of its process, while that runs.
    pub fn process(&self) -> Option<u32> {
        stat::number(Some(self.member.process()?.process.as_raw_pid()))
    }

    /// Returns its open connections. The list is empty if nothing has connected, or all connections have ended.
    pub fn connections(&self) -> Vec<Connection> {
        self.member.connections().clone()
    }

    /// Returns whether its process has ended, the identity was taken back, or the host has closed.
    pub fn has_ended(&self) -> bool {
        matches!(self.member.life(), Life::Ended(_))
    }

    /// Waits until [`ChildHandle::has_ended`] is true, and returns how the child ended.
    pub fn ended(&self) -> impl Future<Output = Ended> + Send + 'static + use<> {
        let mut life = self.member.life.subscribe();
        async move {
            let ended = life.wait_for(|life| matches!(life, Life::Ended(_))).await;
            match ended.map(|life| *life) {
                Ok(Life::Ended(how)) => how,
                // The child is not in the table of any host any more.
                Ok(Life::Expected | Life::Running(_)) | Err(_) => Ended::HostClosed,
            }
        }
    }

    /// Ends the identity, whatever its process does: its connections close, and new ones are refused.
    pub fn end(&self) {
        match self.host.upgrade() {
            Some(host) => host.children.end(&self.member, Ended::TakenBack),
            None => drop(
                self.member
                    .end(Ended::TakenBack, &self.host, &Teller::default()),
            ),
        }
    }

    /// Admits processes that show its token and that the child has not started itself, if they belong to no other child: a
    /// daemon starts the processes of `tmux`, `screen`, `systemd-run` or a container. Then every process of this user that
    /// can read the [credentials](Self::credentials) can act as this child, so use it only for children that need
    /// it.
    pub fn admit_adopted(&self) {
        self.member.set_adopts();
        self.member.record();
    }

    /// Stores a value of the program in memory with this child, and replaces the earlier value of this type.
    pub fn set_data<T: Any + Send + Sync>(&self, value: T) {
        let value = Arc::new(value);
        self.member.data().insert(TypeId::of::<T>(), value);
    }

    /// Returns the value of this type that the program set.
    pub fn data<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        let value = self.member.data().get(&TypeId::of::<T>()).cloned();
        value?.downcast().ok()
    }

    /// Sets a field under a name of the program's own. The child sees it in the welcome when it connects, and in
    /// [`Identity::fields`].
    pub fn set_field(&self, name: impl Into<String>, value: impl Into<Value>) {
        self.change(|identity| drop(identity.fields.insert(name.into(), value.into())));
    }

    /// Stores a value of the program with this child, which the next host at the same path still has: [`Host::start_at`].
    /// The value is written to disk, so it should hold no secret, and be small.
    ///
    /// [`Host::start_at`]: crate::Host::start_at
    ///
    /// # Errors
    /// The value cannot be written as JSON.
    pub fn store(&self, value: &impl Serialize) -> Result<(), serde_json::Error> {
        let value = serde_json::to_value(value)?;
        *self.member.stored() = value;
        self.member.record();
        Ok(())
    }

    /// Returns the stored value, if it is of this type.
    pub fn stored<T: DeserializeOwned>(&self) -> Option<T> {
        let stored = self.member.stored().clone();
        serde_json::from_value(stored).ok()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Identity)) {
        self.member.identity.send_modify(|identity| {
            let mut changed = Identity::clone(identity);
            change(&mut changed);
            *identity = Arc::new(changed);
        });
        self.member.record();
    }
}

/// Tells handlers which child calls.
pub trait ChildOf {
    /// Returns the child that the request comes from; `None` if it comes from another caller.
    fn child(&self) -> Option<&ChildHandle>;

    /// Returns the child that the request comes from, for tools that are for children alone.
    ///
    /// # Errors
    /// The request comes from another caller. The error says so to the model.
    fn calling_child(&self) -> ToolResult<&ChildHandle> {
        let refused = || ToolError::new("only child processes of this program can use this");
        self.child().ok_or_else(refused)
    }

    /// Returns the value of this type that the program set for that child: [`ChildHandle::set_data`].
    fn child_data<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.child()?.data()
    }
}

impl ChildOf for Cx {
    fn child(&self) -> Option<&ChildHandle> {
        ChildHandle::of(self.caller())
    }
}

impl PartialEq for ChildHandle {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.member, &other.member)
    }
}

impl Eq for ChildHandle {}

impl fmt::Debug for ChildHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ChildHandle")
            .field(&self.identity())
            .finish()
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("identity", &self.identity.borrow())
            .field("life", &self.life())
            .finish_non_exhaustive()
    }
}
