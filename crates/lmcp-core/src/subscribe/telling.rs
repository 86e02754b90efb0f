//! [`Telling`]: something said outside of any request, to some of those who listen.

use std::sync::Arc;

use lmcp_wire::RpcError;
use serde::Serialize;
use serde_json::value::to_raw_value;

use super::Listener;
use crate::server::{
    Engine,
    catalog::{ChangedFor, Lists},
};

/// Notifications of the program's own that wait for one listener. Beyond that the oldest are lost.
const MOST_NOTICES: usize = 64;

/// Whom something is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Audience<'a> {
    /// The caller whose [`Identity`](crate::Identity) has this id, on all of its connections.
    Identity(&'a str),
    /// Every caller that has this role now.
    Role(&'a str),
}

/// Says something to an [`Audience`]: [`Handle::to`](crate::Handle::to). Nobody hears what it did not subscribe to, or may not
/// see.
pub struct Telling<'a> {
    engine: &'a Arc<Engine>,
    audience: Audience<'a>,
}

impl<'a> Telling<'a> {
    pub(crate) fn new(engine: &'a Arc<Engine>, audience: Audience<'a>) -> Self {
        Self { engine, audience }
    }

    /// A resource that they watch, or one below it, has new contents.
    pub fn resource_updated(&self, uri: &str) {
        let listeners = &self.engine.listeners;
        listeners.resource_updated_to(uri, |listener| self.is_meant(listener));
    }

    /// The list of tools should be asked for again.
    pub fn tools_changed(&self) {
        self.lists_changed(Lists {
            tools: ChangedFor::All,
            ..Lists::default()
        });
    }

    /// The list of prompts should be asked for again.
    pub fn prompts_changed(&self) {
        self.lists_changed(Lists {
            prompts: ChangedFor::All,
            ..Lists::default()
        });
    }

    /// The lists of resources and templates should be asked for again.
    pub fn resources_changed(&self) {
        self.lists_changed(Lists {
            resources: ChangedFor::All,
            ..Lists::default()
        });
    }

    /// They may see other things than before, for their role is another. They hear of the lists for which that is so.
    pub fn look_again(&self) {
        self.lists_changed(Lists {
            tools: ChangedFor::Few,
            prompts: ChangedFor::Few,
            resources: ChangedFor::Few,
        });
    }

    /// A notification of the program's own. It reaches clients of revisions before 2026-07-28, which hear whatever a server
    /// says in their session; later ones hear only what they subscribed to. Gives the number of streams that it goes to.
    ///
    /// # Errors
    /// The method does not begin with `notifications/`, or the parameters are no JSON object.
    pub fn notify(&self, method: &str, params: &impl Serialize) -> Result<usize, RpcError> {
        let params = to_raw_value(params)
            .ok()
            .filter(|text| text.get().starts_with('{'));
        let params = params.ok_or_else(|| RpcError::invalid_params("parameters are an object"))?;
        if !method.starts_with("notifications/") {
            let words = format!("`{method}` does not begin with `notifications/`");
            return Err(RpcError::invalid_params(words));
        }
        let is_meant = |listener: &Listener| listener.has_session && self.is_meant(listener);
        Ok(self.engine.listeners.tell_to(is_meant, |_, pending| {
            if pending.notices.len() == MOST_NOTICES {
                pending.notices.pop_front();
            }
            pending
                .notices
                .push_back((method.to_owned(), params.clone()));
        }))
    }

    fn lists_changed(&self, changed: Lists) {
        let listeners = &self.engine.listeners;
        listeners.lists_changed_to(changed, |listener| self.is_meant(listener));
    }

    fn is_meant(&self, listener: &Listener) -> bool {
        match self.audience {
            Audience::Identity(id) => listener.face.is(id),
            Audience::Role(role) => listener.face.has_role(role),
        }
    }
}

impl std::fmt::Debug for Telling<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Telling").field(&self.audience).finish()
    }
}
