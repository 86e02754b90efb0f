//! Turns `NAME=VALUE` on the command line into the arguments of a tool.

use std::{
    fmt::Write as _,
    io::{Read as _, stdin},
};

use lmcp::wire::tool::Tool;
use serde_json::{Map, Value, json};

use super::describe;
use crate::report::Failure;

/// Returns the place of the tool with this name.
///
/// # Errors
/// There is no such tool.
pub(super) fn find(tools: &[Tool], name: &str) -> Result<usize, Failure> {
    let found = tools.iter().position(|tool| tool.name == name);
    found.ok_or_else(|| {
        let failure = Failure::misuse(format!("the server has no tool `{name}`"));
        let names = tools.iter().map(|tool| &*tool.name);
        failure.hint(match names.collect::<Vec<_>>().join(", ") {
            names if names.is_empty() => "it has no tools at all".to_owned(),
            names => format!("it has {names}"),
        })
    })
}

/// Returns the arguments for a tool.
///
/// # Errors
/// The arguments do not fit the schema, as far as that is easy to check; or a file cannot be read.
pub(super) fn of_tool(words: &[String], tool: &Tool) -> Result<Value, Failure> {
    let schema = &tool.input_schema;
    let mut arguments = Map::new();
    for word in words {
        if let Some(text) = whole(word)? {
            arguments.extend(object(word, &text)?);
            continue;
        }
        let (name, value) = split(word)?;
        let field = field(schema, name).ok_or_else(|| {
            Failure::misuse(format!("`{}` takes no `{name}`", tool.name))
                .hint(describe::usage(tool))
        })?;
        let text = text_of(value)?;
        let given = arguments.remove(name);
        let value = typed(&text, &field, given)
            .map_err(|expected| Failure::misuse(format!("`{name}` is {expected}")))?;
        arguments.insert(name.to_owned(), value);
    }
    let required = schema["required"].as_array().into_iter().flatten();
    let missing = required.filter_map(Value::as_str);
    let missing: Vec<_> = missing
        .filter(|name| !arguments.contains_key(*name))
        .collect();
    if !missing.is_empty() {
        let known = |name: &String| schema["properties"].get(name).is_some();
        let unknown: Vec<_> = arguments
            .keys()
            .filter(|name| !known(name))
            .cloned()
            .collect();
        let mut words = format!("`{}` needs {}", tool.name, missing.join(", "));
        if !unknown.is_empty() {
            let _ = write!(words, ", and does not know {}", unknown.join(", "));
        }
        return Err(Failure::misuse(words).hint(describe::usage(tool)));
    }
    Ok(arguments.into())
}

/// Splits an argument into its name and its value.
pub(super) fn split(word: &str) -> Result<(&str, &str), Failure> {
    word.split_once('=').ok_or_else(|| {
        Failure::misuse(format!("`{word}` is not NAME=VALUE"))
            .hint("several arguments at once are {...}, @FILE or -, as JSON")
    })
}

/// Returns the text of a value: as it stands, from a file, or from stdin.
pub(super) fn text_of(value: &str) -> Result<String, Failure> {
    match value {
        "-" => from_stdin(),
        _ if value.starts_with("@@") => Ok(value[1..].to_owned()),
        _ => match value.strip_prefix('@') {
            Some(path) => from_file(path),
            None => Ok(value.to_owned()),
        },
    }
}

/// Returns the text of a word that stands for several arguments.
fn whole(word: &str) -> Result<Option<String>, Failure> {
    match word {
        "-" => from_stdin().map(Some),
        _ if word.starts_with('{') => Ok(Some(word.to_owned())),
        _ => word.strip_prefix('@').map(from_file).transpose(),
    }
}

fn object(word: &str, text: &str) -> Result<Map<String, Value>, Failure> {
    serde_json::from_str(text).map_err(|err| {
        let what = if word.starts_with('{') { "this" } else { word };
        Failure::misuse(format!("{what} is not a JSON object: {err}"))
    })
}

fn from_file(path: &str) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|err| Failure::cannot(&format!("read {path}"), err))
}

fn from_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    let read = stdin().read_to_string(&mut text);
    read.map_err(|err| Failure::cannot("read stdin", err))?;
    Ok(text)
}

/// Returns the schema of a property. For a property that is not declared, returns the schema of additional properties.
fn field(schema: &Value, name: &str) -> Option<Value> {
    if let Some(field) = schema["properties"].get(name) {
        return Some(field.clone());
    }
    match schema.get("additionalProperties") {
        Some(Value::Bool(false)) => None,
        Some(others @ Value::Object(_)) => Some(others.clone()),
        _ => Some(json!({})),
    }
}

/// Returns a value in the type of its schema. The error says what is expected.
fn typed(text: &str, field: &Value, given: Option<Value>) -> Result<Value, String> {
    let parsed = || serde_json::from_str::<Value>(text).ok();
    let types = types(field);
    let is = |name: &str| types.iter().any(|known| known == name);
    if is("array") {
        let list = parsed().filter(Value::is_array);
        return match (given, list) {
            (None, Some(list)) => Ok(list),
            (given, _) => {
                let mut items = match given {
                    Some(Value::Array(items)) => items,
                    _ => Vec::new(),
                };
                items.push(typed(text, &field["items"], None)?);
                Ok(items.into())
            }
        };
    }
    if let Some(value) = parsed().filter(|value| fits(value, &types)) {
        return Ok(value);
    }
    if is("string") || types.is_empty() {
        return Ok(text.into());
    }
    Err(format!("{}, and `{text}` is not", types.join(" or ")))
}

