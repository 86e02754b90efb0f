//! The outcome of a request, before a revision of the protocol gives it a form.
//!
//! `era/` writes outcomes; nothing here knows a revision.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use lmcp_wire::{
    self as wire, Content, ProtocolVersion, RpcError, ServerCapabilities,
    completion::CompleteResult, discover::CacheHint, input::InputRequiredResult, jsonrpc,
    prompt::GetPromptResult, resource::ReadResourceResult, task::Task, tool::CallToolResult,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

/// The result of a request, and the members that stand beside every result.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The result itself.
    pub payload: Payload,
    /// Members for the `_meta` of the result, beside those that the payload has itself.
    pub meta: Option<wire::Meta>,
    /// `serverInfo` of the server that answered, as JSON.
    pub server_info: Option<Arc<str>>,
}

/// The kinds of result that a request can have.
#[derive(Debug)]
#[non_exhaustive]
pub enum Payload {
    /// The result of a tool.
    CallTool(CallToolResult),
    /// A rendered prompt.
    GetPrompt(GetPromptResult),
    /// The contents of a resource.
    ReadResource(ReadResourceResult, CacheHint),
    /// Suggested values.
    Complete(CompleteResult),
    /// The description of the server: the answer to `server/discover`, and to a handshake.
    Discover(Box<Discovery>, CacheHint),
    /// One page of a list.
    List(Page, CacheHint),
    /// Questions for the client, which answers them and sends its request again. See [`Request::asks`](crate::Request::asks).
    InputRequired(InputRequiredResult),
    /// A task: the work goes on, and the client asks for its result later.
    TaskCreated(Box<Task>),
    /// A task as it stands.
    Task(Box<Task>),
    /// An empty result.
    Acknowledged,
    /// A whole result as JSON, for services that pass results on. It is an object with the members of 2026-07-28; those that every result
    /// has may be absent. Unknown members, and `_meta`, reach the client.
    Raw(Box<RawValue>),
}

/// The description of a server: its name and its capabilities.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Discovery {
    /// The capabilities of the server.
    pub capabilities: ServerCapabilities,
    /// Advice to the model on how to use the server.
    pub instructions: Option<String>,
}

/// A page of a list, already in JSON: `"tools":[…]`, and the place where the next page begins.
#[derive(Clone, Debug)]
pub struct Page {
    pub(crate) members: Arc<[u8]>,
    pub(crate) next: Option<String>,
    /// The revision whose clients can read the page as it is. `None`: the newest revision, and the page is shaped for all
    /// others.
    pub(crate) written_for: Option<ProtocolVersion>,
    /// The page as it was last shaped. It is kept for the next client of that revision: a page may be long, and many clients
    /// list it.
    shaped: Shaped,
}

type Shaped = Arc<Mutex<Option<(ProtocolVersion, Arc<[u8]>)>>>;

impl Outcome {
    /// Makes an outcome that does not name its server.
    pub fn new(payload: Payload) -> Self {
        Self {
            payload,
            meta: None,
            server_info: None,
        }
    }

    /// Sets the name and version of the server that answered: an `Implementation` as JSON.
    #[must_use]
    pub fn from_server(mut self, info: Arc<str>) -> Self {
        self.server_info = Some(info);
        self
    }

    /// The memory that the outcome takes, roughly: only its large parts are counted.
    pub fn bytes(&self) -> usize {
        match &self.payload {
            Payload::CallTool(result) => {
                let structured = result.structured_content.as_ref().map_or(0, value_bytes);
                structured + result.content.iter().map(content_bytes).sum::<usize>()
            }
            Payload::GetPrompt(result) => {
                let messages = result.messages.iter();
                messages
                    .map(|message| content_bytes(&message.content))
                    .sum()
            }
            Payload::ReadResource(..) => self.contents_bytes(),
            Payload::Raw(text) => text.get().len(),
            Payload::Complete(_)
            | Payload::Discover(..)
            | Payload::List(..)
            | Payload::InputRequired(_)
            | Payload::TaskCreated(_)
            | Payload::Task(_)
            | Payload::Acknowledged => 0,
        }
    }

    /// The length of the contents of a resource, without escapes: the answer will not be shorter.
    pub(crate) fn contents_bytes(&self) -> usize {
        let Payload::ReadResource(result, _) = &self.payload else {
            return 0;
        };
        result.contents.iter().map(resource_bytes).sum()
    }
}

impl From<Payload> for Outcome {
    fn from(payload: Payload) -> Self {
        Self::new(payload)
    }
}

impl From<CallToolResult> for Outcome {
    fn from(result: CallToolResult) -> Self {
        Self::new(Payload::CallTool(result))
    }
}

impl From<Box<RawValue>> for Outcome {
    fn from(result: Box<RawValue>) -> Self {
        Self::new(Payload::Raw(result))
    }
}

