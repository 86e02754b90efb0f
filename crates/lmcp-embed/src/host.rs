//! [`Host`]: a server that runs inside a program.

use std::{
    borrow::BorrowMut,
    io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use lmcp_core::{Error, Handle, Server, Tasks};
use lmcp_wire::greeting::{Goodbye, Then};
use tokio::{
    runtime::{self, RuntimeFlavor},
    sync::watch,
};

use crate::{
    child::{Child, Maker},
    children::{Children, Heir},
    descriptors,
    event::Events,
    handle::HostHandle,
    lock::Lock,
    member::ChildHandle,
    random,
    setup::{Labels, Setup},
    socket_dir::SocketDir,
    state::{self, State},
};

/// A server inside this program, on a socket of its own, for the children of this program.
///
/// ```no_run
/// use lmcp::{Cx, NoArgs, Server, Tool};
/// use lmcp::embed::Host;
///
/// async fn hello(_: NoArgs, cx: Cx) -> String {
///     let name = cx.caller().identity().map_or("stranger", |identity| &identity.label);
///     format!("hello, {name}")
/// }
///
/// let tool = Tool::new("hello", hello).about("Says hello.").read_only();
/// let host = Host::start(Server::new("my-program", "1.0.0").tool(tool))?;
/// let child = host.child("reviewer", "worker")?;
/// // It, and what it starts, can talk to the server through `lmcp proxy`.
/// let mut process = child.spawn(&mut std::process::Command::new("some-agent"))?;
/// process.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Dropping the host closes it: the socket is removed at once, and calls that run are cancelled after 30 ms. A program that
/// quits calls [`Host::finish`]. A program that ends by `std::process::exit` drops nothing, so it must call that or
/// [`Host::close`] before. If the program is killed, the next host of this user removes its files; credentials of children are
/// removed only after their processes have ended, too.
#[derive(Debug)]
pub struct Host {
    inner: Arc<Inner>,
    /// Dropped to stop. With what the server still needs, if nobody waits for its end.
    stop: Option<watch::Sender<Option<Arc<Inner>>>>,
    /// Hears when the server has ended.
    ended: Mutex<mpsc::Receiver<()>>,
    has_thread: bool,
}

/// The state that the host and its children share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) socket: PathBuf,
    /// Locked, so that others see that this host is alive.
    pub(crate) lock: Lock,
    /// After the lock, so that a folder of its own is empty.
    pub(crate) place: Arc<SocketDir>,
    pub(crate) children: Arc<Children>,
    pub(crate) runtime: runtime::Handle,
    /// Set before the first request is served.
    pub(crate) server: OnceLock<Handle>,
    /// Another host may come at the same path, and take over the children.
    pub(crate) returns: bool,
    /// The program is about to become another one.
    is_replaced: AtomicBool,
    /// The socket of another host that takes over the children.
    moved_to: OnceLock<PathBuf>,
    /// The host ends for good, and no other takes over the children: how long running calls may go on.
    grace: OnceLock<Duration>,
    /// Futures of the program.
    tasks: Tasks,
}

impl Inner {
    /// Returns what children should do after this host has closed.
    fn goodbye(&self) -> Goodbye {
        if let Some(socket) = self.moved_to.get() {
            return Goodbye::elsewhere(socket.to_string_lossy());
        }
        Goodbye::new(self.then())
    }

    fn then(&self) -> Then {
        if self.ends_for_good() {
            Then::Gone
        } else if self.is_replaced() || (self.returns && self.children.any_stays()) {
            Then::Wait
        } else {
            Then::Gone
        }
    }

    fn ends_for_good(&self) -> bool {
        self.grace.get().is_some()
    }

    fn is_replaced(&self) -> bool {
        self.is_replaced.load(Ordering::Relaxed)
    }

    /// Runs a future that ends with the host.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let _runtime = self.runtime.enter();
        self.tasks.spawn(future);
    }

    /// Returns who takes over the children.
    fn heir(&self) -> Heir {
        if self.ends_for_good() {
            Heir::Nobody
        } else if self.is_replaced() {
            Heir::Program
        } else if self.returns || self.moved_to.get().is_some() {
            Heir::Host
        } else {
            Heir::Nobody
        }
    }
}

