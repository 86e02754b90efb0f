//! Who sent a request.

use std::{
    any::{Any, TypeId},
    borrow::Cow,
    collections::BTreeMap,
    fmt,
    path::Path,
    sync::Arc,
};

use lmcp_wire::header;
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::{
    extensions::Extensions,
    face::Face,
    headers::{HeaderValue, Headers, NoHeaders},
    identity::Identity,
    peer::Process,
    principal::Principal,
    random,
    workplace::Workplace,
};

/// The sender of a request, as far as the transport knows it.
///
/// A handler reads it with [`Cx::caller`](crate::Cx::caller), a layer with [`Request::caller`](crate::Request::caller), and an
/// [`Authenticate`](crate::Authenticate) decides by it. A test makes one, to call with a name and a role:
///
/// ```
/// use lmcp::{Caller, CallerTransport, Principal};
///
/// let ann = Caller::new(CallerTransport::Memory).authenticated(Principal::new("ann").role("admin"));
/// assert_eq!(ann.principal(), Some("ann"));
/// assert_eq!(ann.role(), Some("admin"));
/// ```
#[derive(Clone)]
pub struct Caller(Arc<Inner<dyn Headers>>);

/// The headers come last and may be of any kind, so that a caller is one allocation.
struct Inner<H: ?Sized> {
    transport: Transport,
    principal: Option<Arc<Principal>>,
    identity: Option<Arc<Identity>>,
    /// The identity at this moment, for callers whose role may change.
    renewed: Option<watch::Receiver<Arc<Identity>>>,
    extensions: Extensions,
    /// True once the caller is gone for good.
    gone: Option<watch::Receiver<bool>>,
    process: Option<Process>,
    /// `None` where every request comes alone, as over HTTP.
    connection: Option<Arc<Connection>>,
    workplace: Option<Arc<Workplace>>,
    /// The name of the party that the caller acts for, if the caller says so.
    beneficiary: Option<Arc<str>>,
    headers: H,
}

/// A connection of a caller. It stays open for as long as it lasts.
struct Connection {
    name: String,
    /// Dropped with the last clone of the caller.
    open: watch::Sender<()>,
}

/// The way on which a request came.
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

impl Caller {
    /// Makes a caller on this transport. Nothing else is known about the caller.
    pub fn new(transport: Transport) -> Self {
        Self::with(transport, None, NoHeaders)
    }

    /// Makes a caller at the other end of a unix socket.
    pub fn process(uid: u32, pid: Option<i32>) -> Self {
        Self::with(Transport::Unix, Some(Process { uid, pid }), NoHeaders)
    }

