//! [`Host`]: a server that runs inside a program.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::Duration,
};

use lmcp_core::{Error, Handle, Server, transport::Unix};
use tokio::{runtime, sync::watch};

use crate::{child::Child, children::Children, lock::Lock, socket_dir::SocketDir};

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
    server: Handle,
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
    /// `/run/user/UID/lmcp`, or in a folder for this user in `/tmp`.
    ///
    /// # Errors
    /// The server is wrong, or the socket cannot be made.
    pub fn start(server: Server) -> Result<Self, Error> {
        Self::on_thread(server, SocketDir::usual()?)
    }

    /// The same, with the socket in a folder of the program's own.
    ///
    /// # Errors
    /// As [`Host::start`]; the folder can be entered by others; its name is too long.
    pub fn start_in(server: Server, folder: impl AsRef<Path>) -> Result<Self, Error> {
        Self::on_thread(server, SocketDir::chosen(folder.as_ref())?)
    }

    /// Starts a server on the runtime of the caller, for programs that want no other thread.
    ///
    /// # Errors
    /// As [`Host::start`].
    #[expect(clippy::unused_async, reason = "shows that it needs a runtime")]
    pub async fn start_here(server: Server) -> Result<Self, Error> {
        let place = SocketDir::usual()?;
        let (server, listening) = (server.start()?, place.listen()?);
        let (host, serving) = Self::new(server, listening, place, runtime::Handle::current());
        host.inner.runtime.spawn(serving);
        Ok(host)
    }

    fn on_thread(server: Server, place: SocketDir) -> Result<Self, Error> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(16)
            .build()
            .map_err(|err| Error::io("cannot start a server", err))?;
        let runtime = Background(Some(runtime));
        let (server, listening) = (server.start()?, place.listen()?);
        let handle = runtime.get().handle().clone();
        let (mut host, serving) = Self::new(server, listening, place, handle);
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

    fn new(
        server: Handle,
        (unix, lock): (Unix, Lock),
        place: SocketDir,
        runtime: runtime::Handle,
    ) -> (
        Self,
        impl Future<Output = mpsc::Sender<()>> + Send + 'static,
    ) {
        let children = Arc::new(Children::new());
        let (stop, mut stopped) = watch::channel(());
        let (ending, ended) = mpsc::channel();
        let inner = Inner {
            socket: unix.path().to_owned(),
            lock,
            children: Arc::clone(&children),
            runtime,
        };
        let unix = unix
            .gate(children)
            .until(async move { while stopped.changed().await.is_ok() {} });
        let running = server.clone();
        let serving = async move {
            if let Err(err) = running.serve(unix).await {
                tracing::error!("the server inside this program has ended: {err}");
            }
            drop(running);
            // After the socket, so that its folder is empty.
            drop(place);
            ending
        };
        let host = Self {
            inner: Arc::new(inner),
            server,
            stop: Some(stop),
            ended: Mutex::new(ended),
            has_thread: false,
        };
        (host, serving)
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
        &self.server
    }

    /// Closes, and where it has a thread of its own waits until what ran has ended, for 5 s at most: the same as dropping
    /// it, in a word.
    pub fn close(self) {
        drop(self);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop = None;
        // On the caller's runtime the server may be unable to end while this waits; it ends after it.
        let most = if self.has_thread {
            CLOSE_WAIT
        } else {
            Duration::ZERO
        };
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Nothing is ever said there: it ends.
        let _ = ended.recv_timeout(most);
    }
}
