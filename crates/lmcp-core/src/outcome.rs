//! What a request came to, before a revision of the protocol gives it its form.

use std::{fmt, sync::Arc};

use lmcp_wire::{
    self as wire, RequestId, completion::CompleteResult, discover::CacheHint,
    discover::DiscoverResult, input::InputRequiredResult, jsonrpc, legacy::InitializeResult, meta,
    prompt::GetPromptResult, resource::ReadResourceResult, task::Task,
};

use crate::era::modern::splice;

/// The ways a request can end well.
pub(crate) enum Outcome {
    Tool(wire::CallToolResult),
    Prompt(GetPromptResult),
    Read(ReadResourceResult, CacheHint),
    Complete(CompleteResult),
    Discover(DiscoverResult, CacheHint),
    /// A handshake.
    Initialized(Box<InitializeResult>),
    List(Page, CacheHint),
    /// Not the end: the client is asked first.
    InputRequired(InputRequiredResult),
    /// Not the end either: the work goes on, and this names it.
    TaskCreated(Task),
    Task(Task),
    Acknowledged,
    /// A subscription that the server ended.
    Unsubscribed(RequestId),
}

/// One page of a list, already in JSON: `"tools":[…]`, and where the next begins.
#[derive(Clone)]
pub(crate) struct Page {
    pub(crate) members: Arc<[u8]>,
    pub(crate) next: Option<String>,
}

/// How a request ended, in a few words for the log.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool(result) if result.is_error => {
                let text = result.content.iter().find_map(wire::Content::as_text);
                let line = text
                    .and_then(|text| text.lines().next())
                    .unwrap_or_default();
                let line: String = line.chars().take(LOGGED).collect();
                write!(f, "failed: {line:?}")
            }
            Self::InputRequired(_) => f.write_str("asks the client"),
            Self::TaskCreated(_) => f.write_str("goes on as a task"),
            _ => f.write_str("ok"),
        }
    }
}

/// Characters of an error that a line of the log has room for.
const LOGGED: usize = 160;

impl Outcome {
    pub(crate) fn result_type(&self) -> &'static str {
        match self {
            Self::InputRequired(_) => "input_required",
            Self::TaskCreated(_) => "task",
            Self::Tool(_)
            | Self::Prompt(_)
            | Self::Read(..)
            | Self::Complete(_)
            | Self::Discover(..)
            | Self::Initialized(_)
            | Self::List(..)
            | Self::Task(_)
            | Self::Acknowledged
            | Self::Unsubscribed(_) => "complete",
        }
    }

    /// Only complete results of lists, reads and discovery may be cached.
    pub(crate) fn cache_hint(&self) -> Option<CacheHint> {
        match self {
            Self::Read(_, hint) | Self::Discover(_, hint) | Self::List(_, hint) => Some(*hint),
            Self::Tool(_)
            | Self::Prompt(_)
            | Self::Complete(_)
            | Self::Initialized(_)
            | Self::InputRequired(_)
            | Self::TaskCreated(_)
            | Self::Task(_)
            | Self::Acknowledged
            | Self::Unsubscribed(_) => None,
        }
    }

    /// `_meta` the handler or the engine put there.
    pub(crate) fn take_meta(&mut self) -> Option<wire::Meta> {
        match self {
            Self::Tool(result) => result.meta.take(),
            Self::Unsubscribed(id) => {
                let id = serde_json::to_value(id).expect("an id is JSON");
                Some(
                    [(meta::SUBSCRIPTION_ID.to_owned(), id)]
                        .into_iter()
                        .collect(),
                )
            }
            _ => None,
        }
    }

    /// Its own members, each behind a comma.
    pub(crate) fn write_members(&self, out: &mut Vec<u8>) {
        match self {
            Self::Tool(result) => splice(out, result),
            Self::Prompt(result) => splice(out, result),
            Self::Read(result, _) => splice(out, result),
            Self::Complete(result) => splice(out, result),
            Self::Discover(result, _) => splice(out, result),
            Self::Initialized(result) => splice(out, result),
            Self::InputRequired(result) => splice(out, result),
            Self::TaskCreated(task) | Self::Task(task) => splice(out, task),
            Self::List(page, _) => {
                out.push(b',');
                out.extend_from_slice(&page.members);
                if let Some(next) = &page.next {
                    out.extend_from_slice(b",\"nextCursor\":");
                    jsonrpc::append(out, next);
                }
            }
            Self::Acknowledged | Self::Unsubscribed(_) => {}
        }
    }
}
