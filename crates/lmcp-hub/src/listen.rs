//! Tells clients of changes outside of any call: changed lists, which the hub knows, and changed resources and tasks, which
//! the servers report.

use std::{collections::BTreeMap, future::poll_fn, sync::Arc, task::Poll};

use lmcp_core::{Outcome, Payload, Replies, Reply, Request, Reservation, Say};
use lmcp_wire::{
    RpcError,
    method::{notification, request},
    subscribe::{ListenParams, SubscriptionFilter},
};
use serde_json::json;
use tokio::{
    task::yield_now,
    time::{Instant, sleep_until},
};

use crate::{
    ask,
    desk::Desk,
    limits::{LISTEN_RETRY, LISTENER, WATCHED},
    member::{Lease, Member, Purpose},
    rewrite,
    scope::Versions,
};

/// Returns the memory that a watched URI takes: here, in the stream to its server and in the request that opens the stream.
fn cost(uri: &str) -> usize {
    4 * uri.len() + 256
}

/// Reserves memory for a client that listens.
fn counted(
    request: &Request,
    filter: &SubscriptionFilter,
) -> Result<Option<Reservation>, RpcError> {
    let uris = filter.resource_subscriptions.iter();
    let watched: Vec<_> = uris.chain(&filter.task_ids).flatten().collect();
    if watched.len() > WATCHED {
        let words = format!("one subscription watches at most {WATCHED} resources and tasks");
        return Err(RpcError::invalid_params(words));
    }
    let bytes: usize = watched.into_iter().map(|uri| cost(uri)).sum();
    Ok(request.reserve(LISTENER + bytes)?)
}

/// Sends the wanted notifications to a client until the hub closes.
pub(crate) async fn listen(desk: Desk, request: Request, say: Say) -> Result<Outcome, RpcError> {
    let ListenParams {
        notifications: mut filter,
        ..
    } = request.params()?;
    // The memory stays reserved until the stream ends.
    let _counted = counted(&request, &filter)?;
    let session = match request.session() {
        Some(session) => Some(Arc::downgrade(&session.live()?)),
        None => None,
    };
    let mut changes = desk.scope.changes.subscribe();
    let mut told = *changes.borrow_and_update();
    let mut streams = Streams::default();
    if session.is_none() {
        streams.set(&desk, &request, &filter);
        let known = |uris: &mut Option<Vec<String>>| {
            if let Some(uris) = uris {
                uris.retain(|uri| desk.place(uri).is_some());
            }
        };
        known(&mut filter.resource_subscriptions);
        known(&mut filter.task_ids);
        let accepted = json!({ "notifications": filter });
        say.say(Reply::notify(notification::LISTEN_ACKNOWLEDGED, &accepted))
            .await;
    }
    // The state of the session and the servers when the streams were last set.
    let mut seen = None;
    if session.is_some() {
        // If a client opens one stream after another, only the last one stays. The yield lets the earlier ones end before
        // any work is done for them.
        yield_now().await;
    }
    loop {
        if let Some(live) = &session {
            let live = live.upgrade();
            let changes = live.as_ref().map(|live| live.watch_changes());
            let now = Some((changes, desk.hub.roster()));
            if seen != now {
                seen = now;
                filter.resource_subscriptions = live.map(|live| live.watched());
                streams.set(&desk, &request, &filter);
            }
        }
        let retry_at = streams.retry_at;
        tokio::select! {
            changed = changes.changed() => {
                if changed.is_err() || changes.borrow().is_closed {
                    return Ok(Payload::Acknowledged.into());
                }
                let now = *changes.borrow_and_update();
                for reply in news(told, now, &filter) {
                    say.say(reply).await;
                }
                told = now;
            }
            reply = streams.next() => if let Some(reply) = reply {
                say.say(reply).await;
            },
            () = at(retry_at) => streams.set(&desk, &request, &filter),
        }
    }
}

/// Returns notifications for the lists that have changed since the last report, as far as the filter asks for them.
fn news(told: Versions, now: Versions, filter: &SubscriptionFilter) -> Vec<Reply> {
    let all = [
        (
            told.tools != now.tools,
            filter.tools_list_changed,
            notification::TOOLS_CHANGED,
        ),
        (
            told.prompts != now.prompts,
            filter.prompts_list_changed,
            notification::PROMPTS_CHANGED,
        ),
        (
            told.resources != now.resources,
            filter.resources_list_changed,
            notification::RESOURCES_CHANGED,
        ),
    ];
    let wished = all
        .into_iter()
        .filter(|(is_new, wish, _)| *is_new && *wish == Some(true));
    wished
        .map(|(_, _, method)| Reply::notify(method, &json!({})))
        .collect()
}

