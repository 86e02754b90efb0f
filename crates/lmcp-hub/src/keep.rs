//! The task beside every server: finds out what the server offers, hears of changes, notices when it hangs, and stops it when
//! nobody needs it.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use lmcp_core::Messages;
use lmcp_wire::{
    Incoming, RpcError,
    method::{notification, request},
};
use serde_json::json;
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep, sleep_until, timeout},
};

use crate::{
    ask::{self, Offer},
    inner::Inner,
    limits::{HEARING, LIST_WAIT, LONG_ANSWER, PROBE, RELIST, SETTLE},
    listing::Listing,
    member::{Live, Member, Purpose, is_of_transport},
};

/// Keeps a server until it is aborted.
pub(crate) async fn keep(member: Arc<Member>, hub: Weak<Inner>) {
    loop {
        if member.tried() && knows(&hub, &member) {
            // Nothing is started before somebody needs it.
            while member.open_now().is_none() {
                member.opened.notified().await;
            }
        } else {
            member.may_be_tried().await;
            if first(&member).await.is_err() {
                tried(&hub, &member);
                continue;
            }
        }
        let Some((live, offer)) = member.open_now() else {
            continue;
        };
        // The server is listened to before it is asked: a change in between would never be heard of.
        let mut changes = listen(&live, &offer);
        let _ = timeout(HEARING, heard(&mut changes)).await;
        learn(&member, &live, &hub).await;
        tried(&hub, &member);
        follow(&member, &live, &hub, changes).await;
    }
}

/// Starts a server that nobody has called yet, to learn what it offers.
async fn first(member: &Arc<Member>) -> Result<(), RpcError> {
    let lease = match member.lease(Purpose::Watch) {
        Ok(lease) => lease,
        Err(error) => {
            // What cannot be made will hardly be better soon.
            sleep(PROBE).await;
            return Err(error);
        }
    };
    member.open(&lease.live).await
}

fn knows(hub: &Weak<Inner>, member: &Member) -> bool {
    hub.upgrade().is_none_or(|hub| hub.knows(&member.name))
}

fn tried(hub: &Weak<Inner>, member: &Arc<Member>) {
    if let Some(hub) = hub.upgrade() {
        hub.was_tried(member);
    }
}

async fn learn(member: &Arc<Member>, live: &Live, hub: &Weak<Inner>) {
    // Lists that were read while the server was started again are of neither start.
    let start = live.start();
    let listed = timeout(LIST_WAIT, lists(live)).await;
    let listed = listed.unwrap_or_else(|_| {
        let words = format!(
            "it did not list what it offers within {} s",
            LIST_WAIT.as_secs()
        );
        Err(RpcError::internal(words))
    });
    match listed {
        Ok(listing) => {
            let listing = Arc::new(listing);
            let Some(kept) = hub.upgrade().map(|hub| hub.keep(member, &listing)) else {
                return;
            };
            let review = kept.await;
            if let Some(hub) = hub.upgrade() {
                let member = Arc::clone(member);
                let is_long = hub.listed_bytes() + listing.bytes() > LONG_ANSWER;
                let work = move || hub.learn(&member, listing, review);
                match is_long {
                    // It fails where the process ends.
                    true => spawn_blocking(work).await.unwrap_or_default(),
                    false => work(),
                }
            }
            member.was_listed(start, Ok(()));
        }
        Err(error) => {
            member.complained(&error);
            member.was_listed(start, Err(error));
        }
    }
}

/// All that a server offers. What it says of itself may be another thing since it was started again.
async fn lists(live: &Live) -> Result<Listing, RpcError> {
    let offer = ask::discover(&live.endpoint).await?;
    ask::lists(&live.endpoint, &offer).await
}

/// Stays with a server for as long as it is there.
async fn follow(
    member: &Arc<Member>,
    live: &Live,
    hub: &Weak<Inner>,
    mut changes: Option<Messages>,
) {
    let (mut since_probe, mut listed) = (Duration::ZERO, Instant::now());
    // When a change that was announced is looked at.
    let mut due: Option<Instant> = None;
    loop {
        let idle_stop = member.config().idle_stop.filter(|_| !member.is_mounted);
        let tick = idle_stop.map_or(PROBE, |stop| stop.min(PROBE));
        let (is_due, is_wanted) = tokio::select! {
            () = changed(&mut changes) => {
                // One that announces change after change is not asked each time.
                due.get_or_insert((Instant::now() + SETTLE).max(listed + RELIST));
                continue;
            }
            () = at(due) => (true, false),
            () = member.opened.notified() => (false, true),
            () = sleep(tick) => (false, false),
        };
        if !member.is_current(live) {
            return;
        }
        // A server that was started again may be another version.
        let is_other = !member.was_asked(live) || is_wanted && !member.is_listed(live);
        if is_due || is_other {
            due = None;
            learn(member, live, hub).await;
            listed = Instant::now();
            continue;
        }
        if is_wanted {
            continue;
        }
        let is_needless = idle_stop.is_some_and(|stop| {
            let idle = member.idle_for();
            idle.is_some_and(|idle| idle >= stop)
        });
        if is_needless && knows(hub, member) && member.stop(live).await {
            return;
        }
        since_probe += tick;
        if since_probe >= PROBE && member.is_quiet() && !member.is_mounted {
            since_probe = Duration::ZERO;
            if let Err(error) = probe(live).await
                && member.is_quiet()
            {
                return member.lose(live, &error);
            }
        }
    }
}

/// Is it still there?
async fn probe(live: &Live) -> Result<(), RpcError> {
    let answered = timeout(
        PROBE,
        ask::ask(&live.endpoint, request::DISCOVER, json!({}), |_| Ok(())),
    )
    .await;
    match answered {
        Ok(Err(error)) if is_of_transport(&error) => Err(error),
        // Any answer is one.
        Ok(_) => Ok(()),
        Err(_) => Err(RpcError::internal("it does not answer any more")),
    }
}

fn listen(live: &Live, offer: &Offer) -> Option<Messages> {
    let wishes = json!({ "notifications": {
        "toolsListChanged": offer.tools,
        "promptsListChanged": offer.prompts,
        "resourcesListChanged": offer.resources,
    }});
    let request = ask::request(request::LISTEN, wishes).ok()?;
    Some(live.endpoint.start(request))
}

/// Waits until the server has said that it will tell of changes.
async fn heard(changes: &mut Option<Messages>) {
    while let Some(messages) = changes {
        let Some(message) = messages.next().await else {
            *changes = None;
            return;
        };
        if matches!(message.parse(), Incoming::Notification { .. }) {
            return;
        }
    }
}

/// Waits for something that may be a change of a list; for ever where nothing is told any more.
async fn changed(changes: &mut Option<Messages>) {
    loop {
        let Some(messages) = changes else {
            return std::future::pending().await;
        };
        let Some(message) = messages.next().await else {
            *changes = None;
            continue;
        };
        if let Incoming::Notification { method, .. } = message.parse()
            && matches!(
                &*method,
                notification::TOOLS_CHANGED
                    | notification::PROMPTS_CHANGED
                    | notification::RESOURCES_CHANGED
            )
        {
            return;
        }
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
