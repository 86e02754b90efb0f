//! Tools: their names, their effects on the world, and the functions behind them.

mod alone;
mod checked;
mod debug;
mod habits;
mod output;
mod written;

use std::{fmt, marker::PhantomData, time::Duration};

use lmcp_wire::{self as wire, Icon, ToolAnnotations, tool::CallToolResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use alone::Alone;
pub(crate) use checked::{AnyTool, CheckedTool, check_name};
#[doc(hidden)]
pub use debug::AsyncFunction;
pub use debug::debug_handler;
pub(crate) use habits::Habits;
pub use output::{IntoToolOutput, Json, JsonText};
pub use written::SchemaTexts;

use crate::{
    handler::{self, Handler, Unbound, decode_arguments},
    roles::Roles,
    schema,
};

/// The arguments of a tool that takes none.
///
/// ```
/// # use lmcp::{Cx, NoArgs};
/// async fn ping(_: NoArgs, _: Cx) -> &'static str {
///     "pong"
/// }
/// ```
///
/// A program that calls such a function itself, in a test for example, makes the value with `NoArgs {}`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[expect(
    clippy::exhaustive_structs,
    reason = "it never has a field: then it would have arguments"
)]
pub struct NoArgs {}

/// A tool: a name, an async function, and a description for the model.
///
/// The first argument of the function is a type of yours. Its fields are the arguments of the tool, and their doc comments are
/// what the model reads about them. lmcp derives the JSON Schema from the type, checks every call against it, and only then runs
/// the function. The second argument is the [`Cx`](crate::Cx), the context of the call. Clients see the tools of a server in alphabetical
/// order, and the arguments of a tool in the order of the fields.
///
/// ```
/// use lmcp::{Cx, Server, Tool};
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
/// let add = Tool::new("add", add).about("Add two numbers.").read_only();
/// let server = Server::new("calculator", "1.0.0").tool(add);
/// ```
///
/// # What it does to the world
///
/// Every tool declares its effect, and a tool without that declaration does not compile. Clients decide by it whether they ask
/// the user before a call.
///
/// | method | the tool |
/// |---|---|
/// | [`read_only`](Tool::read_only) | changes nothing |
/// | [`writes`](Tool::writes) | changes or adds something, and destroys nothing |
/// | [`destructive`](Tool::destructive) | may delete or overwrite something |
///
/// [`idempotent`](Tool::idempotent) and [`open_world`](Tool::open_world) say more, and come after one of these.
///
/// # What it returns
///
/// Text, [`Json`] for a structured result, [`Content`](wire::Content) for pictures and sounds, a `Vec<Content>` for several of them,
/// a whole [`CallToolResult`], `()`, or a [`ToolResult`](crate::ToolResult) of any of these for a tool that can fail.
///
/// ```
/// use lmcp::{Cx, Json, Tool, ToolResult};
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Path {
///     /// The file to look at.
///     path: String,
/// }
///
/// #[derive(Serialize, JsonSchema)]
/// struct Size {
///     bytes: u64,
/// }
///
/// async fn size(args: Path, cx: Cx) -> ToolResult<Json<Size>> {
///     // Code that blocks runs on another thread. The model is told of the error.
///     let file = cx.blocking(|| std::fs::metadata(args.path)).await??;
///     Ok(Json(Size { bytes: file.len() }))
/// }
///
/// let tool: Tool = Tool::new("size", size).about("Tell how long a file is.").read_only();
/// ```
///
/// # With a state
///
/// A function that takes an [`Arc`](std::sync::Arc) before its arguments is a tool with a state. Such tools belong to a
/// [`ToolSet`](crate::ToolSet), which holds the state.
///
/// ```
/// use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
///
/// use lmcp::{Cx, NoArgs, Server, Tool, ToolSet};
///
/// #[derive(Default)]
/// struct Counter(AtomicU32);
///
/// impl Counter {
///     async fn next(self: Arc<Self>, _: NoArgs, _: Cx) -> String {
///         self.0.fetch_add(1, Ordering::Relaxed).to_string()
///     }
/// }
///
/// let next = Tool::new("next", Counter::next).about("Returns the next number.").writes();
/// let server = Server::new("counter", "1.0.0").tools(ToolSet::new(Counter::default()).tool(next));
/// ```
pub struct Tool<S = (), E = Declared> {
    declared: Declaration,
    run: Unbound<S, Value, CallToolResult>,
    effect: PhantomData<E>,
}

/// Everything that the author of a tool declares.
struct Declaration {
    spec: wire::Tool,
    /// The schema that arguments are checked against, if it is not the one that clients are shown.
    exact: Option<Value>,
    /// The schemas as text. Those of `spec` then only show which schemas the tool has.
    written: Option<SchemaTexts>,
    /// Whether the author gave the output schema. A schema that was derived from a type needs no checking.
    output_given: bool,
    deadline: Option<Duration>,
    task: TaskUse,
    roles: Roles,
    beside: Beside,
    habits: Habits,
}

/// The listed tool that an unlisted one belongs to. `None`: the tool is listed.
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
    /// The handler may still call [`Cx::detach`](crate::Cx::detach).
    Never,
    /// At once, for clients that know tasks.
    Always,
    /// At once; other clients are refused.
    Required,
}

