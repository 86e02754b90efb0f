//! A tool with its state, and a tool whose name and schemas were checked: the forms in which a server keeps a [`Tool`].

use std::{fmt, sync::Arc, time::Duration};

use lmcp_schema::{HeaderParam, Schema};
use lmcp_wire::{self as wire, jsonrpc, name::Beginning, tool::CallToolResult};
use serde_json::Value;

use super::{Beside, Declaration, Habits, SchemaTexts, TaskUse, Tool, written::Arguments};
use crate::{
    cx::Cx,
    error::{Error, ToolError, ToolResult},
    handler::{self, Bound},
    request::decode,
    roles::Roles,
};

/// A tool with its state.
pub(crate) struct AnyTool {
    declared: Declaration,
    run: Bound<Value, CallToolResult>,
}

impl AnyTool {
    pub(crate) fn new<S: Send + Sync + 'static, E>(tool: Tool<S, E>, state: &Arc<S>) -> Self {
        Self {
            declared: tool.declared,
            run: handler::bind(tool.run, state),
        }
    }

    /// Checks everything that can be wrong with a tool before a client sees it.
    pub(crate) fn check(self) -> Result<CheckedTool, Error> {
        let Declaration {
            spec,
            exact,
            written,
            output_given,
            deadline,
            task,
            roles,
            beside,
            habits,
        } = self.declared;
        let wrong = |rule: String| Error::config(format!("tool `{}`: {rule}", spec.name));
        check_name(&spec.name).map_err(&wrong)?;
        let wrong_input = |err| wrong(format!("its input schema, {err}"));
        let shown = &spec.input_schema;
        // Headers mirror the arguments of the schema that clients are shown.
        let (arguments, mirrored) = match (written, exact) {
            (Some(written), _) => (Arguments::written(written.exact), Box::default()),
            (None, Some(exact)) => {
                let exact = habits.refine(exact).map_err(&wrong)?;
                let schema = Schema::compile(&exact).map_err(wrong_input)?;
                let mirrored = Schema::header_params_of(shown).map_err(wrong_input)?;
                (Arguments::Compiled(schema), mirrored)
            }
            (None, None) => {
                let exact = habits.refine(shown.clone()).map_err(&wrong)?;
                let schema = Schema::compile_input(&exact).map_err(wrong_input)?;
                let mirrored = schema.header_params().into();
                (Arguments::Compiled(schema), mirrored)
            }
        };
        if let Some(output) = spec.output_schema.as_ref().filter(|_| output_given) {
            Schema::compile(output).map_err(|err| wrong(format!("its output schema, {err}")))?;
        }
        Ok(CheckedTool {
            number: 0,
            spec,
            written,
            arguments,
            mirrored,
            run: self.run,
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
        f.debug_tuple("AnyTool")
            .field(&self.declared.spec.name)
            .finish()
    }
}

/// A tool that clients may see.
pub(crate) struct CheckedTool {
    /// A number that no other tool of the catalog ever had, not even one of the same name.
    pub(crate) number: u64,
    pub(crate) spec: wire::Tool,
    /// The schemas as text. Those of `spec` then only show which schemas the tool has.
    written: Option<SchemaTexts>,
    arguments: Arguments,
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
    /// Whether the tool declares that it changes nothing.
    pub(crate) fn is_read_only(&self) -> bool {
        let annotations = self.spec.annotations.as_ref();
        annotations.and_then(|annotations| annotations.read_only_hint) == Some(true)
    }

    /// The listed tool that this unlisted one belongs to. `None`: this tool is listed.
    pub(crate) fn beside(&self) -> Option<&str> {
        self.beside.as_deref()
    }

    /// Writes the tool as JSON for a list. Schemas that are text already replace those of `shown`.
    pub(crate) fn write(&self, shown: &wire::Tool) -> Vec<u8> {
        let mut out = Vec::with_capacity(1024);
        match &self.written {
            Some(written) => jsonrpc::append(&mut out, &written.list(shown)),
            None => jsonrpc::append(&mut out, shown),
        }
        out
    }

    /// The roles that the tool is for.
    pub(crate) fn roles(&self) -> &Roles {
        &self.roles
    }

    /// Reads the arguments of a call from JSON.
    pub(crate) fn read_arguments(&self, json: Option<&[u8]>) -> ToolResult<Value> {
        let name = &self.spec.name;
        decode(json.unwrap_or(b"{}")).map_err(|err| {
            let err = Beginning(err);
            ToolError::new(format!("the arguments of `{name}` cannot be read: {err}"))
        })
    }

    /// Returns the arguments if they fit the schema, else their mended form. If they cannot be mended, the error tells the
    /// model what is wrong.
    pub(crate) fn check_arguments(&self, arguments: Value) -> ToolResult<Value> {
        let schema = self.arguments.schema()?;
        if schema.is_valid(&arguments) {
            return Ok(arguments);
        }
        let meant = schema.mend(arguments, &self.habits.aliases);
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

/// Checks a name: every client accepts such names.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let fits = (1..=128).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    if fits {
        Ok(())
    } else {
        Err("a name has 1 to 128 characters of `A-Z a-z 0-9 _ . -`; `.title(…)` sets a name with spaces".into())
    }
}