impl Discovery {
    /// Makes a description with these capabilities.
    pub fn new(capabilities: ServerCapabilities) -> Self {
        Self {
            capabilities,
            instructions: None,
        }
    }
}

impl Page {
    /// Makes a page from items in the form of the newest revision. `member` is the member that the list has them in: `tools`,
    /// `prompts`, `resources` or `resourceTemplates`.
    pub fn new<T: Serialize>(member: &str, items: &[T], next: Option<String>) -> Self {
        let mut members = Vec::with_capacity(256);
        jsonrpc::append(&mut members, member);
        members.push(b':');
        jsonrpc::append(&mut members, items);
        Self::written(members, next, None)
    }

    /// Makes a page from members that are written already, for clients of this revision or for the newest.
    pub(crate) fn written(
        members: Vec<u8>,
        next: Option<String>,
        written_for: Option<ProtocolVersion>,
    ) -> Self {
        Self {
            members: members.into(),
            next,
            written_for,
            shaped: Shaped::default(),
        }
    }

    /// Returns the members in the form of another revision. The form that was made last is kept, and all clients of its
    /// revision share it.
    pub(crate) fn shaped(
        &self,
        version: ProtocolVersion,
        shape: impl FnOnce() -> Result<Vec<u8>, RpcError>,
    ) -> Result<Arc<[u8]>, RpcError> {
        let mut shaped = self.shaped.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, members)) = shaped.as_ref().filter(|(known, _)| *known == version) {
            return Ok(Arc::clone(members));
        }
        let members: Arc<[u8]> = shape()?.into();
        *shaped = Some((version, Arc::clone(&members)));
        Ok(members)
    }
}

/// Writes in a few words for the log how a request ended.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.payload {
            Payload::CallTool(result) if result.is_error => {
                let text = result.content.iter().find_map(Content::as_text);
                failed(f, text.unwrap_or_default())
            }
            Payload::Raw(result) => match serde_json::from_str(result.get()) {
                Ok(Passed {
                    is_error: true,
                    content,
                    ..
                }) => {
                    let text = content.into_iter().find_map(|block| block.text);
                    failed(f, &text.unwrap_or_default())
                }
                Ok(Passed {
                    kind: Some(kind), ..
                }) if kind == "input_required" => f.write_str("asks the client"),
                Ok(Passed {
                    kind: Some(kind), ..
                }) if kind == "task" => f.write_str("goes on as a task"),
                _ => f.write_str("ok"),
            },
            Payload::InputRequired(_) => f.write_str("asks the client"),
            Payload::TaskCreated(_) => f.write_str("goes on as a task"),
            _ => f.write_str("ok"),
        }
    }
}

fn failed(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let line = text.lines().next().unwrap_or_default();
    let line: String = line.chars().take(LOGGED).collect();
    write!(f, "failed: {line:?}")
}

/// The members of a passed-on result that tell how the request ended.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Passed {
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    content: Vec<Block>,
    #[serde(rename = "resultType")]
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Block {
    text: Option<String>,
}

/// The most characters of an error in a line of the log.
const LOGGED: usize = 160;

/// Adds the value of `structuredContent` as text, unless the text has it already.
pub(crate) fn keep_as_text(result: &mut CallToolResult, value: &Value) {
    if result.text_is_whole && !result.content.is_empty() {
        return;
    }
    let text = value.to_string();
    let said = |block: &Content| block.as_text() == Some(&text);
    if !result.content.iter().any(said) {
        result.content.push(Content::text(text));
    }
}

fn content_bytes(block: &Content) -> usize {
    match block {
        Content::Text(text) => text.text.len(),
        Content::Image(media) | Content::Audio(media) => media.data.len(),
        Content::Resource(embedded) => resource_bytes(&embedded.resource),
        _ => 0,
    }
}

fn resource_bytes(contents: &wire::ResourceContents) -> usize {
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    length(&contents.text) + length(&contents.blob)
}

/// Returns the memory that a JSON value takes, roughly.
pub(crate) fn value_bytes(value: &Value) -> usize {
    let own = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value_bytes).sum(),
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| key.len() + value_bytes(value);
            members.iter().map(member).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    own + size_of::<Value>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_shaped_once_for_clients_of_one_revision() {
        let page = Page::new("tools", &["a"], None);
        let mut made = 0;
        for (version, expected) in [
            (ProtocolVersion::V2025_06_18, 1),
            (ProtocolVersion::V2025_06_18, 1),
            (ProtocolVersion::V2025_11_25, 2),
            (ProtocolVersion::V2025_06_18, 3),
        ] {
            // Copies of a page share the shaped form.
            let shaped = page.clone().shaped(version, || {
                made += 1;
                Ok(version.as_str().into())
            });
            assert_eq!(&*shaped.unwrap(), version.as_str().as_bytes());
            assert_eq!(made, expected);
        }
    }
}
