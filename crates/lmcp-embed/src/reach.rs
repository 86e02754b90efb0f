//! What a host says to one child, outside of any call, and what it changes about it.

use std::sync::Arc;

use lmcp_core::{Audience, Telling};
use lmcp_wire::RpcError;
use serde::Serialize;

use crate::member::ChildHandle;

impl ChildHandle {
    /// Gives it another role. Calls that have begun keep the role they came with; all others are made in the new one. If the
    /// child then sees other tools, prompts or resources, it hears that these lists have changed, and nobody else does.
    pub fn set_role(&self, role: &str) {
        let Some(host) = self.host.upgrade() else {
            return;
        };
        if self
            .member
            .set_role(role, &self.host, &host.children.teller)
        {
            self.member.record();
            self.tell(|telling| telling.look_again());
        }
    }

    /// A resource that it watches, or one below it, has new contents. Other children that watch it hear nothing: it may
    /// look different to each.
    ///
    /// This is how a program reaches a child that is not in a call, in every revision of the protocol. For messages there is
    /// [`inbox`](crate::inbox), a resource of this kind, with [`ChildHandle::deliver`].
    pub fn resource_updated(&self, uri: &str) {
        self.tell(|telling| telling.resource_updated(uri));
    }

    /// It should ask for the list of tools again.
    pub fn tools_changed(&self) {
        self.tell(|telling| telling.tools_changed());
    }

    /// It should ask for the list of prompts again.
    pub fn prompts_changed(&self) {
        self.tell(|telling| telling.prompts_changed());
    }

    /// It should ask for the lists of resources and templates again.
    pub fn resources_changed(&self) {
        self.tell(|telling| telling.resources_changed());
    }

    /// Sends it a notification of the program's own, which reaches clients of revisions before 2026-07-28 alone:
    /// [`Telling::notify`]. Gives the number of connections that it goes to.
    ///
    /// # Errors
    /// The method does not begin with `notifications/`, or the parameters are no JSON object.
    pub fn notify(&self, method: &str, params: &impl Serialize) -> Result<usize, RpcError> {
        let told = self.tell(|telling| telling.notify(method, params));
        told.unwrap_or(Ok(0))
    }

    /// `None`: there is no server any more.
    fn tell<T>(&self, say: impl FnOnce(&Telling<'_>) -> T) -> Option<T> {
        let host = self.host.upgrade()?;
        let server = host.server.get()?;
        let identity = Arc::clone(&self.member.identity.borrow());
        Some(say(&server.to(Audience::Identity(&identity.id))))
    }
}
