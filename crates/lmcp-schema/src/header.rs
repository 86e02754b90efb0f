//! `x-mcp-header`: the arguments that HTTP clients mirror into headers (`server/tools` of the specification).
//!
//! Servers and clients both read the annotation here, so that a client removes exactly those tools from a list that a server of
//! lmcp refuses.

use serde_json::Value;

use crate::{error::SchemaError, node::ScalarCheck, pointer, read::Object, text};

/// An argument that is mirrored into the header `Mcp-Param-{name}`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeaderParam {
    /// The keys from the root of the arguments to the value.
    pub path: Vec<String>,
    /// The end of the header's name.
    pub name: String,
}

impl HeaderParam {
    /// The value to mirror. `None`: the value is absent or null, and the header is left out.
    pub fn value_in<'a>(&self, arguments: &'a Value) -> Option<&'a Value> {
        let value = self
            .path
            .iter()
            .try_fold(arguments, |value, key| value.get(key))?;
        (!value.is_null()).then_some(value)
    }
}

/// Returns the annotations of an `inputSchema`, also of a foreign one. Nothing else of the schema is checked.
///
/// # Errors
/// An annotation is at a place where it is not allowed, or its name or the type of its property is not allowed.
pub fn header_params(schema: &Value) -> Result<Box<[HeaderParam]>, SchemaError> {
    let mut walk = Walk::default();
    walk.schema(schema, Some(&[]))?;
    Ok(walk.found.into())
}

#[derive(Default)]
struct Walk {
    /// The pointer of the schema that is being read.
    at: String,
    found: Vec<HeaderParam>,
}

impl Walk {
    /// Collects the annotations of a schema and of all schemas in it. `keys` lead to the value that the schema describes. They
    /// are `None` if a keyword other than `properties` leads to that value.
    fn schema(&mut self, schema: &Value, keys: Option<&[String]>) -> Result<(), SchemaError> {
        let Value::Object(schema) = schema else {
            return Ok(());
        };
        if let Some(value) = schema.get(KEYWORD) {
            let param = self.param(schema, value, keys)?;
            self.found.push(param);
        }
        for (keyword, value) in schema {
            match (&**keyword, value) {
                // The values of these keywords are no schemas.
                (KEYWORD | "default" | "const" | "enum" | "examples", _) => {}
                ("properties", Value::Object(properties)) => {
                    for (name, property) in properties {
                        let keys = keys.map(|keys| [keys, std::slice::from_ref(name)].concat());
                        self.child(&[keyword, name], property, keys.as_deref())?;
                    }
                }
                (
                    "$defs" | "definitions" | "patternProperties" | "dependentSchemas",
                    Value::Object(schemas),
                ) => {
                    for (name, schema) in schemas {
                        self.child(&[keyword, name], schema, None)?;
                    }
                }
                (_, Value::Array(schemas)) => {
                    for (index, schema) in schemas.iter().enumerate() {
                        self.child(&[keyword, &index.to_string()], schema, None)?;
                    }
                }
                // Under an unknown keyword there may be a schema that a `$ref` leads to.
                (_, schema) => self.child(&[keyword], schema, None)?,
            }
        }
        Ok(())
    }

    fn child(
        &mut self,
        tokens: &[&str],
        schema: &Value,
        keys: Option<&[String]>,
    ) -> Result<(), SchemaError> {
        let length = self.at.len();
        for token in tokens {
            pointer::push(&mut self.at, token);
        }
        self.schema(schema, keys)?;
        self.at.truncate(length);
        Ok(())
    }

    /// Reads one annotation.
    fn param(
        &self,
        schema: &Object,
        value: &Value,
        keys: Option<&[String]>,
    ) -> Result<HeaderParam, SchemaError> {
        let refuse = |rule: &str| Err(SchemaError::new(format!("{}/{KEYWORD}", self.at), rule));
        let shown = text::shown(value);
        let Some(name) = value.as_str().filter(|name| is_token(name)) else {
            return refuse(&format!(
                "{shown} is no header name: letters, digits and !#$%&'*+-.^_`|~ are allowed"
            ));
        };
        let Some(path @ [_, ..]) = keys else {
            return refuse(
                "only a property reached through `properties` alone can be mirrored into a header",
            );
        };
        let kind = schema.get("type").and_then(Value::as_str);
        if !matches!(kind, Some("string" | "integer" | "boolean")) {
            return refuse(
                "only a property of type string, integer or boolean can be mirrored into a header",
            );
        }
        let mut others = self.found.iter();
        if others.any(|other| other.name.eq_ignore_ascii_case(name)) {
            return refuse(&format!(
                "{shown} names a header twice; case makes no difference"
            ));
        }
        Ok(HeaderParam {
            path: path.to_vec(),
            name: name.to_owned(),
        })
    }
}

