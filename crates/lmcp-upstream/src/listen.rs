//! Callers that want notifications, from the beginning to the end. One stream from the server serves all of them.

use std::sync::{Arc, Weak};

use lmcp_client::conversation::{ListWishes, Wishes};
use lmcp_core::{Notice, Outcome, Payload, Reply, Request, Say, session::SessionState};
use lmcp_wire::{
    LoggingLevel, RpcError,
    method::{notification, request},
    subscribe::{ListenParams, SubscriptionFilter},
};
use serde_json::json;
use tokio::time::sleep_until;

use crate::{
    callers::Client,
    limits::{END_WAIT, WATCHED},
    listeners::{Listeners, Wanted},
    news::News,
    slot::{Said, Slot},
    state::{Shared, State},
};

impl State {
    /// Ends the subscriptions that clients asked for, because the server has ended or refused them, or cannot be reached.
    pub(crate) fn end_listening(&mut self, result: &Result<(), RpcError>) {
        self.listening_ended = None;
        self.listeners.end(result, self.conversation.wishes());
    }

    /// Ends the subscriptions whose wishes the server has not confirmed, because it has refused them.
    pub(crate) fn refuse_wishes(&mut self, error: RpcError) {
        self.listeners.refuse(error, self.conversation.wishes());
    }
}

impl Shared {
    /// Waits until the subscriptions that the server has ended end for clients, too, and ends them. A server that stops ends them as
    /// well: if it is lost meanwhile, the next server takes them over.
    pub(crate) async fn end_what_ended(&self) {
        let Some(ended) = self.lock().listening_ended else {
            return std::future::pending().await;
        };
        sleep_until(ended + END_WAIT).await;
        let mut state = self.lock();
        match state.conversation.is_listening() {
            // Another client has subscribed since then, on a new stream for all.
            true => state.listening_ended = None,
            false => state.end_listening(&Ok(())),
        }
    }

    /// Notes that a caller wants log messages from this level on.
    pub(crate) fn wish_level(&self, level: LoggingLevel) {
        self.change(|_, wishes| {
            let least = wishes.level.map_or(level, |known| known.min(level));
            wishes.level = Some(least);
        });
    }

    /// Changes the listeners, and tells the server the difference.
    fn change<T>(&self, change: impl FnOnce(&mut Listeners, &mut Wishes) -> T) -> T {
        let mut state = self.lock();
        let State {
            listeners,
            conversation,
            ..
        } = &mut *state;
        let changed = change(listeners, conversation.wishes());
        drop(state);
        self.woken.notify_one();
        changed
    }

    /// Handles `subscriptions/listen`, or the stream of a session.
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
        let wanted = wanted(params.notifications.clone());
        if let Some(client) = Client::of(&request)
            && !(wanted.watched.is_empty() && wanted.tasks.is_empty())
        {
            self.lock().callers.subscribed(&client);
        }
        let listening = self.add(wanted, session.as_ref());
        if let Some(peer) = peer {
            self.granted().await?;
            if let Some(end) = listening.slot.end() {
                return Ok(end?.into());
            }
            self.lock().listeners.granted(listening.number);
            let mut filter = accepted(&peer.capabilities, &params.notifications);
            if let Some(watched) = &mut filter.resource_subscriptions {
                let refused = watched.extract_if(.., |uri| self.refusal(uri).is_some());
                let refused = refused.collect();
                self.change(|listeners, wishes| {
                    listeners.renounce(listening.number, &refused, wishes)
                });
            }
            let told = json!({ "notifications": filter });
            say.say(Reply::notify(notification::LISTEN_ACKNOWLEDGED, &told))
                .await;
        }
        loop {
            match listening.slot.next().await {
                Said::Notice(News { method, params, .. }) => {
                    let notice = Notice::new(method.to_string(), (*params).to_owned());
                    say.say(Reply::Notify(notice)).await;
                }
                Said::Done(result) => return Ok(result?.into()),
                Said::Progress(_) | Said::Question(_) => {}
            }
        }
    }

    /// Handles `resources/subscribe` and `resources/unsubscribe` of a session.
    pub(crate) async fn watch(&self, request: &Request) -> Result<Outcome, RpcError> {
        let Some(session) = request.session() else {
            return Err(RpcError::method_not_found(request.method()));
        };
        let peer = self.peer().await?;
        if request.method() == request::SUBSCRIBE && !tells_of_resources(&peer.capabilities) {
            return Err(RpcError::method_not_found(request.method()));
        }
        request.watch()?;
        if let Some(client) = Client::of(request) {
            self.lock().callers.subscribed(&client);
        }
        let live = session.live()?;
        let weak = Arc::downgrade(&live);
        self.change(|listeners, wishes| listeners.heed(&weak, wishes));
        self.granted().await?;
        let uri = request.target()?;
        if let Some(refusal) = self.refusal(&uri) {
            live.unwatch(&uri);
            self.change(|listeners, wishes| listeners.heed(&weak, wishes));
            return Err(refusal);
        }
        Ok(Payload::Acknowledged.into())
    }

    /// Returns the error with which the server has refused to tell of a resource.
    fn refusal(&self, uri: &str) -> Option<RpcError> {
        let mut state = self.lock();
        state.conversation.wishes().watched.refusal(uri).cloned()
    }

    fn add(self: &Arc<Self>, wanted: Wanted, session: Option<&Weak<SessionState>>) -> Listening {
        let slot = Arc::new(Slot::new(self.room.clone()));
        let told = Arc::clone(&slot);
        let number = self.change(|listeners, wishes| listeners.add(wanted, session, told, wishes));
        Listening {
            number,
            slot,
            shared: Arc::clone(self),
        }
    }
}

/// A listener, removed when this is dropped.
struct Listening {
    number: u64,
    slot: Arc<Slot>,
    shared: Arc<Shared>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let number = self.number;
        self.shared
            .change(|listeners, wishes| listeners.remove(number, wishes));
    }
}

fn wanted(filter: SubscriptionFilter) -> Wanted {
    let mut lists = ListWishes::default();
    lists.tools = filter.tools_list_changed == Some(true);
    lists.prompts = filter.prompts_list_changed == Some(true);
    lists.resources = filter.resources_list_changed == Some(true);
    let few = |names: Option<Vec<String>>| names.into_iter().flatten().take(WATCHED).collect();
    Wanted {
        lists,
        watched: few(filter.resource_subscriptions),
        tasks: few(filter.task_ids),
    }
}

/// Returns the part of a filter that the server can fulfil.
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
    if !tells_of_resources(offered) {
        filter.resource_subscriptions = None;
    }
    filter
}

fn tells_of_resources(offered: &lmcp_wire::ServerCapabilities) -> bool {
    offered.resources.and_then(|list| list.subscribe) == Some(true)
}
