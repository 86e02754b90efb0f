//! A unix socket, for its owner alone, with the same lines as stdio and many connections.

use std::{
    fs, io,
    os::{
        fd::AsRawFd as _,
        unix::{
            fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
            net::{UnixListener as StdListener, UnixStream as StdStream},
        },
    },
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use lmcp_wire::{RpcError, jsonrpc};
use serde_json::json;
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{Notify, Semaphore, watch},
};

use super::{Gate, Transport, gate, pair};
use crate::{
    caller::{Caller, Process},
    error::Error,
    random,
    server::Handle,
    spawn::Tasks,
};

/// Listens on a unix socket that only this user can open.
///
/// A socket that a dead server left behind is replaced; one that answers, or anything that is not a socket, is not.
///
/// # Errors
/// The path cannot be bound.
pub fn unix(path: impl Into<PathBuf>) -> Result<Unix, Error> {
    let path = path.into();
    let (listener, identity) = bind(&path)
        .map_err(|err| Error::io(format!("cannot listen on {}", path.display()), err))?;
    let file = SocketFile {
        path: path.clone(),
        identity,
    };
    Ok(Unix::new(listener, path, Some(file)))
}

/// See [`unix`].
pub struct Unix {
    listener: StdListener,
    path: PathBuf,
    /// Absent where the socket is somebody else's.
    file: Option<SocketFile>,
    gate: Option<Arc<dyn Gate>>,
    idle: Option<Duration>,
    stop: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Unix {
    fn new(listener: StdListener, path: PathBuf, file: Option<SocketFile>) -> Self {
        Self {
            listener,
            path,
            file,
            gate: None,
            idle: None,
            stop: Box::pin(std::future::pending()),
        }
    }

    /// Takes a socket that somebody else listens on and passed on, a service manager say. It is not removed in the end.
    ///
    /// # Errors
    /// It has no path, or cannot be used.
    pub fn from_listener(listener: StdListener) -> Result<Self, Error> {
        let failed = |err| Error::io("cannot use the socket that was passed on", err);
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let path = address.as_pathname().map(Path::to_owned);
        Ok(Self::new(listener, path.unwrap_or_default(), None))
    }

    /// Where it listens. Empty for a socket without a path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stops when nobody has been connected for so long, and no task runs.
    #[must_use]
    pub fn until_idle(mut self, time: Duration) -> Self {
        self.idle = Some(time);
        self
    }

    /// Lets in only whom this gate knows. Each connection begins with a line that says who calls.
    #[must_use]
    pub fn gate(mut self, gate: Arc<dyn Gate>) -> Self {
        self.gate = Some(gate);
        self
    }

    /// Stops when this future ends: no new connections, and those there are get a moment.
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
    async fn serve(mut self, server: Handle) -> Result<(), Error> {
        let file = self.file;
        let listener =
            UnixListener::from_std(self.listener).map_err(|err| Error::io("cannot listen", err))?;
        let most = server.limits().connections.min(Semaphore::MAX_PERMITS);
        let places = Arc::new(Semaphore::new(most));
        let (close, closing) = watch::channel(false);
        let connections = Tasks::default();
        let left = Arc::new(Notify::new());
        loop {
            let is_alone = places.available_permits() == most;
            let stream = tokio::select! {
                () = &mut self.stop => break,
                () = idle(self.idle.filter(|_| is_alone)) => {
                    if server.is_idle() {
                        break;
                    }
                    continue;
                }
                // Somebody left: who waits to be alone looks again.
                () = left.notified() => continue,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(err) => {
                        // Out of descriptors, most likely: others will close some.
                        tracing::warn!("cannot accept a connection: {err}");
                        tokio::time::sleep(server.limits().drain_wait).await;
                        continue;
                    }
                },
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                refuse(&stream, server.limits().connections);
                continue;
            };
            let (server, closing, gate) = (server.clone(), closing.clone(), self.gate.clone());
            let left = Arc::clone(&left);
            connections.spawn(async move {
                serve(stream, server, gate, closing).await;
                drop(place);
                left.notify_one();
            });
        }
        // Nobody should find a door that does not open any more.
        drop(file);
        server.transport_stops();
        close.send_replace(true);
        let all = u32::try_from(server.limits().connections).unwrap_or(u32::MAX);
        let _ =
            tokio::time::timeout(server.limits().drain_wait * 3, places.acquire_many(all)).await;
        Ok(())
    }
}

/// Waits for so long; for ever where no time is given.
async fn idle(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

async fn serve(
    stream: UnixStream,
    server: Handle,
    gate: Option<Arc<dyn Gate>>,
    closing: watch::Receiver<bool>,
) {
    let Ok(peer) = stream.peer_cred() else { return };
    let (mut reader, mut writer) = stream.into_split();
    let Some(gate) = gate else {
        let caller = Caller::process(peer.uid(), peer.pid());
        let connection = pair(reader, writer, caller);
        return connection.serve_until(server, closing).await;
    };
    let peer = Process::new(peer.uid(), peer.pid());
    let passed = gate::pass(&gate, peer, &mut reader, &mut writer, server.limits()).await;
    let Some((admission, framer)) = passed else {
        return;
    };
    let connection = pair(reader, writer, admission.caller).after(framer);
    tokio::select! {
        () = connection.serve_until(server, closing) => {}
        // Nothing is owed to somebody who may not be here.
        () = admission.over => {}
    }
}

/// One line that says why, as far as it fits into the socket's buffer.
fn refuse(stream: &UnixStream, most: usize) {
    let error = RpcError::internal(format!(
        "{most} connections are open, and no more are taken"
    ))
    .with_data(json!({ "limit": "connections", "value": most }));
    let mut line = jsonrpc::error(None, &error);
    line.push(b'\n');
    let _ = stream.try_write(&line);
}

/// Which file this is, so that nobody else's is removed.
type Identity = (u64, u64);

fn bind(path: &Path) -> io::Result<(StdListener, Identity)> {
    if let Ok(found) = fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "something that is not a socket is there",
            ));
        }
        if StdStream::connect(path).is_ok() {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                "another server listens there",
            ));
        }
    }
    // Bound in a folder of our own and moved into place once its mode is right: at no moment can others open it.
    let folder = scratch(path)?;
    let result = fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).and_then(|()| {
        let socket = folder.join("s");
        let listener = match StdListener::bind(&socket) {
            // Too long by our folder's name: Linux has a short way to say where it is.
            Err(err) if err.kind() == io::ErrorKind::InvalidInput => {
                let folder = fs::File::open(&folder)?;
                StdListener::bind(format!("/proc/self/fd/{}/s", folder.as_raw_fd()))
            }
            bound => bound,
        }?;
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        let identity = identify(&socket)?;
        fs::rename(&socket, path)?;
        Ok((listener, identity))
    });
    let _ = fs::remove_dir_all(&folder);
    result
}

/// A folder beside the path, with a name so short that a path that fits the system still does.
fn scratch(path: &Path) -> io::Result<PathBuf> {
    let mut taken = Err(io::ErrorKind::AlreadyExists.into());
    for _ in 0..16 {
        let folder = path.with_file_name(format!(".{}", random::hex::<1>()));
        taken = fs::DirBuilder::new().create(&folder).map(|()| folder);
        match &taken {
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
            _ => break,
        }
    }
    taken
}

fn identify(path: &Path) -> io::Result<Identity> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

/// Removes the socket when the server is done with it, unless another took its place.
struct SocketFile {
    path: PathBuf,
    identity: Identity,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identify(&self.path).is_ok_and(|found| found == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}
