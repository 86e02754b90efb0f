//! Finds the one who answers a request: the hub itself from its catalogue, or the server that the request is for.

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
use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout_at},
};

use crate::{
    catalog::{List, View},
    desk::Desk,
    lazy,
    limits::FIRST_LIST,
    listen::listen,
    member::Member,
    pass::pass,
    rewrite::{no_resource, out},
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
            request::TOOLS_CALL if self.hub.is_lazy() => self.call_lazily(request),
            request::TOOLS_LIST => list(|view| &view.lists.tools),
            request::PROMPTS_LIST => list(|view| &view.lists.prompts),
            request::RESOURCES_LIST => list(|view| &view.lists.resources),
            request::RESOURCE_TEMPLATES_LIST => list(|view| &view.lists.templates),
            request::SET_LEVEL => {
                let SetLevelParams { level, .. } = request.params()?;
                let session = request.session();
                let unknown = || RpcError::method_not_found(request.method());
                // Servers get the level with the next call.
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
            _ => match self.unlisted(&request)? {
                None => self.route(request),
                Some(member) => {
                    let desk = self.clone();
                    Ok(Replies::later(async move {
                        let routed = desk.route_listed(&member, request).await;
                        routed.unwrap_or_else(Replies::error)
                    }))
                }
            },
        }
    }

    /// Returns the server that has to list its items before it is known where the request leads.
    fn unlisted(&self, request: &Request) -> Result<Option<Arc<Member>>, RpcError> {
        let view = self.view();
        match request.method() {
            request::TOOLS_CALL => {
                let name = request.target()?;
                if let Some(place) = view.tools.get(&*name) {
                    // The server may have been started again since, with other tools.
                    let member = self.member(&place.server);
                    return Ok(member.filter(|member| self.hub.is_pinned(member)));
                }
                let is_held = view.held.contains_key(&*name);
                Ok(self.unheard_of(&name).filter(|_| !is_held))
            }
            request::PROMPTS_GET => {
                let name = request.target()?;
                let is_there = view.prompts.contains_key(&*name);
                Ok(self.unheard_of(&name).filter(|_| !is_there))
            }
            _ => Ok(None),
        }
    }

    /// Answers a request after this server has listed its items.
    async fn route_listed(
        &self,
        member: &Arc<Member>,
        mut request: Request,
    ) -> Result<Replies, RpcError> {
        let start = member.listed().await?;
        if self.hub.is_pinned(member) {
            // The call goes to the start of the server whose definitions were compared, and not to a later one.
            request.extend(start);
        }
        self.route(request)
    }

    fn route(&self, request: Request) -> Result<Replies, RpcError> {
        let unknown = RpcError::method_not_found(request.method());
        let routed = out(request, &self.view(), &|slug| self.by_slug(slug))?;
        let (server, request) = routed.ok_or(unknown)?;
        request.check_flaw()?;
        let gone = || RpcError::invalid_params(format!("server `{server}` is gone"));
        Ok(pass(&self.member(&server).ok_or_else(gone)?, request))
    }

    fn call_lazily(&self, request: Request) -> Result<Replies, RpcError> {
        request.check_flaw()?;
        let name = request.target()?.into_owned();
        let look = match &*name {
            lazy::FIND => lazy::find,
            lazy::DESCRIBE => lazy::describe,
            lazy::CALL => {
                let request = match lazy::call(request) {
                    Ok(request) => request,
                    Err(error) => return Ok(self.tell(Err(error))),
                };
                let desk = self.clone();
                return Ok(Replies::later(async move {
                    let called = match desk.unlisted(&request) {
                        Ok(Some(member)) => desk.route_listed(&member, request).await,
                        Ok(None) => desk.route(request),
                        Err(error) => Err(error),
                    };
                    called.unwrap_or_else(|error| desk.tell(Err(error)))
                }));
            }
            _ => return self.route(request),
        };
        Ok(self.in_time(move |desk| {
            let desk = desk.clone();
            Replies::later(async move {
                // A search through thousands of tools takes longer than other callers should wait.
                let view = desk.view();
                let looked = spawn_blocking(move || look(&request, &view.entries)).await;
                let failed = |_| Err(RpcError::internal("the tools cannot be looked through"));
                desk.tell(looked.unwrap_or_else(failed))
            })
        }))
    }

    /// Returns an error as a result that the model reads, so that the model can do better the next time.
    fn tell(&self, said: Result<String, RpcError>) -> Replies {
        let result = match said {
            Ok(text) => CallToolResult::new(vec![Content::text(text)]),
            Err(error) => {
                CallToolResult::error(format!("{}; find_tools names the tools", error.message))
            }
        };
        Replies::done(Outcome::from(result).from_server(Arc::clone(&self.hub.info)))
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

    /// Answers with a list, at once.
    fn list(&self, pick: fn(&View) -> &List) -> Replies {
        self.in_time(move |desk| {
            let page = pick(&desk.view()).page.clone();
            let outcome = Outcome::new(Payload::List(page, CacheHint::private(0)));
            Replies::done(outcome.from_server(Arc::clone(&desk.hub.info)))
        })
    }

    /// Answers at once. Only a hub that has just started waits for servers that were never tried, because many clients ask
    /// for lists only once.
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
                // The next start of the hub does not wait for these servers again.
                for member in desk.untried() {
                    desk.hub.was_tried(&member);
                }
            }
            answer(&desk)
        })
    }
}

/// Returns whether the target of this method always exists. For other methods, `route` looks for the target before it checks
/// the request for flaws.
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
