//! [`Telling`]: announces changes outside of any request, to some of the listeners.

use std::sync::Arc;

use lmcp_wire::RpcError;
use serde::Serialize;
use serde_json::value::to_raw_value;

use super::Listener;
use crate::server::{
    Engine,
    catalog::{ChangedFor, Lists},
};

/// The most notifications of the program that wait for one listener. Past this number, the oldest are lost.
const MOST_NOTICES: usize = 64;

/// The clients that [`Handle::to`](crate::Handle::to) tells of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Audience<'a> {
    /// The caller whose [`Identity`](crate::Identity) has this id, on all of its connections.
    Identity(&'a str),
    /// Every caller whose credentials carry this name, in any role: see [`Principal`](crate::Principal).
    Principal(&'a str),
    /// Every caller that has this role now.
    Role(&'a str),
}

/// Announces changes to an [`Audience`]: [`Handle::to`](crate::Handle::to) makes one. A client hears only of what it subscribed to and
/// may see.
pub struct Telling<'a> {
    engine: &'a Arc<Engine>,
    audience: Audience<'a>,
}

impl<'a> Telling<'a> {
    pub(crate) fn new(engine: &'a Arc<Engine>, audience: Audience<'a>) -> Self {
        Self { engine, audience }
    }

    /// Announces that a resource has new contents, to the clients of the audience that watch it or a resource above it.
    pub fn resource_updated(&self, uri: &str) {
        let listeners = &self.engine.listeners;
        listeners.resource_updated_to(uri, |listener| self.is_meant(listener));
    }

    /// Announces that the list of tools has changed.
    pub fn tools_changed(&self) {
        self.lists_changed(Lists {
            tools: ChangedFor::All,
            ..Lists::default()
        });
    }

    /// Announces that the list of prompts has changed.
    pub fn prompts_changed(&self) {
        self.lists_changed(Lists {
            prompts: ChangedFor::All,
            ..Lists::default()
        });
    }

    /// Announces that the lists of resources and templates have changed.
    pub fn resources_changed(&self) {
        self.lists_changed(Lists {
            resources: ChangedFor::All,
            ..Lists::default()
        });
    }

    /// Announces the lists that look different to the audience since its role changed.
    pub fn look_again(&self) {
        self.lists_changed(Lists {
            tools: ChangedFor::Few,
            prompts: ChangedFor::Few,
            resources: ChangedFor::Few,
        });
    }

    /// Sends a notification of your own, and returns the number of streams that it goes to. It reaches clients of revisions before
    /// 2026-07-28: later revisions send a client nothing but what it subscribed to.
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

    /// Ends the open subscriptions of the audience, and returns their number. Call it when credentials are withdrawn, as at a logout: a
    /// stream that is open would go on to tell of changes. Later requests are admitted or refused as always.
    ///
    /// ```
    /// # use lmcp::{Audience, Handle};
    /// fn log_out(server: &Handle, user: &str) {
    ///     server.to(Audience::Principal(user)).end_subscriptions();
    /// }
    /// ```
    pub fn end_subscriptions(&self) -> usize {
        let is_meant = |listener: &Listener| self.is_meant(listener);
        // This works as if another stream had taken over: pending changes go to the next stream, if there is one.
        self.engine
            .listeners
            .tell_to(is_meant, |_, pending| pending.streams += 1)
    }

    fn lists_changed(&self, changed: Lists) {
        let listeners = &self.engine.listeners;
        listeners.lists_changed_to(changed, |listener| self.is_meant(listener));
    }

    fn is_meant(&self, listener: &Listener) -> bool {
        match self.audience {
            Audience::Identity(id) => listener.face.is(id),
            Audience::Principal(name) => listener.face.is_called(name),
            Audience::Role(role) => listener.face.has_role(role),
        }
    }
}

impl std::fmt::Debug for Telling<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Telling").field(&self.audience).finish()
    }
}
