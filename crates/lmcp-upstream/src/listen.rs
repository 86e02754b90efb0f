//! Who wants to hear of what. The server is listened to once, for all of them.

use std::sync::{Arc, Weak};

use lmcp_client::conversation::Wishes;
use lmcp_core::{Notice, Outcome, Payload, Reply, Request, Say, session::SessionState};
use lmcp_wire::{
    LoggingLevel, RpcError,
    method::notification,
    subscribe::{ListenParams, SubscriptionFilter},
};
use serde_json::{Value, json, value::RawValue};

use crate::{
    callers::Client,
    limits::WATCHED,
    slot::{Said, Slot},
    state::Shared,
};

/// Everybody who listens.
#[derive(Default)]
pub(crate) struct Listeners {
    all: Vec<Listener>,
    /// Those that watch resources. What they watch is in their state, so that it lasts as long as they do.
    sessions: Vec<Weak<SessionState>>,
    /// The lowest level that anybody asked for.
    level: Option<LoggingLevel>,
    last: u64,
}

struct Listener {
    number: u64,
    wishes: Wishes,
    /// Its session watches more.
    session: Option<Weak<SessionState>>,
    slot: Arc<Slot>,
}

impl Listeners {
    /// Tells those that want to hear of it. `false`: it is no change of that kind.
    pub(crate) fn hear(&self, method: &str, params: &RawValue) -> bool {
        let said: Value = match method {
            notification::TOOLS_CHANGED
            | notification::PROMPTS_CHANGED
            | notification::RESOURCES_CHANGED => Value::Null,
            notification::RESOURCE_UPDATED | notification::TASKS => {
                serde_json::from_str(params.get()).unwrap_or_default()
            }
            _ => return false,
        };
        for listener in &self.all {
            let session = listener.session.as_ref().and_then(Weak::upgrade);
            let uri = said["uri"].as_str().unwrap_or_default();
            if is_wished(&listener.wishes, method, &said)
                || method == notification::RESOURCE_UPDATED
                    && session.is_some_and(|live| live.watches(uri))
            {
                listener.slot.notice(method.into(), params.to_owned());
            }
        }
        true
    }

    /// All streams end.
    pub(crate) fn close(&mut self) {
        for listener in self.all.drain(..) {
            listener.slot.done(Ok(empty()));
        }
    }

    /// What the server is to be asked for.
    fn union(&mut self) -> Wishes {
        let mut union = Wishes::default();
        union.level = self.level;
        self.sessions.retain(|live| {
            let watched = live.upgrade().map(|live| live.watched());
            let watched = watched.unwrap_or_default();
            let is_needed = !watched.is_empty();
            union.watched.extend(watched);
            is_needed
        });
        for wishes in self.all.iter().map(|listener| &listener.wishes) {
            union.tools |= wishes.tools;
            union.prompts |= wishes.prompts;
            union.resources |= wishes.resources;
            union.watched.extend(wishes.watched.iter().cloned());
            union.tasks.extend(wishes.tasks.iter().cloned());
        }
        union
    }

    /// What this session watches counts from now on.
    fn heed(&mut self, live: &Weak<SessionState>) {
        if !self.sessions.iter().any(|known| known.ptr_eq(live)) {
            self.sessions.push(Weak::clone(live));
        }
    }
}

impl Shared {
    /// A caller wants log messages from this level on.
    pub(crate) fn wish_level(&self, level: LoggingLevel) {
        self.change(|listeners| {
            let least = listeners.level.map_or(level, |known| known.min(level));
            listeners.level = Some(least);
        });
    }

    /// Changes who listens, and tells the server if that makes a difference.
    fn change<T>(&self, change: impl FnOnce(&mut Listeners) -> T) -> T {
        let mut state = self.lock();
        let changed = change(&mut state.listeners);
        let union = state.listeners.union();
        if union != *state.conversation.wishes() {
            state.conversation.wish(union);
            drop(state);
            self.woken.notify_one();
        }
        changed
    }

