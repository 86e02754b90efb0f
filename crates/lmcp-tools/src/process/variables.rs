//! Variables for a command, as clients write them.

use std::collections::BTreeMap;

use lmcp_core::{ToolError, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Names and values: as a list of `NAME=value`, which every client can send, or as an object.
///
/// The strict modes of model providers know no object with members of any name, and would make it one without any.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Variables {
    List(Vec<String>),
    Map(BTreeMap<String, Scalar>),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Scalar {
    Text(String),
    Number(serde_json::Number),
    Flag(bool),
}

impl Default for Variables {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl Variables {
    /// What models are told of it.
    pub(super) fn shown() -> Value {
        json!({ "type": "array", "items": { "type": "string" } })
    }

    /// # Errors
    /// An entry sets no variable, or there are too many.
    pub(super) fn into_map(self) -> ToolResult<BTreeMap<String, String>> {
        let count = match &self {
            Self::List(list) => list.len(),
            Self::Map(map) => map.len(),
        };
        if count > MOST_VARIABLES {
            return Err(ToolError::new(format!(
                "`env` has {count} variables, and a command gets at most {MOST_VARIABLES}"
            ))
            .hint("write them to a file that the command reads"));
        }
        match self {
            Self::List(list) => list.iter().map(|text| pair(text)).collect(),
            Self::Map(map) => Ok(map
                .into_iter()
                .map(|(name, value)| (name, value.text()))
                .collect()),
        }
    }
}

/// Variables that a caller adds to the environment of one command. Each takes many times its bytes in the server.
const MOST_VARIABLES: usize = 4096;

fn pair(text: &str) -> ToolResult<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(
            ToolError::new(format!("`{text}` in `env` sets no variable"))
                .hint("write `NAME=value`"),
        ),
    }
}

impl Scalar {
    fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number.to_string(),
            Self::Flag(flag) => flag.to_string(),
        }
    }
}
