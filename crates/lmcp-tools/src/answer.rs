//! The result of a tool of this crate: a structured value, a text for people and models, and perhaps more
//! content.

use lmcp_core::{ToolResult, tool::IntoToolOutput};
use lmcp_wire::{CallToolResult, Content};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// A result with a value of a fixed shape. The text is a rendering, never the JSON a second time.
#[derive(Debug)]
pub struct Answer<T> {
    value: T,
    text: String,
    more: Vec<Content>,
    failed: bool,
}

impl<T> Answer<T> {
    pub(crate) fn new(value: T, text: impl Into<String>) -> Self {
        Self {
            value,
            text: text.into(),
            more: Vec::new(),
            failed: false,
        }
    }

    /// Adds content, such as an image or a link to the rest.
    pub(crate) fn with(mut self, content: Content) -> Self {
        self.more.push(content);
        self
    }

    /// Marks the result as a failure: the tool did what it could, but a command's time was over, say.
    pub(crate) fn failed_if(mut self, failed: bool) -> Self {
        self.failed = failed;
        self
    }
}

impl<T: Serialize + JsonSchema + Send> IntoToolOutput for Answer<T> {
    fn output_schema() -> Option<Value> {
        lmcp_core::Json::<T>::output_schema()
    }

    fn into_output(self) -> ToolResult<CallToolResult> {
        let mut content = vec![Content::text(self.text)];
        content.extend(self.more);
        let mut result = CallToolResult::new(content);
        result.structured_content = Some(serde_json::to_value(&self.value)?);
        result.text_is_whole = true;
        result.is_error = self.failed;
        Ok(result)
    }
}
