//! A unix socket for its owner only: the same lines as stdio, and many connections.

mod gate;
mod socket_file;
#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "other.rs")]
mod system;

use std::{
    collections::VecDeque,
    os::{fd::AsFd as _, unix::net::UnixListener as StdListener},
    path::{Path, PathBuf},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lmcp_wire::{
    RpcError, error::INTERNAL_ERROR, greeting::Goodbye, jsonrpc, method::notification,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{RecvFlags, recv},
};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::watch,
    task::AbortHandle,
    time::Instant,
};

pub use gate::{Admitting, Gate};
pub use socket_file::is_served;

use super::{
    connections::{self, Connections},
    lines::{Closing, Farewell, closed},
    streams,
};
use crate::{
    authenticate::{Authenticate, Authenticator},
    budget::Account,
    caller::Caller,
    endpoint::{Endpoint, Transport},
    error::Error,
    message::Message,
    peer::{Peer, Process},
    secret::Tokens,
    spawn::Tasks,
    throttle::Throttle,
    workplace::{Looked, Workplace},
};
use gate::{Entered, Keeper, Refusals};
use socket_file::{SocketFile, bind};

/// Listens on a unix socket that only this user can open. Messages are lines, as on stdio.
///
/// ```no_run
/// # async fn run(server: lmcp::Server) -> Result<(), lmcp::Error> {
/// server.serve(lmcp::unix("/run/user/1000/notes.sock")?).await
/// # }
/// ```
///
/// A socket that a dead server left behind is replaced. A socket on which a server still listens, and a file that is no socket, are an
/// error.
///
/// # Errors
/// The path cannot be bound.
pub fn unix(path: impl Into<PathBuf>) -> Result<Unix, Error> {
    let path = path.into();
    let (listener, file) = bind(&path)
        .map_err(|err| Error::io(format!("cannot listen on {}", path.display()), err))?;
    Ok(Unix::new(listener, path, Some(file)))
}

/// A longer grace counts as this: the end of it must be a time that can be counted to.
const LONGEST_GRACE: Duration = Duration::from_secs(365 * 24 * 3600);

/// A function that says how long running calls may go on.
type Grace = Box<dyn Fn() -> Duration + Send + Sync>;

