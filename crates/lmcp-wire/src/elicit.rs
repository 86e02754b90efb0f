//! `client/elicitation`: asking the user, by a form or by a link.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Object;

/// `params` of `elicitation/create`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitParams {
    /// The way to ask. `form` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ElicitMode>,
    /// The text that the user reads.
    pub message: String,
    /// The form: a flat object of primitives. Its fields are written in the order of [`ORDER`](crate::order::ORDER), and read in theirs.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "crate::order::optional"
    )]
    pub requested_schema: Option<Value>,
    /// The link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Tells several links apart. Only in 2025-11-25.
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

/// The way in which the user is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ElicitMode {
    /// By a form.
    Form,
    /// By a link.
    Url,
}

/// The answer of the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ElicitResult {
    /// The choice of the user.
    pub action: ElicitAction,
    /// The fields that the user filled in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Object>,
}

impl ElicitResult {
    /// The user filled in the form, or followed the link.
    ///
    /// ```
    /// # use lmcp::wire::elicit::ElicitResult;
    /// # use serde_json::json;
    /// let answer = ElicitResult::accept([("yes".to_owned(), json!(true))]);
    /// # assert_eq!(json!(answer), json!({ "action": "accept", "content": { "yes": true } }));
    /// ```
    pub fn accept(content: impl IntoIterator<Item = (String, Value)>) -> Self {
        let content: Object = content.into_iter().collect();
        Self {
            action: ElicitAction::Accept,
            content: Some(content),
        }
    }

    /// The user said no.
    pub fn decline() -> Self {
        Self {
            action: ElicitAction::Decline,
            content: None,
        }
    }

    /// The user dismissed the question.
    pub fn cancel() -> Self {
        Self {
            action: ElicitAction::Cancel,
            content: None,
        }
    }
}

/// Turns the answer into JSON, for functions that answer all kinds of question.
impl From<ElicitResult> for Value {
    fn from(result: ElicitResult) -> Self {
        json!(result)
    }
}

/// The choice of the user.
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
