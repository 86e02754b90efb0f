//! The task of an upstream: connects to the server when a caller wants it, carries lines both ways, and connects again when
//! the connection is lost.

use std::{pin::pin, sync::Arc, time::Duration};

use lmcp_client::{
    Channel, Error, Event,
    conversation::{PROBE_WAIT, RUBBISH_BYTES},
};
use lmcp_core::is_long;
use lmcp_wire::RpcError;
use serde_json::json;
use tokio::{
    sync::watch,
    task::yield_now,
    time::{Instant, sleep_until, timeout},
};

use crate::{
    limits::{FIRST_PAUSE, LASTING, LONGEST_PAUSE, OPENING_WAIT},
    state::Shared,
};

/// The end of a conversation.
enum Ended {
    /// The owner of the upstream closes it.
    Closed,
    /// The server was lost after it had opened.
    Lost,
    /// The server was lost before it had opened, or could not be reached: the reason, and a remedy.
    Failed(String, Remedy),
    /// The server must be opened in another way.
    Again,
    /// The client and the server have no common revision, and all callers were told.
    Unfit,
}

/// The remedy if a server cannot be reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Remedy {
    TryAgain,
    Token,
    Nothing,
}

/// Runs until the upstream is closed. A server that was lost is tried again for the time `most`.
pub(crate) async fn run(shared: Arc<Shared>, mut closing: watch::Receiver<bool>, most: Duration) {
    let (mut failures, mut patience) = (0, Duration::ZERO);
    while wanted(&shared, &mut closing).await {
        let began = Instant::now();
        match attempts(&shared, &mut closing, patience).await {
            Ended::Closed => break,
            // The server may only be restarting, so it is tried again.
            Ended::Lost => patience = most,
            Ended::Failed(..) | Ended::Again | Ended::Unfit => {}
        }
        // A server that does not last is tried less and less often.
        failures = if began.elapsed() < LASTING {
            failures + 1
        } else {
            0
        };
        if failures > 1 && is_closed_within(&mut closing, pause(failures)).await {
            break;
        }
    }
    shared.close();
}

/// Waits until the owner of the upstream closes it.
async fn closed(closing: &mut watch::Receiver<bool>) {
    // An error means that the upstream was dropped.
    let _ = closing.wait_for(|closing| *closing).await;
}

async fn is_closed_within(closing: &mut watch::Receiver<bool>, time: Duration) -> bool {
    timeout(time, closed(closing)).await.is_ok()
}

/// Waits until a caller wants a server. `false`: the upstream was closed.
async fn wanted(shared: &Arc<Shared>, closing: &mut watch::Receiver<bool>) -> bool {
    loop {
        let woken = shared.woken.notified();
        if shared.is_wanted() {
            return true;
        }
        tokio::select! {
            biased;
            () = closed(closing) => return false,
            () = woken => {}
        }
    }
}

/// Connects, and tries again within this time if that makes sense.
async fn attempts(
    shared: &Arc<Shared>,
    closing: &mut watch::Receiver<bool>,
    patience: Duration,
) -> Ended {
    let (began, mut failures) = (Instant::now(), 0);
    loop {
        let opened = tokio::select! {
            biased;
            () = closed(closing) => return Ended::Closed,
            opened = shared.route.open() => opened,
        };
        let ended = match opened {
            Ok(channel) => converse(shared, channel, closing).await,
            Err(Error::Unreachable(why)) => Ended::Failed(why, Remedy::TryAgain),
            Err(err) => Ended::Failed(err.to_string(), Remedy::Nothing),
        };
        match ended {
            Ended::Closed | Ended::Lost | Ended::Unfit => return ended,
            Ended::Again => {}
            Ended::Failed(why, remedy) => {
                failures += 1;
                let is_late = began.elapsed() >= patience;
                // A process that ends at once will do so again.
                if remedy != Remedy::TryAgain || is_late || !shared.route.is_shared() {
                    give_up(shared, &why, remedy);
                    return Ended::Failed(why, remedy);
                }
                if is_closed_within(closing, pause(failures)).await {
                    return Ended::Closed;
                }
            }
        }
    }
}

