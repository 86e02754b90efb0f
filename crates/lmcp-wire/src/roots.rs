//! `client/roots`: the folders that the client works in. Deprecated by 2026-07-28, and still served.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::meta::Meta;

/// The answer to the question for folders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListRootsResult {
    /// The folders.
    pub roots: Vec<Root>,
}

impl ListRootsResult {
    /// The folders that a client works in.
    pub fn new(roots: impl IntoIterator<Item = Root>) -> Self {
        Self {
            roots: roots.into_iter().collect(),
        }
    }
}

/// Turns the answer into JSON, for functions that answer all kinds of question.
impl From<ListRootsResult> for Value {
    fn from(result: ListRootsResult) -> Self {
        json!(result)
    }
}

/// A folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Root {
    /// `file://…`
    pub uri: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `_meta`
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl Root {
    /// A folder, by its `file://` address.
    pub fn new(uri: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            name: None,
            meta: None,
        }
    }
}
