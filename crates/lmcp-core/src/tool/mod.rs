//! Tools: what they are called, what they do to the world, and the function behind them.

mod debug;
mod habits;
mod output;

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use lmcp_schema::{HeaderParam, Schema};
use lmcp_wire::{self as wire, Icon, ToolAnnotations, name::Beginning, tool::CallToolResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use debug::debug_handler;
pub(crate) use habits::Habits;
pub use output::{IntoToolOutput, Json, JsonText};

use crate::{
    cx::Cx,
    error::{Error, ToolError, ToolResult},
    handler::{self, Bound, Handler, Unbound},
    request::decode,
    roles::Roles,
    schema,
};

/// For tools that take nothing.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct NoArgs {}

/// A tool: a name, a function, and words about it.
///
/// A tool says what it does to the world, by [`read_only`](Tool::read_only), [`writes`](Tool::writes) or
/// [`destructive`](Tool::destructive): clients decide by that whether to ask the user, so one that does not say
/// cannot be registered.
///
/// ```
/// use lmcp_core::{Cx, Server, Tool};
/// use schemars::JsonSchema;
/// use serde::Deserialize;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Add {
///     a: i64,
///     b: i64,
/// }
///
/// async fn add(args: Add, _cx: Cx) -> String {
///     (args.a + args.b).to_string()
/// }
///
/// let server = Server::new("calculator", "1.0.0").tool(Tool::new("add", add).about("Add two numbers.").read_only());
/// ```
pub struct Tool<S = (), E = Declared> {
    spec: wire::Tool,
    /// What arguments are checked against, where that is not what is shown.
    exact: Option<Value>,
    /// Somebody wrote the output schema: one that a type made needs no checking.
    output_written: bool,
    run: Unbound<S, Value, CallToolResult>,
    deadline: Option<Duration>,
    task: TaskUse,
    roles: Roles,
    beside: Beside,
    habits: Habits,
    effect: PhantomData<E>,
}

/// The tool without which an unlisted one is not there. `None`: it is listed.
type Beside = Option<Box<str>>;

/// Marks a tool that says what it does to the world.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a marker")]
pub struct Declared;

/// Marks a tool that does not say yet.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a marker")]
pub struct Undeclared;

/// Implemented for tools that say what they do to the world.
#[diagnostic::on_unimplemented(
    message = "this tool does not say what it does to the world",
    label = "reads, writes or destroys?",
    note = "add `.read_only()`, `.writes()` or `.destructive()` to the tool"
)]
pub trait Effect {}
impl Effect for Declared {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskUse {
    /// The handler may still call [`Cx::detach`].
    Never,
    /// At once, for clients that know tasks.
    Always,
    /// At once; other clients are refused.
    Required,
}

impl<S: Send + Sync + 'static> Tool<S, Undeclared> {
    /// A tool from `async fn(Args, Cx) -> R` or `async fn(Arc<S>, Args, Cx) -> R`.
    ///
    /// The schema of its arguments is that of `Args`, whose field docs are what the model reads; if `R` is [`Json`],
    /// the schema of its result is that of the value.
    pub fn new<H, A, R, Shape>(name: impl Into<String>, handler: H) -> Self
    where
        H: Handler<S, A, R, Shape>,
        A: serde::de::DeserializeOwned + JsonSchema + Send + 'static,
        R: IntoToolOutput + 'static,
        Shape: 'static,
    {
        let (shown, exact) = schema::input::<A>();
        let mut spec = wire::Tool::new(name, shown);
        spec.output_schema = R::output_schema();
        // What the schema lets through and the type does not, the type has a rule of its own for.
        let decode = |mut arguments| {
            make_whole(&mut arguments);
            serde_json::from_value(arguments)
                .map_err(|err| ToolError::new(format!("the arguments do not fit: {err}")))
        };
        Self::from_parts(
            spec,
            Some(exact),
            handler::erase(handler, decode, R::into_output),
        )
    }

    /// A tool from a schema made at run time and a function from JSON to a result.
    pub fn raw<H, R, Shape>(name: impl Into<String>, input_schema: Value, handler: H) -> Self
    where
        H: Handler<S, Value, R, Shape>,
        R: IntoToolOutput + 'static,
    {
        let spec = wire::Tool::new(name, input_schema);
        Self::from_parts(spec, None, handler::erase(handler, Ok, R::into_output))
    }

    fn from_parts(
        spec: wire::Tool,
        exact: Option<Value>,
        run: Unbound<S, Value, CallToolResult>,
    ) -> Self {
        Self {
            spec,
            exact,
            output_written: false,
            run,
            deadline: None,
            task: TaskUse::Never,
            roles: Roles::default(),
            beside: None,
            habits: Habits::default(),
            effect: PhantomData,
        }
    }

    /// It changes nothing.
    pub fn read_only(self) -> Tool<S> {
        self.say(true, false, true)
    }

    /// It changes something, without destroying anything.
    pub fn writes(self) -> Tool<S> {
        self.say(false, false, false)
    }

