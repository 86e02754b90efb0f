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

use lmcp_core::{Error, Handle, Server};
use lmcp_wire::greeting::{Goodbye, Then};
use tokio::{
    runtime::{self, RuntimeFlavor},
    sync::watch,
};

use crate::{
    child::Child,
    children::Children,
    event::Events,
    handle::HostHandle,
    lock::Lock,
    member::ChildHandle,
    setup::Setup,
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
/// Dropping it closes it: the socket goes at once, what runs is given a moment and then cancelled. A program that ends
/// by `std::process::exit` drops nothing; call [`Host::close`] before. What a killed program leaves behind, the next
/// host of this user removes; the credentials of its children only when their processes have ended, too.
#[derive(Debug)]
pub struct Host {
    inner: Arc<Inner>,
    /// Dropped to stop.
    stop: Option<watch::Sender<()>>,
    /// Hears when the server has ended.
    ended: Mutex<mpsc::Receiver<()>>,
    has_thread: bool,
}

/// What the host and its children share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) socket: PathBuf,
    /// Tells others that this host is alive.
    pub(crate) lock: Lock,
    pub(crate) children: Arc<Children>,
    pub(crate) runtime: runtime::Handle,
    /// Set before anybody is served.
    pub(crate) server: OnceLock<Handle>,
    /// Another host may come at the same path, and go on with the children.
    pub(crate) returns: bool,
    /// The program is about to become another one.
    is_replaced: AtomicBool,
    /// Another host goes on with the children, there.
    moved_to: OnceLock<PathBuf>,
}

impl Inner {
    /// What children should do when this host has closed.
    fn goodbye(&self) -> Goodbye {
        if let Some(socket) = self.moved_to.get() {
            return Goodbye::elsewhere(socket.to_string_lossy());
        }
        Goodbye::new(self.then())
    }

    fn then(&self) -> Then {
        if self.is_replaced() || (self.returns && self.children.are_kept()) {
            Then::Wait
        } else {
            Then::Gone
        }
    }

    fn is_replaced(&self) -> bool {
        self.is_replaced.load(Ordering::Relaxed)
    }

    /// Another host goes on with the children.
    fn has_heir(&self) -> bool {
        self.returns || self.is_replaced() || self.moved_to.get().is_some()
    }
}

impl Drop for Inner {
    /// Also where it never began to serve: what the host before left is then left to the next.
    fn drop(&mut self) {
        self.children.close(self.has_heir());
    }
}

/// A runtime that may be dropped anywhere, also in a future of another one: what still runs on its threads holds nobody.
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

/// How long a closing host waits for what runs.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

impl Host {
    /// Starts a server on a thread of its own, whatever the program is like: nothing the program does holds it up.
    ///
    /// The socket is `$XDG_RUNTIME_DIR/lmcp/PID.sock`; where there is no such folder, or it is not safe, it is in
    /// `/run/user/UID/lmcp`, or in a folder for this user in `/tmp`. [`Host::setup`] has other choices.
    ///
    /// # Errors
    /// The server is wrong, or the socket cannot be made.
    pub fn start(server: Server) -> Result<Self, Error> {
        Self::setup().start(server)
    }

    /// The same, for tools that need the host: they keep a clone of the handle, which keeps nothing alive.
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

    /// The same, with the socket in a folder of the program's own.
    ///
    /// # Errors
    /// As [`Host::start`]; the folder can be entered by others; its name is too long.
    pub fn start_in(server: Server, folder: impl AsRef<Path>) -> Result<Self, Error> {
        Self::setup().folder(folder).start(server)
    }

    /// The same, with the socket at a path of the program's own, in a folder that only this user can enter.
    ///
    /// Such a host comes back: it goes on with the children of the last one at this path, be it that the program was
    /// killed, has been upgraded or became another one by [`Host::exec`]. They are among [`Host::children`], with their
    /// identity and what was [stored](ChildHandle::store) with them, and their connections come again by themselves. Those
    /// whose processes have ended meanwhile are told as [`Event::Ended`](crate::Event::Ended).
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

