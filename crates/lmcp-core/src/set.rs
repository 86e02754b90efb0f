//! Tools, resources and prompts that share a value.

use std::sync::Arc;

use crate::{
    prompt::{AnyPrompt, Prompt},
    resource::{AnyResource, Resource},
    tool::{AnyTool, Effect, Tool},
};

/// Tools, resources and prompts that share a value. Each is an `async fn(Arc<S>, Args, Cx)`, most often a method with
/// `self: Arc<Self>`.
///
/// ```
/// # use std::sync::Arc;
/// # use lmcp::{Cx, NoArgs, Server, Tool, ToolSet};
/// struct Counter(std::sync::atomic::AtomicU64);
///
/// impl Counter {
///     async fn next(self: Arc<Self>, _args: NoArgs, _cx: Cx) -> String {
///         self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_string()
///     }
/// }
///
/// let tools = ToolSet::new(Counter(0.into())).tool(Tool::new("next", Counter::next).about("Count.").writes());
/// let server = Server::new("counter", "1.0.0").tools(tools);
/// ```
///
/// The value can be an [`Arc`] that the program keeps, too: `ToolSet::new(Arc::clone(&counter))`. A server takes several sets,
/// and [`ToolSet::tools`] makes one of two.
#[derive(Debug)]
pub struct ToolSet<S> {
    state: Arc<S>,
    pub(crate) parts: Parts,
}

/// The parts of a set, or of a server.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) tools: Vec<AnyTool>,
    pub(crate) resources: Vec<AnyResource>,
    pub(crate) prompts: Vec<AnyPrompt>,
}

impl<S: Send + Sync + 'static> ToolSet<S> {
    /// Makes an empty set around the value that its members share.
    pub fn new(state: impl Into<Arc<S>>) -> Self {
        Self {
            state: state.into(),
            parts: Parts::default(),
        }
    }

    /// Adds a tool, from `async fn(Arc<S>, Args, Cx) -> R`.
    #[must_use]
    pub fn tool<E: Effect>(mut self, tool: Tool<S, E>) -> Self {
        self.parts.tools.push(AnyTool::new(tool, &self.state));
        self
    }

    /// Adds the members of another set, which keep their own value.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lmcp::{Cx, NoArgs, Server, Tool, ToolSet};
    /// # struct Desk;
    /// # struct Board;
    /// # async fn ring(_: Arc<Desk>, _: NoArgs, _: Cx) {}
    /// # async fn read(_: Arc<Board>, _: NoArgs, _: Cx) {}
    /// let board = ToolSet::new(Board).tool(Tool::new("read", read).about("Reads.").read_only());
    /// let desk = ToolSet::new(Desk).tool(Tool::new("ring", ring).about("Rings.").writes()).tools(board);
    /// let server = Server::new("desk", "1.0.0").tools(desk);
    /// ```
    #[must_use]
    pub fn tools<T>(mut self, other: ToolSet<T>) -> Self {
        self.parts.append(other.parts);
        self
    }

    /// Adds a resource, from `async fn(Arc<S>, Args, Cx) -> R`.
    #[must_use]
    pub fn resource(mut self, resource: Resource<S>) -> Self {
        self.parts
            .resources
            .push(AnyResource::new(resource, &self.state));
        self
    }

    /// Adds a prompt, from `async fn(Arc<S>, Args, Cx) -> R`.
    #[must_use]
    pub fn prompt(mut self, prompt: Prompt<S>) -> Self {
        self.parts.prompts.push(AnyPrompt::new(prompt, &self.state));
        self
    }
}

impl Parts {
    pub(crate) fn append(&mut self, mut other: Self) {
        self.tools.append(&mut other.tools);
        self.resources.append(&mut other.resources);
        self.prompts.append(&mut other.prompts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cx, NoArgs};

    struct Desk;

    async fn ring(_: Arc<Desk>, _: NoArgs, _: Cx) {}

    async fn tell(_: Arc<()>, _: NoArgs, _: Cx) -> String {
        String::new()
    }

    #[test]
    fn a_set_takes_the_members_of_another_one() {
        let desk = ToolSet::new(Desk).tool(Tool::new("ring", ring).about("Rings.").writes());
        let other = ToolSet::new(()).tool(Tool::new("tell", tell).about("Tells.").writes());
        let other = other.resource(Resource::new("note://a", "a", tell).about("A note."));
        let all = desk.tools(other);
        assert_eq!(all.parts.tools.len(), 2);
        assert_eq!(all.parts.resources.len(), 1);
    }
}