    /// It may destroy something.
    pub fn destructive(self) -> Tool<S> {
        self.say(false, true, false)
    }

    fn say(mut self, read_only: bool, destructive: bool, idempotent: bool) -> Tool<S> {
        // All four are always sent: clients read an absent one each in its own way.
        let mut hints = ToolAnnotations::default();
        hints.read_only_hint = Some(read_only);
        hints.destructive_hint = Some(destructive);
        hints.idempotent_hint = Some(idempotent);
        hints.open_world_hint = Some(false);
        self.spec.annotations = Some(hints);
        let Self {
            spec,
            exact,
            output_written,
            run,
            deadline,
            task,
            roles,
            beside,
            habits,
            effect: _,
        } = self;
        Tool {
            spec,
            exact,
            output_written,
            run,
            deadline,
            task,
            roles,
            beside,
            habits,
            effect: PhantomData,
        }
    }
}

impl<S: Send + Sync + 'static> Tool<S, Declared> {
    /// Calling it twice with the same arguments is as good as once.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.spec
            .annotations
            .get_or_insert_default()
            .idempotent_hint = Some(true);
        self
    }

    /// It reaches beyond this program and its host: the network, say.
    #[must_use]
    pub fn open_world(mut self) -> Self {
        self.spec
            .annotations
            .get_or_insert_default()
            .open_world_hint = Some(true);
        self
    }
}

impl<S: Send + Sync + 'static, E> Tool<S, E> {
    /// Tells the model what it gets back and when not to call it. Under 40 words.
    #[must_use]
    pub fn about(mut self, description: impl Into<String>) -> Self {
        self.spec.description = Some(description.into());
        self
    }

    /// The tool as `tools/list` shows it: for those who offer it elsewhere, too.
    pub fn definition(&self) -> &wire::Tool {
        &self.spec
    }

    /// A name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.spec.title = Some(title.into());
        self
    }

    /// A picture.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Self {
        self.spec.icons.push(icon);
        self
    }

    /// A member of the tool's `_meta`.
    #[must_use]
    pub fn meta(mut self, key: impl Into<String>, value: Value) -> Self {
        self.spec
            .meta
            .get_or_insert_default()
            .insert(key.into(), value);
        self
    }

    /// The schema of `structuredContent`, for tools made with [`Tool::raw`].
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.spec.output_schema = Some(schema);
        self.output_written = true;
        self
    }

    /// Clients repeat this argument in the header `Mcp-Param-{header}`, for whoever routes by it. A string, integer or
    /// boolean at the top level; never a secret.
    #[must_use]
    pub fn mirror(mut self, argument: &str, header: &str) -> Self {
        let schemas = [Some(&mut self.spec.input_schema), self.exact.as_mut()];
        for schema in schemas.into_iter().flatten() {
            // An argument that is not there fails at registration, by the rule below.
            schema["properties"][argument]["x-mcp-header"] = header.into();
        }
        self
    }

    /// Only callers with one of these roles, by their credentials ([`Principal`](crate::Principal)) or their
    /// [`Identity`](crate::Identity), see it and can call it; to others, and to all who have no role, it is not
    /// there. See [`Caller::role`](crate::Caller::role).
    #[must_use]
    pub fn only_for<R: Into<String>>(mut self, roles: impl IntoIterator<Item = R>) -> Self {
        self.roles = Roles::only(roles);
        self
    }

    /// It is not listed, and whoever can call the tool of this name can call it: for programs that know of it. Where that tool
    /// is not, it is not either.
    ///
    /// ```
    /// # use lmcp_core::{Cx, NoArgs, Server, Tool};
    /// # async fn read(_args: NoArgs, _cx: Cx) -> &'static str { "" }
    /// let read = Tool::new("read", read).read_only();
    /// let parts = Tool::new("read_part", read_part).read_only().beside("read");
    /// # async fn read_part(_args: NoArgs, _cx: Cx) -> &'static str { "" }
    /// let server = Server::new("files", "1.0.0").tool(read).tool(parts);
    /// ```
    #[must_use]
    pub fn beside(mut self, tool: &str) -> Self {
        self.beside = Some(tool.into());
        self
    }

    /// How long it may take, instead of the server's limit.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Runs as a task for clients that know tasks; others wait. See [`Cx::detach`] to decide later.
    #[must_use]
    pub fn as_task(mut self) -> Self {
        self.task = TaskUse::Always;
        self
    }

    /// Runs as a task only; clients that do not know tasks are refused.
    #[must_use]
    pub fn only_as_task(mut self) -> Self {
        self.task = TaskUse::Required;
        self
    }
}

impl<S, E> fmt::Debug for Tool<S, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("name", &self.spec.name)
            .finish_non_exhaustive()
    }
}

/// A tool with its state.
pub(crate) struct AnyTool {
    pub(crate) spec: wire::Tool,
    exact: Option<Value>,
    output_written: bool,
    run: Bound<Value, CallToolResult>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) task: TaskUse,
    roles: Roles,
    beside: Beside,
    habits: Habits,
}

