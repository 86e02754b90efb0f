//! `x-mcp-header` (2026-07-28): learns from the lists of tools which arguments are repeated in headers.
//!
//! The specification says that clients leave out tools whose annotations break its rules, so these tools are removed from
//! the lists.

use std::collections::HashMap;

use bytes::Bytes;
use lmcp_schema::{HeaderParam, header_params};
use lmcp_wire::{envelope::replace, header};
use memchr::memmem;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::limits::{MIRRORED_PARAMS, MIRRORED_TOOLS};

/// The tools of a server that have arguments to repeat.
#[derive(Debug, Default)]
pub(crate) struct Mirrors(HashMap<String, Box<[HeaderParam]>>);

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
    /// Learns from the answer to `tools/list`, and returns it without the tools that no client may use.
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
        let left = format!("[{}]", left.join(","));
        replace(&line, result.tools.get(), &left).into()
    }

    /// Returns the headers of a call, by name, with their values as text.
    pub(crate) fn params(&self, tool: &str, arguments: Option<&RawValue>) -> Vec<(String, String)> {
        let (Some(params), Some(arguments)) = (self.0.get(tool), arguments) else {
            return Vec::new();
        };
        let Ok(arguments) = serde_json::from_str::<Value>(arguments.get()) else {
            return Vec::new();
        };
        let value_of = |param: &HeaderParam| {
            let text = match param.value_in(&arguments)? {
                Value::String(text) => text.clone(),
                value @ (Value::Bool(_) | Value::Number(_)) => value.to_string(),
                // The schema refuses other values.
                Value::Null | Value::Array(_) | Value::Object(_) => return None,
            };
            Some((header::param(&param.name), text))
        };
        params.iter().filter_map(value_of).collect()
    }

    /// Learns from one tool; false if the tool must not be used.
    fn take(&mut self, tool: &str) -> bool {
        let Ok(Tool { name, input_schema }) = serde_json::from_str(tool) else {
            // The tool is invalid for another reason, and stays in the list.
            return true;
        };
        self.0.remove(&name);
        let Ok(params) = header_params(&input_schema) else {
            return false;
        };
        let has_room = self.0.len() < MIRRORED_TOOLS && params.len() <= MIRRORED_PARAMS;
        if !params.is_empty() && has_room {
            self.0.insert(name, params);
        }
        true
    }
}

const KEYWORD: &str = "x-mcp-header";

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
