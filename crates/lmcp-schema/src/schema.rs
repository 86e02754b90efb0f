//! A compiled schema: the public interface for compiling and validating.

use serde_json::Value;

use crate::{
    compile::Compiler,
    error::SchemaError,
    header::{HeaderParam, header_params},
    mismatch::Mismatches,
    node::{Node, ROOT},
    text,
    validate::Run,
};

/// A schema that was checked, and validates values.
#[derive(Debug)]
pub struct Schema {
    nodes: Box<[Node]>,
    header_params: Box<[HeaderParam]>,
}

impl Schema {
    /// Compiles any schema, such as a tool's `outputSchema`.
    ///
    /// # Errors
    /// The first place that is malformed, does not resolve, or uses a keyword that this crate does not enforce.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        let nodes = Compiler::for_any(schema)?.run()?;
        Ok(Self {
            nodes,
            header_params: Box::default(),
        })
    }

    /// Compiles a tool's `inputSchema`: the root must have `"type": "object"`, and `x-mcp-header` must be at allowed places.
    ///
    /// # Errors
    /// As for [`Schema::compile`], and if one of the rules above is broken.
    pub fn compile_input(schema: &Value) -> Result<Self, SchemaError> {
        input_root(schema)?;
        let nodes = Compiler::for_input(schema)?.run()?;
        Ok(Self {
            header_params: header_params(schema)?,
            nodes,
        })
    }

    /// Returns the properties that HTTP clients mirror into headers. The schema must come from [`normalise_input`], applied to
    /// one that compiles: only the rules of an input are checked again.
    ///
    /// # Errors
    /// The root does not have `"type": "object"`, or `x-mcp-header` is at a place where it is not allowed.
    ///
    /// [`normalise_input`]: crate::normalise_input
    pub fn header_params_of(schema: &Value) -> Result<Box<[HeaderParam]>, SchemaError> {
        input_root(schema)?;
        header_params(schema)
    }

    /// Checks a value, and returns all mismatches in words for a model.
    ///
    /// # Errors
    /// At most ten mismatches. One of them may be that the check was given up, because schema and value together nest too
    /// deeply or take too many steps.
    pub fn validate(&self, instance: &Value) -> Result<(), Mismatches> {
        // Only a value that failed the first run needs the second run, which writes texts.
        if self.is_valid(instance) {
            Ok(())
        } else {
            Err(Run::new(&self.nodes).explain(ROOT, instance))
        }
    }

    /// Checks a value, stopping at the first mismatch.
    pub fn is_valid(&self, instance: &Value) -> bool {
        Run::new(&self.nodes).holds(ROOT, instance)
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The properties that HTTP clients mirror into headers.
    pub fn header_params(&self) -> &[HeaderParam] {
        &self.header_params
    }
}

/// Checks that the schema of arguments declares an object.
fn input_root(schema: &Value) -> Result<(), SchemaError> {
    let Value::Object(root) = schema else {
        let rule = format!(
            "the schema of arguments is an object, not {}",
            text::kind(schema)
        );
        return Err(SchemaError::new("", rule));
    };
    match root.get("type") {
        Some(Value::String(name)) if name == "object" => Ok(()),
        Some(other) => {
            let rule = format!(
                "the arguments of a tool have type \"object\", not {}",
                text::shown(other)
            );
            Err(SchemaError::new("/type", rule))
        }
        None => Err(SchemaError::new(
            "",
            "the schema of arguments needs `\"type\": \"object\"`",
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_can_be_shared_between_threads() {
        fn shared<T: Send + Sync>(_: &T) {}
        shared(&Schema::compile(&json!(true)).unwrap());
    }

    #[test]
    fn arguments_are_an_object() {
        for (schema, text) in [
            (
                json!(true),
                "at the root: the schema of arguments is an object, not boolean",
            ),
            (
                json!([]),
                "at the root: the schema of arguments is an object, not array",
            ),
            (
                json!({}),
                "at the root: the schema of arguments needs `\"type\": \"object\"`",
            ),
            (
                json!({ "oneOf": [{ "type": "object" }] }),
                "at the root: the schema of arguments needs `\"type\": \"object\"`",
            ),
            (
                json!({ "type": "string" }),
                "at `/type`: the arguments of a tool have type \"object\", not \"string\"",
            ),
            (
                json!({ "type": ["object"] }),
                "at `/type`: the arguments of a tool have type \"object\", not [\"object\"]",
            ),
        ] {
            assert_eq!(
                Schema::compile_input(&schema).unwrap_err().to_string(),
                text
            );
        }
    }
}