impl AnyTool {
    pub(crate) fn new<S: Send + Sync + 'static, E>(tool: Tool<S, E>, state: &Arc<S>) -> Self {
        let run = handler::bind(tool.run, state);
        Self {
            spec: tool.spec,
            exact: tool.exact,
            output_written: tool.output_written,
            run,
            deadline: tool.deadline,
            task: tool.task,
            roles: tool.roles,
            beside: tool.beside,
            habits: tool.habits,
        }
    }

    /// Checks everything that can be wrong with a tool before a client sees it.
    pub(crate) fn check(self) -> Result<CheckedTool, Error> {
        let Self {
            spec,
            exact,
            output_written,
            run,
            deadline,
            task,
            roles,
            beside,
            habits,
        } = self;
        let wrong = |rule: String| Error::config(format!("tool `{}`: {rule}", spec.name));
        check_name(&spec.name).map_err(&wrong)?;
        let wrong_input = |err| wrong(format!("its input schema, {err}"));
        let shown = &spec.input_schema;
        // What is mirrored is what clients were shown.
        let (arguments, mirrored) = match exact {
            Some(mut exact) => {
                habits.check(&mut exact).map_err(&wrong)?;
                (
                    Schema::compile(exact).map_err(wrong_input)?,
                    Schema::header_params_of(shown).map_err(wrong_input)?,
                )
            }
            None => {
                let mut exact = shown.clone();
                habits.check(&mut exact).map_err(&wrong)?;
                let schema = Schema::compile_input(exact).map_err(wrong_input)?;
                let mirrored = schema.header_params().into();
                (schema, mirrored)
            }
        };
        if let Some(output) = spec.output_schema.as_ref().filter(|_| output_written) {
            Schema::compile(output.clone())
                .map_err(|err| wrong(format!("its output schema, {err}")))?;
        }
        Ok(CheckedTool {
            number: 0,
            spec,
            arguments,
            mirrored,
            run,
            deadline,
            task,
            roles,
            beside,
            habits,
        })
    }
}

impl fmt::Debug for AnyTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnyTool").field(&self.spec.name).finish()
    }
}

/// A tool that clients may see.
pub(crate) struct CheckedTool {
    /// Tells it from all others that its catalog ever had, those of its name among them.
    pub(crate) number: u64,
    pub(crate) spec: wire::Tool,
    pub(crate) arguments: Schema,
    /// The arguments that HTTP clients repeat in headers.
    pub(crate) mirrored: Box<[HeaderParam]>,
    run: Bound<Value, CallToolResult>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) task: TaskUse,
    roles: Roles,
    beside: Beside,
    pub(crate) habits: Habits,
}

impl CheckedTool {
    /// Does it say that it changes nothing?
    pub(crate) fn is_read_only(&self) -> bool {
        let annotations = self.spec.annotations.as_ref();
        annotations.and_then(|annotations| annotations.read_only_hint) == Some(true)
    }

    /// The tool without which it is not there, if it is not listed.
    pub(crate) fn beside(&self) -> Option<&str> {
        self.beside.as_deref()
    }

    /// Whom it is for.
    pub(crate) fn roles(&self) -> &Roles {
        &self.roles
    }

    /// The arguments of a call as JSON.
    pub(crate) fn read_arguments(&self, json: Option<&[u8]>) -> ToolResult<Value> {
        let name = &self.spec.name;
        decode(json.unwrap_or(b"{}")).map_err(|err| {
            let err = Beginning(err);
            ToolError::new(format!("the arguments of `{name}` cannot be read: {err}"))
        })
    }

    /// The arguments as they are, or as they were meant. What fits neither way is told to the model, which can mend it.
    pub(crate) fn check_arguments(&self, arguments: Value) -> ToolResult<Value> {
        if self.arguments.is_valid(&arguments) {
            return Ok(arguments);
        }
        let meant = self.arguments.mend(arguments, &self.habits.aliases);
        meant.map_err(|mismatches| {
            let name = &self.spec.name;
            ToolError::new(format!(
                "the arguments of `{name}` do not fit: {mismatches}"
            ))
        })
    }

    pub(crate) async fn run(&self, arguments: Value, cx: Cx) -> ToolResult<CallToolResult> {
        (self.run)(arguments, cx).await
    }
}

/// `42.0` is an integer to JSON Schema, and must be one to a field of type `i64` too.
fn make_whole(value: &mut Value) {
    /// Up to here every whole double is exact.
    const SAFE: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number
                .as_f64()
                .filter(|number| number.fract() == 0.0 && number.abs() < SAFE);
            if let Some(whole) = whole {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "checked in the lines above"
                )]
                let whole = whole as i64;
                *number = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_whole),
        Value::Object(members) => members.values_mut().for_each(make_whole),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Names that every client takes.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let fits = (1..=128).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    if fits {
        Ok(())
    } else {
        Err("a name has 1 to 128 characters of `A-Z a-z 0-9 _ . -`".into())
    }
}
