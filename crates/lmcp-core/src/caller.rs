//! Who sent a request.

use std::{borrow::Cow, collections::BTreeMap, fmt, path::Path, sync::Arc};

use tokio::sync::watch;

use crate::{random, workplace::Workplace};

/// Who sent a request, as far as the transport knows.
#[derive(Clone)]
pub struct Caller(Arc<Inner<dyn Headers>>);

/// The headers come last and may be of any kind, so that a caller is one allocation.
struct Inner<H: ?Sized> {
    transport: Transport,
    principal: Option<Box<str>>,
    identity: Option<Arc<Identity>>,
    /// True once it is gone for good.
    gone: Option<watch::Receiver<bool>>,
    process: Option<Process>,
    /// None where requests come one by one, as over HTTP.
    connection: Option<Arc<Connection>>,
    workplace: Option<Arc<Workplace>>,
    headers: H,
}

/// A connection that a caller comes on for as long as it lasts.
struct Connection {
    name: String,
    /// Dropped with the last who knows the caller.
    open: watch::Sender<()>,
}

/// A caller that whoever runs the server knows in person: a process it started, say.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// Tells it from all others.
    pub id: String,
    /// What people call it.
    pub label: String,
    /// What it may do: tools can be for some roles only.
    pub role: String,
    /// The caller that it was started for.
    pub parent: Option<String>,
}

impl Identity {
    /// Somebody without a parent.
    pub fn new(id: impl Into<String>, label: impl Into<String>, role: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            label: label.into(),
            role: role.into(),
            parent: None,
        }
    }

    /// The same, started for another.
    #[must_use]
    pub fn below(mut self, parent: impl Into<String>) -> Self {
        self.parent = Some(parent.into());
        self
    }
}

/// How a request came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// From inside the process.
    #[default]
    Memory,
    /// On standard input.
    Stdio,
    /// On a unix socket.
    Unix,
    /// By HTTP.
    Http,
}

impl Transport {
    fn has_connections(self) -> bool {
        match self {
            Self::Stdio | Self::Unix => true,
            Self::Memory | Self::Http => false,
        }
    }
}

impl Connection {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            name: random::hex::<8>(),
            open: watch::channel(()).0,
        })
    }
}

/// The process at the other end of a unix socket, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Process {
    /// Its user.
    pub uid: u32,
    /// Its id, where the platform tells.
    pub pid: Option<i32>,
}

impl Process {
    /// A process of a user.
    pub fn new(uid: u32, pid: Option<i32>) -> Self {
        Self { uid, pid }
    }
}

/// Header fields, for transports that have them. Names are given in lower case.
pub trait Headers: Send + Sync {
    /// The value of a field, if there is exactly one and it is text.
    fn get(&self, name: &str) -> HeaderValue<'_>;
}

/// What a look-up of a header finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderValue<'a> {
    /// No such field.
    Absent,
    /// One field, of text.
    Text(&'a str),
    /// Several fields, or one that is not text.
    Malformed,
}

impl Caller {
    /// Somebody on a transport, not yet known any better.
    pub fn new(transport: Transport) -> Self {
        Self::with(transport, None, NoHeaders)
    }

    /// Somebody on the other end of a unix socket.
    pub fn process(uid: u32, pid: Option<i32>) -> Self {
        Self::with(Transport::Unix, Some(Process { uid, pid }), NoHeaders)
    }

    /// Somebody who sent these headers.
    pub fn http(headers: impl Headers + 'static) -> Self {
        Self::with(Transport::Http, None, headers)
    }

