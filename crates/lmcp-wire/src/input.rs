//! `basic/patterns/mrtr`: questions to the client, put by the answer *input required*.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Object, elicit::ElicitParams, method, sampling::CreateMessageParams};

/// A question to the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", content = "params")]
#[non_exhaustive]
pub enum InputRequest {
    /// Ask the user.
    #[serde(rename = "elicitation/create")]
    Elicit(ElicitParams),
    /// Ask the model.
    #[serde(rename = "sampling/createMessage")]
    Sample(Box<CreateMessageParams>),
    /// Ask for the folders that the client works in.
    #[serde(rename = "roots/list")]
    Roots(EmptyParams),
}

impl InputRequest {
    /// Reads a question. `None`: lmcp does not know this kind of question.
    pub fn read(method: &str, params: &RawValue) -> Option<Self> {
        let params = params.get();
        match method {
            method::input::ELICIT => serde_json::from_str(params).ok().map(Self::Elicit),
            method::input::SAMPLE => serde_json::from_str(params).ok().map(Self::Sample),
            method::input::ROOTS => serde_json::from_str(params).ok().map(Self::Roots),
            _ => None,
        }
    }

    /// The method's name on the wire.
    pub fn method(&self) -> &'static str {
        match self {
            Self::Elicit(_) => method::input::ELICIT,
            Self::Sample(_) => method::input::SAMPLE,
            Self::Roots(_) => method::input::ROOTS,
        }
    }
}

/// `params: {}`. When read, they may also be absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Option<Object>")]
#[non_exhaustive]
pub struct EmptyParams {}

impl From<Option<Object>> for EmptyParams {
    fn from(_: Option<Object>) -> Self {
        Self {}
    }
}

/// Questions to the client, by key.
pub type InputRequests = BTreeMap<String, InputRequest>;

/// The answers of the client, by the same keys. The code that asked decodes each of them.
pub type InputResponses = BTreeMap<String, Box<RawValue>>;

/// Open questions, without the members that every result has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InputRequiredResult {
    /// The open questions, by key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_requests: Option<InputRequests>,
    /// The state that the next try of the client repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
}

impl InputRequiredResult {
    /// Makes a result of questions, and of the state that answers must bring back.
    pub fn new(input_requests: InputRequests, request_state: String) -> Self {
        Self {
            input_requests: Some(input_requests),
            request_state: Some(request_state),
        }
    }
}
