//! What is expected: a message with placeholders, against the message that came.
//!
//! - `"$any"` is any value, `"$capture:name"` any value that a later line uses, `"${name}"` the value caught so.
//! - `"$like:internal error *"` is a text that fits, where `*` stands for anything.
//!
//! `1` and `1.0` are the same number, as JSON has it.

use serde_json::{Map, Number, Value, json};

use crate::{
    expand::{Captures, resolved},
    transcript::Era,
};

/// A message as the file has it, with what files leave out. A batch is an array of messages.
pub(crate) fn completed(message: Value, era: Era) -> Value {
    match message {
        Value::Array(batch) => batch
            .into_iter()
            .map(|message| completed(message, era))
            .collect(),
        Value::Object(mut members) => {
            members
                .entry("jsonrpc")
                .or_insert_with(|| Value::from("2.0"));
            if let Some(result) = modern_result(&mut members, era) {
                result.entry("_meta").or_insert_with(server_meta);
            }
            Value::Object(members)
        }
        other => other,
    }
}

/// A message without what files leave out.
pub(crate) fn shortened(message: Value, era: Era) -> Value {
    match message {
        Value::Array(batch) => batch
            .into_iter()
            .map(|message| shortened(message, era))
            .collect(),
        Value::Object(mut members) => {
            remove_if(&mut members, "jsonrpc", &json!("2.0"));
            if let Some(result) = modern_result(&mut members, era) {
                remove_if(result, "_meta", &server_meta());
            }
            Value::Object(members)
        }
        other => other,
    }
}

/// The result, where it is one of 2026-07-28: only those name the server.
fn modern_result(members: &mut Map<String, Value>, era: Era) -> Option<&mut Map<String, Value>> {
    let result = members.get_mut("result")?.as_object_mut()?;
    (era == Era::Modern || result.contains_key("resultType")).then_some(result)
}

/// What differs, one line each. Values to capture are captured even then.
pub(crate) fn differences(expected: &Value, got: &Value, captures: &mut Captures) -> Vec<String> {
    let mut found = Vec::new();
    compare("", expected, got, captures, &mut found);
    found
}

/// The message that came, with the placeholders of the one that was expected.
pub(crate) fn merged(expected: &Value, got: &Value) -> Value {
    match (expected, got) {
        (Value::String(text), _) if is_placeholder(text) => expected.clone(),
        (Value::Object(expected), Value::Object(got)) => got
            .iter()
            .map(|(key, got)| {
                let merged = expected.get(key).map(|expected| merged(expected, got));
                (key.clone(), merged.unwrap_or_else(|| got.clone()))
            })
            .collect(),
        (Value::Array(expected), Value::Array(got)) => got
            .iter()
            .enumerate()
            .map(|(index, got)| {
                let merged = expected.get(index).map(|expected| merged(expected, got));
                merged.unwrap_or_else(|| got.clone())
            })
            .collect(),
        _ => got.clone(),
    }
}

fn is_placeholder(text: &str) -> bool {
    text == "$any"
        || ["$capture:", "$like:"]
            .iter()
            .any(|word| text.starts_with(word))
        || text.contains("${")
}

fn compare(
    at: &str,
    expected: &Value,
    got: &Value,
    captures: &mut Captures,
    found: &mut Vec<String>,
) {
    match (expected, got) {
        (Value::String(text), _) if text == "$any" => {}
        (Value::String(text), _) if text.starts_with("$capture:") => {
            let name = text.trim_start_matches("$capture:");
            captures.insert(name.into(), got.clone());
        }
        (Value::String(text), Value::String(got)) if text.starts_with("$like:") => {
            if !is_like(text.trim_start_matches("$like:"), got) {
                found.push(format!("`{at}` is not {text}: {got:?}"));
            }
        }
        (Value::Object(expected), Value::Object(got)) => {
            for (key, expected) in expected {
                let at = format!("{at}/{key}");
                match got.get(key) {
                    Some(got) => compare(&at, expected, got, captures, found),
                    None => found.push(format!("`{at}` is missing")),
                }
            }
            let more = got.keys().filter(|key| !expected.contains_key(*key));
            found.extend(more.map(|key| format!("`{at}/{key}` is not expected")));
        }
        (Value::Array(expected), Value::Array(got)) if expected.len() == got.len() => {
            for (index, (expected, got)) in expected.iter().zip(got).enumerate() {
                compare(&format!("{at}/{index}"), expected, got, captures, found);
            }
        }
        (Value::Number(expected), Value::Number(got)) if is_same(expected, got) => {}
        _ => {
            let expected = resolved(expected, captures);
            if expected != *got {
                found.push(format!("`{at}` should be {expected}, is {got}"));
            }
        }
    }
}

fn is_same(a: &Number, b: &Number) -> bool {
    let exact = |number: &Number| number.is_i64() || number.is_u64();
    match (exact(a), exact(b)) {
        (true, true) => a == b,
        _ => a.as_f64() == b.as_f64(),
    }
}

/// Does a text fit a pattern with `*` in it?
fn is_like(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            (0..=text.len()).any(|at| text.get(at..).is_some_and(|tail| is_like(rest, tail)))
        }),
    }
}

fn remove_if(members: &mut Map<String, Value>, key: &str, value: &Value) {
    if members.get(key) == Some(value) {
        members.remove(key);
    }
}

/// What every result of the fixture carries.
fn server_meta() -> Value {
    let info = json!({ "name": "transcripts", "title": "Transcripts", "version": "1.0.0" });
    json!({ "io.modelcontextprotocol/serverInfo": info })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_difference_is_named() {
        let expected = json!({ "a": 1, "b": [1, 2], "c": "$like:x*z", "d": "$any", "e": 0 });
        let got = json!({ "a": 1.5, "b": [1, 3], "c": "xyyy", "d": [], "f": 0 });
        let found = differences(&expected, &got, &mut Captures::new());
        let expected = [
            "`/a` should be 1, is 1.5",
            "`/b/1` should be 2, is 3",
            "`/c` is not $like:x*z: \"xyyy\"",
            "`/e` is missing",
            "`/f` is not expected",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_captured_value_must_come_again() {
        let mut captures = Captures::new();
        let capture = json!({ "a": "$capture:x" });
        assert!(differences(&capture, &json!({ "a": 5 }), &mut captures).is_empty());
        assert!(differences(&json!("${x}"), &json!(5), &mut captures).is_empty());
        assert_eq!(
            differences(&json!("${x}"), &json!(6), &mut captures).len(),
            1
        );
    }

    #[test]
    fn a_result_without_the_server_s_name_is_noticed() {
        let expected = completed(json!({ "id": 1, "result": {} }), Era::Modern);
        let got = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
        let found = differences(&expected, &got, &mut Captures::new());
        assert_eq!(found, ["`/result/_meta` is missing"]);
    }

    #[test]
    fn a_legacy_result_that_names_the_server_is_noticed() {
        let expected = completed(json!({ "id": 1, "result": {} }), Era::Legacy);
        let got = json!({ "jsonrpc": "2.0", "id": 1, "result": { "_meta": server_meta() } });
        let found = differences(&expected, &got, &mut Captures::new());
        assert_eq!(found, ["`/result/_meta` is not expected"]);
    }

    #[test]
    fn placeholders_survive_an_update() {
        let expected = json!({ "a": "$any", "b": ["$capture:x"], "c": 1 });
        let got = json!({ "a": 1, "b": [2, 3], "c": 4, "d": 5 });
        let merged = merged(&expected, &got);
        assert_eq!(
            merged,
            json!({ "a": "$any", "b": ["$capture:x", 3], "c": 4, "d": 5 })
        );
    }
}