    fn with(
        transport: Transport,
        process: Option<Process>,
        headers: impl Headers + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            transport,
            principal: None,
            identity: None,
            gone: None,
            process,
            connection: transport.has_connections().then(Connection::new),
            workplace: None,
            headers,
        }))
    }

    /// The same caller, now known to work somewhere: its relative paths begin there. Callers on a unix socket have this from
    /// the kernel, where it tells.
    #[must_use]
    pub fn working_at(self, workplace: Workplace) -> Self {
        Self(Arc::new(Inner {
            transport: self.0.transport,
            principal: self.0.principal.clone(),
            identity: self.0.identity.clone(),
            gone: self.0.gone.clone(),
            process: self.0.process,
            connection: self.0.connection.clone(),
            workplace: Some(Arc::new(workplace)),
            headers: Same(self),
        }))
    }

    /// The same caller, now known by name.
    #[must_use]
    pub fn known_as(self, principal: &str) -> Self {
        self.known(principal.into(), None, None)
    }

    /// The same caller, now known in person. What it starts and is asked belongs to it alone.
    #[must_use]
    pub fn identified(self, identity: Identity) -> Self {
        let principal = format!("identity {}", identity.id);
        self.known(principal.into(), Some(Arc::new(identity)), None)
    }

    /// The same, for as long as this is not true: then it is gone for good, and so is what belongs to it.
    #[must_use]
    pub fn identified_until(self, identity: Identity, gone: watch::Receiver<bool>) -> Self {
        let principal = format!("identity {}", identity.id);
        self.known(principal.into(), Some(Arc::new(identity)), Some(gone))
    }

    fn known(
        self,
        principal: Box<str>,
        identity: Option<Arc<Identity>>,
        gone: Option<watch::Receiver<bool>>,
    ) -> Self {
        Self(Arc::new(Inner {
            transport: self.0.transport,
            principal: Some(principal),
            identity,
            gone,
            process: self.0.process,
            connection: self.0.connection.clone(),
            workplace: self.0.workplace.clone(),
            headers: Same(self),
        }))
    }

    /// How the request came.
    pub fn transport(&self) -> Transport {
        self.0.transport
    }

    /// Who it is, by credentials. What a caller says of itself (`clientInfo`) is never here.
    pub fn principal(&self) -> Option<&str> {
        self.0.principal.as_deref()
    }

    /// Who it is in person, where the server gave out identities.
    pub fn identity(&self) -> Option<&Identity> {
        self.0.identity.as_deref()
    }

    /// Waits until it is gone for good and nobody will come back as it: for ever, unless it is known in person. What goes
    /// on in its name should end then.
    pub fn gone(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let gone = self.0.gone.clone();
        async move {
            let Some(mut gone) = gone else {
                return std::future::pending().await;
            };
            // An error means that the connection dropped its end of the channel: the peer is gone, too.
            let _ = gone.wait_for(|gone| *gone).await;
        }
    }

    /// The connection it comes on, by a name that no other has. None over HTTP and in memory.
    pub fn connection(&self) -> Option<&str> {
        let connection = self.0.connection.as_ref();
        connection.map(|connection| connection.name.as_str())
    }

    /// Waits until that connection is closed and its last call has ended: for ever where there is none. To be waited for
    /// without holding the caller, which is part of the connection.
    pub fn hung_up(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let open = self.0.connection.as_ref();
        let open = open.map(|connection| connection.open.subscribe());
        async move {
            let Some(mut open) = open else {
                return std::future::pending().await;
            };
            // Nothing is ever sent.
            let _ = open.changed().await;
        }
    }

    /// The role of its identity.
    pub fn role(&self) -> Option<&str> {
        self.identity().map(|identity| identity.role.as_str())
    }

    /// The process at the other end of a unix socket.
    pub fn peer(&self) -> Option<Process> {
        self.0.process
    }

    /// The folder that the process at the other end of a unix socket works in, as it was when it connected; with `lmcp proxy`
    /// in between, that is where the client started it. `None` where the kernel does not tell: the process is another
    /// user's, or in a namespace of its own. [`Cx::folders`](crate::Cx::folders) also knows what a client says.
    pub fn folder(&self) -> Option<&Path> {
        self.0.workplace.as_deref().map(Workplace::folder)
    }

    /// The variables of that process that shape a tool chain: `PATH`, `VIRTUAL_ENV`, `LANG` and their like, never secrets.
    /// `None` where the kernel does not tell.
    pub fn variables(&self) -> Option<&BTreeMap<String, String>> {
        self.0.workplace.as_deref().map(Workplace::variables)
    }

    /// A header field, on transports that have them.
    pub fn header(&self, name: &str) -> Option<&str> {
        match self.0.headers.get(name) {
            HeaderValue::Text(text) => Some(text),
            HeaderValue::Absent | HeaderValue::Malformed => None,
        }
    }

    /// The same, with the difference between a field that is not there and one that cannot be read.
    pub fn header_value(&self, name: &str) -> HeaderValue<'_> {
        self.0.headers.get(name)
    }

    /// The fields themselves, on transports that have them.
    pub(crate) fn headers(&self) -> Option<&dyn Headers> {
        (self.0.transport == Transport::Http).then_some(&self.0.headers)
    }

    /// What belongs to a caller (jobs, tasks, sealed answers) is recorded under this name: that of the person, else that of
    /// the user at the other end of the socket, else one that all strangers share.
    pub fn owner(&self) -> Cow<'static, str> {
        match (&self.0.principal, &self.0.process) {
            (Some(principal), _) => format!("principal:{principal}").into(),
            (None, Some(process)) => format!("uid:{}", process.uid).into(),
            (None, None) => "anyone".into(),
        }
    }
}

struct NoHeaders;

impl Headers for NoHeaders {
    fn get(&self, _: &str) -> HeaderValue<'_> {
        HeaderValue::Absent
    }
}

/// The headers of another caller.
struct Same(Caller);

impl Headers for Same {
    fn get(&self, name: &str) -> HeaderValue<'_> {
        self.0.0.headers.get(name)
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("transport", &self.0.transport)
            .field("principal", &self.0.principal)
            .field("process", &self.0.process)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_has_a_name_of_its_own_and_ends_with_its_caller() {
        let caller = Caller::process(0, None);
        let known = caller.clone().known_as("ann");
        assert!(caller.connection().is_some());
        assert_eq!(caller.connection(), known.connection());
        assert_ne!(caller.connection(), Caller::process(0, None).connection());
        assert_eq!(Caller::new(Transport::Http).connection(), None);
        let hung_up = known.hung_up();
        drop((caller, known));
        hung_up.await;
    }
}
