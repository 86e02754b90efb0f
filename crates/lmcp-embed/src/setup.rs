//! [`Setup`]: the options for the start of a host.

use std::path::{Path, PathBuf};

use lmcp_core::{Error, Server};
use tokio::runtime;

use crate::{
    handle::{HostHandle, Link},
    host::Host,
    socket_dir::SocketDir,
    state::State,
};

/// Options for the start of a [`Host`]: [`Host::setup`].
///
/// ```no_run
/// # use lmcp::{Server, embed::Host};
/// let host = Host::setup().folder("/run/user/1000/deck").start(Server::new("deck", "1.0.0"))?;
/// # Ok::<(), lmcp::Error>(())
/// ```
#[derive(Debug, Default)]
#[must_use = "a host does nothing until it is started"]
pub struct Setup {
    place: Place,
    state: State,
    link: Link,
    labels: Labels,
}

/// Whether several children may have one label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Labels {
    #[default]
    Any,
    Unique,
}

#[derive(Debug, Default)]
enum Place {
    #[default]
    Usual,
    Folder(PathBuf),
    Path(PathBuf),
}

impl Setup {
    /// Puts the socket into this folder, which only this user can enter, under a name that the host chooses.
    pub fn folder(mut self, folder: impl AsRef<Path>) -> Self {
        self.place = Place::Folder(folder.as_ref().to_owned());
        self
    }

    /// Puts the socket at this path, and makes the host come back: [`Host::start_at`].
    pub fn path(mut self, path: impl AsRef<Path>) -> Self {
        self.place = Place::Path(path.as_ref().to_owned());
        self
    }

    /// Takes over the children that the last host at this path [exported](Host::export), besides those that it finds there
    /// by itself.
    pub fn resume(mut self, state: State) -> Self {
        self.state = state;
        self
    }

    /// Refuses a child with the label of another child that has not ended: for a host whose tools find children by their labels.
    /// [`Host::child`] and the tools of [`family`](crate::family) return an error then. Children of an earlier host keep the
    /// labels that they have.
    ///
    /// ```no_run
    /// # use lmcp::{Server, embed::Host};
    /// let host = Host::setup().unique_labels().start(Server::new("deck", "1.0.0"))?;
    /// let ann = host.child("ann", "worker")?;
    /// assert!(host.child("ann", "worker").is_err());
    /// # Ok::<(), lmcp::Error>(())
    /// ```
    pub fn unique_labels(mut self) -> Self {
        self.labels = Labels::Unique;
        self
    }

    /// Returns the handle of the host that will be started, for state that the tools share: it is made before the server.
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// # use lmcp::{Cx, NoArgs, Server, Tool, ToolSet, embed::{Host, HostHandle}};
    /// struct Desk {
    ///     host: HostHandle,
    /// }
    ///
    /// async fn count(desk: Arc<Desk>, _: NoArgs, _: Cx) -> String {
    ///     desk.host.children().len().to_string()
    /// }
    ///
    /// let setup = Host::setup();
    /// let desk = Arc::new(Desk { host: setup.handle() });
    /// let tools = ToolSet::new(Arc::clone(&desk)).tool(Tool::new("count", count).about("Counts children.").read_only());
    /// let host = setup.start(Server::new("desk", "1.0.0").tools(tools))?;
    /// # Ok::<(), lmcp::Error>(())
    /// ```
    pub fn handle(&self) -> HostHandle {
        HostHandle(Link::clone(&self.link))
    }

    /// Starts the host on a thread of its own: [`Host::start`].
    ///
    /// # Errors
    /// The server is not valid, or the socket cannot be made.
    pub fn start(self, server: Server) -> Result<Host, Error> {
        self.start_with(|_| server)
    }

    /// Starts the host on a thread of its own, for tools that need the host: [`Host::start_with`].
    ///
    /// # Errors
    /// As [`Setup::start`].
    pub fn start_with(self, server: impl FnOnce(&HostHandle) -> Server) -> Result<Host, Error> {
        let (place, handle) = (self.place()?, self.handle());
        Host::on_thread(place, self.state, self.labels, &handle, server)
    }

    /// Starts the host on the runtime of the caller: [`Host::start_here`].
    ///
    /// # Errors
    /// As [`Setup::start`].
    pub async fn start_here(self, server: Server) -> Result<Host, Error> {
        self.start_here_with(|_| server).await
    }

    /// Starts the host on the runtime of the caller, for tools that need the host.
    ///
    /// # Errors
    /// As [`Setup::start`].
    #[expect(clippy::unused_async, reason = "shows that it needs a runtime")]
    pub async fn start_here_with(
        self,
        server: impl FnOnce(&HostHandle) -> Server,
    ) -> Result<Host, Error> {
        let runtime = runtime::Handle::current();
        let (place, handle) = (self.place()?, self.handle());
        let (host, serving) = Host::new(
            place,
            self.state,
            self.labels,
            &handle,
            server,
            runtime.clone(),
        )?;
        runtime.spawn(serving);
        Ok(host)
    }

    fn place(&self) -> Result<SocketDir, Error> {
        match &self.place {
            Place::Usual => SocketDir::usual(),
            Place::Folder(folder) => SocketDir::chosen(folder),
            Place::Path(path) => SocketDir::at(path),
        }
    }
}
