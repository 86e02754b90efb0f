//! Lines of the server.

use std::time::Instant;

use lmcp_wire::{
    Envelope, RequestId,
    envelope::{cancelled, glimpse, replace, subscription},
    greeting::{Goodbye, Then},
    jsonrpc, meta,
    method::notification,
    subscribe::SubscriptionFilter,
};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::limits::ENDS;

use super::{
    Link, Output, Relay, failures,
    message::{batch, join},
    unheard::Said,
};

/// The decision about a message.
enum Heard {
    Pass,
    /// The client gets other words.
    Changed(Vec<u8>),
    Nothing,
}

impl Relay {
    /// Takes a line of the server.
    pub(crate) fn server_line(&mut self, line: Vec<u8>, now: Instant) {
        match batch(&line) {
            Some(messages) => {
                let heard: Vec<(Vec<u8>, Heard)> = messages
                    .into_iter()
                    .map(|message| message.get().as_bytes())
                    .map(|message| (message.to_vec(), self.hear(message, now)))
                    .collect();
                self.hand_over_batch(line, heard);
            }
            None => match self.hear(&line, now) {
                Heard::Pass => self.tell_client(line),
                Heard::Changed(line) => self.tell_client(line),
                Heard::Nothing => {}
            },
        }
        self.end_if_done();
    }

    /// Takes a line of the server that is too long. `head` and `tail` are its two ends.
    pub(crate) fn server_long_line(&mut self, head: &[u8], tail: &[u8], now: Instant) {
        self.unheard.heard();
        let most = self.limits.line_bytes;
        let seen = glimpse(head, tail);
        match (seen.method, seen.id) {
            // Nobody waits for a notification.
            (Some(method), _) if method.starts_with(NOTIFICATIONS) => {}
            (Some(_), Some(question)) => {
                let error = failures::too_long(most);
                self.tell_server(jsonrpc::error(Some(&question), &error));
            }
            (None, Some(id)) => {
                let call = self.sent.remove(&id);
                self.fail(call.as_slice(), |_| failures::answer_too_long(most));
            }
            // A request may wait for this message, and it is not known which one.
            (Some(_) | None, None) => {
                self.part();
                self.output.push_back(Output::Detach);
                self.trouble = format!("it said more than {most} bytes at once");
                self.let_go(now, |call| failures::left(&call.method, most));
                self.end_if_alone();
            }
        }
        self.end_if_done();
    }

    /// Decides about one message.
    fn hear(&mut self, message: &[u8], now: Instant) -> Heard {
        let read = Envelope::read(message);
        if !matches!(read, Envelope::Nameless) {
            self.unheard.heard();
        }
        match read {
            Envelope::Request { id, raw_id, .. } => self.hear_question(message, id, raw_id),
            Envelope::Notification { method, params } => match &*method {
                notification::CANCELLED => self.hear_cancelled(message, params, now),
                notification::LISTEN_ACKNOWLEDGED => self.hear_acknowledged(params),
                notification::GOODBYE if self.is_host => {
                    self.goodbye = goodbye(params);
                    Heard::Nothing
                }
                _ => Heard::Pass,
            },
            Envelope::Response { id, result, .. } => self.hear_answer(message, &id, result, now),
            Envelope::Hollow { id } => self.hear_answer(message, &id, None, now),
            Envelope::Nameless => self.hear_nameless(message),
            // The message may be an answer that only the client and the server understand.
            Envelope::Unreadable if self.sent_unreadable && is_object(message) => Heard::Pass,
            // A client may give up on its server when it reads this line, or show it to people.
            Envelope::Unreadable => {
                self.output.push_back(Output::Remark(NO_MESSAGE));
                Heard::Nothing
            }
        }
    }

    /// Handles an error that names no request. It answers something that could not be read, or a whole array if the server
    /// knows no arrays. If neither was sent, it is about the connection.
    fn hear_nameless(&mut self, message: &[u8]) -> Heard {
        match self.unheard.heard_nameless(message) {
            Said::Busy => return Heard::Nothing,
            Said::Never(error) => {
                self.server_turned_away(error);
                self.output.push_back(Output::TurnedAway);
                return Heard::Nothing;
            }
            Said::Other => {}
        }
        let is_refused = !self.session.has_batches() && self.sent.remove_batch();
        if is_refused || self.sent_unreadable {
            self.unheard.heard();
            return Heard::Pass;
        }
        Heard::Nothing
    }

    fn hear_question(&mut self, message: &[u8], theirs: RequestId, raw: &str) -> Heard {
        if self.has_all_questions() {
            let error = failures::too_many_questions(self.limits.questions);
            self.tell_server(jsonrpc::error(Some(&theirs), &error));
            return Heard::Nothing;
        }
        let ours = self.ids.next();
        let changed = replace(message, raw, &format!("\"{ours}\""));
        self.questions.add(ours, theirs, raw);
        Heard::Changed(changed)
    }

    fn hear_cancelled(&mut self, message: &[u8], params: &str, now: Instant) -> Heard {
        let Some((id, raw)) = cancelled(params) else {
            return Heard::Pass;
        };
        if let Some(ours) = self.questions.taken_back(&id) {
            return Heard::Changed(replace(message, raw, &format!("\"{ours}\"")));
        }
        self.hear_end(message, &id, now)
    }