/// One stream from each server whose resources or tasks somebody watches.
#[derive(Default)]
struct Streams {
    all: BTreeMap<Arc<str>, Stream>,
    /// The time at which the hub listens again to a server that was lost.
    retry_at: Option<Instant>,
}

/// The URIs and tasks that are watched at one server, by its own names.
type Wishes = (Vec<String>, Vec<String>);

struct Stream {
    wishes: Wishes,
    member: Arc<Member>,
    replies: Replies,
}

impl Streams {
    /// Listens to exactly these servers, for exactly these URIs and tasks.
    fn set(&mut self, desk: &Desk, request: &Request, filter: &SubscriptionFilter) {
        self.retry_at = None;
        let mut wanted: BTreeMap<Arc<str>, Wishes> = BTreeMap::new();
        let uris = filter.resource_subscriptions.iter().flatten();
        for place in desk.places(uris) {
            wanted.entry(place.server).or_default().0.push(place.own);
        }
        let tasks = filter.task_ids.iter().flatten();
        for place in desk.places(tasks) {
            wanted.entry(place.server).or_default().1.push(place.own);
        }
        self.all.retain(|name, stream| {
            let is_same = desk
                .member(name)
                .is_some_and(|now| Arc::ptr_eq(&now, &stream.member));
            is_same && wanted.get(name) == Some(&stream.wishes)
        });
        for (name, wishes) in wanted {
            if self.all.contains_key(&name) {
                continue;
            }
            let Some(member) = desk.member(&name) else {
                continue;
            };
            match stream(&member, request, &wishes) {
                Ok(replies) => {
                    let stream = Stream {
                        wishes,
                        member,
                        replies,
                    };
                    self.all.insert(name, stream);
                }
                Err(_) => self.retry_at = Some(Instant::now() + LISTEN_RETRY),
            }
        }
    }

    /// Returns the next report of a server. `None`: a stream has ended.
    async fn next(&mut self) -> Option<Reply> {
        poll_fn(|cx| {
            let mut ended = None;
            for (name, stream) in &mut self.all {
                match stream.replies.poll_next(cx) {
                    Poll::Ready(Some(Reply::Notify(notice))) if is_of_stream(&notice.method) => {
                        let notice = rewrite::notice_back(notice, &stream.member.slug);
                        return Poll::Ready(Some(Reply::Notify(notice)));
                    }
                    // The reply is not for clients. The waker must be set again.
                    Poll::Ready(Some(reply)) if !reply.is_done() => cx.waker().wake_by_ref(),
                    Poll::Ready(_) => ended = Some(Arc::clone(name)),
                    Poll::Pending => {}
                }
            }
            let Some(name) = ended else {
                return Poll::Pending;
            };
            self.all.remove(&name);
            self.retry_at = Some(Instant::now() + LISTEN_RETRY);
            Poll::Ready(None)
        })
        .await
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

fn is_of_stream(method: &str) -> bool {
    matches!(method, notification::RESOURCE_UPDATED | notification::TASKS)
}

/// Opens a stream of a server for these URIs and tasks. The server is not stopped while the stream is open.
fn stream(
    member: &Arc<Member>,
    request: &Request,
    (uris, tasks): &Wishes,
) -> Result<Replies, RpcError> {
    let mut wishes = json!({ "resourceSubscriptions": uris });
    if !tasks.is_empty() {
        wishes["taskIds"] = json!(tasks);
    }
    let request = match request.session() {
        Some(_) => ask::request(request::LISTEN, json!({ "notifications": wishes }))?,
        None => request.clone().with_param("notifications", &wishes)?,
    };
    let lease = member.lease(Purpose::Watch)?;
    Ok(Replies::speaking(async move |say: Say| {
        let lease: Lease = lease;
        lease.member.open(&lease.live).await?;
        let mut replies = lease.live.service.call(request);
        while let Some(reply) = replies.next().await {
            match reply {
                Reply::Done(result) => return result,
                reply => say.say(reply).await,
            }
        }
        Ok(Payload::Acknowledged.into())
    }))
}
