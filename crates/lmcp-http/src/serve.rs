//! The server's own port at work: accepting connections, limiting them, checking whose they are, closing them.

use std::{
    future::{Future as _, poll_fn},
    io,
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};

use http::{Request, Response, StatusCode};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use lmcp_core::{
    Endpoint, Error, Tasks, Throttle, Transport,
    transport::{
        LocalPeer, LocalSocket,
        connections::{ConnectionPlace, Connections},
    },
};
use lmcp_private::{Whose, tcp_socket, tells_tcp_users};
use lmcp_wire::{RpcError, error::INTERNAL_ERROR, jsonrpc};
use tokio::{
    net::TcpStream,
    sync::{OnceCell, watch},
    time::timeout,
};

use crate::{
    answer::{Body, close, refuse},
    bind::Http,
    one_write::OneWrite,
    service::HttpService,
    upgrade::Handing,
    who::Who,
};

impl Transport for Http {
    async fn serve(mut self, server: Endpoint) -> Result<(), Error> {
        if !self.local.ip().is_loopback() && !self.remote {
            let address = self.local;
            return Err(Error::config(format!(
                "other machines can reach {address}; call `allow_remote` if they may, and `token` to ask them for one"
            )));
        }
        if let Who::Token(tokens) = &self.settings.who {
            tokens.expect_usable()?;
        }
        let limits = server.limits().clone();
        let door = Arc::new(Door::of(&self, &server));
        door.expect_users_told(self.local, tells_tcp_users())?;
        let service = HttpService::new(server.clone(), self.settings);
        let open = Connections::new(limits.connections_here(), server.budget());
        let (close, closing) = watch::channel(());
        let connections = Tasks::default();
        let mut full = Throttle::default();
        loop {
            let (stream, peer) = tokio::select! {
                () = &mut self.stop => break,
                accepted = self.listener.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(err) => {
                        full.cannot_accept(&err);
                        tokio::select! {
                            () = &mut self.stop => break,
                            () = tokio::time::sleep(limits.drain_wait) => continue,
                        }
                    }
                },
            };
            // An answer is one write. Without this option, it may wait until the peer has acknowledged the answer before.
            let _ = stream.set_nodelay(true);
            let place = match open.enter() {
                Ok(place) => place,
                Err(error) => {
                    turn_back(&stream, &error);
                    continue;
                }
            };
            let number = place.number();
            let Ok(own) = stream.local_addr() else {
                continue;
            };
            let entry = door.look(Ends { peer, own });
            let service = service.on(place.connection());
            let serving = serve(stream, service, entry, place, closing.clone());
            let task = connections.spawn(serving);
            open.abort_with(number, task);
            open.keep_pace().await;
        }
        drop(self.listener);
        server.transport_stops();
        service.stop();
        close.send_replace(());
        let _ = timeout(limits.shutdown_wait, open.all_closed()).await;
        Ok(())
    }
}