/// A unix socket as a transport: see [`unix`].
pub struct Unix {
    listener: StdListener,
    path: PathBuf,
    /// `None` if another program owns the socket.
    file: Option<SocketFile>,
    keeper: Option<Keeper>,
    /// Used if there is no keeper.
    tokens: Option<Tokens>,
    idle: Option<Duration>,
    farewell: Option<Farewell>,
    grace: Option<Grace>,
    stop: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Unix {
    fn new(listener: StdListener, path: PathBuf, file: Option<SocketFile>) -> Self {
        Self {
            listener,
            path,
            file,
            keeper: None,
            tokens: None,
            idle: None,
            farewell: None,
            grace: None,
            stop: Box::pin(std::future::pending()),
        }
    }

    /// Serves on a socket that another program has made and passed on, such as a service manager. The file of the socket is not removed
    /// in the end.
    ///
    /// # Errors
    /// The socket does not listen, or cannot be used.
    pub fn from_listener(listener: StdListener) -> Result<Self, Error> {
        let failed = |err| Error::io("cannot use the socket that was passed on", err);
        if !system::takes_connections(&listener).map_err(failed)? {
            return Err(Error::config(
                "the socket that was passed on takes no connections",
            ));
        }
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let path = address.as_pathname().map(Path::to_owned);
        Ok(Self::new(listener, path.unwrap_or_default(), None))
    }

    /// The path of the socket. Empty for a socket without a path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stops when no client has been connected for this time, and no task runs.
    #[must_use]
    pub fn until_idle(mut self, time: Duration) -> Self {
        self.idle = Some(time);
        self
    }

    /// Admits callers that show this token in their first line, `{"lmcp_identity": TOKEN}`, and refuses all others. The holder of the
    /// token is called `name`: its tasks, sessions and subscriptions belong to that name, and
    /// [`Cx::principal`](crate::Cx::principal) returns it. Call `token` again for further holders. A server with an empty token does not
    /// start.
    ///
    /// ```no_run
    /// # async fn run(server: lmcp::Server) -> Result<(), Box<dyn std::error::Error>> {
    /// let socket = lmcp::unix("/run/user/1000/notes.sock")?.token("ann", std::env::var("ANNS_TOKEN")?);
    /// server.serve(socket).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A client of lmcp shows its token with `upstream::socket(path).token(token)`. Use one of `token`, [`authenticate`](Self::authenticate)
    /// and [`gate`](Self::gate): the last one that is called decides.
    #[must_use]
    pub fn token(mut self, name: impl Into<String>, token: impl Into<String>) -> Self {
        let tokens = self.tokens.get_or_insert_default();
        tokens.add(name.into(), token.into());
        self
    }

    /// Admits the callers that this gate knows, and refuses all others. Each connection begins with a line that says who calls.
    #[must_use]
    pub fn gate(mut self, gate: Arc<dyn Gate>) -> Self {
        self.keeper = Some(Keeper::Gate(gate));
        self.tokens = None;
        self
    }

    /// Sets who decides on each connection, where [`token`](Self::token) is not enough. An [`Authenticate`] knows a caller by the process
    /// at the other end ([`Caller::peer`]), or by the token of its first line, `{"lmcp_identity": TOKEN}` ([`Caller::bearer`]). It runs once
    /// for each connection.
    #[must_use]
    pub fn authenticate(mut self, authenticate: impl Authenticate) -> Self {
        self.keeper = Some(Keeper::Authenticator(Authenticator::new(authenticate)));
        self.tokens = None;
        self
    }

    /// Sends every client a last message when the server stops, `notifications/lmcp/goodbye`: whether to wait for the server, or to
    /// leave. The function runs once for each client.
    #[must_use]
    pub fn goodbye(mut self, said: impl Fn() -> Goodbye + Send + Sync + 'static) -> Self {
        self.farewell = Some(Arc::new(move || {
            Message::notification(notification::GOODBYE, &said())
        }));
        self
    }

    /// Lets running calls go on for at most this time when the server stops. The function is asked when the server stops. Without it,
    /// running calls have [`Limits::drain_wait`](crate::Limits::drain_wait), 30 ms.
    ///
    /// During that time new requests are refused, except for pings. Each connection ends when its last call has ended.
    #[must_use]
    pub fn grace(mut self, time: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        self.grace = Some(Box::new(time));
        self
    }

    /// Stops when this future ends. The server then takes no new connections, removes the file of the socket, and gives running calls a
    /// moment to end: 30 ms, or more with [`grace`](Self::grace).
    #[must_use]
    pub fn until(mut self, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        self.stop = Box::pin(stop);
        self
    }
}

impl std::fmt::Debug for Unix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unix")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Transport for Unix {
    async fn serve(mut self, server: Endpoint) -> Result<(), Error> {
        let file = self.file;
        if let Some(tokens) = self.tokens.take() {
            tokens.expect_usable()?;
            self.keeper = Some(Keeper::Authenticator(Authenticator::new(tokens)));
        }
        let listener =
            UnixListener::from_std(self.listener).map_err(|err| Error::io("cannot listen", err))?;
        let open = Connections::new(server.limits().connections_here(), server.budget());
        let (close, closing) = watch::channel(None);
        let connections = Tasks::default();
        let refusals = Arc::new(Refusals::default());
        let mut full = Throttle::default();
        let mut strangers = Strangers::default();
        loop {
            let is_alone = open.is_empty();
            let stream = tokio::select! {
                biased;
                () = &mut self.stop => break,
                // Before it is asked whether nobody came: who connects at the last moment is somebody.
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) if is_deserted(&stream) => continue,
                    Ok((stream, _)) => stream,
                    Err(err) => {
                        full.cannot_accept(&err);
                        tokio::time::sleep(server.limits().drain_wait).await;
                        continue;
                    }
                },
                () = idle(self.idle.filter(|_| is_alone)) => if server.is_idle() { break } else { continue },
                // Somebody left: who waits to be alone looks again.
                () = open.one_closed() => continue,
            };
            open.keep_pace().await;
            let place = match open.enter() {
                Ok(place) => place,
                Err(error) => {
                    say(&stream, &error);
                    continue;
                }
            };
            let number = place.number();
            let process = stream.peer_cred().ok().and_then(|peer| peer.pid());
            let visit = Visit {
                turns: open.turns_of(process),
                server: server.clone(),
                seen: Arc::clone(place.connection()),
                refusals: Arc::clone(&refusals),
                farewell: self.farewell.clone(),
                closing: closing.clone(),
            };
            let Some(keeper) = self.keeper.clone() else {
                let task = connections.spawn(async move {
                    visit.serve(stream).await;
                    drop(place);
                });
                open.abort_with(number, task);
                continue;
            };
            strangers.make_room();
            let greeted = Arc::new(AtomicBool::new(false));
            let known = Arc::clone(&greeted);
            let task = connections.spawn(async move {
                visit.serve_known(stream, keeper, &known).await;
                drop(place);
            });
            open.abort_with(number, task.clone());
            strangers.add(Stranger {
                process,
                task,
                greeted,
            });
        }
        // The file is removed first, so that no client finds a socket that does not answer.
        drop(file);
        server.transport_stops();
        let grace = self.grace.map_or(Duration::ZERO, |grace| grace());
        let until = Instant::now() + grace.min(LONGEST_GRACE);
        close.send_replace(Some(until));
        let drained = until + server.limits().drain_wait * 3;
        let _ = tokio::time::timeout_at(drained, open.all_closed()).await;
        Ok(())
    }
}

