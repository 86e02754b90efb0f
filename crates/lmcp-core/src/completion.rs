//! Suggestions for the arguments of prompts and the variables of URI templates.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    cx::Cx,
    error::{ToolError, ToolResult},
    handler::{self, Bound, Handler, Unbound},
};

/// The argument that a user is typing, for a function that suggests values.
///
/// ```
/// use lmcp::{Completing, Cx, Prompt};
/// # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Summary { note: String }
/// # async fn summary(args: Summary, _: Cx) -> String { args.note }
///
/// async fn notes(typed: Completing, _: Cx) -> Vec<String> {
///     let all = ["garden", "gate"].into_iter();
///     all.filter(|name| name.starts_with(&typed.value)).map(Into::into).collect()
/// }
///
/// let prompt: Prompt = Prompt::new("summary", summary).complete("note", notes);
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Completing {
    /// The text that is typed so far.
    pub value: String,
    /// The arguments that were filled in before, by name.
    pub filled: BTreeMap<String, String>,
}

/// An async function that suggests values: `async fn(Completing, Cx) -> Vec<String>`, with or without a leading
/// `Arc<S>`, or a `ToolResult` of that. The client sees the first hundred and how many there are.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not suggest values",
    note = "a completer is `async fn(Completing, Cx) -> Vec<String>`, or returns a `ToolResult` of that"
)]
pub trait Completer<S, Shape>: Send + Sync + 'static {
    /// Takes its types off.
    #[doc(hidden)]
    fn erase(self) -> Erased<S>;
}

/// A completer without its types.
#[doc(hidden)]
pub struct Erased<S>(Unbound<S, Completing, Vec<String>>);

impl<S> std::fmt::Debug for Erased<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Erased")
    }
}

impl<S: Send + Sync + 'static, H, R, Shape> Completer<S, (R, Shape)> for H
where
    H: Handler<S, Completing, R, Shape>,
    R: Suggestions + 'static,
{
    fn erase(self) -> Erased<S> {
        Erased(handler::erase(self, Ok, R::into_values))
    }
}

/// A type that a completer can return.
pub trait Suggestions: Send {
    /// Returns the values.
    ///
    /// # Errors
    /// The completer failed.
    fn into_values(self) -> ToolResult<Vec<String>>;
}

impl Suggestions for Vec<String> {
    fn into_values(self) -> ToolResult<Vec<String>> {
        Ok(self)
    }
}

impl<E: Into<ToolError> + Send> Suggestions for Result<Vec<String>, E> {
    fn into_values(self) -> ToolResult<Vec<String>> {
        self.map_err(Into::into)
    }
}

/// The completers of one prompt or template, by argument, before they have their state.
pub(crate) struct Unfinished<S>(Vec<(String, Erased<S>)>);

impl<S> Default for Unfinished<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S: Send + Sync + 'static> Unfinished<S> {
    pub(crate) fn add<Shape>(&mut self, name: String, completer: impl Completer<S, Shape>) {
        self.0.push((name, completer.erase()));
    }

    pub(crate) fn bind(self, state: &Arc<S>) -> Completions {
        Completions(
            self.0
                .into_iter()
                .map(|(name, completer)| (name, handler::bind(completer.0, state)))
                .collect(),
        )
    }
}

/// The completers of one prompt or template, by argument.
pub(crate) struct Completions(Vec<(String, Bound<Completing, Vec<String>>)>);

impl Completions {
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the suggestions. An argument without a completer has none.
    pub(crate) async fn complete(
        &self,
        name: &str,
        completing: Completing,
        cx: Cx,
    ) -> ToolResult<Vec<String>> {
        match self.0.iter().find(|(known, _)| known == name) {
            Some((_, completer)) => completer(completing, cx).await,
            None => Ok(Vec::new()),
        }
    }
}
