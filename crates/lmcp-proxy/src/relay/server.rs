//! What the server says.

use std::time::Instant;

use lmcp_wire::{RequestId, jsonrpc, meta, method::notification, subscribe::SubscriptionFilter};
use serde_json::{Value, json};

use super::{
    Link, Output, Relay, failures, is_own,
    message::{Message, batch, cancelled, glimpse, join, replace, subscription},
};

/// What becomes of a message.
enum Heard {
    Pass,
    /// The client gets other words.
    Changed(Vec<u8>),
    Nothing,
}

impl Relay {
    /// The server wrote a line.
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

    /// The server wrote a line that is too long, of which these are the two ends.
    pub(crate) fn server_long_line(&mut self, head: &[u8], tail: &[u8]) {
        let (id, _) = glimpse(head, tail);
        if let Some(call) = id.and_then(|id| self.sent.remove(&id)) {
            let error = failures::answer_too_long(self.limits.line_bytes);
            self.fail(&[call], |_| error.clone());
        }
        self.end_if_done();
    }

    /// Looks at one message.
    fn hear(&mut self, message: &[u8], now: Instant) -> Heard {
        match Message::read(message) {
            Message::Request { id, raw_id, .. } => self.hear_question(message, id, raw_id),
            Message::Notification { method, params } => match &*method {
                notification::CANCELLED => self.hear_cancelled(message, params, now),
                notification::LISTEN_ACKNOWLEDGED => self.hear_acknowledged(params),
                _ => Heard::Pass,
            },
            Message::Response { id, result, .. } if is_own(&id) => {
                self.hear_own(&id, result);
                Heard::Nothing
            }
            Message::Response { id, result, .. } => self.hear_answer(message, &id, result, now),
            // It answers something that could not be read; if nothing of that kind was sent, it is about the connection.
            Message::Nameless if !self.sent_unreadable => Heard::Nothing,
            Message::Nameless | Message::Unreadable => Heard::Pass,
        }
    }

    fn hear_question(&mut self, message: &[u8], theirs: RequestId, raw: &str) -> Heard {
        if self.questions.len() >= self.limits.questions {
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

    /// A subscription is over. If that is because the server goes, it is not: the next one goes on with it.
    fn hear_end(&mut self, message: &[u8], id: &RequestId, now: Instant) -> Heard {
        let at = now + self.limits.hold;
        let listen = self.sent.find(id).filter(|call| call.kept.is_some());
        let listen = listen.and_then(|call| call.listen.as_mut());
        let Some(listen) = listen.filter(|listen| listen.acknowledged) else {
            return Heard::Pass;
        };
        let (_, lines) = listen.end.get_or_insert_with(|| (at, Vec::new()));
        lines.push(message.to_vec());
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
        // The client heard of it from the server before: instead it hears what it may have missed.
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
        if result.is_some() && self.sent.find(id).is_some_and(|call| call.is_open()) {
            let heard = self.hear_end(message, id, now);
            if matches!(heard, Heard::Nothing) {
                return heard;
            }
        }
        let call = self.sent.remove(id);
        self.proven |= call.is_some();
        if let (Some(result), Some(line)) = (result, call.and_then(|call| call.kept)) {
            self.session.learn(&line, result, &self.limits);
        }
        Heard::Pass
    }

    /// An answer to something of ours: of all that is said again, only that to the handshake matters.
    fn hear_own(&mut self, id: &RequestId, result: Option<&str>) {
        if !matches!(&self.link, Link::Opening(handshake, _) if handshake == id) {
            return;
        }
        let rejection = match result.map(|result| self.session.agrees(result)) {
            Some(Ok(())) => {
                self.proven = true;
                return self.open_again();
            }
            Some(Err((theirs, ours))) => failures::disagreed(&theirs, ours),
            None => failures::not_taken(),
        };
        self.part();
        self.output.push_back(Output::Detach);
        self.reject(rejection);
    }

    /// The next server took the handshake.
    fn open_again(&mut self) {
        let rest = self.session.rest(&mut self.ids);
        for line in rest {
            self.tell_server(line);
        }
        self.open();
        for line in self.session.news() {
            self.tell_client(line);
        }
    }

    /// A batch is handed over as it is if all of its messages are.
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
        if is_whole {
            self.tell_client(line);
        } else if !left.is_empty() {
            self.tell_client(join(&left));
        }
    }
}

/// What a subscription to another server would have told, as far as anybody knows.
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