impl<S: Send + Sync + 'static> Tool<S, Undeclared> {
    /// Makes a tool from `async fn(Args, Cx) -> R`, or from `async fn(Arc<S>, Args, Cx) -> R` for a [`ToolSet`](crate::ToolSet).
    ///
    /// A name has 1 to 128 letters, digits, `_`, `.` or `-`; [`Server::start`](crate::Server::start) refuses others. The schema of the
    /// arguments is that of `Args`. If `R` is [`Json`], the tool also publishes the schema of its result.
    ///
    /// Where the compiler says that a function is not a handler, [`debug_handler`] tells why.
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs, Tool};
    /// let tool: Tool = Tool::new("ping", async |_: NoArgs, _: Cx| "pong").about("Answer.").read_only();
    /// ```
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
        let run = handler::erase(handler, decode_arguments, R::into_output);
        Self::from_parts(spec, Some(exact), run)
    }

    /// Makes a tool whose schema is not known before the program runs. Its function gets the arguments as JSON.
    ///
    /// ```
    /// # use lmcp::{Cx, Tool};
    /// # use serde_json::{Value, json};
    /// async fn query(args: Value, _: Cx) -> String {
    ///     format!("looking for {}", args["city"])
    /// }
    ///
    /// let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    /// let tool: Tool = Tool::raw("query", schema, query).about("Look up a city.").read_only();
    /// ```
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
        let declared = Declaration {
            spec,
            exact,
            written: None,
            output_given: false,
            deadline: None,
            task: TaskUse::Never,
            roles: Roles::default(),
            beside: None,
            habits: Habits::default(),
        };
        Self {
            declared,
            run,
            effect: PhantomData,
        }
    }

    /// Declares that the tool changes nothing. Many clients then call it without asking the user.
    pub fn read_only(self) -> Tool<S> {
        self.say(true, false, true)
    }

    /// Declares that the tool changes something, and destroys nothing.
    pub fn writes(self) -> Tool<S> {
        self.say(false, false, false)
    }

    /// Declares that the tool may destroy something. Most clients ask the user first.
    pub fn destructive(self) -> Tool<S> {
        self.say(false, true, false)
    }

    fn say(mut self, read_only: bool, destructive: bool, idempotent: bool) -> Tool<S> {
        // All four hints are always sent, because clients assume different values for an absent one.
        let mut hints = ToolAnnotations::default();
        hints.read_only_hint = Some(read_only);
        hints.destructive_hint = Some(destructive);
        hints.idempotent_hint = Some(idempotent);
        hints.open_world_hint = Some(false);
        self.declared.spec.annotations = Some(hints);
        Tool {
            declared: self.declared,
            run: self.run,
            effect: PhantomData,
        }
    }
}

impl<S: Send + Sync + 'static> Tool<S, Declared> {
    /// Declares that a second call with the same arguments changes nothing more.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.declared
            .spec
            .annotations
            .get_or_insert_default()
            .idempotent_hint = Some(true);
        self
    }

    /// Declares that the tool reaches beyond this machine, such as into the network.
    #[must_use]
    pub fn open_world(mut self) -> Self {
        self.declared
            .spec
            .annotations
            .get_or_insert_default()
            .open_world_hint = Some(true);
        self
    }
}

