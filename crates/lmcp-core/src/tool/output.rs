//! What a tool may return.

use lmcp_wire::{Content, tool::CallToolResult};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::{
    error::{ToolError, ToolResult},
    schema,
};

/// A type that a tool can return: text, [`Json`], content blocks, a whole result, `()`, or a `Result` of one of these.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "not something a tool can return",
    note = "return text, `Json<T>`, `Content`, `Vec<Content>`, `CallToolResult`, `()`, or a `ToolResult` of one of these"
)]
pub trait IntoToolOutput: Send {
    /// The schema of `structuredContent`, if there always is some.
    fn output_schema() -> Option<Value> {
        None
    }

    /// The result.
    ///
    /// # Errors
    /// The tool failed, or asks.
    fn into_output(self) -> ToolResult<CallToolResult>;
}

/// A structured result: `structuredContent`, the schema of `T`, and the same JSON as text for clients that read only
/// that. [`Json::with_text`] says it shorter.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "made by writing it down")]
pub struct Json<T>(pub T);

/// A structured result with a text of its own.
#[derive(Clone, Debug)]
pub struct JsonText<T> {
    value: T,
    text: String,
}

impl<T> Json<T> {
    /// The same value, with a short text instead of the JSON a second time.
    pub fn with_text(self, text: impl Into<String>) -> JsonText<T> {
        JsonText {
            value: self.0,
            text: text.into(),
        }
    }
}

impl<T: Serialize + JsonSchema + Send> IntoToolOutput for Json<T> {
    fn output_schema() -> Option<Value> {
        Some(schema::output::<T>())
    }

    fn into_output(self) -> ToolResult<CallToolResult> {
        let value = serde_json::to_value(&self.0)?;
        let mut result = CallToolResult::new(vec![Content::text(value.to_string())]);
        result.structured_content = Some(value);
        Ok(result)
    }
}

impl<T: Serialize + JsonSchema + Send> IntoToolOutput for JsonText<T> {
    fn output_schema() -> Option<Value> {
        Some(schema::output::<T>())
    }

    fn into_output(self) -> ToolResult<CallToolResult> {
        let mut result = CallToolResult::new(vec![Content::text(self.text)]);
        result.structured_content = Some(serde_json::to_value(&self.value)?);
        Ok(result)
    }
}

/// The text `done`: a model that is shown nothing may believe that nothing happened.
impl IntoToolOutput for () {
    fn into_output(self) -> ToolResult<CallToolResult> {
        Ok(CallToolResult::new(vec![Content::text("done")]))
    }
}

impl IntoToolOutput for String {
    fn into_output(self) -> ToolResult<CallToolResult> {
        Ok(CallToolResult::new(vec![Content::text(self)]))
    }
}

impl IntoToolOutput for &'static str {
    fn into_output(self) -> ToolResult<CallToolResult> {
        Ok(CallToolResult::new(vec![Content::text(self)]))
    }
}

impl IntoToolOutput for Content {
    fn into_output(self) -> ToolResult<CallToolResult> {
        Ok(CallToolResult::new(vec![self]))
    }
}

impl IntoToolOutput for Vec<Content> {
    fn into_output(self) -> ToolResult<CallToolResult> {
        Ok(CallToolResult::new(self))
    }
}

impl IntoToolOutput for CallToolResult {
    fn into_output(self) -> ToolResult<CallToolResult> {
        Ok(self)
    }
}

impl<T: IntoToolOutput, E: Into<ToolError> + Send> IntoToolOutput for Result<T, E> {
    fn output_schema() -> Option<Value> {
        T::output_schema()
    }

    fn into_output(self) -> ToolResult<CallToolResult> {
        self.map_err(Into::into)?.into_output()
    }
}
