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
    /// The name for programs.
    pub name: String,
    /// The name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A description for the model: what a call returns, and when not to call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of the arguments, an object. Its properties are written in the order of [`ORDER`](crate::order::ORDER).
    #[serde(serialize_with = "crate::order::serialize")]
    pub input_schema: Value,
    /// The JSON Schema of `structuredContent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Hints about the effects of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
    /// Pictures of the tool.
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

    /// Returns the tool for a list. Its schemas are replaced by these, which are text already.
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
    /// The name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether the tool changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// Whether the tool may destroy something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Whether a second call changes nothing more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// Whether the tool reaches beyond this program and its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

/// The result of a tool, without the members that every result has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallToolResult {
    /// The result for the model.
    pub content: Vec<Content>,
    /// The result for programs, in the form of `outputSchema`. `null` is a value like any other.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub structured_content: Option<Value>,
    /// Whether `content` contains everything that `structured_content` does, so that one of them is enough for a client. Not
    /// sent.
    #[serde(skip)]
    pub text_is_whole: bool,
    /// Whether the tool failed. `content` then tells the reason.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_error: bool,
    /// `_meta`
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CallToolResult {
    /// Makes a result of content blocks.
    pub fn new(content: Vec<Content>) -> Self {
        Self {
            content,
            ..Self::default()
        }
    }

    /// Makes the result of a failed call. The model reads the text.
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
