//! `server/tools`

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::{
    content::{Content, Icon},
    meta::Meta,
    shape::present,
};

/// A tool as `tools/list` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Tool {
    /// For programs.
    pub name: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// For the model: what it gets back, when not to call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the arguments; an object. Its properties are written in the order of [`ORDER`](crate::order::ORDER).
    #[serde(serialize_with = "crate::order::serialize")]
    pub input_schema: Value,
    /// JSON Schema of `structuredContent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Hints about what it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
    /// Pictures of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<Icon>,
    /// `_meta`
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl Tool {
    /// A tool and the schema of its arguments.
    pub fn new(name: impl Into<String>, input_schema: Value) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: None,
            input_schema,
            output_schema: None,
            annotations: None,
            icons: Vec::new(),
            meta: None,
        }
    }

    /// The tool for a list, with schemas that are text already in the place of its own.
    pub fn with_schemas<'a>(
        &'a self,
        input_schema: &'a RawValue,
        output_schema: Option<&'a RawValue>,
    ) -> impl Serialize + 'a {
        WithSchemas {
            name: &self.name,
            title: self.title.as_deref(),
            description: self.description.as_deref(),
            input_schema,
            output_schema,
            annotations: self.annotations.as_ref(),
            icons: &self.icons,
            meta: self.meta.as_ref(),
        }
    }
}

/// The members of [`Tool`], in the same order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WithSchemas<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_schema: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<&'a ToolAnnotations>,
    #[serde(skip_serializing_if = "<[Icon]>::is_empty")]
    icons: &'a [Icon],
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a Meta>,
}

/// The effects of a tool, as its author declares them. Do not rely on them for safety.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// Whether the tool may destroy something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Calling it again changes nothing more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// Reaches beyond this program and its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

/// The result of a tool, without the members that every result has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallToolResult {
    /// For the model.
    pub content: Vec<Content>,
    /// For programs, as `outputSchema` says; `null` is a value like any other.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub structured_content: Option<Value>,
    /// `content` says all that `structured_content` does, so a client that gets only the one misses nothing. Not sent.
    #[serde(skip)]
    pub text_is_whole: bool,
    /// The tool failed, and `content` says how.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_error: bool,
    /// `_meta`
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CallToolResult {
    /// Content.
    pub fn new(content: Vec<Content>) -> Self {
        Self {
            content,
            ..Self::default()
        }
    }

    /// A failure, told to the model.
    pub fn error(text: impl Into<String>) -> Self {
        Self {
            content: vec![Content::text(text)],
            is_error: true,
            ..Self::default()
        }
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}
