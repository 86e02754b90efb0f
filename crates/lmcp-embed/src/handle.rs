//! [`HostHandle`]: the host, for those whom the host itself keeps alive.

use std::sync::{Arc, Weak};

use lmcp_core::{Error, Handle};

use crate::{
    child::Child,
    event::{Events, Teller},
    host::Inner,
    member::ChildHandle,
};

/// A host, for tools and threads of the program. It is cheap to clone and keeps nothing alive: when the
/// [`Host`](crate::Host) is gone, there are no children, and none can be made.
#[derive(Clone, Debug)]
pub struct HostHandle(Weak<Inner>);

impl HostHandle {
    pub(crate) fn of(inner: &Arc<Inner>) -> Self {
        Self(Arc::downgrade(inner))
    }

    /// Makes an identity for a process that the program is about to start: [`Host::child`](crate::Host::child).
    ///
    /// # Errors
    /// The host has closed, or the credentials cannot be written.
    pub fn child(&self, label: &str, role: &str) -> Result<Child, Error> {
        let closed = || Error::config(format!("`{label}`: the host has closed"));
        let inner = self.0.upgrade().ok_or_else(closed)?;
        Child::new(&inner, label, role, None)
    }

    /// The children that have not ended.
    pub fn children(&self) -> Vec<ChildHandle> {
        let inner = self.0.upgrade();
        inner.map_or_else(Vec::new, |inner| inner.children.all())
    }

    /// The child with this id, if it has not ended.
    pub fn find(&self, id: &str) -> Option<ChildHandle> {
        let mut children = self.children().into_iter();
        children.find(|child| child.identity().id == id)
    }

    /// The child with this label, if it has not ended. Labels need not be unique: of several children this is one.
    pub fn find_label(&self, label: &str) -> Option<ChildHandle> {
        let mut children = self.children().into_iter();
        children.find(|child| child.identity().label == label)
    }

    /// What happens to children from now on.
    pub fn events(&self) -> Events {
        match self.0.upgrade() {
            Some(inner) => inner.children.teller.events(),
            None => Teller::closed().events(),
        }
    }

    /// The server, to change what it offers. `None` when the host has closed, and while the server is being made. Let go of it
    /// soon: it keeps the server open.
    pub fn server(&self) -> Option<Handle> {
        self.0.upgrade()?.server.get().cloned()
    }
}
