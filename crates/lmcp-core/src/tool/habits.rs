//! What models are used to send, taken where it can mean one thing only, and never published.
//!
//! How values are read that the schema refuses (`null` for nothing, `"10"` for 10) is in `lmcp-schema`, and the same for
//! all tools. Here a tool says what is its own: other names, and arguments that clients need not know.

use lmcp_schema::Aliases;
use serde_json::{Value, json};

use super::Tool;

/// What a tool takes beside what it publishes.
#[derive(Debug, Default)]
pub(crate) struct Habits {
    pub(crate) aliases: Aliases,
    /// Names of tools elsewhere that do the same.
    also_called: Box<[Box<str>]>,
}

impl<S: Send + Sync + 'static, E> Tool<S, E> {
    /// Names that models give an argument out of habit. They are taken for it, inside of objects and lists too, and not
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

    /// Arguments that models send out of habit, and that this tool does without: they are dropped, not refused.
    #[must_use]
    pub fn ignore<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        for argument in arguments {
            self.declared.habits.aliases.drop_member(argument);
        }
        self
    }

    /// Names that tools of other servers have for the same work. A model that calls one of these names is told the name of this tool.
    #[must_use]
    pub fn also_called<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.declared.habits.also_called = names.into_iter().map(Into::into).collect();
        self
    }

    /// Arguments that are taken, and not published: what is seldom needed costs no tokens.
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

    /// Publishes arguments as required that calls can do without: models then always give them.
    #[must_use]
    pub fn ask_for<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        if let Some(schema) = self.declared.spec.input_schema.as_object_mut()
            && let Value::Array(names) = schema.entry("required").or_insert_with(|| json!([]))
        {
            names.extend(arguments.into_iter().map(Value::from));
        }
        self
    }

    /// Publishes this schema of an argument instead of the one its type has, by which calls are checked all the same.
    /// For an argument that can be written in several ways, of which one is enough to know. Without a description it keeps
    /// the one it has.
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
    /// Checks them against the schema that arguments are checked by, and makes that refuse what is to be read otherwise.
    pub(crate) fn check(&self, schema: &mut Value) -> Result<(), String> {
        for (other, name) in self.aliases.iter() {
            if !has_member(schema, name) {
                return Err(format!("`{other}` is to be `{name}`, which is no argument"));
            }
        }
        let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        let Some(Value::Object(properties)) = schema.get_mut("properties") else {
            return Ok(());
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
        Ok(())
    }

    /// Is this what the same thing is called elsewhere?
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.also_called.iter().map(|name| &**name)
    }
}

/// Does any schema in this one have a member of this name?
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