fn give_up(shared: &Arc<Shared>, why: &str, remedy: Remedy) {
    let retriable = remedy == Remedy::TryAgain;
    let mut data = json!({ "retriable": retriable, "fault": "transport", "began": false });
    if remedy == Remedy::Token {
        data["unauthorized"] = true.into();
    }
    let error = RpcError::internal(why.to_owned()).with_data(data);
    shared.complain(why);
    shared.give_up(&error);
    shared.settle();
    shared.failed(error);
}

/// Carries lines until the connection is lost.
async fn converse(
    shared: &Arc<Shared>,
    mut channel: Channel,
    closing: &mut watch::Receiver<bool>,
) -> Ended {
    shared.opened();
    let began = Instant::now();
    // The same future is used in all turns.
    let mut closing = pin!(closed(closing));
    loop {
        let settled = shared.settle();
        settled
            .lines
            .into_iter()
            .for_each(|line| channel.send(line));
        if settled.is_over {
            channel.close().await;
            return Ended::Unfit;
        }
        let (is_probing, is_open) = {
            let conversation = &shared.lock().conversation;
            (conversation.is_probing(), conversation.is_open())
        };
        let event = tokio::select! {
            biased;
            () = &mut closing => {
                channel.close().await;
                return Ended::Closed;
            }
            event = channel.next() => event,
            () = shared.woken.notified() => continue,
            () = shared.held.expire_next() => continue,
            () = shared.end_what_ended() => continue,
            () = reach(began, PROBE_WAIT), if is_probing && !shared.route.is_http() => {
                shared.lock().conversation.probe_expired();
                continue;
            }
            () = reach(began, OPENING_WAIT), if !is_open => {
                channel.close().await;
                let why = silent(shared);
                // Another way to open would meet the same silence.
                lost(shared, why.clone(), Remedy::TryAgain);
                return Ended::Failed(why, Remedy::TryAgain);
            }
        };
        match event {
            Event::Line(line) => {
                if shared.hear_line(&line) {
                    if is_long(&line) {
                        // A server that sends one long line after another must not take the turns of others.
                        yield_now().await;
                    }
                    continue;
                }
                channel.close().await;
                return lost(shared, rubbish(shared), Remedy::TryAgain);
            }
            Event::Failure(line) => shared.lock().conversation.failure(&line),
            Event::Unsent(line) => shared.lock().conversation.unsent(&line),
            Event::Lost(why) => return lost(shared, why, Remedy::TryAgain),
            Event::Refused(why) => return lost(shared, why, Remedy::Nothing),
            Event::Unauthorized(why) => return lost(shared, why, Remedy::Token),
            _ => {}
        }
    }
}

/// Waits until this time has passed. The timer is made only when somebody waits.
async fn reach(began: Instant, time: Duration) {
    sleep_until(began + time).await;
}

/// Returns the reason why a server is left that writes no messages.
fn rubbish(shared: &Shared) -> String {
    format!(
        "`{}` sent only lines that are no messages, more than {RUBBISH_BYTES} bytes of them, and was left",
        shared.route
    )
}

/// Returns the reason why a server is left that does not answer the opening.
fn silent(shared: &Shared) -> String {
    let seconds = OPENING_WAIT.as_secs();
    format!(
        "`{}` did not answer the opening within {seconds} s, and was left",
        shared.route
    )
}

fn lost(shared: &Arc<Shared>, why: String, remedy: Remedy) -> Ended {
    let mut state = shared.lock();
    let reopens = state.conversation.reopens();
    let was_open = state.conversation.is_open();
    state.conversation.lost(&why);
    drop(state);
    shared.is_there(None);
    if was_open {
        shared.complain(&why);
    }
    shared.settle();
    match (was_open, reopens) {
        (true, _) if remedy == Remedy::TryAgain => Ended::Lost,
        (false, true) => Ended::Again,
        (true, _) | (false, false) => Ended::Failed(why, remedy),
    }
}

fn pause(failures: u32) -> Duration {
    (FIRST_PAUSE * 2_u32.saturating_pow(failures.min(10))).min(LONGEST_PAUSE)
}
