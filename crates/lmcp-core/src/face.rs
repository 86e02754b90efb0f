//! [`Face`]: the name and role of a listener.

use std::sync::Arc;

use tokio::sync::watch;

use crate::{identity::Identity, principal::Principal};

/// The part of a caller that is kept after its connection has closed.
pub(crate) struct Face {
    pub(crate) principal: Option<Arc<Principal>>,
    pub(crate) identity: Option<Arc<Identity>>,
    pub(crate) renewed: Option<watch::Receiver<Arc<Identity>>>,
}

impl Face {
    pub(crate) fn is(&self, id: &str) -> bool {
        self.identity.as_ref().is_some_and(|known| known.id == id)
    }

    /// Whether the credentials carry this name.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        let known = self.principal.as_ref();
        known.is_some_and(|known| known.name.as_deref() == Some(name))
    }

    /// Whether the listener has this role now.
    pub(crate) fn has_role(&self, role: &str) -> bool {
        match &self.renewed {
            Some(renewed) => renewed.borrow().role == role,
            None => {
                let known = self.principal.as_ref();
                known.is_some_and(|known| known.role.as_deref() == Some(role))
            }
        }
    }
}
