//! A request in flight.

use std::sync::Arc;

use lmcp_wire::{
    Incoming, RpcError, logging::LoggingMessageParams, method::notification,
    progress::ProgressParams,
};
use serde_json::{Value, value::RawValue};

use super::{Error, Shared};
use crate::endpoint::Messages;

/// A request in flight. The request goes on while [`next`](Self::next) is awaited, and dropping this value cancels it.
pub struct Calling {
    messages: Messages,
    shared: Arc<Shared>,
}

/// An event of a request in flight.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The server reports how far it is.
    Progress(ProgressParams),
    /// A log message.
    Log(LoggingMessageParams),
    /// Another notification: its method and parameters.
    Other(String, Value),
    /// The request has ended, with this result.
    Done(Result<Value, Error>),
}

/// A step of a request in flight: an event, or the end.
pub(super) enum Step {
    On(Event),
    End(Result<Box<RawValue>, Error>),
}

impl Calling {
    pub(super) fn new(messages: Messages, shared: Arc<Shared>) -> Self {
        Self { messages, shared }
    }

    /// Waits for the next event. `None`: the request has ended.
    pub async fn next(&mut self) -> Option<Event> {
        Some(match self.step().await? {
            Step::On(event) => event,
            Step::End(result) => Event::Done(result.map(|result| read_raw(result.get()))),
        })
    }

    /// Does the same, and returns the end as it came.
    pub(super) async fn step(&mut self) -> Option<Step> {
        let message = self.messages.next().await?;
        Some(match message.parse() {
            Incoming::Notification { method, params } => {
                self.shared.lists().forget(&method);
                let params: Value = read_raw(params.map_or("null", |params| params.get()));
                let event = match &*method {
                    notification::PROGRESS => serde_json::from_value(params.clone())
                        .ok()
                        .map(Event::Progress),
                    notification::MESSAGE => {
                        serde_json::from_value(params.clone()).ok().map(Event::Log)
                    }
                    _ => None,
                };
                Step::On(event.unwrap_or_else(|| Event::Other(method.into_owned(), params)))
            }
            Incoming::Response { outcome, .. } => {
                Step::End(outcome.map(ToOwned::to_owned).map_err(Error::from))
            }
            _ => Step::End(Err(RpcError::internal("the server sent a request").into())),
        })
    }
}

impl std::fmt::Debug for Calling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Calling")
    }
}

fn read_raw(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}
