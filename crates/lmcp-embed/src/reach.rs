//! Notifications of a host to one child outside of any call, and changes of its role.

use std::sync::Arc;

use lmcp_core::{Audience, Telling};
use lmcp_wire::RpcError;
use serde::Serialize;

use crate::member::ChildHandle;

impl ChildHandle {
    /// Gives the child another role. Calls that have begun keep the old role; later calls have the new one. If the child
    /// then sees other tools, prompts or resources, only this child is told that these lists have changed.
    ///
    /// The child and its sub-agents make no more identities until the program [allows](ChildHandle::allow_children) it again. Sub-agents
    /// that it has made keep their roles.
    pub fn set_role(&self, role: &str) {
        let Some(host) = self.host.upgrade() else {
            return;
        };
        if self
            .member
            .set_role(role, &self.host, &host.children.teller)
        {
            let making = host.children.making();
            host.children.forbid_family(&self.member);
            drop(making);
            self.member.record();
            self.tell(|telling| telling.look_again());
        }
    }

    /// Tells the child that a resource that it watches, or one below it, has new contents. Other children that watch the
    /// resource are not told, because it may have different contents for each.
    ///
    /// This is how a program reaches a child that is not in a call, in every revision of the protocol. For messages there is
    /// [`inbox`](crate::inbox), a resource of this kind, with [`ChildHandle::deliver`].
    pub fn resource_updated(&self, uri: &str) {
        self.tell(|telling| telling.resource_updated(uri));
    }

    /// Tells the child that its list of tools has changed.
    pub fn tools_changed(&self) {
        self.tell(|telling| telling.tools_changed());
    }

    /// Tells the child that its list of prompts has changed.
    pub fn prompts_changed(&self) {
        self.tell(|telling| telling.prompts_changed());
    }

    /// Tells the child that its lists of resources and templates have changed.
    pub fn resources_changed(&self) {
        self.tell(|telling| telling.resources_changed());
    }

    /// Sends the child a notification of the program's own, which reaches only clients of revisions before 2026-07-28:
    /// [`Telling::notify`]. Returns the number of connections that it is sent to.
    ///
    /// # Errors
    /// The method does not begin with `notifications/`, or the parameters are not a JSON object.
    pub fn notify(&self, method: &str, params: &impl Serialize) -> Result<usize, RpcError> {
        let told = self.tell(|telling| telling.notify(method, params));
        told.unwrap_or(Ok(0))
    }

    /// Sends something through the server. `None`: there is no server any more.
    fn tell<T>(&self, say: impl FnOnce(&Telling<'_>) -> T) -> Option<T> {
        let host = self.host.upgrade()?;
        let server = host.server.get()?;
        let identity = Arc::clone(&self.member.identity.borrow());
        Some(say(&server.to(Audience::Identity(&identity.id))))
    }
}
