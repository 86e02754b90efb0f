//! The answers of several hosts as one result: equal ones together, failures last. No I/O.

use std::fmt::Write as _;

use lmcp_wire::{CallToolResult, Content};
use serde_json::{Value, json};

use crate::{
    answer,
    host::Failed,
    limits::{LEAST_PART, STRUCTURED_BYTES, TEXT_BYTES},
    path::Kind,
};

/// What one of several hosts answered.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) host: String,
    pub(crate) path: Option<Kind>,
    pub(crate) result: Result<CallToolResult, Failed>,
    pub(crate) seconds: f64,
}

/// Hosts that answered the same.
struct Group<'a> {
    key: String,
    hosts: Vec<&'a str>,
    text: String,
}

/// One result of all of them. It is an error only if no host did what it was asked for.
pub(crate) fn summary(parts: &[Part]) -> CallToolResult {
    let failed = parts.iter().filter(|part| !is_good(part)).count();
    let good = parts.len() - failed;
    let mut result = CallToolResult::new(vec![Content::text(text(parts, good))]);
    result.is_error = good == 0;
    // A client that is not sent structured results of single hosts is sent none of several.
    let mut answered = parts
        .iter()
        .filter_map(|part| part.result.as_ref().ok())
        .peekable();
    let is_plain =
        answered.peek().is_some() && answered.all(|its| its.structured_content.is_none());
    if !is_plain {
        let part = (STRUCTURED_BYTES / parts.len().max(1)).max(LEAST_PART);
        let hosts: Vec<_> = parts.iter().map(|one| structured(one, part)).collect();
        result.structured_content =
            Some(json!({ "hosts": hosts, "summary": { "ok": good, "failed": failed } }));
    }
    result
}

fn is_good(part: &Part) -> bool {
    matches!(&part.result, Ok(result) if !result.is_error)
}

fn structured(part: &Part, most: usize) -> Value {
    let mut members = answer::place(&part.host, part.path);
    members.insert("ok".to_owned(), is_good(part).into());
    members.insert(
        "seconds".to_owned(),
        json!((part.seconds * 1000.0).round() / 1000.0),
    );
    match &part.result {
        Ok(result) => {
            let value = match &result.structured_content {
                Some(value) => value.clone(),
                None => json!({ "text": words(result) }),
            };
            let length = value.to_string().len();
            match length > most {
                true => members.insert("left_out_bytes".to_owned(), length.into()),
                false => members.insert("result".to_owned(), value),
            };
        }
        Err(failed) => {
            members.insert("error".to_owned(), answer::error(failed));
        }
    }
    members.into()
}

fn text(parts: &[Part], good: usize) -> String {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut failures: Vec<Group<'_>> = Vec::new();
    for part in parts {
        let (key, text, list) = match &part.result {
            Ok(result) => (key(result), words(result), &mut groups),
            Err(failed) => {
                let text = answer::in_words(failed);
                (without_digits(&text), text, &mut failures)
            }
        };
        match list.iter_mut().find(|group| group.key == key) {
            Some(group) => group.hosts.push(&part.host),
            None => list.push(Group {
                key,
                hosts: vec![&part.host],
                text,
            }),
        }
    }
    let part = (TEXT_BYTES / (groups.len() + failures.len()).max(1)).max(LEAST_PART);
    let mut out = String::new();
    for (group, mark) in groups
        .iter()
        .map(|group| (group, ""))
        .chain(failures.iter().map(|group| (group, "no answer: ")))
    {
        let count = match group.hosts.len() {
            1 => String::new(),
            count => format!(" ({count} hosts)"),
        };
        let _ = writeln!(out, "== {mark}{}{count}", group.hosts.join(", "));
        let shown = cut(group.text.trim_end(), part);
        let _ = writeln!(out, "{shown}");
        if shown.len() < group.text.trim_end().len() {
            let _ = writeln!(
                out,
                "[{} more bytes are left out; call one host alone for all of it]",
                group.text.trim_end().len() - shown.len()
            );
        }
    }
    let _ = write!(out, "== {good} of {} hosts did it", parts.len());
    out
}

/// The first bytes of a text, up to the end of a letter.
fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or_default()).unwrap_or_default()
}

/// The texts of a result, and a word for each other thing in it.
fn words(result: &CallToolResult) -> String {
    let blocks = result.content.iter().map(|block| {
        let text = block.as_text().map(str::to_owned);
        text.unwrap_or_else(|| "[something that is no text: call one host alone for it]".to_owned())
    });
    blocks.collect::<Vec<_>>().join("\n")
}

/// Two results with the same key say the same, whatever time and memory they took.
fn key(result: &CallToolResult) -> String {
    let said = match &result.structured_content {
        Some(value) => unmeasured(value).to_string(),
        None => without_seconds(&words(result)),
    };
    format!("{} {said}", result.is_error)
}