    /// All that can be chosen about how it starts.
    pub fn setup() -> Setup {
        Setup::default()
    }

    pub(crate) fn on_thread(
        place: SocketDir,
        state: State,
        server: impl FnOnce(&HostHandle) -> Server,
    ) -> Result<Self, Error> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(16)
            .build()
            .map_err(|err| Error::io("cannot start a server", err))?;
        let runtime = Background(Some(runtime));
        let handle = runtime.get().handle().clone();
        let (mut host, serving) = Self::new(place, state, server, handle)?;
        host.has_thread = true;
        thread::Builder::new()
            .name("lmcp".into())
            .spawn(move || {
                let ending = runtime.get().block_on(serving);
                // First what was cancelled lets go of what it has, so that whoever waits for the end finds nothing left.
                drop(runtime);
                drop(ending);
            })
            .map_err(|err| Error::io("cannot start a thread", err))?;
        Ok(host)
    }

    pub(crate) fn new(
        place: SocketDir,
        state: State,
        server: impl FnOnce(&HostHandle) -> Server,
        runtime: runtime::Handle,
    ) -> Result<
        (
            Self,
            impl Future<Output = mpsc::Sender<()>> + Send + 'static,
        ),
        Error,
    > {
        let (unix, lock) = place.listen()?;
        let inner = Arc::new_cyclic(|host| Inner {
            socket: unix.path().to_owned(),
            lock,
            children: Arc::new(Children::new(host.clone())),
            runtime,
            server: OnceLock::new(),
            returns: place.is_path(),
            is_replaced: AtomicBool::new(false),
            moved_to: OnceLock::new(),
        });
        inner.children.resume(&inner, state);
        let left = state::left_at(&inner.socket, inner.returns);
        inner.children.resume(&inner, left);
        let server = server(&HostHandle::of(&inner)).start()?;
        let server = inner.server.get_or_init(|| server).clone();
        let (stop, mut stopped) = watch::channel(());
        let (ending, ended) = mpsc::channel();
        let gate = Arc::clone(&inner.children);
        let closing = Arc::downgrade(&inner);
        let unix = unix
            .gate(gate)
            .goodbye(move || {
                let inner = closing.upgrade();
                inner.map_or(Goodbye::new(Then::Gone), |inner| inner.goodbye())
            })
            .until(async move { while stopped.changed().await.is_ok() {} });
        let serving = async move {
            if let Err(err) = server.serve(unix).await {
                tracing::error!("the server inside this program has ended: {err}");
            }
            drop(server);
            // After the socket, so that its folder is empty.
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

    /// A handle that can be cloned and keeps nothing alive.
    pub fn handle(&self) -> HostHandle {
        HostHandle::of(&self.inner)
    }

    /// The children that have not ended.
    pub fn children(&self) -> Vec<ChildHandle> {
        self.inner.children.all()
    }

    /// What happens to children from now on.
    pub fn events(&self) -> Events {
        self.inner.children.teller.events()
    }

    /// Makes an identity for a process that the program is about to start.
    ///
    /// The label is for people; the role is what tools can be limited to, see
    /// [`Tool::only_for`](lmcp_core::Tool::only_for).
    ///
    /// # Errors
    /// Its credentials cannot be written.
    pub fn child(&self, label: &str, role: &str) -> Result<Child, Error> {
        Child::new(&self.inner, label, role, None)
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.inner.socket
    }

    /// The server: to change what it offers, or to say what changed.
    pub fn server(&self) -> &Handle {
        let server = self.inner.server.get();
        server.expect("it is set before there is a host")
    }

    /// What is known of the children, for the next host at the same path. A host at a [path](Host::start_at) also finds it by
    /// itself; this is for programs that keep it with what else they save.
    pub fn export(&self) -> State {
        self.inner.children.state()
    }

    /// Closes and becomes another program, most likely a new version of this one, with the same process number and the same
    /// children: they do not end, and the host that the program starts in the same place goes on with them.
    ///
    /// Calls that run are given a moment and then cancelled; `lmcp proxy` tells their callers that they may try again. If the
    /// program has state of its own to hand on, use [`Host::exec_with`]: what is saved before this call may miss what a handler
    /// still does.
    ///
    /// Call it on the thread that has started the children if they are to hear of the end of their parent (`PR_SET_PDEATHSIG`): all
    /// other threads end.
    ///
    /// # Errors
    /// It returns only if the program cannot be started. The host is closed then; a host that this program starts in the
    /// same place goes on with the children that are [detached](Child::detach).
    pub fn exec(self, program: &mut Command) -> io::Error {
        self.exec_by(|| Ok(program))
    }

    /// The same as [`Host::exec`], for a program that hands on state of its own: the function saves the state and makes the command. It
    /// runs after the last handler has ended, so whatever a caller was told as done is in the state.
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
    /// Keep the state in a file: Linux takes 128 KiB at most in one variable or argument. Children can still be
    /// [stored](ChildHandle::store) with in the function. A handler that holds up the host's thread is waited for 5 s at most.
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
        // Before the lock of this host goes: whoever finds it gone does not wait for the next host.
        if let Err(err) = self.hand_over() {
            return err;
        }
        self.inner.is_replaced.store(true, Ordering::Relaxed);
        self.stop_and_wait();
        let program = program();
        self.inner.children.seal_inboxes();
        let handed_over = self.hand_over();
        // The children that the program owns must not end, so nothing but the host is dropped.
        drop(self);
        match handed_over.and(program) {
            Ok(mut program) => program.borrow_mut().exec(),
            Err(err) => err,
        }
    }

    /// Leaves word of the children for the host of the next program. A host at a path has done so all along.
    fn hand_over(&self) -> io::Result<()> {
        if self.inner.returns {
            return Ok(());
        }
        self.inner.children.hand_over()
    }

    /// Closes, and sends the children that are [detached](Child::detach) to another host, at this path: of another program, say.
    /// What it gives is for that host, which may come later: `Host::setup().path(there).resume(state)`. Their connections come
    /// there by themselves, and wait for it.
    ///
    /// # Errors
    /// The path is none for a socket, or the credentials of a child cannot be written. The host is closed then.
    pub fn move_to(mut self, path: impl AsRef<Path>) -> Result<State, Error> {
        let place = SocketDir::at(path.as_ref())?;
        let path = place.path();
        let failed = |err| Error::io(format!("cannot move to {}", path.display()), err);
        self.inner.children.send_to(&path).map_err(failed)?;
        let _ = self.inner.moved_to.set(path);
        self.stop_and_wait();
        self.inner.children.seal_inboxes();
        Ok(self.inner.children.kept_state())
    }

    /// Closes, as dropping does. New calls are refused, and calls that run are given a moment and then cancelled. A host with a
    /// thread of its own waits until all of them have ended, for 5 s at most.
    pub fn close(self) {
        drop(self);
    }

    /// Stops serving, and waits until the last handler has ended or cannot go on, for [`CLOSE_WAIT`] at most.
    fn stop_and_wait(&mut self) {
        if self.has_thread {
            return self.stop(CLOSE_WAIT);
        }
        let is_one_thread = self.inner.runtime.runtime_flavor() == RuntimeFlavor::CurrentThread;
        if is_one_thread && runtime::Handle::try_current().is_ok() {
            // This thread drives all handlers, and none of them goes on while it is here.
            return self.stop(Duration::ZERO);
        }
        // From another thread: what is woken on a thread of the runtime would wait there for this function to end.
        let stop = || self.stop(CLOSE_WAIT);
        thread::scope(|threads| drop(threads.spawn(stop).join()));
    }

    fn stop(&mut self, most: Duration) {
        self.stop = None;
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Nothing is ever said there: it ends.
        let _ = ended.recv_timeout(most);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // On the caller's runtime the server may be unable to end while this waits; it ends after it.
        let most = if self.has_thread {
            CLOSE_WAIT
        } else {
            Duration::ZERO
        };
        self.stop(most);
        self.inner.children.close(self.inner.has_heir());
    }
}
