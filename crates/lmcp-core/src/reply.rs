//! What a service says to a request: free of revisions and of how it is written.

use std::{borrow::Cow, time::Duration};

use lmcp_wire::{RpcError, logging::LoggingMessageParams};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::{outcome::Outcome, session::Ask};

/// One thing that a service says to a request. `era/` writes it as the client of the request knows it, or leaves it out
/// where that client does not.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reply {
    /// How far it has got. It reaches clients that asked for progress.
    Progress(ProgressReport),
    /// A log message. It reaches clients that want messages of its level.
    Log(LoggingMessageParams),
    /// Anything else that is told: a changed list, an updated resource, a notification of another server that is passed on.
    Notify(Notice),
    /// A question that waits for its answer while the call goes on: see [`Request::ask`](crate::Request::ask).
    Ask(Ask),
    /// The client need not hold its connection, and may ask again after this time. Where it cannot do that, nothing is said.
    Pause(Duration),
    /// The end: nothing comes after it.
    Done(Result<Outcome, RpcError>),
}

/// How far a request has got.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ProgressReport {
    /// Always more than before.
    pub progress: f64,
    /// When it is done, if that is known.
    pub total: Option<f64>,
    /// The step that is being done.
    pub message: Option<String>,
}

impl ProgressReport {
    /// So far.
    pub fn new(progress: f64) -> Self {
        Self {
            progress,
            total: None,
            message: None,
        }
    }
}

/// A notification.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Notice {
    /// The method of the notification.
    pub method: Cow<'static, str>,
    /// Its parameters, an object. The subscription that a notice belongs to is not among them: it is added where the client
    /// wants to know.
    pub params: Box<RawValue>,
}

impl Notice {
    /// A notification with parameters that are JSON already.
    pub fn new(method: impl Into<Cow<'static, str>>, params: Box<RawValue>) -> Self {
        Self {
            method: method.into(),
            params,
        }
    }
}

impl Reply {
    /// A notification. Parameters that cannot be written as JSON are left out.
    pub fn notify(method: impl Into<Cow<'static, str>>, params: &impl Serialize) -> Self {
        let params = to_raw_value(params).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Self::Notify(Notice::new(method, params))
    }

    /// Whether this is the last reply.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }
}