/// Returns whether a value is of one of these types, and not a text that only looks like one. Text needs no quotes.
fn fits(value: &Value, types: &[String]) -> bool {
    let is = |name: &str| types.is_empty() || types.iter().any(|known| known == name);
    let is_text = types.iter().any(|known| known == "string");
    match value {
        Value::Null => is("null") && !is_text,
        Value::Bool(_) => is("boolean"),
        Value::Number(number) => is("number") || is("integer") && !number.is_f64(),
        Value::Object(_) => is("object"),
        Value::Array(_) => is("array"),
        Value::String(_) => false,
    }
}

/// Returns the types that a schema names, including those of its alternatives.
fn types(field: &Value) -> Vec<String> {
    let mut types = Vec::new();
    match &field["type"] {
        Value::String(name) => types.push(name.clone()),
        Value::Array(names) => types.extend(names.iter().filter_map(Value::as_str).map(Into::into)),
        _ => {}
    }
    for alternatives in ["anyOf", "oneOf"] {
        for alternative in field[alternatives].as_array().into_iter().flatten() {
            types.extend(self::types(alternative));
        }
    }
    let choices = field["enum"].as_array().into_iter().flatten();
    if types.is_empty() && choices.into_iter().any(Value::is_string) {
        types.push("string".into());
    }
    types
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(words: &[&str]) -> Result<Value, String> {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": { "type": "string" },
                "lines": { "type": "integer" },
                "ratio": { "type": ["number", "null"] },
                "all": { "type": "boolean" },
                "names": { "type": "array", "items": { "type": "string" } },
                "numbers": { "type": "array", "items": { "type": "integer" } },
                "where": { "type": "object" },
                "any": {},
                "either": { "anyOf": [{ "type": "integer" }, { "type": "string" }] },
            },
            "required": ["path"],
            "additionalProperties": false,
        });
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        of_tool(&words, &Tool::new("tool", schema)).map_err(|failure| failure.to_string())
    }

    #[test]
    fn values_are_what_the_schema_says() {
        let said = arguments(&[
            "path=12",
            "lines=3",
            "ratio=0.5",
            "all=true",
            "names=7",
            "where={\"a\":1}",
            "any=[1]",
            "either=5",
        ]);
        let expected = json!({
            "path": "12", "lines": 3, "ratio": 0.5, "all": true, "names": ["7"], "where": { "a": 1 }, "any": [1],
            "either": 5,
        });
        assert_eq!(said, Ok(expected));
        let said = arguments(&["path=a=b", "any=plain words", "either=x", "ratio=null"]);
        let expected = json!({ "path": "a=b", "any": "plain words", "either": "x", "ratio": null });
        assert_eq!(said, Ok(expected));
    }

    #[test]
    fn a_name_that_is_repeated_is_a_list() {
        let said = arguments(&[
            "path=x",
            "names=a",
            "names=[b",
            "numbers=[1,2]",
            "numbers=3",
        ]);
        let expected = json!({ "path": "x", "names": ["a", "[b"], "numbers": [1, 2, 3] });
        assert_eq!(said, Ok(expected));
    }

    #[test]
    fn several_arguments_come_at_once() {
        let said = arguments(&["{\"path\":\"x\",\"lines\":1}", "lines=2"]);
        assert_eq!(said, Ok(json!({ "path": "x", "lines": 2 })));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("arguments");
        std::fs::write(&file, "{\"path\":\"y\"}").unwrap();
        let file = file.display();
        assert_eq!(
            arguments(&[&format!("@{file}")]),
            Ok(json!({ "path": "y" }))
        );
        let said = arguments(&[&format!("path=@{file}")]);
        assert_eq!(said, Ok(json!({ "path": "{\"path\":\"y\"}" })));
        assert_eq!(arguments(&["path=@@home"]), Ok(json!({ "path": "@home" })));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_reason() {
        let words = |words: &[&str]| arguments(words).unwrap_err();
        assert_eq!(
            words(&["path=x", "lines=many"]),
            "`lines` is integer, and `many` is not"
        );
        assert_eq!(
            words(&["path=x", "lines=1.5"]),
            "`lines` is integer, and `1.5` is not"
        );
        assert_eq!(
            words(&["path=x", "numbers=a"]),
            "`numbers` is integer, and `a` is not"
        );
        assert_eq!(words(&["path=x", "paht=y"]), "`tool` takes no `paht`");
        assert_eq!(words(&["lines=1"]), "`tool` needs path");
        assert_eq!(words(&["path"]), "`path` is not NAME=VALUE");
        assert!(words(&["{path"]).starts_with("this is not a JSON object"));
        assert!(words(&["path=@/nowhere/at/all"]).starts_with("cannot read /nowhere/at/all"));
    }
}
