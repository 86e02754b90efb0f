//! The task beside every server: learns what the server offers, listens for changes, notices when the server hangs, and
//! stops it when nobody needs it.

use std::sync::{Arc, Weak};

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

/// Keeps a server until the task is aborted.
pub(crate) async fn keep(member: Arc<Member>, hub: Weak<Inner>) {
    loop {
        if member.tried() && knows(&hub, &member) {
            // Nothing is started before somebody needs the server.
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
        // The hub listens to the server before it asks for lists. Otherwise it would miss a change in between.
        let changes = listen(&live, &offer).await;
        learn(&member, &live, &hub).await;
        tried(&hub, &member);
        follow(&member, &live, &offer, &hub, changes).await;
    }
}

/// Starts a server that nobody has called yet, to learn what the server offers.
async fn first(member: &Arc<Member>) -> Result<(), RpcError> {
    let lease = match member.lease(Purpose::Watch) {
        Ok(lease) => lease,
        Err(error) => {
            // A server that cannot be made now will hardly be better soon.
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
    // If the server restarts while lists are read, they belong to neither start.
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
                    // It fails only while the process ends.
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

/// Reads all lists of a server. The server may have changed since it was started again, so it is discovered again first.
async fn lists(live: &Live) -> Result<Listing, RpcError> {
    let offer = ask::discover(&live.endpoint).await?;
    ask::lists(&live.endpoint, &offer).await
}

/// Why the task beside a server looks at it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// Its lists have changed.
    Change,
    /// Somebody has opened it, or waits for its lists.
    Wanted,
    /// It was silent for too long in a call.
    Doubted,
    /// It is looked at now and then.
    Time,
}

/// Stays with a server for as long as it is there.
async fn follow(
    member: &Arc<Member>,
    live: &Live,
    offer: &Offer,
    hub: &Weak<Inner>,
    mut changes: Option<Messages>,
) {
    let [mut looked, mut probed, mut listed, mut listened] = [Instant::now(); 4];
    // When a change that was announced is looked at.
    let mut due: Option<Instant> = None;
    loop {
        let idle_stop = member.config().idle_stop.filter(|_| !member.is_mounted);
        let tick = idle_stop.map_or(PROBE, |stop| stop.min(PROBE));
        let cause = tokio::select! {
            () = changed(&mut changes) => {
                // A server that announces change after change is not asked each time.
                due.get_or_insert((Instant::now() + SETTLE).max(listed + RELIST));
                continue;
            }
            () = at(due) => Cause::Change,
            () = member.opened.notified() => Cause::Wanted,
            () = member.doubted.notified() => Cause::Doubted,
            // Whatever else happens meanwhile does not put it off.
            () = sleep_until(looked + tick) => Cause::Time,
        };
        if !member.is_current(live) {
            return;
        }
        if cause == Cause::Time {
            looked = Instant::now();
        }
        // A server that was started again may be another version.
        let is_other = !member.was_asked(live) || cause == Cause::Wanted && !member.is_listed(live);
        if cause == Cause::Change || is_other {
            due = None;
            learn(member, live, hub).await;
            listed = Instant::now();
            continue;
        }
        match cause {
            Cause::Change | Cause::Wanted => continue,
            Cause::Doubted if member.is_mounted => continue,
            // The calls of others say nothing: they may hang as well.
            Cause::Doubted => match probe(member, live).await {
                Ok(()) => continue,
                Err(error) => return member.lose(live, &error),
            },
            Cause::Time => {}
        }
        let is_needless = idle_stop.is_some_and(|stop| {
            let idle = member.idle_for();
            idle.is_some_and(|idle| idle >= stop)
        });
        if is_needless && knows(hub, member) && member.stop(live).await {
            return;
        }
        let has_copies = member.has_copies();
        if probed.elapsed() >= PROBE && (live.is_quiet() || has_copies) && !member.is_mounted {
            probed = Instant::now();
            if let Err(error) = probe(member, live).await
                && live.is_quiet()
            {
                return member.lose(live, &error);
            }
        }
        // The copy that the hub listened to was ended, or the server has ended the stream: the lists may be others by now.
        if changes.is_none() && (has_copies || listened.elapsed() >= PROBE) {
            listened = Instant::now();
            changes = listen(live, offer).await;
            due = Some(Instant::now());
        }
    }
}

/// Is it still there? Copies for single callers are asked, and ended, one by one: what is wrong with one says nothing of the others.
async fn probe(member: &Member, live: &Live) -> Result<(), RpcError> {
    if member.has_copies() {
        // The copy that the hub itself listens to counts as used.
        let used = ask::ask(&live.endpoint, request::DISCOVER, json!({}), |_| Ok(()));
        let _ = timeout(PROBE, used).await;
        let _ = timeout(PROBE, live.service.ping()).await;
        return Ok(());
    }
    match timeout(PROBE, live.service.ping()).await {
        Ok(Err(error)) if is_of_transport(&error) => Err(error),
        // Any answer proves that the server is there.
        Ok(_) => Ok(()),
        Err(_) => Err(RpcError::internal("it does not answer any more")),
    }
}

/// Listens to the changes of the lists. Waits until the server has acknowledged that, but not for long: some servers never do.
async fn listen(live: &Live, offer: &Offer) -> Option<Messages> {
    let wishes = json!({ "notifications": {
        "toolsListChanged": offer.tools,
        "promptsListChanged": offer.prompts,
        "resourcesListChanged": offer.resources,
    }});
    let request = ask::request(request::LISTEN, wishes).ok()?;
    let mut changes = Some(live.endpoint.start(request));
    let _ = timeout(HEARING, heard(&mut changes)).await;
    changes
}

/// Waits until the server has acknowledged that it will report changes.
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

/// Waits for a message that may be a change of a list. Waits for ever if the stream has ended.
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
