//! Three tools in the place of hundreds: one finds tools, one tells all about a tool, and one calls it. No I/O.

use lmcp_core::{Page, Request};
use lmcp_wire::{RpcError, members::Members};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::{
    catalog::text,
    limits::{FOUND, FOUND_USUALLY},
};

pub(crate) const FIND: &str = "find_tools";
pub(crate) const DESCRIBE: &str = "describe_tool";
pub(crate) const CALL: &str = "call_tool";

/// The list that clients see.
pub(crate) fn page() -> Page {
    let name = json!({ "type": "string", "description": "As find_tools names it." });
    let harmless = json!({ "readOnlyHint": true, "openWorldHint": false });
    let tools = [
        json!({
            "name": FIND,
            "description": "Find tools by words of what they do; returns the names of those that fit best, each with its first line. Without words: all.",
            "inputSchema": { "type": "object", "properties": {
                "words": { "type": "string", "description": "What the tool is to do." },
                "limit": { "type": "integer", "minimum": 1, "description": "Most tools to return; 10 if absent." },
            }},
            "annotations": harmless,
        }),
        json!({
            "name": DESCRIBE,
            "description": "Tell all about a tool that find_tools named, with the schema of its arguments. Call it before call_tool.",
            "inputSchema": { "type": "object", "properties": { "name": name }, "required": ["name"] },
            "annotations": harmless,
        }),
        json!({
            "name": CALL,
            "description": "Call a tool that find_tools named, with arguments as describe_tool has them; returns what that tool returns.",
            "inputSchema": { "type": "object", "properties": {
                "name": name,
                "arguments": { "type": "object", "description": "The arguments of that tool." },
            }, "required": ["name"] },
        }),
    ];
    Page::new("tools", &tools, None)
}

#[derive(Deserialize)]
struct Params<A> {
    arguments: Option<A>,
}

#[derive(Default, Deserialize)]
struct Wanted {
    words: Option<String>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// The tools that fit best, a line for each.
pub(crate) fn find(request: &Request, tools: &[Box<RawValue>]) -> Result<String, RpcError> {
    let params: Params<Wanted> = request.params()?;
    let wanted = params.arguments.unwrap_or_default();
    let words = wanted.words.unwrap_or_default().to_lowercase();
    let words: Vec<_> = words.split_whitespace().collect();
    let limit = wanted.limit.unwrap_or(if words.is_empty() {
        FOUND
    } else {
        FOUND_USUALLY
    });
    Ok(found(&words, limit.clamp(1, FOUND), tools))
}

fn found(words: &[&str], limit: usize, tools: &[Box<RawValue>]) -> String {
    let mut all: Vec<(usize, String)> = Vec::new();
    for tool in tools {
        let Ok(members) = Members::read(tool.get()) else {
            continue;
        };
        let name = text(members.get("name")).unwrap_or_default();
        let about = text(members.get("description")).unwrap_or_default();
        let (small_name, small_about) = (name.to_lowercase(), about.to_lowercase());
        let score = |word: &&str| {
            3 * usize::from(small_name.contains(*word)) + usize::from(small_about.contains(*word))
        };
        let score: usize = words.iter().map(score).sum();
        if score == 0 && !words.is_empty() {
            continue;
        }
        let line = about.trim().lines().next().unwrap_or_default();
        all.push((score, format!("{name}: {line}")));
    }
    let count = all.len();
    // Those that fit equally well stay in their order.
    all.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    let mut lines: Vec<_> = all.into_iter().take(limit).map(|(_, line)| line).collect();
    if count > limit {
        lines.push(format!("({} more fit)", count - limit));
    }
    if lines.is_empty() {
        return format!(
            "none of {} tools fits; try other words, or none",
            tools.len()
        );
    }
    lines.join("\n")
}

/// All about one tool, as JSON.
pub(crate) fn describe(request: &Request, tools: &[Box<RawValue>]) -> Result<String, RpcError> {
    let named = named(request)?;
    let mut tools = tools.iter();
    let found = tools.find(|tool| {
        let members = Members::read(tool.get());
        members.is_ok_and(|members| text(members.get("name")).as_ref() == Some(&named))
    });
    let unknown = || RpcError::invalid_params(format!("unknown tool: `{named}`"));
    found.map(|tool| tool.get().to_owned()).ok_or_else(unknown)
}

/// The call that is meant.
pub(crate) fn call(request: Request) -> Result<Request, RpcError> {
    let name = named(&request)?;
    let whole: &RawValue = request.params()?;
    let whole = whole.to_owned();
    let no_object = |_| RpcError::invalid_params("`params` must be an object");
    let mut params = Members::read(whole.get()).map_err(no_object)?;
    let outer = params.take("arguments");
    let inner = outer
        .as_ref()
        .and_then(|outer| Members::read(outer.get()).ok());
    let inner = inner.as_ref().and_then(|outer| outer.get("arguments"));
    params.set("name", &name);
    match inner {
        Some(inner) => params.set("arguments", inner),
        None => params.set("arguments", &Value::Object(serde_json::Map::new())),
    }
    request.with_params(&params)
}

fn named(request: &Request) -> Result<String, RpcError> {
    let params: Params<Named> = request.params()?;
    let absent = || RpcError::invalid_params("`name` says which tool is meant");
    params.arguments.map(|named| named.name).ok_or_else(absent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_fit_comes_first() {
        let tools = [
            json!({ "name": "db__query", "description": "Run SQL.\nSlowly." }),
            json!({ "name": "web__fetch", "description": "Fetch a page, or query a site." }),
            json!({ "name": "web__search", "description": "Search the web." }),
        ];
        let tools = tools.map(|tool| serde_json::value::to_raw_value(&tool).unwrap());
        let said = found(&["query"], 10, &tools);
        assert_eq!(
            said,
            "db__query: Run SQL.\nweb__fetch: Fetch a page, or query a site."
        );
        assert_eq!(
            found(&["query"], 1, &tools),
            "db__query: Run SQL.\n(1 more fit)"
        );
        assert_eq!(found(&[], 10, &tools).lines().count(), 3);
        assert!(found(&["zebra"], 10, &tools).contains("none of 3 tools"));
    }
}
