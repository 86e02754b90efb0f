//! From a request to whoever answers it: the hub itself from its catalogue, or the server that the request is for.

use std::sync::Arc;

use lmcp_core::{Discovery, Outcome, Payload, Replies, Request};
use lmcp_wire::{
    CallToolResult, Content, RpcError, ServerCapabilities,
    capability::ListCapability,
    discover::{CacheHint, PaginatedParams},
    legacy::SetLevelParams,
    method::request,
    task,
};
use serde_json::{json, value::to_raw_value};
use tokio::time::{Instant, timeout_at};

use crate::{
    catalog::{List, View},
    lazy,
    limits::FIRST_LIST,
    listen::listen,
    pass::pass,
    rewrite::{no_resource, out},
    scope::Desk,
    status::STATUS,
};

impl Desk {
    pub(crate) fn call(&self, request: Request) -> Replies {
        match self.answer(request) {
            Ok(replies) => replies,
            Err(error) => Replies::error(error),
        }
    }

    fn answer(&self, request: Request) -> Result<Replies, RpcError> {
        let list = |pick: fn(&View) -> &List| {
            let params: PaginatedParams = request.params()?;
            match params.cursor {
                Some(_) => Err(RpcError::invalid_params("`cursor` is none of this list")),
                None => Ok(self.list(pick)),
            }
        };
        if is_answered_here(request.method()) {
            request.check_flaw()?;
        }
        match request.method() {
            request::INITIALIZE | request::DISCOVER => Ok(Replies::done(self.discovery())),
            request::PING => Ok(Replies::done(Payload::Acknowledged)),
            request::TOOLS_LIST if self.hub.is_lazy() => {
                let page = Payload::List(lazy::page(), CacheHint::private(0));
                Ok(Replies::done(
                    Outcome::new(page).from_server(Arc::clone(&self.hub.info)),
                ))
            }
            request::TOOLS_CALL if self.hub.is_lazy() => Ok(self.in_time(|desk| {
                let called = desk.call_lazily(request);
                called.unwrap_or_else(Replies::error)
            })),
            request::TOOLS_LIST => list(|view| &view.lists.tools),
            request::PROMPTS_LIST => list(|view| &view.lists.prompts),
            request::RESOURCES_LIST => list(|view| &view.lists.resources),
            request::RESOURCE_TEMPLATES_LIST => list(|view| &view.lists.templates),
            request::SET_LEVEL => {
                let SetLevelParams { level, .. } = request.params()?;
                let session = request.session();
                let unknown = || RpcError::method_not_found(request.method());
                // Servers hear of it with the next call.
                session.ok_or_else(unknown)?.live()?.set_level(level);
                Ok(Replies::done(Payload::Acknowledged))
            }
            request::LISTEN => {
                let desk = self.clone();
                Ok(Replies::speaking(|say| listen(desk, request, say)))
            }
            request::SUBSCRIBE | request::UNSUBSCRIBE => {
                let uri = request.target()?.into_owned();
                if self.place(&uri).is_none() {
                    return Err(no_resource(&uri));
                }
                request.watch()?;
                self.hub.nudge();
                Ok(Replies::done(Payload::Acknowledged))
            }
            STATUS => {
                let result = to_raw_value(&json!({ "servers": self.status() }));
                let result = result.map_err(|err| RpcError::internal(err.to_string()))?;
                Ok(Replies::done(result))
            }
            // It may be of a server that nobody has heard of what it offers yet.
            request::TOOLS_CALL | request::PROMPTS_GET if !self.has_name(&request)? => {
                Ok(self.in_time(|hub| hub.route(request).unwrap_or_else(Replies::error)))
            }
            _ => self.route(request),
        }
    }

    /// Is what the request names in the catalogue?
    fn has_name(&self, request: &Request) -> Result<bool, RpcError> {
        let (name, view) = (request.target()?, self.view());
        Ok(view.tools.contains_key(&*name) || view.prompts.contains_key(&*name))
    }

