//! The replies of a service to a request, free of revisions and of their form in JSON.

use std::{borrow::Cow, time::Duration};

use lmcp_wire::{RpcError, logging::LoggingMessageParams};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::{outcome::Outcome, session::Ask};

/// One message of a service in answer to a request. lmcp writes it in the revision of the client, and leaves it out where that revision has
/// no such message.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reply {
    /// Progress. Only clients that asked for progress get it.
    Progress(ProgressReport),
    /// A log message. Only clients that want messages of its level get it.
    Log(LoggingMessageParams),
    /// Another notification: a changed list, an updated resource, or a notification of a remote server that is passed on.
    Notify(Notice),
    /// A question that waits for its answer while the call goes on: see [`Request::ask`](crate::Request::ask).
    Ask(Ask),
    /// The client may close its connection, and come back for the answer after this time. Clients that cannot do that get nothing.
    Pause(Duration),
    /// The end of the answer.
    Done(Result<Outcome, RpcError>),
}

/// Progress of a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ProgressReport {
    /// How much is done. Each report has a larger value than the one before.
    pub progress: f64,
    /// The value of `progress` at the end, if it is known.
    pub total: Option<f64>,
    /// The step that is being done.
    pub message: Option<String>,
}

impl ProgressReport {
    /// Makes a report without a total and a message.
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
    /// The parameters, an object. The id of a subscription is not among them: lmcp adds it for clients that need it.
    pub params: Box<RawValue>,
}

impl Notice {
    /// Makes a notification whose parameters are JSON already.
    pub fn new(method: impl Into<Cow<'static, str>>, params: Box<RawValue>) -> Self {
        Self {
            method: method.into(),
            params,
        }
    }
}

impl Reply {
    /// Makes a notification. Parameters that cannot be written as JSON are left out.
    pub fn notify(method: impl Into<Cow<'static, str>>, params: &impl Serialize) -> Self {
        let params = to_raw_value(params).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Self::Notify(Notice::new(method, params))
    }

    /// Whether this is the last reply.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }
}
