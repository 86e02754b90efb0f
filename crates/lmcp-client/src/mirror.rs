//! `x-mcp-header` (2026-07-28): which arguments of which tools are repeated in headers, learnt from the lists that pass
//! by.
//!
//! The specification has clients leave out tools whose annotations break its rules, so those are cut from the lists.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use lmcp_wire::header;
use memchr::memmem;
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

/// What is known of a server's tools: only of those that have something to repeat.
#[derive(Debug, Default)]
pub(crate) struct Mirrors(HashMap<String, Vec<Param>>);

/// An argument that is repeated.
#[derive(Debug, PartialEq, Eq)]
struct Param {
    /// Keys from the root of the arguments to the value.
    path: Vec<String>,
    /// The whole name of the header.
    header: String,
}

/// An annotation stands where it may not, or says what it may not.
struct Invalid;

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    result: List<'a>,
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    tools: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tool {
    name: String,
    input_schema: Value,
}

impl Mirrors {
    /// Takes in the answer to `tools/list`, and returns it without the tools that no client may use.
    pub(crate) fn learn(&mut self, line: Bytes) -> Bytes {
        let is_worth_reading =
            !self.0.is_empty() || memmem::find(&line, KEYWORD.as_bytes()).is_some();
        if !is_worth_reading {
            return line;
        }
        let Ok(Answer { result }) = serde_json::from_slice::<Answer<'_>>(&line) else {
            return line;
        };
        let Ok(tools) = serde_json::from_str::<Vec<&RawValue>>(result.tools.get()) else {
            return line;
        };
        let usable: Vec<_> = tools.iter().filter(|tool| self.take(tool.get())).collect();
        if usable.len() == tools.len() {
            return line;
        }
        let left: Vec<_> = usable.into_iter().map(|tool| tool.get()).collect();
        let start = result.tools.get().as_ptr().addr() - line.as_ptr().addr();
        let (before, rest) = line.split_at(start);
        let after = rest.get(result.tools.get().len()..).unwrap_or_default();
        [before, b"[", left.join(",").as_bytes(), b"]", after]
            .concat()
            .into()
    }

    /// The headers of a call, by name, with their values as text.
    pub(crate) fn params(&self, tool: &str, arguments: Option<&RawValue>) -> Vec<(String, String)> {
        let (Some(params), Some(arguments)) = (self.0.get(tool), arguments) else {
            return Vec::new();
        };
        let Ok(arguments) = serde_json::from_str::<Value>(arguments.get()) else {
            return Vec::new();
        };
        let value_of = |param: &Param| {
            let mut path = param.path.iter();
            let value = path.try_fold(&arguments, |value, key| value.get(key))?;
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Bool(_) | Value::Number(_) => value.to_string(),
                // Nothing is repeated as nothing; the rest is for the schema to refuse.
                Value::Null | Value::Array(_) | Value::Object(_) => return None,
            };
            Some((param.header.clone(), text))
        };
        params.iter().filter_map(value_of).collect()
    }

    /// Takes in one tool; false if it is not to be used.
    fn take(&mut self, tool: &str) -> bool {
        let Ok(Tool { name, input_schema }) = serde_json::from_str(tool) else {
            // Whatever is wrong with it, it is not this.
            return true;
        };
        self.0.remove(&name);
        let mut params = Vec::new();
        if walk(&input_schema, Some(&mut Vec::new()), &mut params).is_err() {
            return false;
        }
        let mut names = HashSet::new();
        if !params.iter().all(|param| names.insert(&*param.header)) {
            return false;
        }
        let has_room = self.0.len() < MOST_TOOLS && params.len() <= MOST_PARAMS;
        if !params.is_empty() && has_room {
            self.0.insert(name, params);
        }
        true
    }
}

/// Looks for annotations. `path` is `None` where a value would be reached through anything but `properties`.
fn walk(
    schema: &Value,
    mut path: Option<&mut Vec<String>>,
    found: &mut Vec<Param>,
) -> Result<(), Invalid> {
    let Value::Object(schema) = schema else {
        return Ok(());
    };
    if let Some(value) = schema.get(KEYWORD) {
        found.push(param(schema, value, path.as_deref())?);
    }
    for (keyword, value) in schema {
        match (&**keyword, value) {
            // These hold values, not schemas.
            (KEYWORD | "default" | "const" | "enum" | "examples", _) => {}
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    match &mut path {
                        Some(path) => {
                            path.push(name.clone());
                            walk(property, Some(path), found)?;
                            path.pop();
                        }
                        None => walk(property, None, found)?,
                    }
                }
            }
            (
                "$defs" | "definitions" | "patternProperties" | "dependentSchemas",
                Value::Object(schemas),
            ) => schemas
                .values()
                .try_for_each(|schema| walk(schema, None, found))?,
            (_, Value::Array(schemas)) => {
                schemas
                    .iter()
                    .try_for_each(|schema| walk(schema, None, found))?;
            }
            (_, schema) => walk(schema, None, found)?,
        }
    }
    Ok(())
}