    fn route(&self, request: Request) -> Result<Replies, RpcError> {
        if matches!(request.method(), request::TOOLS_CALL | request::PROMPTS_GET)
            && !self.has_name(&request)?
            && let Some(server) = self.unheard_of(&request.target()?)
        {
            let words =
                format!("server `{server}` has not said yet what it offers; try again later");
            let data = json!({ "retriable": true, "server": &*server });
            return Err(RpcError::internal(words).with_data(data));
        }
        let unknown = RpcError::method_not_found(request.method());
        let routed = out(request, &self.view(), &|slug| self.by_slug(slug))?;
        let (server, request) = routed.ok_or(unknown)?;
        request.check_flaw()?;
        let gone = || RpcError::invalid_params(format!("server `{server}` is gone"));
        Ok(pass(&self.member(&server).ok_or_else(gone)?, request))
    }

    /// What a model has to know to do better the next time is a result that it reads.
    fn call_lazily(&self, request: Request) -> Result<Replies, RpcError> {
        request.check_flaw()?;
        let view = self.view();
        let name = request.target()?.into_owned();
        let said = match &*name {
            lazy::FIND => lazy::find(&request, &view.items),
            lazy::DESCRIBE => lazy::describe(&request, &view.items),
            lazy::CALL => match lazy::call(request).and_then(|request| self.route(request)) {
                Ok(replies) => return Ok(replies),
                Err(error) => Err(error),
            },
            _ => return self.route(request),
        };
        let result = match said {
            Ok(text) => CallToolResult::new(vec![Content::text(text)]),
            Err(error) => {
                CallToolResult::error(format!("{}; find_tools names the tools", error.message))
            }
        };
        Ok(Replies::done(
            Outcome::from(result).from_server(Arc::clone(&self.hub.info)),
        ))
    }

    fn discovery(&self) -> Outcome {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(ListCapability::announced());
        capabilities.prompts = Some(ListCapability::announced());
        capabilities.resources = Some(ListCapability::watched());
        capabilities.completions = Some(lmcp_wire::Object::new());
        capabilities.logging = Some(lmcp_wire::Object::new());
        let tasks = (task::EXTENSION.to_owned(), json!({}));
        capabilities.extensions = Some([tasks].into_iter().collect());
        let mut discovery = Discovery::new(capabilities);
        discovery.instructions.clone_from(&self.view().instructions);
        let payload = Payload::Discover(Box::new(discovery), CacheHint::private(0));
        Outcome::new(payload).from_server(Arc::clone(&self.hub.info))
    }

    /// A list, at once.
    fn list(&self, pick: fn(&View) -> &List) -> Replies {
        self.in_time(move |desk| {
            let page = pick(&desk.view()).page.clone();
            let outcome = Outcome::new(Payload::List(page, CacheHint::private(0)));
            Replies::done(outcome.from_server(Arc::clone(&desk.hub.info)))
        })
    }

    /// Answers at once. Only a hub that has just started waits, for servers that were never tried: many clients ask once.
    fn in_time(&self, answer: impl FnOnce(&Self) -> Replies + Send + 'static) -> Replies {
        let until = self.hub.began + FIRST_LIST;
        if self.is_complete() || Instant::now() >= until {
            return answer(self);
        }
        let desk = self.clone();
        Replies::later(async move {
            let mut changes = desk.scope.changes.subscribe();
            let complete =
                async { while !desk.is_complete() && changes.changed().await.is_ok() {} };
            if timeout_at(until, complete).await.is_err() {
                // The next start does not wait for them again.
                for member in desk.untried() {
                    desk.hub.was_tried(&member);
                }
            }
            answer(&desk)
        })
    }
}

/// Is what is wanted always there? Of everything else, `route` finds out first.
fn is_answered_here(method: &str) -> bool {
    matches!(
        method,
        request::DISCOVER
            | request::TOOLS_LIST
            | request::PROMPTS_LIST
            | request::RESOURCES_LIST
            | request::RESOURCE_TEMPLATES_LIST
            | request::LISTEN
            | request::SUBSCRIBE
            | request::UNSUBSCRIBE
    )
}