/// A value without what is measured, wherever that stands in it.
fn unmeasured(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members
                .iter()
                .filter(|(name, _)| !MEASURED.contains(&name.as_str()));
            let kept = kept.map(|(name, value)| (name.clone(), unmeasured(value)));
            Value::Object(kept.collect())
        }
        Value::Array(items) => items.iter().map(unmeasured).collect(),
        other => other.clone(),
    }
}

/// The text without the time in its first line: `exit code 0, 0.1 s`.
fn without_seconds(text: &str) -> String {
    let (head, rest) = text.split_once('\n').unwrap_or((text, ""));
    let head: Vec<_> = head.split(", ").filter(|part| !is_seconds(part)).collect();
    format!("{}\n{rest}", head.join(", "))
}

/// Hosts that have been down for another time are down all the same.
fn without_digits(text: &str) -> String {
    text.chars()
        .filter(|letter| !letter.is_ascii_digit())
        .collect()
}

fn is_seconds(text: &str) -> bool {
    let number = text.strip_suffix(" s");
    number.is_some_and(|number| number.parse::<f64>().is_ok())
}

/// Members of results that are measured, and differ each time.
const MEASURED: [&str; 4] = ["cpu_ms", "duration_ms", "mtime", "peak_memory_bytes"];

#[cfg(test)]
mod tests {
    use super::*;

    fn part(host: &str, result: Result<CallToolResult, Failed>) -> Part {
        Part {
            host: host.to_owned(),
            path: Some(Kind::Http),
            result,
            seconds: 0.5,
        }
    }

    fn shell(stdout: &str, milliseconds: u64) -> CallToolResult {
        let seconds = milliseconds as f64 / 1000.0;
        let text = format!("exit code 0, {seconds} s\n{stdout}");
        let mut result = CallToolResult::new(vec![Content::text(text)]);
        result.structured_content =
            Some(json!({ "stdout": stdout, "exit_code": 0, "duration_ms": milliseconds }));
        result
    }

    fn down() -> Failed {
        Failed {
            words: "down".to_owned(),
            began: Some(false),
            is_retriable: true,
        }
    }

    #[test]
    fn equal_answers_stand_together_whatever_they_took() {
        let parts = [
            part("a", Ok(shell("6.1\n", 10))),
            part("b", Ok(shell("5.9\n", 12))),
            part("c", Ok(shell("6.1\n", 300))),
            part("d", Err(down())),
            part("e", Err(down())),
        ];
        let result = summary(&parts);
        let expected = "== a, c (2 hosts)\nexit code 0, 0.01 s\n6.1\n== b\nexit code 0, 0.012 s\n5.9\n\
            == no answer: d, e (2 hosts)\ndown; the call was not sent\n== 3 of 5 hosts did it";
        assert_eq!(result.content[0].as_text(), Some(expected));
        assert!(!result.is_error);
        let structured = result.structured_content.unwrap();
        assert_eq!(structured["summary"], json!({ "ok": 3, "failed": 2 }));
        assert_eq!(structured["hosts"][0]["result"]["stdout"], "6.1\n");
        assert_eq!(structured["hosts"][3]["error"]["began"], false);
    }

    #[test]
    fn texts_alone_are_compared_without_their_times() {
        let plain = |text: &str| CallToolResult::new(vec![Content::text(text)]);
        let parts = [
            part("a", Ok(plain("exit code 0, 0.1 s\nx"))),
            part("b", Ok(plain("exit code 0, 0.2 s\nx"))),
        ];
        let result = summary(&parts);
        let text = result.content[0].as_text().unwrap();
        assert!(text.starts_with("== a, b (2 hosts)\n"), "{text}");
        assert!(result.structured_content.is_none());
    }

    #[test]
    fn it_is_an_error_only_if_all_failed() {
        let result = summary(&[
            part("a", Err(down())),
            part("b", Ok(CallToolResult::error("no"))),
        ]);
        assert!(result.is_error);
    }

    #[test]
    fn long_answers_are_cut_and_say_so() {
        let long = "é".repeat(TEXT_BYTES);
        let parts = [part("a", Ok(shell(&long, 1))), part("b", Ok(shell("x", 1)))];
        let result = summary(&parts);
        let text = result.content[0].as_text().unwrap();
        assert!(text.len() < TEXT_BYTES + 1000);
        assert!(text.contains("more bytes are left out"), "{text}");
        let parts: Vec<_> = (0..400)
            .map(|_| part("a", Ok(shell(&"x".repeat(9000), 1))))
            .collect();
        let structured = summary(&parts).structured_content.unwrap();
        assert!(structured["hosts"][0]["left_out_bytes"].as_u64().unwrap() > 9000);
    }
}
