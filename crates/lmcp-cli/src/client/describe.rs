//! Lists of what a server offers, for people.

use std::fmt::Write as _;

use lmcp::wire::{
    prompt::Prompt,
    resource::{Resource, ResourceTemplate},
    tool::Tool,
};
use serde_json::Value;

/// Every tool with the first line of its description.
pub(super) fn tools(tools: &[Tool]) -> String {
    if tools.is_empty() {
        return "the server has no tools".to_owned();
    }
    let rows = tools
        .iter()
        .map(|tool| (&*tool.name, tool.description.as_deref()));
    table(rows)
}

/// All about one tool.
pub(super) fn tool(tool: &Tool) -> String {
    let mut text = format!("{}\n", usage(tool));
    if let Some(description) = &tool.description {
        let _ = write!(text, "\n{}\n", description.trim_end());
    }
    let fields: Vec<_> = fields(tool).collect();
    if !fields.is_empty() {
        let rows = fields.iter().map(|field| {
            let kind = kind(field.schema);
            let about = field.schema["description"].as_str().unwrap_or_default();
            let needed = if field.required { ", required" } else { "" };
            (field.name, format!("{kind}{needed}  {about}"))
        });
        let rows: Vec<_> = rows.collect();
        let rows = rows
            .iter()
            .map(|(name, about)| (*name, Some(about.trim_end())));
        let _ = write!(text, "\n{}", table(rows));
    }
    text
}

/// How it is called on the command line.
pub(super) fn usage(tool: &Tool) -> String {
    let words = fields(tool).map(|field| match field.required {
        true => format!(" {}=…", field.name),
        false => format!(" [{}=…]", field.name),
    });
    format!("lmcp call {}{}", tool.name, words.collect::<String>())
}

/// Every prompt, with its arguments.
pub(super) fn prompts(prompts: &[Prompt]) -> String {
    if prompts.is_empty() {
        return "the server has no prompts".to_owned();
    }
    let names: Vec<_> = prompts.iter().map(super::usage).collect();
    let rows = names.iter().zip(prompts);
    table(rows.map(|(name, prompt)| (&**name, prompt.description.as_deref())))
}

/// Every resource, then every template.
pub(super) fn resources(resources: &[Resource], templates: &[ResourceTemplate]) -> String {
    if resources.is_empty() && templates.is_empty() {
        return "the server has no resources".to_owned();
    }
    let about = |description: &'_ Option<String>, name: &String| {
        description.clone().unwrap_or_else(|| name.clone())
    };
    let mut rows: Vec<(&str, String)> = Vec::new();
    rows.extend(
        resources
            .iter()
            .map(|it| (&*it.uri, about(&it.description, &it.name))),
    );
    rows.extend(
        templates
            .iter()
            .map(|it| (&*it.uri_template, about(&it.description, &it.name))),
    );
    table(rows.iter().map(|(uri, about)| (*uri, Some(&**about))))
}

struct Field<'a> {
    name: &'a str,
    schema: &'a Value,
    required: bool,
}

/// The fields of a tool, those that it needs first.
fn fields(tool: &Tool) -> impl Iterator<Item = Field<'_>> {
    let schema = &tool.input_schema;
    let required = schema["required"].as_array();
    let is_required =
        move |name: &str| required.is_some_and(|names| names.iter().any(|it| it == name));
    let all = move || {
        let properties = schema["properties"].as_object().into_iter().flatten();
        properties.map(move |(name, schema)| Field {
            name,
            schema,
            required: is_required(name),
        })
    };
    let needed = all().filter(|field| field.required);
    needed.chain(all().filter(|field| !field.required))
}

/// A type in a word, or the choices that there are.
fn kind(schema: &Value) -> String {
    if let Some(choices) = schema["enum"].as_array() {
        let words = choices.iter().map(|choice| match choice {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        return words.collect::<Vec<_>>().join("|");
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => format!("list of {}", kind(&schema["items"])),
        Value::String(name) => name.clone(),
        Value::Array(names) => {
            let names = names
                .iter()
                .filter_map(Value::as_str)
                .filter(|name| *name != "null");
            names.collect::<Vec<_>>().join("|")
        }
        _ => "any".to_owned(),
    }
}

/// Two columns: names, and the first line of what is said about each.
fn table<'a>(rows: impl Iterator<Item = (&'a str, Option<&'a str>)> + Clone) -> String {
    let widths = rows.clone().map(|(name, _)| name.chars().count());
    let width = widths.filter(|width| *width <= WIDEST).max().unwrap_or(0);
    let mut text = String::new();
    for (name, about) in rows {
        let about = about
            .and_then(|about| about.lines().next())
            .unwrap_or_default();
        let line = format!("{name:width$}  {about}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Names that are longer have what is said about them further to the right.
const WIDEST: usize = 32;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_is_told_with_its_usage_and_what_it_takes() {
        let schema = json!({
            "properties": {
                "depth": { "type": ["integer", "null"], "description": "How deep." },
                "path": { "type": "string", "description": "Where." },
                "sort": { "enum": ["name", "size"] },
                "names": { "type": "array", "items": { "type": "string" } },
            },
            "required": ["path"],
        });
        let mut tool = Tool::new("list", schema);
        tool.description = Some("Lists a folder.\nMore.".into());
        let text = super::tool(&tool);
        let expected = "lmcp call list path=… [depth=…] [names=…] [sort=…]\n\nLists a folder.\nMore.\n\n\
            path   string, required  Where.\ndepth  integer  How deep.\nnames  list of string\nsort   name|size\n";
        assert_eq!(text, expected);
        assert_eq!(tools(&[tool]), "list  Lists a folder.\n");
    }
}
