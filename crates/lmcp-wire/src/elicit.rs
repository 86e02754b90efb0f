//! `client/elicitation`: asking the user, by a form or by a link.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Object;

/// `params` of `elicitation/create`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitParams {
    /// `form` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ElicitMode>,
    /// What the user reads.
    pub message: String,
    /// The form: a flat object of primitives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_schema: Option<Value>,
    /// The link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Tells links apart, in 2025-11-25 alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation_id: Option<String>,
}

impl ElicitParams {
    /// A form.
    pub fn form(message: impl Into<String>, requested_schema: Value) -> Self {
        let mode = Some(ElicitMode::Form);
        Self {
            mode,
            message: message.into(),
            requested_schema: Some(requested_schema),
            url: None,
            elicitation_id: None,
        }
    }

    /// A link: for anything secret, which must never pass through a form.
    pub fn url(message: impl Into<String>, url: impl Into<String>) -> Self {
        let mode = Some(ElicitMode::Url);
        Self {
            mode,
            message: message.into(),
            requested_schema: None,
            url: Some(url.into()),
            elicitation_id: None,
        }
    }
}

/// How the user is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ElicitMode {
    /// By a form.
    Form,
    /// By a link.
    Url,
}

/// What the user did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ElicitResult {
    /// What the user chose.
    pub action: ElicitAction,
    /// What the user filled in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Object>,
}

/// What the user chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ElicitAction {
    /// Yes, with content.
    Accept,
    /// No.
    Decline,
    /// Neither: the question was dismissed.
    Cancel,
}
