//! Prompts: texts for the model that people choose and fill in.

use std::{collections::BTreeMap, fmt, sync::Arc};

use lmcp_wire::{
    self as wire, Content, Icon, PromptArgument, PromptMessage, order::ORDER,
    prompt::GetPromptResult,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    completion::{Completer, Completions, Unfinished},
    cx::Cx,
    error::{Error, ToolError, ToolResult},
    fit::{self, Flaw},
    handler::{self, Bound, Handler, Unbound},
    roles::Roles,
    schema, strings,
    tool::check_name,
};

/// A prompt: a text for the model that the user picks by its name, and the function that writes it.
///
/// ```
/// use lmcp::{Cx, Prompt, Server};
/// use schemars::JsonSchema;
/// use serde::Deserialize;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Review {
///     /// The code.
///     code: String,
///     /// What to look at most.
///     focus: Option<String>,
/// }
///
/// async fn review(args: Review, _cx: Cx) -> String {
///     format!("Review this code, above all its {}:\n{}", args.focus.as_deref().unwrap_or("clarity"), args.code)
/// }
///
/// let server = Server::new("reviewer", "1.0.0").prompt(Prompt::new("review", review).about("Review some code."));
/// ```
pub struct Prompt<S = ()> {
    spec: wire::Prompt,
    /// The reason why the prompt could never be rendered.
    flaw: Option<Flaw>,
    render: Unbound<S, Arguments, GetPromptResult>,
    completions: Unfinished<S>,
    roles: Roles,
}

type Arguments = BTreeMap<String, String>;

impl<S: Send + Sync + 'static> Prompt<S> {
    /// Makes a prompt from `async fn(Args, Cx) -> R`, or from `async fn(Arc<S>, Args, Cx) -> R` for a [`ToolSet`](crate::ToolSet). Clients send
    /// every argument as a string; lmcp parses it where a field is a number or a boolean.
    ///
    /// A name has 1 to 128 letters, digits, `_`, `.` or `-`; [`Server::start`](crate::Server::start) refuses others. [`title`](Self::title) sets a name
    /// with spaces.
    pub fn new<H, A, R, Shape>(name: impl Into<String>, handler: H) -> Self
    where
        H: Handler<S, A, R, Shape>,
        A: DeserializeOwned + JsonSchema + Send + 'static,
        R: IntoPrompt + 'static,
    {
        let mut spec = wire::Prompt::new(name);
        spec.arguments = arguments(&schema::input::<A>().0);
        let names = spec.arguments.iter().map(|argument| &*argument.name);
        let flaw = fit::flaw::<A>(names);
        let decode = |arguments: Arguments| {
            strings::read(&arguments).map_err(|err| {
                ToolError::rpc(wire::RpcError::invalid_params(format!(
                    "the arguments do not fit: {err}"
                )))
            })
        };
        let render = handler::erase(handler, decode, R::into_prompt);
        Self {
            spec,
            flaw,
            render,
            completions: Unfinished::default(),
            roles: Roles::default(),
        }
    }

    /// Shows the prompt to callers with one of these roles only. For all others the prompt does not exist, and its arguments are not
    /// completed. See [`Tool::only_for`](crate::Tool::only_for).
    #[must_use]
    pub fn only_for<R: Into<String>>(mut self, roles: impl IntoIterator<Item = R>) -> Self {
        self.roles = Roles::only(roles);
        self
    }

    /// Describes the prompt to the user.
    #[must_use]
    pub fn about(mut self, description: impl Into<String>) -> Self {
        self.spec.description = Some(description.into());
        self
    }

    /// Sets a name for people, which clients show in the place of the prompt's name.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.spec.title = Some(title.into());
        self
    }

    /// Adds a picture, which clients show beside the name.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Self {
        self.spec.icons.push(icon);
        self
    }

    /// Adds a member to the `_meta` of the prompt.
    #[must_use]
    pub fn meta(mut self, key: impl Into<String>, value: Value) -> Self {
        self.spec
            .meta
            .get_or_insert_default()
            .insert(key.into(), value);
        self
    }

    /// Adds a function that suggests values for an argument while the user types. See [`Completing`](crate::Completing).
    #[must_use]
    pub fn complete<C: Completer<S, Shape>, Shape>(
        mut self,
        argument: impl Into<String>,
        completer: C,
    ) -> Self {
        self.completions.add(argument.into(), completer);
        self
    }
}

