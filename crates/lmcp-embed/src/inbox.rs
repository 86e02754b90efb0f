//! Messages of the program for one child, which wait until the child takes them.

use std::{
    io,
    sync::{Arc, MutexGuard, PoisonError},
};

use lmcp_core::{Cx, Json, NoArgs, Resource, Tool, ToolError, ToolResult, ToolSet};
use schemars::JsonSchema;
use serde::Serialize;

use crate::member::{ChildHandle, ChildOf as _, Member};

/// The resource that shows a child its own messages.
const URI: &str = "inbox://mine";

/// The size of an inbox: the bytes of its messages, and [`OVERHEAD`] for each of them.
const MOST_BYTES: usize = 256 * 1024;

/// The cost of a message besides its text, so that the number of empty messages is bounded, too.
const OVERHEAD: usize = 64;

/// Returns an inbox for every child: the resource `inbox://mine` shows a child its messages, and the tool `inbox` takes
/// them.
///
/// The program, or one of its tools, puts a message there with [`ChildHandle::deliver`]. A child that watches `inbox://mine`
/// is told at once, in every revision of the protocol. Reading the resource removes nothing, so a read that failed may be
/// repeated. The tool returns the messages and removes them. Both return `{"messages": [TEXT, …]}`, oldest first.
///
/// ```
/// use lmcp::{Server, embed::inbox};
///
/// let server = Server::new("deck", "1.0.0").tools(inbox());
/// ```
pub fn inbox() -> ToolSet<()> {
    let take = Tool::new("inbox", take)
        .title("Inbox")
        .about("Returns the messages that wait for you, oldest first, and removes them. To look without removing, read inbox://mine.")
        .writes();
    let show = Resource::new(URI, "inbox", show)
        .about("The messages that wait for you. The tool `inbox` removes them.")
        .mime("application/json");
    ToolSet::new(()).tool(take).resource(show)
}

impl ChildHandle {
    /// Puts a message into the child's [`inbox`], and tells only this child that `inbox://mine` has changed.
    ///
    /// The message waits until the child takes it, also while the child is not connected. A host at a [path] writes it to
    /// disk, and the next host there has it, even if this one is killed; so does the host after [`Host::exec`]. The message
    /// should hold no secret.
    ///
    /// [path]: crate::Host::start_at
    /// [`Host::exec`]: crate::Host::exec
    ///
    /// # Errors
    /// The child has ended or its host has closed (`NotConnected`), or 256 KiB wait for the child already (`StorageFull`).
    pub fn deliver(&self, text: impl Into<String>) -> io::Result<()> {
        let ended = || {
            let words = format!("`{}` has ended", self.label());
            io::Error::new(io::ErrorKind::NotConnected, words)
        };
        let mut inbox = self.member.inbox();
        if !inbox.is_open || self.has_ended() {
            return Err(ended());
        }
        if !inbox.push(text.into()) {
            let words = format!("the inbox of `{}` is full", self.label());
            return Err(io::Error::new(io::ErrorKind::StorageFull, words));
        }
        drop(inbox);
        self.member.record();
        // The message was not saved for a child that has ended meanwhile.
        if self.has_ended() {
            return Err(ended());
        }
        self.resource_updated(URI);
        Ok(())
    }
}

/// The messages that wait for one child.
#[derive(Debug)]
pub(crate) struct Inbox {
    messages: Vec<String>,
    /// Cleared when the messages are saved for the next host for the last time.
    is_open: bool,
}

impl Inbox {
    pub(crate) fn with(messages: Vec<String>) -> Self {
        Self {
            messages,
            is_open: true,
        }
    }

    /// Refuses all later messages: the next host has the rest.
    pub(crate) fn seal(&mut self) {
        self.is_open = false;
    }

    pub(crate) fn messages(&self) -> Vec<String> {
        self.messages.clone()
    }

    /// Adds a message. `false`: there is no room.
    fn push(&mut self, text: String) -> bool {
        let cost = |text: &String| text.len() + OVERHEAD;
        let held: usize = self.messages.iter().map(cost).sum();
        let fits = held + cost(&text) <= MOST_BYTES;
        if fits {
            self.messages.push(text);
        }
        fits
    }
}

impl Member {
    pub(crate) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Serialize, JsonSchema)]
struct Messages {
    /// Oldest first.
    messages: Vec<String>,
}

async fn take(_: Arc<()>, _: NoArgs, cx: Cx) -> ToolResult<Json<Messages>> {
    let child = cx.child().ok_or_else(no_child)?;
    let messages = std::mem::take(&mut child.member.inbox().messages);
    if !messages.is_empty() {
        child.member.record();
    }
    Ok(Json(Messages { messages }))
}

async fn show(_: Arc<()>, _: NoArgs, cx: Cx) -> ToolResult<String> {
    let child = cx.child().ok_or_else(no_child)?;
    let messages = child.member.inbox().messages();
    Ok(serde_json::to_string(&Messages { messages })?)
}

fn no_child() -> ToolError {
    ToolError::new("you have no inbox: you are no child of this program")
}
