//! The types that a tool may return.

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
    /// The schema of `structuredContent`, for types that always bring some.
    fn output_schema() -> Option<Value> {
        None
    }

    /// Makes the result of a call.
    ///
    /// # Errors
    /// The tool failed, or it asks a question first.
    fn into_output(self) -> ToolResult<CallToolResult>;
}

/// A structured result. Clients get `structuredContent`, its schema, and the same JSON as text for those that read text only.
/// [`Json::with_text`] puts a shorter text beside it. Members are sorted by name.
///
/// Use a struct or a map: before the revision of 2026-07-28 a structured result had to be an object, so clients of these revisions get a
/// `Vec` or a number as text only.
///
/// Claude Code, Codex and some other agents get the text only, because they would show their model nothing but `structuredContent`: see
/// [`Server::present`](crate::Server::present).
///
/// ```
/// use lmcp::{Cx, Json, NoArgs};
/// use schemars::JsonSchema;
/// use serde::Serialize;
///
/// #[derive(Serialize, JsonSchema)]
/// struct Load {
///     /// Over the last minute.
///     one: f64,
/// }
///
/// async fn load(_: NoArgs, _: Cx) -> Json<Load> {
///     Json(Load { one: 0.5 })
/// }
/// ```
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "made by writing it down")]
pub struct Json<T>(pub T);

/// A structured result with its own text.
#[derive(Clone, Debug)]
pub struct JsonText<T> {
    value: T,
    text: String,
}

impl<T> Json<T> {
    /// The same value, with a short text in the place of the JSON.
    ///
    /// ```
    /// # use lmcp::{Cx, Json, JsonText, NoArgs};
    /// async fn lines(_: NoArgs, _: Cx) -> JsonText<Vec<u32>> {
    ///     Json(vec![3, 14, 15]).with_text("3 lines match: 3, 14, 15")
    /// }
    /// ```
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

/// Returns the text `done`: with an empty result, a model may believe that nothing happened.
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