    /// `subscriptions/listen`, or what a session hears by itself.
    pub(crate) async fn listen(
        self: Arc<Self>,
        request: Request,
        say: Say,
    ) -> Result<Outcome, RpcError> {
        let params: ListenParams = request.params()?;
        let session = match request.session() {
            Some(session) => Some(Arc::downgrade(&session.live()?)),
            None => None,
        };
        let peer = match session {
            Some(_) => None,
            // Nothing is promised before the server is there.
            None => Some(self.peer().await?),
        };
        let wishes = wishes(&params.notifications);
        if let Some(client) = Client::of(&request)
            && !(wishes.watched.is_empty() && wishes.tasks.is_empty())
        {
            self.lock().callers.subscribed(&client);
        }
        let listening = self.add(wishes, session);
        if let Some(peer) = peer {
            self.granted().await?;
            let filter = accepted(&peer.capabilities, &params.notifications);
            let told = json!({ "notifications": filter });
            say.say(Reply::notify(notification::LISTEN_ACKNOWLEDGED, &told))
                .await;
        }
        loop {
            match listening.slot.next().await {
                Said::Notice(method, params) => {
                    let notice = Notice::new(String::from(method), params);
                    say.say(Reply::Notify(notice)).await;
                }
                Said::Done(result) => return Ok(result?.into()),
                Said::Progress(_) | Said::Question(_) => {}
            }
        }
    }

    /// `resources/subscribe` and its opposite, of a session.
    pub(crate) async fn watch(&self, request: &Request) -> Result<Outcome, RpcError> {
        let Some(session) = request.session() else {
            return Err(RpcError::method_not_found(request.method()));
        };
        self.peer().await?;
        request.watch()?;
        if let Some(client) = Client::of(request) {
            self.lock().callers.subscribed(&client);
        }
        let live = Arc::downgrade(&session.live()?);
        self.change(|listeners| listeners.heed(&live));
        self.granted().await?;
        Ok(Payload::Acknowledged.into())
    }

    fn add(self: &Arc<Self>, wishes: Wishes, session: Option<Weak<SessionState>>) -> Listening {
        let slot = Arc::new(Slot::new(self.room.clone()));
        let number = self.change(|listeners| {
            listeners.last += 1;
            // It may have watched something before this server was reached for it.
            session.iter().for_each(|live| listeners.heed(live));
            listeners.all.push(Listener {
                number: listeners.last,
                wishes,
                session,
                slot: Arc::clone(&slot),
            });
            listeners.last
        });
        Listening {
            number,
            slot,
            shared: Arc::clone(self),
        }
    }
}

/// A listener, for as long as it is one.
struct Listening {
    number: u64,
    slot: Arc<Slot>,
    shared: Arc<Shared>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.shared.change(|listeners| {
            listeners
                .all
                .retain(|listener| listener.number != self.number);
        });
    }
}

fn wishes(filter: &SubscriptionFilter) -> Wishes {
    let mut wishes = Wishes::default();
    wishes.tools = filter.tools_list_changed == Some(true);
    wishes.prompts = filter.prompts_list_changed == Some(true);
    wishes.resources = filter.resources_list_changed == Some(true);
    let watched = filter.resource_subscriptions.iter().flatten();
    wishes.watched = watched.take(WATCHED).cloned().collect();
    let tasks = filter.task_ids.iter().flatten();
    wishes.tasks = tasks.take(WATCHED).cloned().collect();
    wishes
}

fn is_wished(wishes: &Wishes, method: &str, said: &Value) -> bool {
    match method {
        notification::TOOLS_CHANGED => wishes.tools,
        notification::PROMPTS_CHANGED => wishes.prompts,
        notification::RESOURCES_CHANGED => wishes.resources,
        // Also one below a resource that is watched.
        notification::RESOURCE_UPDATED => said["uri"].as_str().is_some_and(|uri| {
            wishes
                .watched
                .iter()
                .any(|watched| lmcp_wire::resource::covers(watched, uri))
        }),
        notification::TASKS => {
            let id = said["taskId"].as_str();
            id.is_some_and(|id| wishes.tasks.contains(id))
        }
        _ => false,
    }
}

/// What of a wish the server can fulfil.
fn accepted(
    offered: &lmcp_wire::ServerCapabilities,
    wished: &SubscriptionFilter,
) -> SubscriptionFilter {
    let announces = |list: Option<lmcp_wire::capability::ListCapability>| {
        list.and_then(|list| list.list_changed) == Some(true)
    };
    let mut filter = wished.clone();
    filter.tools_list_changed = wished
        .tools_list_changed
        .filter(|_| announces(offered.tools));
    filter.prompts_list_changed = wished
        .prompts_list_changed
        .filter(|_| announces(offered.prompts));
    filter.resources_list_changed = wished
        .resources_list_changed
        .filter(|_| announces(offered.resources));
    let subscribes = offered.resources.and_then(|list| list.subscribe);
    if subscribes != Some(true) {
        filter.resource_subscriptions = None;
    }
    filter
}

fn empty() -> Box<RawValue> {
    serde_json::value::to_raw_value(&json!({})).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