impl Drop for Inner {
    /// Also runs if the host never served: the children of the host before it are then left to the next one.
    fn drop(&mut self) {
        self.children.close(self.heir());
    }
}

/// A runtime that may be dropped anywhere, also in a future of another runtime: dropping it does not wait for its threads.
struct Background(Option<runtime::Runtime>);

impl Background {
    fn get(&self) -> &runtime::Runtime {
        self.0.as_ref().expect("it is taken by `drop` alone")
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// How long a closing host waits for running calls.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

impl Host {
    /// Starts a server on a thread of its own, so that no work of the program delays it.
    ///
    /// The socket is `$XDG_RUNTIME_DIR/lmcp/PID.sock`. If that folder does not exist or is not safe, the socket is in
    /// `/run/user/UID/lmcp`, or in a folder for this user in `/tmp`. [`Host::setup`] has other choices.
    ///
    /// # Errors
    /// The server is not valid, or the socket cannot be made.
    pub fn start(server: Server) -> Result<Self, Error> {
        Self::setup().start(server)
    }

    /// Starts a server as [`Host::start`] does, for tools that need the host: they keep a clone of the handle, which keeps
    /// nothing alive.
    ///
    /// ```no_run
    /// # use lmcp::{Cx, NoArgs, Server, Tool, embed::Host};
    /// let host = Host::start_with(|host| {
    ///     let host = host.clone();
    ///     let count = move |_: NoArgs, _: Cx| {
    ///         let count = host.children().len();
    ///         async move { format!("{count} children") }
    ///     };
    ///     Server::new("my-program", "1.0.0").tool(Tool::new("count", count).about("Counts children.").read_only())
    /// })?;
    /// # Ok::<(), lmcp::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Host::start`].
    pub fn start_with(server: impl FnOnce(&HostHandle) -> Server) -> Result<Self, Error> {
        Self::setup().start_with(server)
    }

    /// Starts a server as [`Host::start`] does, with the socket in a folder of the program's own.
    ///
    /// # Errors
    /// As [`Host::start`]; the folder can be entered by others; its name is too long.
    pub fn start_in(server: Server, folder: impl AsRef<Path>) -> Result<Self, Error> {
        Self::setup().folder(folder).start(server)
    }

    /// Starts a server as [`Host::start`] does, with the socket at a path of the program's own, in a folder that only this
    /// user can enter.
    ///
    /// Such a host comes back: it takes over the children of the last host at this path, even if the program was killed, has
    /// been upgraded or became another one by [`Host::exec`]. The children are in [`Host::children`], with their identity
    /// and their [stored](ChildHandle::store) values, and connect again by themselves. A child whose process has ended
    /// meanwhile is reported as [`Event::Ended`](crate::Event::Ended).
    ///
    /// # Errors
    /// As [`Host::start_in`]; another host listens there.
    pub fn start_at(server: Server, path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::setup().path(path).start(server)
    }

    /// Starts a server on the runtime of the caller, for programs that want no other thread.
    ///
    /// # Errors
    /// As [`Host::start`].
    pub async fn start_here(server: Server) -> Result<Self, Error> {
        Self::setup().start_here(server).await
    }

    /// Returns all options for the start of a host.
    pub fn setup() -> Setup {
        Setup::default()
    }

    pub(crate) fn on_thread(
        place: SocketDir,
        state: State,
        labels: Labels,
        host: &HostHandle,
        server: impl FnOnce(&HostHandle) -> Server,
    ) -> Result<Self, Error> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(52)
            .build()
            .map_err(|err| Error::io("cannot start a server", err))?;
        let runtime = Background(Some(runtime));
        let handle = runtime.get().handle().clone();
        let (mut host, serving) = Self::new(place, state, labels, host, server, handle)?;
        host.has_thread = true;
        thread::Builder::new()
            .name("lmcp".into())
            .spawn(move || {
                let ending = runtime.get().block_on(serving);
                // The runtime is dropped first, so that cancelled handlers free everything before a waiter learns of the
                // end.
                drop(runtime);
                drop(ending);
            })
            .map_err(|err| Error::io("cannot start a thread", err))?;
        Ok(host)
    }

    pub(crate) fn new(
        place: SocketDir,
        state: State,
        labels: Labels,
        host: &HostHandle,
        server: impl FnOnce(&HostHandle) -> Server,
        runtime: runtime::Handle,
    ) -> Result<
        (
            Self,
            impl Future<Output = mpsc::Sender<()>> + Send + 'static,
        ),
        Error,
    > {
        let place = Arc::new(place);
        let (unix, lock) = place.listen()?;
        let inner = Arc::new_cyclic(|host| Inner {
            socket: unix.path().to_owned(),
            lock,
            place: Arc::clone(&place),
            children: Arc::new(Children::new(host.clone(), labels)),
            runtime,
            server: OnceLock::new(),
            returns: place.is_path(),
            is_replaced: AtomicBool::new(false),
            moved_to: OnceLock::new(),
            grace: OnceLock::new(),
            tasks: Tasks::default(),
        });
        let left = state::left_at(&inner.socket, inner.returns);
        inner.children.resume(&inner, state, left);
        let _ = host.0.set(Arc::downgrade(&inner));
        let server = server(host).start()?;
        let server = inner.server.get_or_init(|| server).clone();
        let (stop, mut stopped) = watch::channel(None);
        let needed = stopped.clone();
        let (ending, ended) = mpsc::channel();
        let gate = Arc::clone(&inner.children);
        let (closing, ending_for_good) = (Arc::downgrade(&inner), Arc::downgrade(&inner));
        let unix = unix
            .gate(gate)
            .goodbye(move || {
                let inner = closing.upgrade();
                inner.map_or(Goodbye::new(Then::Gone), |inner| inner.goodbye())
            })
            .grace(move || {
                let inner = ending_for_good.upgrade();
                let grace = inner.and_then(|inner| inner.grace.get().copied());
                grace.unwrap_or_default()
            })
            .until(async move { while stopped.changed().await.is_ok() {} });
        let serving = async move {
            if let Err(err) = server.serve(unix).await {
                tracing::error!("the server inside this program has ended: {err}");
            }
            drop(server);
            // After the socket: whoever may lock its path can listen there, and its folder is empty.
            drop(needed);
            drop(place);
            ending
        };
        let host = Self {
            inner,
            stop: Some(stop),
            ended: Mutex::new(ended),
            has_thread: false,
        };
        Ok((host, serving))
    }

    /// Returns a handle that can be cloned and keeps nothing alive.
    pub fn handle(&self) -> HostHandle {
        HostHandle::of(&self.inner)
    }

    /// Returns the children that have not ended, in the order in which they were made, also by an earlier host.
    ///
    /// A child is in this list until its [`Event::Ended`](crate::Event::Ended) can be read, and not after it. So a program that
    /// sees an empty list still finds the last events in its [`Events`]; [`Host::all_ended`] waits for that.
    pub fn children(&self) -> Vec<ChildHandle> {
        self.inner.children.all()
    }

    /// Returns the child with this label, if it has not ended. If several have the label, returns the one that was made first.
    pub fn find_label(&self, label: &str) -> Option<ChildHandle> {
        self.handle().find_label(label)
    }

    /// Returns the events of children from now on.
    pub fn events(&self) -> Events {
        self.inner.children.teller.events()
    }

    /// Makes an identity for a process that the program is about to start.
    ///
    /// The label is for people, and several children may have the same, unless the host was [set up](Setup::unique_labels)
    /// otherwise. Tools can be limited to a role, see [`Tool::only_for`](lmcp_core::Tool::only_for).
    ///
    /// # Errors
    /// Its credentials cannot be written.
    pub fn child(&self, label: &str, role: &str) -> Result<Child, Error> {
        Child::new(&self.inner, label, role, Maker::Program)
    }

    /// Returns the path of the socket.
    pub fn socket(&self) -> &Path {
        &self.inner.socket
    }

    /// Returns the server, to change its tools and resources, or to report changes.
    pub fn server(&self) -> &Handle {
        let server = self.inner.server.get();
        server.expect("it is set before there is a host")
    }

    /// Returns the state of the children, for the next host at the same path. A host at a [path](Host::start_at) also finds
    /// this state by itself; use this in a program that saves it together with other state.
    pub fn export(&self) -> State {
        self.inner.children.state()
    }

    /// Closes the host, and replaces the program by another one, usually a new version, with the same process number. The
    /// children do not end: the host that the new program starts in the same place takes them over.
    ///
    /// Calls that run are cancelled after 30 ms; `lmcp proxy` tells their callers that they may try again. If
    /// the program has state of its own to hand on, use [`Host::exec_with`]: state that is saved before this call may miss
    /// changes that a handler still makes.
    ///
    /// Call it on the thread that has started the children if they are to hear of the end of their parent (`PR_SET_PDEATHSIG`): all
    /// other threads end.
    ///
    /// # Errors
    /// It returns only if the program cannot be started. The host is closed then; a host that this program starts in the
    /// same place takes over the children that are [detached](Child::detach).
    pub fn exec(self, program: &mut Command) -> io::Error {
        self.exec_by(|| Ok(program))
    }

    /// Does the same as [`Host::exec`], for a program that hands on state of its own: the function saves the state and makes
    /// the command. The function runs after the last handler has ended, so every change that a caller was told of is in the
    /// state.
    ///
    /// ```no_run
    /// # fn demo(host: lmcp::embed::Host, notes: &std::sync::Mutex<Vec<String>>) -> std::io::Error {
    /// host.exec_with(|| {
    ///     let notes = notes.lock().map_or_else(|held| held.into_inner().clone(), |notes| notes.clone());
    ///     std::fs::write("/run/user/1000/deck/notes", notes.join("\n"))?;
    ///     Ok(std::process::Command::new(std::env::current_exe()?))
    /// })
    /// # }
    /// ```
    ///
    /// Keep the state in a file: Linux takes at most 128 KiB in one variable or argument. The function can still
    /// [store](ChildHandle::store) values with children, and [keep](ChildHandle::keep) their terminals open. A handler that
    /// blocks the host's thread is waited for at most 5 s.
    ///
    /// # Errors
    /// It returns only if the function fails or the program cannot be started. The host is closed then, as with [`Host::exec`].
    pub fn exec_with(self, program: impl FnOnce() -> io::Result<Command>) -> io::Error {
        self.exec_by(program)
    }

    fn exec_by<C: BorrowMut<Command>>(
        mut self,
        program: impl FnOnce() -> io::Result<C>,
    ) -> io::Error {
        // The state is written before the lock of this host is released: a proxy that finds the lock free does not wait for
        // the next host.
        if let Err(err) = self.hand_over() {
            return err;
        }
        self.inner.is_replaced.store(true, Ordering::Relaxed);
        self.stop_and_wait(CLOSE_WAIT);
        let program = program();
        let word = random::hex::<16>();
        let left = self.inner.children.leave_descriptors(&word);
        self.inner.children.seal_inboxes();
        let handed_over = self.hand_over();
        // The children that the program owns must not end, so only the host is dropped.
        drop(self);
        match handed_over
            .and(program)
            .and_then(|program| Ok((program, left?)))
        {
            Ok((mut program, left)) => {
                let program = program.borrow_mut();
                if !left.is_empty() {
                    program.env(descriptors::WORD, &word);
                }
                let err = program.exec();
                let name = program.get_program().display();
                io::Error::new(err.kind(), format!("cannot start {name}: {err}"))
            }
            Err(err) => err,
        }
    }

    /// Writes the state of the children for the host of the next program. A host at a path has always done so.
    fn hand_over(&self) -> io::Result<()> {
        if self.inner.returns {
            return Ok(());
        }
        self.inner.children.hand_over()
    }

    /// Closes the host, and sends the [detached](Child::detach) children to another host at this path, for example one of
    /// another program. The result is for that host, which may start later: `Host::setup().path(there).resume(state)`. The
    /// children connect there by themselves, and wait for it.
    ///
    /// # Errors
    /// The path cannot be used for a socket, or the credentials of a child cannot be written. The host is closed then.
    pub fn move_to(mut self, path: impl AsRef<Path>) -> Result<State, Error> {
        let place = SocketDir::at(path.as_ref())?;
        let path = place.path();
        let failed = |err| Error::io(format!("cannot move to {}", path.display()), err);
        let sent = self.inner.children.send_to(&path, &self.inner.socket);
        sent.map_err(failed)?;
        let _ = self.inner.moved_to.set(path);
        self.stop_and_wait(CLOSE_WAIT);
        self.inner.children.seal_inboxes();
        Ok(self.inner.children.staying_state())
    }

    /// Closes the host, as dropping it does. Calls that run are cancelled after 30 ms. A host with a thread of its own waits
    /// until all of them have ended, for 5 s at most.
    ///
    /// If a host at a [path](Host::start_at) has [detached](Child::detach) children, they go on: their proxies are told to wait
    /// for the next host. Use [`Host::finish`] if there will be none.
    pub fn close(self) {
        drop(self);
    }

    /// Ends the host for good: for a program that quits, also if it has a [path](Host::start_at) and detached children.
    ///
    /// - The socket is removed at once. Requests that come from now on are refused, with an error that says that they were not
    ///   begun. Subscriptions and tasks end.
    /// - Calls that run may go on for `grace`, and are then cancelled. Each connection ends when its last call has ended, so an
    ///   idle child does not wait for the others.
    /// - Every connected child hears that the host is gone (`"then": "gone"`), and `lmcp proxy` ends. The processes of the
    ///   children are not signalled: an agent runs on without this server, until it or the program ends it.
    /// - Then the identities of all children end, and their files are removed, with the folder if the host made it.
    ///
    /// Keep every [`Child`] until this call has returned: dropping one ends its calls at once. The call blocks its thread for
    /// `grace` at most, and 5 s more for handlers that do not stop. If it is made on the only thread of a runtime that also
    /// [serves](Host::start_here) the host, it returns at once, and the host ends while that runtime runs.
    ///
    /// ```no_run
    /// # fn demo(host: lmcp::embed::Host) {
    /// host.finish(std::time::Duration::from_secs(10));
    /// # }
    /// ```
    pub fn finish(mut self, grace: Duration) {
        let _ = self.inner.grace.set(grace);
        if self.drives_handlers() {
            return drop(self);
        }
        self.stop_and_wait(grace.saturating_add(CLOSE_WAIT));
    }

    /// Runs a future on the runtime of the host, for a program whose `main` is not asynchronous: a timer, for example.
    ///
    /// The future ends with the host, also by [`Host::exec`] and when the program is killed. What the next program needs to
    /// start it again belongs into [`ChildHandle::store`]. A future that blocks its thread delays all callers.
    ///
    /// ```no_run
    /// # fn demo(host: &lmcp::embed::Host, child: lmcp::embed::ChildHandle) {
    /// host.spawn(async move {
    ///     tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    ///     let _ = child.deliver("a minute is over");
    /// });
    /// # }
    /// ```
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.inner.spawn(future);
    }

