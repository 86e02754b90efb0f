//! What came and was not looked at yet, and which request each message belongs to.
//!
//! Answers of one request come in the order of the file. Where several requests are open, their answers may be mixed:
//! then a line is compared with the first message of its own request, told by id, subscription or progress token, or
//! by its method where it has none of these. What a session hears besides (news) is never mixed up with answers.

use std::collections::VecDeque;

use serde_json::Value;

#[derive(Default)]
pub(crate) struct Inbox {
    messages: VecDeque<Value>,
    /// Requests whose response was not looked at yet.
    open: Vec<Open>,
}

struct Open {
    id: Value,
    progress_token: Option<Value>,
    listens: bool,
}

/// What a message belongs to.
#[derive(PartialEq)]
enum Key {
    Request(Value),
    Method(Value),
    Nameless,
}

impl Inbox {
    /// Notes what was sent: a request is open until it is answered or cancelled.
    pub(crate) fn sent(&mut self, message: &Value) {
        let Some(method) = message.get("method") else {
            return;
        };
        if method == "notifications/cancelled" {
            let cancelled = message.pointer("/params/requestId");
            self.open.retain(|open| Some(&open.id) != cancelled);
        }
        let id = message.get("id");
        if let Some(id) = id.filter(|id| id.is_string() || id.is_i64()) {
            self.open.push(Open {
                id: id.clone(),
                progress_token: message.pointer("/params/_meta/progressToken").cloned(),
                listens: method == "subscriptions/listen",
            });
        }
    }

    pub(crate) fn extend(&mut self, messages: impl IntoIterator<Item = Value>) {
        self.messages.extend(messages);
    }

    /// The message that is next.
    pub(crate) fn take(&mut self) -> Option<Value> {
        self.remove(0)
    }

    /// The message that an expected one is to be compared with: the next one, if at most one request is open.
    pub(crate) fn take_like(&mut self, expected: &Value) -> Option<Value> {
        if self.open.len() <= 1 {
            let news = is_news(expected);
            let mut messages = self.messages.iter();
            let at = messages.position(|message| is_news(message) == news)?;
            return self.remove(at);
        }
        let key = self.key(expected);
        let mut messages = self.messages.iter();
        let at = messages.position(|message| self.key(message) == key)?;
        self.remove(at)
    }

    pub(crate) fn first(&self) -> Option<&Value> {
        self.messages.front()
    }

    /// The id of a request that should have been answered. A subscription may stay open.
    pub(crate) fn unanswered(&self) -> Option<&Value> {
        let mut open = self.open.iter();
        open.find(|open| !open.listens).map(|open| &open.id)
    }

    fn remove(&mut self, at: usize) -> Option<Value> {
        let message = self.messages.remove(at)?;
        let mut open = self.open.iter();
        let answered = match (message.get("method"), message.get("id")) {
            (Some(_), _) => None,
            (None, Some(id)) => open.position(|open| open.id == *id),
            // An error that names no request is about the last one.
            (None, None) => open.rposition(|open| !open.listens),
        };
        if let Some(at) = answered {
            self.open.remove(at);
        }
        Some(message)
    }

    fn key(&self, message: &Value) -> Key {
        let Some(method) = message.get("method") else {
            return match message.get("id") {
                Some(id) => Key::Request(id.clone()),
                None => Key::Nameless,
            };
        };
        let subscription = message.pointer("/params/_meta/io.modelcontextprotocol~1subscriptionId");
        let cancelled = message.pointer("/params/requestId");
        let progress = message.pointer("/params/progressToken").and_then(|token| {
            let mut open = self.open.iter();
            open.find(|open| open.progress_token.as_ref() == Some(token))
                .map(|open| &open.id)
        });
        match subscription.or(cancelled).or(progress) {
            Some(id) => Key::Request(id.clone()),
            None => Key::Method(method.clone()),
        }
    }
}

/// Does a session hear this outside of any request? Then it comes on a way of its own.
fn is_news(message: &Value) -> bool {
    let method = message["method"].as_str().unwrap_or_default();
    let subscribed = "/params/_meta/io.modelcontextprotocol~1subscriptionId";
    message.pointer(subscribed).is_none()
        && (method.ends_with("/list_changed") || method == "notifications/resources/updated")
}