    /// Makes a caller that sent these headers.
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
            renewed: None,
            extensions: Extensions::default(),
            gone: None,
            process,
            connection: transport.has_connections().then(Connection::new),
            workplace: None,
            beneficiary: None,
            headers,
        }))
    }

    /// Sets where the caller works: its relative paths begin there. Callers on a unix socket have this from the kernel, if the kernel
    /// tells.
    #[must_use]
    pub fn working_at(self, workplace: Workplace) -> Self {
        self.changed(|caller| caller.workplace = Some(Arc::new(workplace)))
    }

    /// Sets the name of the caller.
    #[must_use]
    pub fn known_as(self, name: &str) -> Self {
        self.authenticated(Principal::new(name))
    }

    /// Sets who the caller is by its credentials.
    #[must_use]
    pub fn authenticated(self, principal: Principal) -> Self {
        self.changed(|caller| {
            caller.principal = Some(Arc::new(principal));
            caller.identity = None;
            caller.renewed = None;
            caller.gone = None;
        })
    }

    /// Gives the caller an identity. Its jobs, tasks and questions then belong to it alone.
    #[must_use]
    pub fn identified(self, identity: Identity) -> Self {
        self.known(identity, None)
    }

    /// Gives the caller an identity until `gone` becomes true. The caller is then gone for good, and so is everything that belongs to it.
    #[must_use]
    pub fn identified_until(self, identity: Identity, gone: watch::Receiver<bool>) -> Self {
        self.known(identity, Some(gone))
    }

    /// Gives the caller an identity whose role may change. [`Caller::now`] follows the changes.
    #[must_use]
    pub fn identified_as(
        self,
        identity: watch::Receiver<Arc<Identity>>,
        gone: watch::Receiver<bool>,
    ) -> Self {
        let latest = Arc::clone(&identity.borrow());
        self.changed(|caller| {
            caller.identify(latest);
            caller.renewed = Some(identity);
            caller.gone = Some(gone);
        })
    }

    /// The caller with its current role. Transports call this for every request of a connection, so that a request keeps the role it came
    /// with.
    #[must_use]
    pub fn now(&self) -> Self {
        match self.latest() {
            Some(latest) => self.clone().changed(|caller| caller.identify(latest)),
            None => self.clone(),
        }
    }

    /// The identity at this moment, if it has changed since the connection began.
    fn latest(&self) -> Option<Arc<Identity>> {
        let latest = Arc::clone(&self.0.renewed.as_ref()?.borrow());
        let is_same = |known: &Arc<Identity>| Arc::ptr_eq(known, &latest);
        let is_new = !self.0.identity.as_ref().is_some_and(is_same);
        is_new.then_some(latest)
    }

    /// The part of a caller that decides which messages reach it. Holding a face does not keep the connection open.
    pub(crate) fn face(&self) -> Face {
        Face {
            principal: self.0.principal.clone(),
            renewed: self.0.renewed.clone(),
            identity: self.0.identity.clone(),
        }
    }

    fn known(self, identity: Identity, gone: Option<watch::Receiver<bool>>) -> Self {
        self.changed(|caller| {
            caller.identify(Arc::new(identity));
            caller.renewed = None;
            caller.gone = gone;
        })
    }

    /// Adds a value that handlers find by its type ([`Cx::extension`](crate::Cx::extension)), on every request of this caller.
    /// [`Request::extend`](crate::Request::extend) adds a value to a single request.
    #[must_use]
    pub fn extended<T: Any + Send + Sync>(self, value: T) -> Self {
        self.changed(|caller| caller.extensions.insert(value))
    }

    /// The same caller, now acting for one of its own callers, which it calls by this name. Everything that it creates then
    /// belongs to the two together: not to others that it acts for, and not to itself. The name gives no further rights.
    pub(crate) fn acting_for(self, name: &str) -> Self {
        self.changed(|caller| caller.beneficiary = Some(name.into()))
    }

    fn changed(self, change: impl FnOnce(&mut Inner<Same>)) -> Self {
        let mut inner = Inner {
            transport: self.0.transport,
            principal: self.0.principal.clone(),
            identity: self.0.identity.clone(),
            renewed: self.0.renewed.clone(),
            extensions: self.0.extensions.clone(),
            gone: self.0.gone.clone(),
            process: self.0.process,
            connection: self.0.connection.clone(),
            workplace: self.0.workplace.clone(),
            beneficiary: self.0.beneficiary.clone(),
            headers: Same(self),
        };
        change(&mut inner);
        Self(Arc::new(inner))
    }

    /// How the request came.
    pub fn transport(&self) -> Transport {
        self.0.transport
    }

    /// The name that the credentials of the caller stand for. A name that the client claims (`clientInfo`) is never here.
    pub fn principal(&self) -> Option<&str> {
        self.credentials()?.name.as_deref()
    }

    /// The role that the caller acts in, by its credentials or its identity.
    pub fn role(&self) -> Option<&str> {
        self.credentials()?.role.as_deref()
    }

    /// The scopes that the credentials grant, in the words of their issuer.
    pub fn scopes(&self) -> &[String] {
        self.credentials().map_or(&[], |found| &found.scopes)
    }

    /// Whether the credentials of the caller grant this scope.
    pub fn has_scope(&self, scope: &str) -> bool {
        self.scopes().iter().any(|known| known == scope)
    }

    /// A claim of the credentials, by its name.
    pub fn claim(&self, name: &str) -> Option<&Value> {
        self.claims()?.get(name)
    }

    /// Everything that the credentials say besides name, role and scopes. `None`: the caller showed no credentials.
    pub fn claims(&self) -> Option<&Map<String, Value>> {
        self.credentials().map(|found| &found.claims)
    }

    fn credentials(&self) -> Option<&Principal> {
        self.0.principal.as_deref()
    }

    /// The identity of the caller, if the server gave it one.
    pub fn identity(&self) -> Option<&Identity> {
        self.0.identity.as_deref()
    }

    /// Waits until the caller is gone for good, and nobody will come back under its identity. Work that goes on in its name should end
    /// then. For a caller without an identity this waits for ever.
    pub fn gone(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let gone = self.0.gone.clone();
        async move {
            let Some(mut gone) = gone else {
                return std::future::pending().await;
            };
            // An error means that the sender is gone, so the caller is gone, too.
            let _ = gone.wait_for(|gone| *gone).await;
        }
    }

    /// The name of the connection that the caller is on, which no other connection has. `None` over HTTP and in memory.
    pub fn connection(&self) -> Option<&str> {
        let connection = self.0.connection.as_ref();
        connection.map(|connection| connection.name.as_str())
    }

    /// Waits until the connection of the caller is closed and its last call has ended; for ever, where there is no connection. Drop the
    /// `Caller` before you wait: it keeps the connection.
    pub fn hung_up(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let open = self.0.connection.as_ref();
        let open = open.map(|connection| connection.open.subscribe());
        async move {
            let Some(mut open) = open else {
                return std::future::pending().await;
            };
            // Nothing is ever sent: `changed` returns when the sender is dropped.
            let _ = open.changed().await;
        }
    }

    /// The process at the other end of a unix socket.
    pub fn peer(&self) -> Option<Process> {
        self.0.process
    }

    /// The folder that the process at the other end of a unix socket worked in when it connected. With `lmcp proxy` in between, that is the
    /// folder where the client started the proxy. `None`: the kernel does not tell, because the process is another user's, or in a
    /// namespace of its own. [`Cx::folders`](crate::Cx::folders) also asks the client.
    pub fn folder(&self) -> Option<&Path> {
        self.0.workplace.as_deref().map(Workplace::folder)
    }

    /// The variables of that process that shape a tool chain: `PATH`, `VIRTUAL_ENV`, `LANG` and their like, and never secrets. `None`: the
    /// kernel does not tell.
    pub fn variables(&self) -> Option<&BTreeMap<String, String>> {
        self.0.workplace.as_deref().map(Workplace::variables)
    }

    /// The umask of the process that connected. Zero if the kernel does not tell it.
    pub fn umask(&self) -> u32 {
        self.0.workplace.as_deref().map_or(0, Workplace::umask)
    }

    /// A header of an HTTP request, by its name. Other transports have no headers.
    pub fn header(&self, name: &str) -> Option<&str> {
        match self.0.headers.get(name) {
            HeaderValue::Text(text) => Some(text),
            HeaderValue::Absent | HeaderValue::Malformed => None,
        }
    }

    /// A header of an HTTP request, with the difference between a header that is absent and one that cannot be read.
    pub fn header_value(&self, name: &str) -> HeaderValue<'_> {
        self.0.headers.get(name)
    }

    /// The token that the caller shows: that of `Authorization: Bearer …` over HTTP, or that of the first line on a unix socket with an
    /// [`Authenticate`](crate::Authenticate). `None`: there is no token, another scheme, or more than one `Authorization`. Of several,
    /// other programs on the way might read another one.
    pub fn bearer(&self) -> Option<&str> {
        match self.header("authorization") {
            Some(value) => header::bearer(value),
            None => self.extension::<Shown>().map(|Shown(token)| &**token),
        }
    }

    /// The same caller with the token that it shows besides any header.
    pub(crate) fn showing(self, token: &str) -> Self {
        self.extended(Shown(token.into()))
    }

    /// The value of this type that the caller brings: added by [`Caller::extended`], or by HTTP middleware.
    pub fn extension<T: Any + Send + Sync>(&self) -> Option<&T> {
        let carried = || self.0.headers.extension(TypeId::of::<T>());
        let own = self.0.extensions.get::<T>();
        own.or_else(|| carried()?.downcast_ref())
    }

    /// The header fields, on transports that have them.
    pub(crate) fn headers(&self) -> Option<&dyn Headers> {
        (self.0.transport == Transport::Http).then_some(&self.0.headers)
    }

    /// The name of the caller that this caller acts for, as a hub tells it. `None`: the caller acts for itself.
    pub fn beneficiary(&self) -> Option<&str> {
        self.0.beneficiary.as_deref()
    }

    /// The text that jobs, tasks, sessions, subscriptions and sealed answers of the caller are recorded under. It is made of the name of
    /// the credentials, else of the user at the other end of the socket, else it is one text for all callers that are not known; and of the
    /// role, and of the name of whom the caller acts for. A caller with an identity owns the same in every role.
    ///
    /// Records on disk hold it, so the text of a caller without a role never changes.
    pub fn owner(&self) -> Cow<'static, str> {
        let payer = self.payer();
        match self.beneficiary() {
            // The length separates the name from the payer, whatever characters they have.
            Some(name) => format!("{FOR}{}:{name}/{payer}", name.len()).into(),
            None => payer,
        }
    }

    /// The text under which shares of memory, places and work are counted: the owner, without the name of whom the caller acts for. A
    /// caller that acts for many gets no more than others.
    pub fn payer(&self) -> Cow<'static, str> {
        if let Some(identity) = self.identity() {
            return format!("identity:{}", identity.id).into();
        }
        let who = match (self.principal(), &self.0.process) {
            (Some(name), _) => Cow::from(format!("principal:{name}")),
            (None, Some(process)) => format!("uid:{}", process.uid).into(),
            (None, None) => "anyone".into(),
        };
        match self.role() {
            Some(role) => format!("role:{}:{role}/{who}", role.len()).into(),
            None => who,
        }
    }

    /// The payer that belongs to a recorded [owner](Self::owner).
    pub fn payer_of(owner: &str) -> &str {
        let payer = owner.strip_prefix(FOR).and_then(|rest| {
            let (length, rest) = rest.split_once(':')?;
            rest.get(length.parse::<usize>().ok()?..)?.strip_prefix('/')
        });
        payer.unwrap_or(owner)
    }

    /// Whether nothing tells this caller from others. Such callers share everything that they own.
    pub fn is_stranger(&self) -> bool {
        self.principal().is_none() && self.role().is_none() && self.0.process.is_none()
    }
}