fn param(
    schema: &Map<String, Value>,
    value: &Value,
    path: Option<&Vec<String>>,
) -> Result<Param, Invalid> {
    let kind = schema.get("type").and_then(Value::as_str);
    let is_simple = matches!(kind, Some("string" | "integer" | "boolean"));
    let name = value.as_str().filter(|name| header::is_token(name));
    match (name, path) {
        (Some(name), Some(path)) if is_simple && !path.is_empty() => Ok(Param {
            path: path.clone(),
            header: format!("{}{}", header::PARAM_PREFIX, name.to_ascii_lowercase()),
        }),
        _ => Err(Invalid),
    }
}

const KEYWORD: &str = "x-mcp-header";

/// Tools that are remembered, and headers of one. More than any server has.
const MOST_TOOLS: usize = 1024;
const MOST_PARAMS: usize = 64;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list(tools: &Value) -> Bytes {
        json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": tools, "ttlMs": 5 } })
            .to_string()
            .into()
    }

    fn tool(name: &str, properties: &Value) -> Value {
        json!({ "name": name, "inputSchema": { "type": "object", "properties": properties } })
    }

    fn params(mirrors: &Mirrors, name: &str, arguments: &Value) -> Vec<(String, String)> {
        let arguments = serde_json::value::to_raw_value(arguments).unwrap();
        let mut params = mirrors.params(name, Some(&arguments));
        params.sort();
        params
    }

    #[test]
    fn arguments_are_repeated_as_their_tool_says_until_it_says_otherwise() {
        let mut mirrors = Mirrors::default();
        let first = list(&json!([tool(
            "t",
            &json!({
                "region": { "type": "string", "x-mcp-header": "Region" },
                "deep": { "type": "object", "properties": { "n": { "type": "integer", "x-mcp-header": "N" } } },
                "on": { "type": "boolean", "x-mcp-header": "On" },
                "x-mcp-header": { "type": "number" },
            })
        )]));
        assert_eq!(mirrors.learn(first.clone()), first);
        let found = params(
            &mirrors,
            "t",
            &json!({ "region": "eu", "deep": { "n": 5 }, "on": false }),
        );
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            found,
            [
                pair("mcp-param-n", "5"),
                pair("mcp-param-on", "false"),
                pair("mcp-param-region", "eu")
            ]
        );
        assert_eq!(
            params(&mirrors, "t", &json!({ "region": null, "on": [] })),
            []
        );
        assert_eq!(params(&mirrors, "u", &json!({ "region": "eu" })), []);
        mirrors.learn(list(&json!([tool(
            "t",
            &json!({ "region": { "type": "string" } })
        )])));
        assert_eq!(params(&mirrors, "t", &json!({ "region": "eu" })), []);
    }

    #[test]
    fn tools_that_break_the_rules_are_cut_from_the_list_and_nothing_else_is() {
        let header = json!({ "type": "string", "x-mcp-header": "N" });
        for wrong in [
            json!({ "a": { "type": "string", "x-mcp-header": "" } }),
            json!({ "a": { "type": "string", "x-mcp-header": "a b" } }),
            json!({ "a": { "type": "string", "x-mcp-header": 5 } }),
            json!({ "a": { "type": "number", "x-mcp-header": "N" } }),
            json!({ "a": { "type": "object", "x-mcp-header": "N" } }),
            json!({ "a": header, "b": { "type": "string", "x-mcp-header": "n" } }),
            json!({ "a": { "type": "array", "items": header } }),
            json!({ "a": { "anyOf": [{ "properties": { "b": header } }] } }),
            json!({ "a": { "$defs": { "b": header } } }),
        ] {
            let tools = json!([
                tool("good", &json!({})),
                tool("wrong", &wrong),
                tool("last", &json!({ "a": header }))
            ]);
            let mut mirrors = Mirrors::default();
            let left = mirrors.learn(list(&tools));
            assert_eq!(left, list(&json!([tools[0], tools[2]])), "{wrong}");
            assert_eq!(params(&mirrors, "last", &json!({ "a": "x" })).len(), 1);
        }
        let values = json!({ "a": { "default": header, "enum": [header], "type": "object" } });
        let fine = list(&json!([tool("good", &values)]));
        assert_eq!(Mirrors::default().learn(fine.clone()), fine);
    }
}
