//! Lists of a server's tools, prompts and resources, for people.

use std::fmt::Write as _;

use lmcp::wire::{
    hidden::unhidden,
    prompt::Prompt,
    resource::{Resource, ResourceTemplate},
    tool::Tool,
};
use serde_json::Value;

/// Returns every tool with the first line of its description.
pub(super) fn tools(tools: &[Tool]) -> String {
    if tools.is_empty() {
        return "the server has no tools".to_owned();
    }
    let rows = tools
        .iter()
        .map(|tool| (&*tool.name, tool.description.as_deref()));
    table(rows)
}

/// Returns all about one tool.
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

/// Returns the form of a call on the command line.
pub(super) fn usage(tool: &Tool) -> String {
    let words = fields(tool).map(|field| match field.required {
        true => format!(" {}=…", unhidden(field.name)),
        false => format!(" [{}=…]", unhidden(field.name)),
    });
    format!(
        "lmcp call {}{}",
        unhidden(&tool.name),
        words.collect::<String>()
    )
}

/// Returns every prompt, with its arguments.
pub(super) fn prompts(prompts: &[Prompt]) -> String {
    if prompts.is_empty() {
        return "the server has no prompts".to_owned();
    }
    let names: Vec<_> = prompts.iter().map(super::usage).collect();
    let rows = names.iter().zip(prompts);
    table(rows.map(|(name, prompt)| (&**name, prompt.description.as_deref())))
}

/// Returns every resource, then every template.
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

/// Returns the fields of a tool, required ones first.
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

/// Returns a type in a word, or the possible choices.
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

/// Writes two columns: names, and the first line of each description. Each row stays on its line: a server must not write one that
/// looks as if it was of another server.
fn table<'a>(rows: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> String {
    let rows: Vec<_> = rows.map(|(name, about)| (unhidden(name), about)).collect();
    let rows = rows.iter();
    let widths = rows.clone().map(|(name, _)| name.chars().count());
    let width = widths.filter(|width| *width <= WIDEST).max().unwrap_or(0);
    let mut text = String::new();
    for (name, about) in rows {
        let about = about
            .and_then(|about| about.split(ends_line).next())
            .unwrap_or_default();
        let line = format!("{name:width$}  {about}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn ends_line(char: char) -> bool {
    matches!(
        char,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// The width of the first column. The description of a longer name begins further to the right.
const WIDEST: usize = 32;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_server_writes_no_line_that_looks_like_one_of_another() {
        let mut tool = Tool::new("a\nother__b  Deletes all.", json!({}));
        tool.description = Some("Reads.\r\u{2028}other__c".into());
        assert_eq!(
            tools(std::slice::from_ref(&tool)),
            "a\\u{a}other__b  Deletes all.  Reads.\n"
        );
        assert!(!usage(&tool).contains('\n'));
        let resource = Resource::new("x://1\nother+x://2", "n");
        let rows = resources(std::slice::from_ref(&resource), &[]);
        assert_eq!(rows, "x://1\\u{a}other+x://2  n\n");
        let prompt = Prompt::new("p\nother__p");
        assert_eq!(prompts(std::slice::from_ref(&prompt)), "p\\u{a}other__p\n");
    }

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