/// Whether the property is an integer that headers mirror. Specification, `server/tools`: such integers stay within the range
/// that a double represents exactly.
pub(crate) fn is_mirrored_integer(schema: &Object) -> bool {
    schema.contains_key(KEYWORD) && schema.get("type").and_then(Value::as_str) == Some("integer")
}

pub(crate) fn mirrored_range() -> [ScalarCheck; 2] {
    let most: i64 = (1 << 53) - 1;
    [
        ScalarCheck::Minimum((-most).into()),
        ScalarCheck::Maximum(most.into()),
    ]
}

fn is_token(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

const KEYWORD: &str = "x-mcp-header";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Schema;

    fn refused(property: &Value) -> String {
        let schema = json!({ "type": "object", "properties": { "a": property } });
        Schema::compile_input(&schema).unwrap_err().to_string()
    }

    #[test]
    fn annotated_properties_are_listed_with_their_path() {
        let schema = json!({ "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "deep": { "type": "object", "properties": { "n": { "type": "integer", "x-mcp-header": "N" } } },
            "x-mcp-header": { "type": "number" },
        }});
        let schema = Schema::compile_input(&schema).unwrap();
        let mut found: Vec<_> = schema
            .header_params()
            .iter()
            .map(|param| (param.path.join("/"), &*param.name))
            .collect();
        found.sort();
        assert_eq!(
            found,
            [("deep/n".to_owned(), "N"), ("region".to_owned(), "Region")]
        );
        assert!(schema.is_valid(&json!({ "deep": { "n": 9_007_199_254_740_991_u64 } })));
        assert!(!schema.is_valid(&json!({ "deep": { "n": 9_007_199_254_740_992_u64 } })));
    }

    #[test]
    fn a_schema_that_does_not_compile_is_read_all_the_same() {
        let schema = json!({ "type": "string", "$ref": "https://example.com", "properties": {
            "a": { "type": "string", "x-mcp-header": "A", "default": { "x-mcp-header": 5 } },
        }});
        assert!(Schema::compile(&schema).is_err());
        let params = header_params(&schema).unwrap();
        assert_eq!(params[0].path, ["a"]);
        assert_eq!(params[0].value_in(&json!({ "a": "x" })), Some(&json!("x")));
        assert_eq!(params[0].value_in(&json!({ "a": null })), None);
        let hidden = json!({ "x-own": { "a": { "type": "string", "x-mcp-header": "A" } } });
        assert!(header_params(&hidden).is_err());
    }

    #[test]
    fn each_rule_has_its_error() {
        for (value, type_name, part) in [
            (json!(""), "string", "no header name"),
            (json!("a b"), "string", "no header name"),
            (json!("a\n"), "string", "no header name"),
            (json!("ä"), "string", "no header name"),
            (json!(5), "string", "no header name"),
            (json!("N"), "number", "type string, integer or boolean"),
            (json!("N"), "object", "type string, integer or boolean"),
        ] {
            let text = refused(&json!({ "type": type_name, "x-mcp-header": value }));
            assert!(
                text.starts_with("at `/properties/a/x-mcp-header`: ") && text.contains(part),
                "{text}"
            );
        }
        let nullable = refused(&json!({ "type": ["string", "null"], "x-mcp-header": "N" }));
        assert!(nullable.contains("type string"), "{nullable}");
    }

    #[test]
    fn names_are_unique_without_case() {
        let schema = json!({ "type": "object", "properties": {
            "a": { "type": "string", "x-mcp-header": "Name" },
            "b": { "type": "string", "x-mcp-header": "nAME" },
        }});
        let text = Schema::compile_input(&schema).unwrap_err().to_string();
        assert!(text.contains("names a header twice"), "{text}");
    }

    #[test]
    fn only_properties_lead_to_an_annotation() {
        let header = json!({ "type": "string", "x-mcp-header": "N" });
        for place in [
            json!({ "x-mcp-header": "N" }),
            json!({ "$defs": { "d": header } }),
            json!({ "additionalProperties": header }),
            json!({ "patternProperties": { "a": header } }),
            json!({ "properties": { "a": { "items": header } } }),
            json!({ "properties": { "a": { "anyOf": [{ "properties": { "b": header } }] } } }),
            json!({ "allOf": [{ "properties": { "b": header } }] }),
            json!({ "if": { "properties": { "b": header } } }),
            json!({ "not": { "properties": { "b": header } } }),
            json!({ "own": header, "properties": { "a": { "$ref": "#/own" } } }),
        ] {
            let mut schema = place.clone();
            schema["type"] = json!("object");
            let text = Schema::compile_input(&schema).unwrap_err().to_string();
            assert!(
                text.contains("through `properties` alone"),
                "{place}: {text}"
            );
            // In other schemas, such as an output schema, the annotation is ignored.
            assert!(Schema::compile(&place).is_ok());
        }
    }
}
