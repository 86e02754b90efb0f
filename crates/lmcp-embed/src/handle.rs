//! [`HostHandle`]: a handle for tools and threads, which does not keep the host alive.

use std::sync::{Arc, OnceLock, Weak};

use lmcp_core::{Error, Handle};

use crate::{
    child::{Child, Maker},
    event::{Events, Teller},
    host::Inner,
    member::ChildHandle,
};

/// A handle of a host, for tools and threads of the program. It is cheap to clone and keeps nothing alive: when the
/// [`Host`](crate::Host) is gone, or has not been started, there are no children, and none can be made.
#[derive(Clone, Debug)]
pub struct HostHandle(pub(crate) Link);

/// Empty until the host is started.
pub(crate) type Link = Arc<OnceLock<Weak<Inner>>>;

impl HostHandle {
    pub(crate) fn of(inner: &Arc<Inner>) -> Self {
        Self(Arc::new(OnceLock::from(Arc::downgrade(inner))))
    }

    pub(crate) fn inner(&self) -> Option<Arc<Inner>> {
        self.0.get()?.upgrade()
    }

    /// Makes an identity for a process that the program is about to start: [`Host::child`](crate::Host::child).
    ///
    /// # Errors
    /// The host is not open, or the credentials cannot be written.
    pub fn child(&self, label: &str, role: &str) -> Result<Child, Error> {
        let closed = || Error::config(format!("`{label}`: the host is not open"));
        let inner = self.inner().ok_or_else(closed)?;
        Child::new(&inner, label, role, Maker::Program)
    }

    /// Runs a future on the runtime of the host: [`Host::spawn`](crate::Host::spawn). When the host has closed, the future is
    /// dropped.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        if let Some(inner) = self.inner() {
            inner.spawn(future);
        }
    }

    /// Returns the children that have not ended, in the order in which they were made: [`Host::children`](crate::Host::children).
    pub fn children(&self) -> Vec<ChildHandle> {
        let inner = self.inner();
        inner.map_or_else(Vec::new, |inner| inner.children.all())
    }

    /// Returns the child with this id, if it has not ended.
    pub fn find(&self, id: &str) -> Option<ChildHandle> {
        let mut children = self.children().into_iter();
        children.find(|child| child.identity().id == id)
    }

    /// Returns the child with this label, if it has not ended. If several have the label, returns the one that was made first.
    pub fn find_label(&self, label: &str) -> Option<ChildHandle> {
        let mut children = self.children().into_iter();
        children.find(|child| child.label() == label)
    }

    /// Returns the events of children from now on.
    pub fn events(&self) -> Events {
        match self.inner() {
            Some(inner) => inner.children.teller.events(),
            None => Teller::closed().events(),
        }
    }

    /// Returns the server, to change its tools and resources. `None` when the host has closed, and while the server is being
    /// made. Drop the handle soon: it keeps the server open.
    pub fn server(&self) -> Option<Handle> {
        self.inner()?.server.get().cloned()
    }
}