    /// Whether this thread drives all handlers, so that none of them can go on while it is blocked.
    fn drives_handlers(&self) -> bool {
        let is_one_thread = self.inner.runtime.runtime_flavor() == RuntimeFlavor::CurrentThread;
        !self.has_thread && is_one_thread && runtime::Handle::try_current().is_ok()
    }

    /// Stops serving, and waits until the last handler has ended or cannot go on, for this time at most.
    fn stop_and_wait(&mut self, most: Duration) {
        if self.has_thread {
            return self.stop(most);
        }
        if self.drives_handlers() {
            return self.stop(Duration::ZERO);
        }
        // The wait runs on another thread: a task that is woken on a thread of the runtime would wait there for this
        // function to end.
        let stop = || self.stop(most);
        thread::scope(|threads| drop(threads.spawn(stop).join()));
    }

    fn stop(&mut self, most: Duration) {
        self.stop = None;
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        // No message is ever sent there: the wait ends when the sender is dropped.
        let _ = ended.recv_timeout(most);
        self.inner.tasks.abort();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if self.has_thread {
            // Without `stop`, `finish` or `exec` has stopped the server already, and has waited for it.
            if self.stop.is_some() {
                self.stop(CLOSE_WAIT);
            }
        } else if let Some(stop) = self.stop.take() {
            // On the caller's runtime the server may be unable to end while this waits. It ends after it, and the children with
            // it.
            return drop(stop.send_replace(Some(Arc::clone(&self.inner))));
        }
        self.inner.children.close(self.inner.heir());
    }
}