    /// Handles the end of a subscription. If the server ends, the next one continues the subscription, so its end is held
    /// back.
    fn hear_end(&mut self, message: &[u8], id: &RequestId, now: Instant) -> Heard {
        let at = now + self.limits.hold;
        let listen = self.sent.find(id).filter(|call| call.kept.is_some());
        let listen = listen.and_then(|call| call.listen.as_mut());
        let Some(listen) = listen.filter(|listen| listen.acknowledged) else {
            return Heard::Pass;
        };
        let (_, lines) = listen.end.get_or_insert_with(|| (at, Vec::new()));
        // A subscription ends once; repeated ends are dropped.
        if lines.len() < ENDS {
            lines.push(message.to_vec());
        }
        Heard::Nothing
    }

    fn hear_acknowledged(&mut self, params: &str) -> Heard {
        let Some(id) = subscription(params) else {
            return Heard::Pass;
        };
        let call = self.sent.find(&id);
        let Some(listen) = call.and_then(|call| call.listen.as_mut()) else {
            return Heard::Pass;
        };
        if !std::mem::replace(&mut listen.acknowledged, true) {
            return Heard::Pass;
        }
        // The client knows of the subscription from the server before. It gets notifications for what it may have missed
        // instead.
        for line in missed(&id, &listen.filter) {
            self.tell_client(line);
        }
        Heard::Nothing
    }

    fn hear_answer(
        &mut self,
        message: &[u8],
        id: &RequestId,
        result: Option<&str>,
        now: Instant,
    ) -> Heard {
        if self.ids.is_own(id) && !self.sent.has(id) {
            self.hear_own(id, result, now);
            return Heard::Nothing;
        }
        if result.is_some() && self.sent.find(id).is_some_and(|call| call.is_open()) {
            let heard = self.hear_end(message, id, now);
            if matches!(heard, Heard::Nothing) {
                return heard;
            }
        }
        let call = self.sent.remove(id);
        if call.is_some() {
            self.proven = true;
            self.answers = self.answers.saturating_add(1);
            self.crowd.moves();
        }
        if let (Some(result), Some(line)) = (result, call.and_then(|call| call.kept)) {
            self.session.learn(&line, result, &self.limits);
        }
        Heard::Pass
    }

    /// Takes an answer to a request of the proxy: of all repeated requests, only the answer to the handshake matters.
    fn hear_own(&mut self, id: &RequestId, result: Option<&str>, now: Instant) {
        if !matches!(&self.link, Link::Opening(handshake, _) if handshake == id) {
            return;
        }
        let rejection = match result.map(|result| self.session.agrees(result)) {
            Some(Ok(())) => {
                self.proven = true;
                return self.open_again(now);
            }
            Some(Err((theirs, ours))) => failures::disagreed(&theirs, ours),
            None => failures::not_taken(),
        };
        self.part();
        self.output.push_back(Output::Detach);
        self.reject(rejection);
    }

    /// Goes on after the next server has accepted the handshake.
    fn open_again(&mut self, now: Instant) {
        let rest = self.session.rest(&mut self.ids);
        for line in rest {
            self.tell_server(line);
        }
        self.open();
        self.tell_news(now);
    }

    /// Hands a batch to the client. The line stays as it is if all of its messages do.
    fn hand_over_batch(&mut self, line: Vec<u8>, heard: Vec<(Vec<u8>, Heard)>) {
        let (mut left, mut is_whole) = (Vec::new(), true);
        for (message, heard) in heard {
            match heard {
                Heard::Pass => left.push(message),
                Heard::Changed(message) => {
                    is_whole = false;
                    left.push(message);
                }
                Heard::Nothing => is_whole = false,
            }
        }
        if is_whole && !left.is_empty() {
            self.tell_client(line);
        } else if !left.is_empty() {
            self.tell_client(join(&left));
        }
    }
}

/// The remark about a line that is not passed on.
const NO_MESSAGE: &str = "the server said something that is no message, which is not passed on";

/// Reads what a host says when it closes. A word that is not known counts as nothing.
fn goodbye(params: &str) -> Option<Then> {
    let said: Goodbye = serde_json::from_str(params).ok()?;
    Some(said.then)
}

fn is_object(message: &[u8]) -> bool {
    let is_json = || serde_json::from_slice::<IgnoredAny>(message).is_ok();
    message.trim_ascii_start().starts_with(b"{") && is_json()
}

/// The beginning of the methods of messages that are not answered.
const NOTIFICATIONS: &str = "notifications/";

/// Returns the notifications that the client may have missed between two servers.
fn missed(id: &RequestId, filter: &SubscriptionFilter) -> Vec<Vec<u8>> {
    let lists = [
        (filter.tools_list_changed, notification::TOOLS_CHANGED),
        (filter.prompts_list_changed, notification::PROMPTS_CHANGED),
        (
            filter.resources_list_changed,
            notification::RESOURCES_CHANGED,
        ),
    ];
    let meta: Value = json!({ meta::SUBSCRIPTION_ID: id });
    let changed = lists
        .into_iter()
        .filter(|(wanted, _)| *wanted == Some(true));
    let changed =
        changed.map(|(_, method)| jsonrpc::notification(method, &json!({ "_meta": meta })));
    let watched = filter.resource_subscriptions.iter().flatten();
    let updated = watched.map(|uri| {
        let params = json!({ "_meta": meta, "uri": uri });
        jsonrpc::notification(notification::RESOURCE_UPDATED, &params)
    });
    changed.chain(updated).collect()
}