/// Serves one connection. Its place is free at the end.
async fn serve(
    stream: TcpStream,
    service: HttpService,
    entry: Entry,
    place: ConnectionPlace,
    mut closing: watch::Receiver<()>,
) {
    let limits = &service.shared.limits;
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_wait)
        .max_buf_size(limits.header_bytes.max(8192));
    let (entry, connection) = (Arc::new(entry), Arc::clone(place.connection()));
    let checked = Arc::clone(&entry);
    let was_used = Arc::<AtomicBool>::default();
    let uses = Arc::clone(&was_used);
    let handing = Handing::default();
    let hands = handing.clone();
    let answer = service_fn(move |request: Request<Incoming>| {
        uses.store(true, Ordering::Relaxed);
        // A connection that waits for its verdict counts as busy, so that others cannot push it out by connecting again and
        // again.
        connection.begin();
        let received = match entry.verdict() {
            Some(Ok(())) => service.take_in(request, &hands),
            // The refusal is sent and logged here, and not when the peer connects: some programs connect only to see whether a
            // server listens.
            Some(Err(error)) => service.answered(entry.refuse(error)),
            None => {
                let (service, entry) = (service.clone(), Arc::clone(&entry));
                let hands = hands.clone();
                service.clone().later(async move {
                    match entry.check().await {
                        Ok(()) => service.take_in(request, &hands).respond().await,
                        Err(error) => entry.refuse(&error),
                    }
                })
            }
        };
        received.answer()
    });
    let connection = builder.serve_connection(TokioIo::new(OneWrite(stream)), answer);
    let result = {
        let mut connection = std::pin::pin!(connection.with_upgrades());
        // The check begins now: the process that made the connection may be gone before its first request is here.
        let mut checking = std::pin::pin!(checked.check());
        let (mut is_checked, mut closes) = (false, false);
        loop {
            tokio::select! {
                biased;
                _ = checking.as_mut(), if !is_checked => is_checked = true,
                result = connection.as_mut() => break result,
                _ = closing.changed(), if !closes => {
                    closes = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    };
    match result {
        Ok(()) => {}
        // The requests of the connection were answered, or have log lines of their own.
        Err(err) if was_used.load(Ordering::Relaxed) => {
            tracing::trace!("a connection ended: {err}")
        }
        Err(err) => tracing::debug!("a connection ended before its first request: {err}"),
    }
    drop(place);
    handing.finish().await;
}

/// Makes the answer to a peer on this machine that is not served, or that cannot be checked now.
fn forbid(error: &RpcError) -> Response<Body> {
    let status = match error.code {
        INTERNAL_ERROR => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::FORBIDDEN,
    };
    let mut response = refuse(status, error);
    close(&mut response);
    response
}

/// Writes an answer to a connection that finds no place, as far as it fits into the buffer of the socket.
fn turn_back(stream: &TcpStream, error: &RpcError) {
    let body = jsonrpc::error(None, error);
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n",
        body.len(),
    );
    let _ = stream.try_write(&[head.as_bytes(), &body].concat());
}

/// The checks of connections on a port without tokens: the user who made a connection, and the server's own check of the
/// process that holds it (`Server::admit_local_peers`).
struct Door {
    server: Endpoint,
    /// Whether only the user of this server and root are served.
    asks_for_user: bool,
    /// Whether the server checks every connection from this machine.
    asks_server: bool,
    /// Limits the log lines about refusals, so that a flood of connections does not fill the log.
    refusals: Mutex<Throttle>,
}

/// One connection and the state of its check.
struct Entry {
    door: Arc<Door>,
    /// The peer that the server has to check.
    peer: Option<LocalPeer>,
    ends: Ends,
    /// Set by the check.
    verdict: OnceCell<Result<(), RpcError>>,
}

/// The addresses of a connection.
#[derive(Clone, Copy)]
struct Ends {
    peer: SocketAddr,
    own: SocketAddr,
}

impl Door {
    /// Makes the checks of a port. If callers must show credentials, nothing is checked here.
    fn of(http: &Http, server: &Endpoint) -> Self {
        let is_open = matches!(http.settings.who, Who::NotAsked);
        Self {
            asks_for_user: is_open && !http.remote && !http.any_local_user,
            asks_server: is_open && server.checks_local_peers(),
            server: server.clone(),
            refusals: Mutex::default(),
        }
    }

    /// Fails if the user who connects matters and the system does not tell it: otherwise either every user of this machine
    /// would be served, or none.
    fn expect_users_told(&self, address: SocketAddr, is_told: bool) -> Result<(), Error> {
        if is_told || !self.asks_for_user {
            return Ok(());
        }
        Err(Error::config(format!(
            "this system does not tell which user connects to {address}; admit callers with `token`, `identify` or \
             `authenticate`, or serve every user of this machine with `any_local_user`"
        )))
    }

    /// Looks up who connected. This must happen at once: when the peer has closed its end, the kernel does not tell any more.
    fn look(self: &Arc<Self>, ends: Ends) -> Entry {
        let mut entry = Entry {
            door: Arc::clone(self),
            peer: None,
            ends,
            verdict: OnceCell::new(),
        };
        if !self.asks_for_user && !self.asks_server {
            return entry;
        }
        let found = ends.socket_of_peer();
        if self.asks_for_user
            && let Some(why) = refusal(&found)
        {
            entry.verdict = OnceCell::new_with(Some(Err(RpcError::invalid_request(why))));
            return entry;
        }
        if !self.asks_server {
            return entry;
        }
        let socket = found.unwrap_or_default();
        if socket.is_none() && ends.was_left() {
            entry.verdict = OnceCell::new_with(Some(Err(left())));
        // Any other connection that is not in the table comes from another machine, or the table cannot be read.
        } else if socket.is_some() || is_of_this_machine(ends.peer) {
            entry.peer = Some(LocalPeer::new(socket));
        }
        entry
    }

    fn log(&self, refused: &RpcError) {
        let refusals = self.refusals.lock();
        let times = refusals.unwrap_or_else(PoisonError::into_inner).count();
        if let Some(times) = times {
            tracing::warn!(times, "a connection is not served: {}", refused.message);
        }
    }
}

impl Entry {
    /// Whether the connection is served. `None`: the server must check it first.
    fn verdict(&self) -> Option<Result<(), &RpcError>> {
        match self.verdict.get() {
            Some(verdict) => Some(verdict.as_ref().map(|&()| ())),
            None if self.peer.is_none() => Some(Ok(())),
            None => None,
        }
    }

    /// Does the same, and lets the server check. All who ask share one check.
    async fn check(&self) -> Result<(), RpcError> {
        self.verdict.get_or_init(|| self.ask_server()).await.clone()
    }

    async fn ask_server(&self) -> Result<(), RpcError> {
        let Some(peer) = self.peer else {
            return Ok(());
        };
        let mut asked = std::pin::pin!(self.door.server.admits_local(peer));
        if let Poll::Ready(verdict) = poll_fn(|cx| Poll::Ready(asked.as_mut().poll(cx))).await {
            return verdict;
        }
        asked.await?;
        // The check took time, and found out about the processes at its end. A confined command that held the connection at
        // first may be gone by then, with its guard.
        let now = peer.socket().map(|_| self.ends.socket_of_peer());
        match now {
            Some(Ok(now)) if now != peer.socket() => Err(left()),
            Some(_) | None => Ok(()),
        }
    }

    /// Makes the answer to a request of a connection that is not served.
    fn refuse(&self, error: &RpcError) -> Response<Body> {
        if self.peer.is_some() && error.code != INTERNAL_ERROR {
            self.door.log(error);
        } else {
            tracing::debug!("a connection is not served: {}", error.message);
        }
        forbid(error)
    }
}

impl Ends {
    /// Finds the socket at the other end. `None`: no process on this machine, or in this network namespace, has it open.
    fn socket_of_peer(self) -> io::Result<Option<LocalSocket>> {
        let found = tcp_socket(self.peer, self.own)?;
        Ok(found.map(|socket| LocalSocket::new(socket.uid, socket.inode)))
    }

    /// Returns whether no process has the other end open any more, if it is not in the table.
    fn was_left(self) -> bool {
        // Loopback leads to no other network namespace. Some sandboxes have a table without numbers.
        self.peer.ip().to_canonical().is_loopback()
            && tcp_socket(self.own, self.peer).is_ok_and(|own| own.is_some())
    }
}

fn left() -> RpcError {
    RpcError::invalid_request(
        "the process that made this connection is gone, and nobody can tell what it was allowed to do",
    )
}

/// Returns the reason, in words for the user who made a connection, why that user is not served without a token. `None`: it is
/// the user of this server, or root.
fn refusal(found: &io::Result<Option<LocalSocket>>) -> Option<String> {
    const UNKNOWN: &str = "it cannot be told which user this connection is of";
    let why = match found {
        Ok(Some(socket)) => match lmcp_private::whose(socket.uid) {
            Whose::Ours | Whose::Roots => return None,
            Whose::Others => format!("this connection is of user {}", socket.uid),
            Whose::Unknown => format!(
                "{UNKNOWN}: {} stands for every user without a number in the user namespace of this server",
                socket.uid
            ),
        },
        Ok(None) => UNKNOWN.to_owned(),
        Err(err) => format!("{UNKNOWN}: {err}"),
    };
    Some(format!(
        "{why}, and without a token only the user of this server and root are served; \
         start it with --token-file, or with --any-local-user to serve every user of this machine"
    ))
}

/// Whether this is an address of this machine. Only then can a socket be bound to it.
fn is_of_this_machine(mut address: SocketAddr) -> bool {
    address.set_port(0);
    address.ip().to_canonical().is_loopback() || UdpSocket::bind(address).is_ok()
}

#[cfg(test)]
mod tests {
    use lmcp_core::{Principal, Server};
    use tokio::sync::{Semaphore, mpsc};

    use super::*;

    #[tokio::test]
    async fn where_users_are_not_told_the_program_must_say_who_is_served() {
        let server = Server::new("test", "1").start().unwrap().endpoint();
        let served = async |choose: fn(Http) -> Http, is_told: bool| {
            let http = choose(crate::bind("127.0.0.1:0").await.unwrap());
            Door::of(&http, &server).expect_users_told(http.local, is_told)
        };
        let refused = served(|http| http, false).await.unwrap_err().to_string();
        for way in ["`identify`", "`authenticate`", "`any_local_user`"] {
            assert!(refused.contains(way), "{refused}");
        }
        served(|http| http, true).await.unwrap();
        let says_who: [fn(Http) -> Http; 4] = [
            Http::any_local_user,
            Http::allow_remote,
            |http| http.identify(|_| Ok(Some("ann".to_owned()))),
            |http| http.authenticate(|_: &lmcp_core::Caller| Ok(Principal::new("ann"))),
        ];
        for choose in says_who {
            served(choose, false).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_token_that_admits_nobody_stops_the_start() {
        let http = crate::bind("127.0.0.1:0").await.unwrap();
        let http = http.token("ann", "a word").token("bob", "");
        let server = Server::new("test", "1").start().unwrap().endpoint();
        let refused = http.serve(server).await.unwrap_err().to_string();
        assert!(refused.contains("`bob`"), "{refused}");
    }

    /// A server whose check of a connection says that it has begun, and takes until the test lets it end.
    async fn checked() -> (Http, Endpoint, mpsc::Receiver<()>, Arc<Semaphore>) {
        let (begun, begins) = mpsc::channel(1);
        let ends = Arc::new(Semaphore::new(0));
        let lets = Arc::clone(&ends);
        let server = Server::new("test", "1").admit_local_peers(move |_| {
            let (begun, ends) = (begun.clone(), Arc::clone(&ends));
            Box::pin(async move {
                let _ = begun.send(()).await;
                let _ = ends.acquire().await;
                Ok(())
            })
        });
        let http = crate::bind("127.0.0.1:0").await.unwrap().any_local_user();
        (http, server.start().unwrap().endpoint(), begins, lets)
    }

    #[tokio::test]
    async fn a_connection_is_checked_before_it_asks_for_anything() {
        let (http, server, mut begins, _lets) = checked().await;
        let address = http.local;
        let begun = async {
            let _client = TcpStream::connect(address).await.unwrap();
            begins.recv().await.unwrap();
        };
        tokio::select! {
            served = http.serve(server) => panic!("{served:?}"),
            () = begun => {}
        }
    }

    #[tokio::test]
    async fn a_connection_that_is_left_during_its_check_is_not_served() {
        let (http, server, mut begins, lets) = checked().await;
        let door = Arc::new(Door::of(&http, &server));
        let mut stays = Vec::new();
        for leaves in [true, false] {
            let client = std::net::TcpStream::connect(http.local).unwrap();
            let (stream, peer) = http.listener.accept().await.unwrap();
            let own = stream.local_addr().unwrap();
            let entry = door.look(Ends { peer, own });
            let (verdict, ()) = tokio::join!(entry.check(), async {
                begins.recv().await.unwrap();
                // A client may say that it sends no more, and wait for its answer.
                client.shutdown(std::net::Shutdown::Write).unwrap();
                stays.extend((!leaves).then_some(client));
                lets.add_permits(1);
            });
            assert_eq!(verdict.is_err(), leaves, "{verdict:?}");
        }
    }

    #[tokio::test]
    async fn a_connection_that_was_left_before_it_is_accepted_is_not_served() {
        let (http, server, ..) = checked().await;
        let door = Arc::new(Door::of(&http, &server));
        drop(TcpStream::connect(http.local).await.unwrap());
        let (stream, peer) = http.listener.accept().await.unwrap();
        let own = stream.local_addr().unwrap();
        let verdict = door.look(Ends { peer, own }).verdict;
        assert!(matches!(verdict.get(), Some(Err(_))));
    }

    #[test]
    fn a_connection_that_is_not_there_is_nobodys() {
        let words = refusal(&Ok(None)).expect("nobody is not served");
        assert!(words.contains("which user this connection is of"));
    }
}