impl Inner<Same> {
    fn identify(&mut self, identity: Arc<Identity>) {
        let principal = Principal::new(format!("identity {}", identity.id)).role(&identity.role);
        self.principal = Some(Arc::new(principal));
        self.identity = Some(identity);
    }
}

/// The beginning of the owners that act for somebody. No other owner begins so.
const FOR: &str = "for:";

/// A token that the caller shows without a header.
struct Shown(Box<str>);

/// The headers of another caller, taken over.
struct Same(Caller);

impl Headers for Same {
    fn get(&self, name: &str) -> HeaderValue<'_> {
        self.0.0.headers.get(name)
    }

    fn extension(&self, of: TypeId) -> Option<&(dyn Any + Send + Sync)> {
        self.0.0.headers.extension(of)
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("transport", &self.0.transport)
            .field("principal", &self.principal())
            .field("role", &self.role())
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

    #[test]
    fn nobody_owns_what_is_anothers() {
        let http = || Caller::new(Transport::Http);
        let known = |principal| http().authenticated(principal);
        let owners = [
            http(),
            known(Principal::new("ann")),
            known(Principal::new("ann").role("admin")),
            known(Principal::new("ann").role("reader")),
            known(Principal::new("bob").role("admin")),
            known(Principal::anyone().role("admin")),
            known(Principal::new("b/principal:c").role("a")),
            known(Principal::new("c").role("a/principal:b")),
            known(Principal::new("1000")),
            Caller::process(1000, None),
            Caller::process(1000, None).authenticated(Principal::anyone().role("admin")),
            http().identified(Identity::new("1", "ann", "admin")),
            http().identified(Identity::new("2", "ann", "admin")),
            known(Principal::new("identity 1").role("admin")),
            http().acting_for("ann"),
            http().acting_for("bob"),
            http().acting_for("1"),
            http().known_as("ann/anyone"),
            http().known_as("for:3:ann/anyone"),
            http().known_as("ann").acting_for("bob"),
            http().known_as("bob").acting_for("ann"),
            known(Principal::new("ann").role("admin")).acting_for("bob"),
            Caller::process(1000, None).acting_for("ann"),
        ]
        .map(|caller| caller.owner());
        let apart: std::collections::BTreeSet<_> = owners.iter().collect();
        assert_eq!(apart.len(), owners.len(), "{owners:?}");
    }

    // Jobs and changes of files are found by these words, also by later versions of the server.
    #[test]
    fn owners_without_a_role_are_written_as_they_always_were() {
        let http = || Caller::new(Transport::Http);
        assert_eq!(http().owner(), "anyone");
        assert_eq!(http().known_as("ann").owner(), "principal:ann");
        assert_eq!(Caller::process(7, None).owner(), "uid:7");
        let scoped = Principal::new("ann").scopes(["a"]).claim("b", 1);
        assert_eq!(http().authenticated(scoped).owner(), "principal:ann");
        let nobody = http().authenticated(Principal::anyone());
        assert_eq!(
            (nobody.owner(), nobody.is_stranger()),
            ("anyone".into(), true)
        );
    }

    #[test]
    fn nobody_has_a_larger_share_by_acting_for_many() {
        for name in ["ann", "a:1", "x/y", "for:1:x/y"] {
            let caller = Caller::new(Transport::Http).known_as(name);
            for acting in ["bob", "1", "a/b", "ä"] {
                let acting = caller.clone().acting_for(acting);
                assert_eq!(acting.payer(), caller.owner());
                assert_eq!(Caller::payer_of(&acting.owner()), caller.owner());
            }
            assert_eq!(Caller::payer_of(&caller.owner()), caller.owner());
        }
        for broken in ["for:", "for:9:x/anyone", "for:x:y/z", "for:1:xy"] {
            assert_eq!(Caller::payer_of(broken), broken);
        }
    }

    #[test]
    fn a_role_that_changes_is_seen_by_the_next_request_and_owns_the_same() {
        let ann = |role: &str| Arc::new(Identity::new("1", "ann", role));
        let identity = watch::Sender::new(ann("worker"));
        let (_alive, gone) = watch::channel(false);
        let caller = Caller::process(0, None).identified_as(identity.subscribe(), gone);
        assert_eq!(caller.now().role(), Some("worker"));
        identity.send_replace(ann("lead"));
        let now = caller.now();
        assert_eq!((caller.role(), now.role()), (Some("worker"), Some("lead")));
        assert_eq!(caller.owner(), now.owner());
        assert_eq!(caller.connection(), now.connection());
    }

    #[test]
    fn values_stay_with_a_caller_that_becomes_known() {
        let caller = Caller::new(Transport::Memory)
            .extended(1_u8)
            .extended(2_u16);
        let known = caller.clone().extended(3_u8).known_as("ann");
        assert_eq!(known.extension::<u8>(), Some(&3));
        assert_eq!(known.extension::<u16>(), Some(&2));
        assert_eq!(known.extension::<u32>(), None);
        assert_eq!(caller.extension::<u8>(), Some(&1));
    }
}
