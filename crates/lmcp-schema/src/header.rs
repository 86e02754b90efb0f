//! `x-mcp-header`: which arguments HTTP clients mirror into headers (`server/tools` of the specification).

use serde_json::Value;

use crate::{error::SchemaError, node::ScalarCheck, read::Object, text};

/// An argument that is mirrored into the header `Mcp-Param-{name}`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeaderParam {
    /// Keys from the root of the arguments to the value.
    pub path: Vec<String>,
    /// The tail of the header's name.
    pub name: String,
}

/// The annotations seen so far in one schema.
#[derive(Debug, Default)]
pub(crate) struct Headers(pub(crate) Vec<HeaderParam>);

impl Headers {
    /// Takes the annotation of a property, if it has one. `keys` is `None` where a value of the arguments would be
    /// reached through anything but `properties`.
    pub(crate) fn visit(
        &mut self,
        at: &str,
        schema: &Object,
        keys: Option<&[String]>,
    ) -> Result<(), SchemaError> {
        let Some(value) = schema.get(KEYWORD) else {
            return Ok(());
        };
        let refuse = |rule: String| Err(SchemaError::new(format!("{at}/{KEYWORD}"), rule));
        let shown = text::shown(value);
        let Some(name) = value.as_str().filter(|name| is_token(name)) else {
            return refuse(format!(
                "{shown} is no header name: letters, digits and !#$%&'*+-.^_`|~ are allowed"
            ));
        };
        let Some(path @ [_, ..]) = keys else {
            return refuse(
                "only a property reached through `properties` alone can be mirrored into a header"
                    .to_owned(),
            );
        };
        if !matches!(
            schema.get("type").and_then(Value::as_str),
            Some("string" | "integer" | "boolean")
        ) {
            return refuse(
                "only a property of type string, integer or boolean can be mirrored into a header"
                    .to_owned(),
            );
        }
        if self
            .0
            .iter()
            .any(|other| other.name.eq_ignore_ascii_case(name))
        {
            return refuse(format!(
                "{shown} names a header twice; case makes no difference"
            ));
        }
        self.0.push(HeaderParam {
            path: path.to_vec(),
            name: name.to_owned(),
        });
        Ok(())
    }
}

/// Is there an annotation anywhere, or what looks like one?
pub(crate) fn occurs(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(occurs),
        Value::Object(object) => object.contains_key(KEYWORD) || object.values().any(occurs),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Specification, `server/tools`: integers in headers stay within what a double represents exactly.
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
        Schema::compile_input(schema).unwrap_err().to_string()
    }

    #[test]
    fn annotated_properties_are_listed_with_their_path() {
        let schema = json!({ "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "deep": { "type": "object", "properties": { "n": { "type": "integer", "x-mcp-header": "N" } } },
            "x-mcp-header": { "type": "number" },
        }});
        let schema = Schema::compile_input(schema).unwrap();
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
        let text = Schema::compile_input(schema).unwrap_err().to_string();
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
            let text = Schema::compile_input(schema).unwrap_err().to_string();
            assert!(
                text.contains("through `properties` alone"),
                "{place}: {text}"
            );
            // Elsewhere, such as in an output schema, it is a word like any other.
            assert!(Schema::compile(place).is_ok());
        }
    }
}
