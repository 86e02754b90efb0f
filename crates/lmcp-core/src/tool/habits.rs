//! Habits of models that a tool accepts where the meaning is clear, and never publishes.
//!
//! `lmcp-schema` reads values that the schema refuses (`null` for nothing, `"10"` for 10), the same for all tools. Here a tool
//! declares its own habits: other names, and arguments that clients need not know.

use lmcp_schema::Aliases;
use serde_json::{Value, json};

use super::Tool;

/// The input that a tool accepts beside the published schema.
#[derive(Debug, Default)]
pub(crate) struct Habits {
    pub(crate) aliases: Aliases,
    /// The names of tools elsewhere that do the same.
    also_called: Box<[Box<str>]>,
}

impl<S: Send + Sync + 'static, E> Tool<S, E> {
    /// Accepts other names for an argument, which models use out of habit, also inside of objects and lists. The names are not
    /// published.
    ///
    /// ```
    /// # use lmcp::{Cx, Tool};
    /// # #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// # struct Args { path: String }
    /// # async fn read(args: Args, _cx: Cx) -> String { args.path }
    /// let tool: Tool = Tool::new("read", read).alias("path", ["file_path", "filename"]).read_only();
    /// ```
    #[must_use]
    pub fn alias<'a>(mut self, argument: &str, others: impl IntoIterator<Item = &'a str>) -> Self {
        for other in others {
            self.declared.habits.aliases.add(argument, other);
        }
        self
    }

    /// Drops these arguments from every call. For a type with `#[serde(deny_unknown_fields)]`, which would refuse a call with an argument that
    /// models send out of habit. Other types ignore unknown arguments anyway.
    #[must_use]
    pub fn ignore<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        for argument in arguments {
            self.declared.habits.aliases.drop_member(argument);
        }
        self
    }

    /// Sets names that tools of other servers have for the same work. A model that calls one of these names is told the name of this tool.
    #[must_use]
    pub fn also_called<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.declared.habits.also_called = names.into_iter().map(Into::into).collect();
        self
    }

    /// Leaves these arguments out of the published schema, and accepts them all the same. An argument that is seldom needed then costs
    /// the model no tokens.
    #[must_use]
    pub fn unlisted<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        let schema = &mut self.declared.spec.input_schema;
        for argument in arguments {
            if let Some(Value::Object(properties)) = schema.get_mut("properties") {
                properties.remove(argument);
            }
            if let Some(Value::Array(required)) = schema.get_mut("required") {
                required.retain(|name| name != argument);
            }
        }
        self
    }

    /// Publishes optional arguments as required, so that models always give them. A call without them is still accepted.
    #[must_use]
    pub fn ask_for<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        if let Some(schema) = self.declared.spec.input_schema.as_object_mut()
            && let Value::Array(names) = schema.entry("required").or_insert_with(|| json!([]))
        {
            names.extend(arguments.into_iter().map(Value::from));
        }
        self
    }

    /// Publishes another schema for one argument. Calls are still checked against the type. Use it where the type accepts several forms of
    /// an argument, and models need to know one of them only. A schema without a description keeps the description of the field.
    #[must_use]
    pub fn show_as(mut self, argument: &str, mut schema: Value) -> Self {
        let shown = self.declared.spec.input_schema.get_mut("properties");
        if let Some(shown) = shown.and_then(|properties| properties.get_mut(argument)) {
            if let (Some(words), Value::Object(schema)) = (shown.get("description"), &mut schema) {
                schema.entry("description").or_insert_with(|| words.clone());
            }
            *shown = schema;
        }
        self
    }
}

impl Habits {
    /// Checks the habits against the schema that arguments are checked by. Returns that schema, changed so that it refuses the
    /// other names: so the call is mended.
    pub(crate) fn refine(&self, mut schema: Value) -> Result<Value, String> {
        for (other, name) in self.aliases.iter() {
            if !has_member(&schema, name) {
                return Err(format!("`{other}` is to be `{name}`, which is no argument"));
            }
        }
        let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        let Some(Value::Object(properties)) = schema.get_mut("properties") else {
            return Ok(schema);
        };
        for name in self.aliases.names() {
            if properties.contains_key(name) {
                return Err(format!(
                    "`{name}` is an argument, and can be no other name of one"
                ));
            }
            if !closed {
                properties.insert(name.to_owned(), false.into());
            }
        }
        Ok(schema)
    }

    /// The names of this tool elsewhere.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.also_called.iter().map(|name| &**name)
    }
}

/// Whether any schema in this one has a member of this name.
fn has_member(schema: &Value, name: &str) -> bool {
    match schema {
        Value::Object(object) => {
            let here = object
                .get("properties")
                .is_some_and(|all| all.get(name).is_some());
            here || object.values().any(|value| has_member(value, name))
        }
        Value::Array(items) => items.iter().any(|item| has_member(item, name)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
