//! Schemas that are part of the program as text: none is derived at the start, and each is compiled at the first call of its
//! tool.

use std::sync::OnceLock;

use lmcp_schema::Schema;
use lmcp_wire as wire;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};

use super::{IntoToolOutput, Tool, Undeclared};
use crate::{
    error::{Error, ToolError, ToolResult},
    handler::{self, Handler, decode_arguments},
};

/// The schemas of a tool as JSON text: the result of [`Tool::schema_texts`], and the input of [`Tool::written`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made by writing it down")]
pub struct SchemaTexts<T = &'static str> {
    /// The schema of the arguments that clients are shown.
    pub shown: T,
    /// The schema that arguments are checked against.
    pub exact: T,
    /// The schema of the structured result.
    pub output: Option<T>,
}

impl<S: Send + Sync + 'static> Tool<S, Undeclared> {
    /// Makes a tool as [`Tool::new`] does, with schemas that are part of the program as text. A server with many tools starts
    /// faster so, and holds less memory: deriving a schema from a type takes a fraction of a millisecond for each tool.
    ///
    /// The texts come from [`schema_texts`](Tool::schema_texts) of the same tool made with `Tool::new`. A test should compare them,
    /// because nothing else notices when the type has changed. Methods that change the schemas of a tool, such as
    /// [`unlisted`](Tool::unlisted), have no effect on this one: the texts contain what they did.
    ///
    /// ```
    /// # use lmcp::{Cx, Tool, tool::SchemaTexts};
    /// # use schemars::JsonSchema;
    /// # use serde::Deserialize;
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Hello {
    ///     name: String,
    /// }
    ///
    /// async fn hello(args: Hello, _cx: Cx) -> String {
    ///     format!("Hello, {}!", args.name)
    /// }
    ///
    /// const HELLO: SchemaTexts = SchemaTexts {
    ///     shown: r#"{"properties":{"name":{"type":"string"}},"required":["name"],"type":"object"}"#,
    ///     exact: r#"{"properties":{"name":{"type":"string"}},"required":["name"],"type":"object"}"#,
    ///     output: None,
    /// };
    ///
    /// let derived: Tool = Tool::new("hello", hello).about("Greet somebody.").read_only();
    /// let written: Tool = Tool::written("hello", HELLO, hello).about("Greet somebody.").read_only();
    /// assert_eq!(derived.schema_texts()?.shown, HELLO.shown);
    /// assert_eq!(written.definition().input_schema, derived.definition().input_schema);
    /// # Ok::<(), lmcp::Error>(())
    /// ```
    pub fn written<H, A, R, Shape>(
        name: impl Into<String>,
        schemas: SchemaTexts,
        handler: H,
    ) -> Self
    where
        H: Handler<S, A, R, Shape>,
        A: DeserializeOwned + Send + 'static,
        R: IntoToolOutput + 'static,
        Shape: 'static,
    {
        // Placeholders for the texts, because a revision decides by them which members a list has.
        let mut spec = wire::Tool::new(name, json!({ "type": "object" }));
        spec.output_schema = schemas.output.map(|_| json!({ "type": "object" }));
        let run = handler::erase(handler, decode_arguments, R::into_output);
        let mut tool = Self::from_parts(spec, None, run);
        tool.declared.written = Some(schemas);
        tool
    }
}

impl<S: Send + Sync + 'static, E> Tool<S, E> {
    /// The schemas of the tool as text, for [`Tool::written`].
    ///
    /// # Errors
    /// The server would refuse the tool, or older clients would have to be shown another schema: one that mirrors an argument in
    /// a header, or with a property whose schema is `true` or `false`.
    pub fn schema_texts(&self) -> Result<SchemaTexts<String>, Error> {
        let declared = &self.declared;
        if let Some(written) = declared.written {
            return Ok(SchemaTexts {
                shown: written.shown.to_owned(),
                exact: written.exact.to_owned(),
                output: written.output.map(str::to_owned),
            });
        }
        let spec = &declared.spec;
        let wrong = |rule: String| Error::config(format!("tool `{}`: {rule}", spec.name));
        let exact = declared.exact.as_ref().unwrap_or(&spec.input_schema);
        let exact = declared.habits.refine(exact.clone()).map_err(wrong)?;
        Schema::compile(&exact).map_err(|err| wrong(err.to_string()))?;
        let mirrored = Schema::header_params_of(&spec.input_schema);
        let mirrored = mirrored.map_err(|err| wrong(err.to_string()))?;
        let output = spec.output_schema.as_ref();
        let is_object = output.is_none_or(|schema| schema["type"] == "object");
        let is_plain =
            has_plain_properties(&spec.input_schema) && output.is_none_or(has_plain_properties);
        if !mirrored.is_empty() || !is_object || !is_plain {
            return Err(wrong(
                "clients of older revisions are shown another schema, so it cannot be written down"
                    .into(),
            ));
        }
        Ok(SchemaTexts {
            shown: wire::order::write(&spec.input_schema),
            exact: exact.to_string(),
            output: output.map(Value::to_string),
        })
    }
}

impl SchemaTexts {
    /// Puts the schemas of the texts into the tool.
    pub(super) fn fill(&self, spec: &mut wire::Tool) {
        spec.input_schema = wire::order::read(self.shown).unwrap_or_default();
        let output = self.output.map(wire::order::read);
        spec.output_schema = output.and_then(Result::ok);
    }

    /// Returns the tool for a list. Its output schema is the text, if `spec` has an output schema.
    pub(crate) fn list<'a>(&'a self, spec: &'a wire::Tool) -> impl Serialize + 'a {
        let output = self.output.filter(|_| spec.output_schema.is_some());
        spec.with_schemas(raw(self.shown), output.map(raw))
    }
}

/// The schema that arguments are checked against. It is compiled when the server starts, or when a written schema is first
/// needed.
pub(super) enum Arguments {
    Compiled(Schema),
    Written {
        text: &'static str,
        compiled: OnceLock<Option<Schema>>,
    },
}

impl Arguments {
    pub(super) fn written(text: &'static str) -> Self {
        let compiled = OnceLock::new();
        Self::Written { text, compiled }
    }

    pub(super) fn schema(&self) -> ToolResult<&Schema> {
        match self {
            Self::Compiled(schema) => Ok(schema),
            Self::Written { text, compiled } => {
                let compile = || Schema::compile(&serde_json::from_str(text).ok()?).ok();
                let schema = compiled.get_or_init(compile).as_ref();
                schema.ok_or_else(|| ToolError::new("the schema of this tool cannot be read"))
            }
        }
    }
}

/// Whether every property has an object as its schema. Older revisions do not know `true` and `false` there.
fn has_plain_properties(schema: &Value) -> bool {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.is_none_or(|all| all.values().all(Value::is_object))
}

fn raw(text: &'static str) -> &'static RawValue {
    serde_json::from_str(text).unwrap_or(RawValue::NULL)
}