/// Whether the client has closed the connection, so that nobody reads an answer, or will send nothing. A program that only connects and
/// hangs up does so much faster than a connection can be looked at, and others wait behind it in the queue.
fn is_deserted(stream: &UnixStream) -> bool {
    let mut asked = [PollFd::new(stream, PollFlags::IN)];
    let at_once = Timespec::default();
    if poll(&mut asked, Some(&at_once)).is_ok() && asked[0].revents().contains(PollFlags::HUP) {
        return true;
    }
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    matches!(recv(stream, &mut [0], flags), Ok((0, _)))
}

/// Waits for this time; for ever if there is none.
async fn idle(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// Connections that have not greeted yet, the oldest first. Silent connections must not keep out others.
#[derive(Default)]
struct Strangers(VecDeque<Stranger>);

struct Stranger {
    /// The process that connected, if the kernel tells it.
    process: Option<i32>,
    task: AbortHandle,
    greeted: Arc<AtomicBool>,
}

/// The most connections without a greeting. A greeting takes hardly any time.
const MOST_STRANGERS: usize = 64;

impl Strangers {
    /// Adds one more.
    fn add(&mut self, stranger: Stranger) {
        self.0.push_back(stranger);
    }

    /// Makes room for one more: closes the oldest connection of the process that has the most of them. So a process that
    /// connects again and again in silence pays with its own connections, not with those of others.
    fn make_room(&mut self) {
        self.0
            .retain(|each| !each.task.is_finished() && !each.greeted.load(Ordering::Relaxed));
        if self.0.len() < MOST_STRANGERS {
            return;
        }
        let of = |process| self.0.iter().filter(move |each| each.process == process);
        let busiest = self.0.iter().map(|each| each.process);
        let busiest = busiest.max_by_key(|process| of(*process).count()).flatten();
        let oldest = self.0.iter().position(|each| each.process == busiest);
        if let Some(oldest) = self.0.remove(oldest.unwrap_or_default()) {
            oldest.task.abort();
        }
    }
}

/// The values that one connection needs.
struct Visit {
    server: Endpoint,
    /// The turns of the process that connected: looking at it takes time, and it may connect again and again.
    turns: Account,
    /// The record that the listener keeps of the connection.
    seen: Arc<connections::Connection>,
    refusals: Arc<Refusals>,
    farewell: Option<Farewell>,
    closing: Closing,
}

impl Visit {
    async fn serve(self, stream: UnixStream) {
        let Some((peer, workplace)) = self.admitted(&stream).await else {
            return;
        };
        let Process { uid, pid } = peer.process();
        drop(peer);
        let caller = settled(Caller::process(uid, pid), workplace);
        let (reader, writer) = stream.into_split();
        let connection = streams(reader, writer, caller).seen_as(self.seen);
        let connection = connection.saying_last(self.farewell);
        connection.serve_until(self.server, self.closing).await;
    }

    /// Does the same for callers that a gate or the program must know.
    async fn serve_known(self, stream: UnixStream, keeper: Keeper, greeted: &AtomicBool) {
        let Some((peer, workplace)) = self.admitted(&stream).await else {
            return;
        };
        let (mut reader, mut writer) = stream.into_split();
        let ends = (&mut reader, &mut writer);
        let told = (greeted, &*self.refusals);
        let limits = self.server.limits();
        let passing = async {
            match &keeper {
                Keeper::Gate(gate) => {
                    let passed = gate::pass(gate, peer, ends, told, limits).await;
                    passed.map(|(caller, framer)| (settled(caller, workplace), framer))
                }
                Keeper::Authenticator(authenticator) => {
                    let Process { uid, pid } = peer.process();
                    drop(peer);
                    let caller = settled(Caller::process(uid, pid), workplace);
                    gate::ask(authenticator, caller, ends, told, limits).await
                }
            }
        };
        let passed = tokio::select! {
            passed = passing => passed,
            () = self.must_leave() => None,
        };
        let Some((caller, framer)) = passed else {
            return;
        };
        let _entered = match &keeper {
            Keeper::Gate(gate) => Some(Entered::new(gate, &caller)),
            Keeper::Authenticator(_) => None,
        };
        self.seen.said_something();
        let connection = streams(reader, writer, caller.clone()).after(framer);
        let connection = connection.seen_as(self.seen).saying_last(self.farewell);
        tokio::select! {
            () = connection.serve_until(self.server, self.closing) => {}
            // The caller is gone for good, so no answer is owed to it.
            () = caller.gone() => {}
        }
    }

    /// Waits until the server closes, and a moment more: a server that lets calls go on does not wait for a stranger.
    async fn must_leave(&self) {
        closed(&mut self.closing.clone()).await;
        tokio::time::sleep(self.server.limits().drain_wait * 3).await;
    }

    /// Returns the process that connected and its workplace, if the server admits it. Tries again while too many files are
    /// open.
    async fn admitted(&self, stream: &UnixStream) -> Option<(Peer, Option<Workplace>)> {
        let limits = self.server.limits();
        let peer = stream.peer_cred().ok()?;
        let process = Process::new(peer.uid(), peer.pid());
        let looks = async {
            let turn = self.turns.turn();
            loop {
                if !turn.has_time() {
                    turn.come().await;
                }
                match turn.take(|| self.look(stream, process)) {
                    Err(error) if error.code == INTERNAL_ERROR => {}
                    verdict => return verdict,
                }
                tokio::time::sleep(limits.drain_wait).await;
            }
        };
        let looked = tokio::time::timeout(limits.header_wait, looks).await;
        let late = |_| RpcError::internal("nobody can tell which process connects".to_owned());
        match looked.map_err(late).flatten() {
            Ok(admitted) => Some(admitted),
            Err(error) => {
                self.refusals.log(process, &error);
                say(stream, &error);
                None
            }
        }
    }

    /// Looks once at the process that connected. An internal error means that this cannot be decided now.
    fn look(
        &self,
        stream: &UnixStream,
        process: Process,
    ) -> Result<(Peer, Option<Workplace>), RpcError> {
        let not_now = |err| RpcError::internal(format!("nobody can tell who connects: {err}"));
        let looked = Looked::at(process).map_err(not_now)?;
        let socket = stream.as_fd().try_clone_to_owned().map_err(not_now)?;
        let peer = Peer::new(process, socket);
        // A check finds out whether the process that connected is still there, so the process behind the handle is the same.
        self.server.admits(&peer)?;
        let workplace = looked.map_or(Ok(None), |looked| looked.workplace());
        Ok((peer, workplace.map_err(not_now)?))
    }
}

/// Adds the workplace to the caller, if it is known.
fn settled(caller: Caller, workplace: Option<Workplace>) -> Caller {
    match workplace {
        Some(workplace) => caller.working_at(workplace),
        None => caller,
    }
}

/// Sends one line that says why a connection is not served, as far as it fits into the buffer of the socket.
fn say(stream: &UnixStream, error: &RpcError) {
    let mut line = jsonrpc::error(None, error);
    line.push(b'\n');
    let _ = stream.try_write(&line);
}