impl<S> fmt::Debug for Prompt<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt")
            .field("name", &self.spec.name)
            .finish_non_exhaustive()
    }
}

/// Returns the fields of the argument type in the form that a prompt lists them.
fn arguments(schema: &Value) -> Vec<PromptArgument> {
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let argument = |(name, schema): (&String, &Value)| {
        let mut argument = PromptArgument::new(name);
        argument.description = schema["description"].as_str().map(Into::into);
        argument.required = Some(required.contains(&name.as_str()));
        argument
    };
    let mut arguments: Vec<_> = properties.map(argument).collect();
    if let Some(order) = schema[ORDER].as_array() {
        let place = |name: &str| order.iter().position(|listed| listed == name);
        arguments.sort_by_key(|argument| place(&argument.name).unwrap_or(order.len()));
    }
    arguments
}

/// A type that the function of a prompt can return: text, messages, a whole result, or a `Result` of these.
#[diagnostic::on_unimplemented(
    message = "a prompt cannot be `{Self}`",
    note = "return `String`, `Vec<PromptMessage>`, `GetPromptResult`, or a `ToolResult` of one of these"
)]
pub trait IntoPrompt: Send {
    /// Makes the result of `prompts/get`.
    ///
    /// # Errors
    /// The prompt could not be written.
    fn into_prompt(self) -> ToolResult<GetPromptResult>;
}

impl IntoPrompt for String {
    fn into_prompt(self) -> ToolResult<GetPromptResult> {
        vec![PromptMessage::user(Content::text(self))].into_prompt()
    }
}

impl IntoPrompt for &'static str {
    fn into_prompt(self) -> ToolResult<GetPromptResult> {
        self.to_owned().into_prompt()
    }
}

impl IntoPrompt for Vec<PromptMessage> {
    fn into_prompt(self) -> ToolResult<GetPromptResult> {
        Ok(GetPromptResult::new(self))
    }
}

impl IntoPrompt for GetPromptResult {
    fn into_prompt(self) -> ToolResult<GetPromptResult> {
        Ok(self)
    }
}

impl<T: IntoPrompt, E: Into<ToolError> + Send> IntoPrompt for Result<T, E> {
    fn into_prompt(self) -> ToolResult<GetPromptResult> {
        self.map_err(Into::into)?.into_prompt()
    }
}

/// A prompt with its state, as the catalog holds it.
pub(crate) struct AnyPrompt {
    pub(crate) spec: wire::Prompt,
    flaw: Option<Flaw>,
    render: Bound<Arguments, GetPromptResult>,
    pub(crate) completions: Completions,
    pub(crate) roles: Roles,
    /// Tells this prompt from an earlier one of the same name.
    pub(crate) number: u64,
}

impl AnyPrompt {
    pub(crate) fn new<S: Send + Sync + 'static>(prompt: Prompt<S>, state: &Arc<S>) -> Self {
        let completions = prompt.completions.bind(state);
        Self {
            spec: prompt.spec,
            flaw: prompt.flaw,
            render: handler::bind(prompt.render, state),
            completions,
            roles: prompt.roles,
            number: 0,
        }
    }

    /// Checks everything that can be wrong with a prompt before a client sees it.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let name = &self.spec.name;
        check_name(name).map_err(|rule| Error::config(format!("prompt `{name}`: {rule}")))?;
        if let Some(Flaw::Structured(argument)) = &self.flaw {
            return Err(Error::config(format!(
                "prompt `{name}`: its argument `{argument}` is a list or a structure, and clients send text; \
                 make it a `String`, a number, a `bool` or an enum without fields"
            )));
        }
        let mut completed = self.completions.names();
        match completed.find(|name| {
            !self
                .spec
                .arguments
                .iter()
                .any(|argument| argument.name == *name)
        }) {
            Some(argument) => Err(Error::config(format!(
                "prompt `{name}`: it has no argument `{argument}` to complete"
            ))),
            None => Ok(()),
        }
    }

    pub(crate) async fn render(&self, arguments: Arguments, cx: Cx) -> ToolResult<GetPromptResult> {
        (self.render)(arguments, cx).await
    }
}

impl fmt::Debug for AnyPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnyPrompt").field(&self.spec.name).finish()
    }
}
