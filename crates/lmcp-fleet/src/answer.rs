//! What one host answered, as callers get it: the host's own result, with the host and the way in it. No I/O.

use lmcp_core::{Outcome, Payload};
use lmcp_wire::{CallToolResult, Content};
use serde_json::{Map, Value, json};

use crate::{
    host::{Answered, Failed},
    path::Kind,
};

/// A result that can be looked into. `None`: it is none of a tool that has ended, a question say, and is passed on as it is.
pub(crate) fn read(outcome: &Outcome) -> Option<CallToolResult> {
    match &outcome.payload {
        Payload::CallTool(result) => Some(result.clone()),
        Payload::Raw(text) => {
            let value: Value = serde_json::from_str(text.get()).ok()?;
            let kind = value["resultType"].as_str().unwrap_or("complete");
            (kind == "complete").then(|| serde_json::from_value(value).ok())?
        }
        _ => None,
    }
}

/// The answer of the one host that a call was for.
pub(crate) fn of_one(host: &str, answered: Answered) -> Outcome {
    let path = answered.path;
    match answered.result {
        Ok(outcome) => match read(&outcome) {
            Some(mut result) => {
                mark(&mut result, host, path);
                result.into()
            }
            None => outcome,
        },
        Err(failed) => refusal(host, path, &failed).into(),
    }
}

/// Says where a result is from: in one line for models, in two members for programs.
fn mark(result: &mut CallToolResult, host: &str, path: Option<Kind>) {
    if let Some(Value::Object(members)) = &mut result.structured_content {
        members.extend(place(host, path));
    }
    result
        .content
        .push(Content::text(format!("[{}]", shown(host, path))));
}

/// A failure as a result, which models read.
fn refusal(host: &str, path: Option<Kind>, failed: &Failed) -> CallToolResult {
    let mut result = CallToolResult::error(format!("{}: {}", shown(host, path), in_words(failed)));
    let mut members = place(host, path);
    members.insert("error".to_owned(), error(failed));
    result.structured_content = Some(members.into());
    result
}

/// The words of a failure, with what is known of the call.
pub(crate) fn in_words(failed: &Failed) -> String {
    match failed.began {
        Some(true) => format!(
            "{}; the call may or may not have taken effect there, and was not repeated: look before you try again",
            failed.words
        ),
        Some(false) => format!("{}; the call was not sent", failed.words),
        None => failed.words.clone(),
    }
}

pub(crate) fn error(failed: &Failed) -> Value {
    let mut error = json!({ "message": failed.words, "retriable": failed.is_retriable });
    if let Some(began) = failed.began {
        error["began"] = began.into();
    }
    error
}

/// The members that say where something is from. The way is called `via`: results have paths of files in them.
pub(crate) fn place(host: &str, path: Option<Kind>) -> Map<String, Value> {
    let mut members = Map::new();
    members.insert("host".to_owned(), host.into());
    if let Some(path) = path {
        members.insert("via".to_owned(), path.word().into());
    }
    members
}

fn shown(host: &str, path: Option<Kind>) -> String {
    match path {
        Some(path) => format!("{host} via {path}"),
        None => host.to_owned(),
    }
}
