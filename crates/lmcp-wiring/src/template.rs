//! Replaces words in braces by parts of the entry.

use std::{ffi::OsString, path::Path, slice};

use toml::{Table, Value};

use super::{Entry, json::json, preset::Format, toml_text};
use crate::error::Error;

/// The words that `entry` of a preset may hold, each as a string of its own.
pub(crate) const IN_ENTRY: &[&str] = &["command", "args", "command_line", "env"];

/// The words that `override` may hold, anywhere in a word.
pub(crate) const IN_WORDS: &[&str] = &["name", "command", "args", "command_line", "env"];

/// The words that `env` may hold.
pub(crate) const IN_ENV: &[&str] = &["home"];

/// Returns the first word in braces that is not known.
pub(crate) fn unknown<'a>(text: &'a str, known: &[&str]) -> Option<&'a str> {
    let mut parts = split(text);
    parts.find_map(|part| match part {
        Part::Name(name) if !known.contains(&name) => Some(name),
        Part::Name(_) | Part::Text(_) => None,
    })
}

/// Returns whether a text has a word in braces and other text.
pub(crate) fn is_mixed(text: &str) -> bool {
    first_name(text).is_some() && alone(text).is_none()
}

/// Returns the entry in the form that a program takes.
pub(crate) fn table(form: &Table, entry: &Entry) -> Table {
    let filled = form
        .iter()
        .map(|(key, form)| (key.clone(), fill(form, entry)));
    filled.collect()
}

/// Returns a word of the command line.
pub(crate) fn word(word: &str, name: &str, entry: &Entry, format: Format) -> String {
    let parts = split(word).map(|part| match part {
        Part::Text(text) => text.to_owned(),
        Part::Name("name") => name.to_owned(),
        Part::Name(part) => match (value(part, entry), format) {
            (Some(value), Format::Toml) => toml_text::value(&value),
            (Some(value), Format::Json) => json(value).to_string(),
            (None, _) => String::new(),
        },
    });
    parts.collect()
}

/// Returns the value of a variable.
pub(crate) fn home(text: &str, home: Option<&Path>) -> Result<OsString, Error> {
    let mut filled = OsString::new();
    for part in split(text) {
        match (part, home) {
            (Part::Text(text), _) => filled.push(text),
            (Part::Name(_), Some(home)) => filled.push(home),
            (Part::Name(_), None) => {
                let words = format!("`{text}` names a home, and the preset has none");
                return Err(Error::misuse(words).hinted("give the preset a `home_path`"));
            }
        }
    }
    Ok(filled)
}

fn fill(form: &Value, entry: &Entry) -> Value {
    match form {
        Value::String(text) => alone(text)
            .and_then(|name| value(name, entry))
            .unwrap_or_else(|| form.clone()),
        Value::Array(forms) => {
            let filled = forms.iter().map(|form| fill(form, entry));
            Value::Array(filled.collect())
        }
        Value::Table(form) => table(form, entry).into(),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {
            form.clone()
        }
    }
}

/// Returns the word in braces, if it is the whole text.
fn alone(text: &str) -> Option<&str> {
    let (_, name) = first_name(text)?;
    (text.len() == name.len() + 2).then_some(name)
}

fn value(name: &str, entry: &Entry) -> Option<Value> {
    match name {
        "command" => Some(entry.command.clone().into()),
        "args" => Some(entry.args.clone().into()),
        "command_line" => Some(
            [slice::from_ref(&entry.command), &entry.args]
                .concat()
                .into(),
        ),
        "env" => {
            let variables = entry.env.iter();
            let variables = variables.map(|(name, value)| (name.clone(), value.clone().into()));
            Some(variables.collect::<Table>().into())
        }
        _ => None,
    }
}

#[derive(Debug, PartialEq)]
enum Part<'a> {
    Text(&'a str),
    Name(&'a str),
}

/// Splits a text at `{word}`. Other braces are text, so that JSON and TOML can be written around it.
fn split(text: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (start, name) = first_name(rest).unwrap_or((rest.len(), ""));
        if start == 0 {
            rest = rest.get(name.len() + 2..).unwrap_or_default();
            return Some(Part::Name(name));
        }
        let (before, after) = rest.split_at(start);
        rest = after;
        Some(Part::Text(before))
    })
}

/// Returns where the first `{word}` begins, and the word.
fn first_name(text: &str) -> Option<(usize, &str)> {
    text.match_indices('{').find_map(|(start, _)| {
        let (name, _) = text.get(start + 1..)?.split_once('}')?;
        let is_word = !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        is_word.then_some((start, name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::entry;

    #[test]
    fn a_word_in_braces_is_a_value_in_the_format_of_the_program() {
        for (format, form, expected) in [
            (
                Format::Toml,
                "m.{name}.c={command}",
                r#"m.lmcp.c="/opt/lm cp/lmcp""#,
            ),
            (Format::Toml, "{args}", r#"["proxy"]"#),
            (
                Format::Toml,
                "e={env}",
                r#"e={"LMCP_IDENTITY_FILE"="/run/x y/id"}"#,
            ),
            (
                Format::Json,
                "--s={\"m\":{\"c\":{command_line}}}",
                r#"--s={"m":{"c":["/opt/lm cp/lmcp","proxy"]}}"#,
            ),
            (
                Format::Json,
                "{env}",
                r#"{"LMCP_IDENTITY_FILE":"/run/x y/id"}"#,
            ),
            (Format::Json, "a {} {A} { b } {", "a {} {A} { b } {"),
        ] {
            assert_eq!(word(form, "lmcp", &entry(), format), expected);
        }
    }

    #[test]
    fn a_value_with_braces_is_not_filled_again() {
        let mut entry = entry();
        entry.command = "/x/{args}".into();
        assert_eq!(
            word("{command}", "lmcp", &entry, Format::Json),
            r#""/x/{args}""#
        );
    }

    #[test]
    fn what_is_not_known_is_found() {
        assert_eq!(unknown("a {name} {comand}", IN_WORDS), Some("comand"));
        assert_eq!(unknown("{name}={env}", IN_WORDS), None);
    }
}