impl<S: Send + Sync + 'static, E> Tool<S, E> {
    /// Describes the tool to the model: what a call returns, and when not to call. Fewer than 40 words are best.
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs, Tool};
    /// # async fn now(_: NoArgs, _: Cx) -> &'static str { "" }
    /// let tool: Tool = Tool::new("now", now).about("The time in UTC, as 2026-07-28T12:00:00Z. No other time zones.").read_only();
    /// ```
    #[must_use]
    pub fn about(mut self, description: impl Into<String>) -> Self {
        self.declared.spec.description = Some(description.into());
        self
    }

    /// The tool as `tools/list` shows it, for programs that offer it elsewhere, too.
    pub fn definition(&self) -> wire::Tool {
        let mut spec = self.declared.spec.clone();
        if let Some(written) = &self.declared.written {
            written.fill(&mut spec);
        }
        spec
    }

    /// Sets a name for people, which clients show in the place of the tool's name.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.declared.spec.title = Some(title.into());
        self
    }

    /// Adds a picture, which clients show beside the name.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Self {
        self.declared.spec.icons.push(icon);
        self
    }

    /// Adds a member to the `_meta` of the tool, for clients that know it.
    #[must_use]
    pub fn meta(mut self, key: impl Into<String>, value: Value) -> Self {
        self.declared
            .spec
            .meta
            .get_or_insert_default()
            .insert(key.into(), value);
        self
    }

    /// Sets the schema of `structuredContent`, for tools made with [`Tool::raw`]. [`Json`] brings its own.
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.declared.spec.output_schema = Some(schema);
        self.declared.output_given = true;
        self
    }

    /// Has clients over HTTP repeat an argument in the header `Mcp-Param-{header}`, for proxies that route by it. The argument is a
    /// string, an integer or a boolean at the top level. Never mirror a secret: proxies log headers.
    #[must_use]
    pub fn mirror(mut self, argument: &str, header: &str) -> Self {
        let exact = self.declared.exact.as_mut();
        let shown =
            (self.declared.written.is_none()).then_some(&mut self.declared.spec.input_schema);
        for schema in [shown, exact].into_iter().flatten() {
            // If the argument does not exist, the registration fails by the rule below.
            schema["properties"][argument]["x-mcp-header"] = header.into();
        }
        self
    }

    /// Shows the tool to callers with one of these roles only. For all others the tool does not exist.
    ///
    /// A role comes from the credentials of the caller ([`Principal`](crate::Principal)) or from its
    /// [`Identity`](crate::Identity); see [`Caller::role`](crate::Caller::role).
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs, Tool};
    /// # async fn erase(_: NoArgs, _: Cx) {}
    /// let tool: Tool = Tool::new("erase", erase).about("Erase everything.").destructive().only_for(["admin"]);
    /// ```
    #[must_use]
    pub fn only_for<R: Into<String>>(mut self, roles: impl IntoIterator<Item = R>) -> Self {
        self.declared.roles = Roles::only(roles);
        self
    }

    /// Leaves the tool out of lists. Callers who can call the tool named here can call this one, too; for others it does not exist.
    /// Such a tool is for programs that know of it.
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs, Server, Tool};
    /// # async fn read(_args: NoArgs, _cx: Cx) -> &'static str { "" }
    /// let read = Tool::new("read", read).read_only();
    /// let parts = Tool::new("read_part", read_part).read_only().beside("read");
    /// # async fn read_part(_args: NoArgs, _cx: Cx) -> &'static str { "" }
    /// let server = Server::new("files", "1.0.0").tool(read).tool(parts);
    /// ```
    #[must_use]
    pub fn beside(mut self, tool: &str) -> Self {
        self.declared.beside = Some(tool.into());
        self
    }

    /// Sets how long one call may take, in the place of [`Limits::deadline`](crate::Limits::deadline). A call that takes longer is cancelled, and
    /// the client gets the JSON-RPC error -32603 in the place of a result.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.declared.deadline = Some(deadline);
        self
    }

    /// Makes every call a task, for clients that know tasks: the client gets an id at once, and comes back for the result. Other
    /// clients wait for the result. [`Cx::detach`](crate::Cx::detach) decides in the middle of a call.
    #[must_use]
    pub fn as_task(mut self) -> Self {
        self.declared.task = TaskUse::Always;
        self
    }

    /// Makes every call a task, as [`as_task`](Self::as_task) does, and refuses clients that do not know tasks.
    #[must_use]
    pub fn only_as_task(mut self) -> Self {
        self.declared.task = TaskUse::Required;
        self
    }
}

impl<S, E> fmt::Debug for Tool<S, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("name", &self.declared.spec.name)
            .finish_non_exhaustive()
    }
}
