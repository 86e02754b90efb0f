//! What one host answered, as callers get it: the host's own result, with the host and the way in it. No I/O.

use lmcp_core::{Account, CALL_BYTES, NoRoom, Outcome, Payload, Reservation, weigh_json};
use lmcp_wire::{CallToolResult, Content, members::Members};
use serde_json::{Map, Value, json};

use crate::{
    host::{Answered, Failed},
    limits::ANSWER_PARTS,
    path::Kind,
};

/// What a host's answer is.
pub(crate) enum Answer {
    /// The result of a tool that has ended, and the memory of the caller that it takes.
    Result(CallToolResult, Option<Reservation>),
    /// None of a tool that has ended, a question say: it is passed on as it is.
    Other(Outcome),
    /// It is left out: it does not fit the memory of its caller, or has more parts than a tool of ours ever makes. As values, those
    /// take many times the memory of the text.
    Overgrown(Failed),
}

/// Looks into an answer, as memory of a caller. Links to resources are left out: they are resources of the host, which cannot be
/// read through the hub.
pub(crate) fn read(outcome: Outcome, account: Option<&Account>) -> Answer {
    if let Payload::Raw(text) = &outcome.payload
        && parts(text.get()) > ANSWER_PARTS
    {
        let words = format!("its answer has more than {ANSWER_PARTS} parts, and is left out");
        return Answer::Overgrown(left_out(words));
    }
    let Ok(counted) = count(&outcome, account) else {
        let words = format!(
            "its answer of {} bytes does not fit your share of the memory of this hub, and is left out",
            outcome.bytes()
        );
        return Answer::Overgrown(left_out(words));
    };
    let mut result: CallToolResult = match outcome.payload {
        Payload::CallTool(result) => result,
        Payload::Raw(ref text) => match complete(text.get()) {
            Some(result) => result,
            None => return Answer::Other(outcome),
        },
        _ => return Answer::Other(outcome),
    };
    let is_shown = |block: &Content| !matches!(block, Content::ResourceLink(_));
    result.content.retain(is_shown);
    if let Some(Value::Object(members)) = &mut result.structured_content {
        members.retain(|_, value| !value.as_str().is_some_and(|text| text.starts_with(JOB)));
    }
    Answer::Result(result, counted)
}

/// Counts a long answer as memory of its caller: the text, and what it becomes when it is read.
fn count(outcome: &Outcome, account: Option<&Account>) -> Result<Option<Reservation>, NoRoom> {
    let Some(account) = account.filter(|_| outcome.bytes() > CALL_BYTES) else {
        return Ok(None);
    };
    let read = match &outcome.payload {
        Payload::Raw(text) => weigh_json(text.get().as_bytes()),
        _ => 0,
    };
    account.take_if_modest(outcome.bytes() + read).map(Some)
}

fn left_out(words: String) -> Failed {
    Failed {
        words,
        began: Some(true),
        is_retriable: false,
    }
}

/// The result of a tool that has ended.
fn complete(text: &str) -> Option<CallToolResult> {
    let members = Members::read(text).ok()?;
    let kind = members
        .get("resultType")
        .map_or(Ok("complete".to_owned()), |kind| {
            serde_json::from_str::<String>(kind.get())
        });
    (kind.ok()? == "complete").then(|| serde_json::from_str(text).ok())?
}

/// Values in a JSON text, at most: what stands in texts counts, too.
fn parts(text: &str) -> usize {
    memchr::memchr3_iter(b',', b'[', b'{', text.as_bytes()).count()
}

/// What addresses of the output of a job begin with.
const JOB: &str = "job://";

/// The answer of the one host that a call was for.
pub(crate) fn of_one(host: &str, answered: Answered, account: Option<&Account>) -> Outcome {
    let path = answered.path;
    match answered.result {
        Ok(outcome) => match read(outcome, account) {
            Answer::Result(mut result, _counted) => {
                mark(&mut result, host, path);
                result.into()
            }
            Answer::Other(outcome) => outcome,
            Answer::Overgrown(failed) => refusal(host, path, &failed).into(),
        },
        Err(failed) => refusal(host, path, &failed).into(),
    }
}

/// Says where a result is from: in one line for models, in two members for programs.
fn mark(result: &mut CallToolResult, host: &str, path: Option<Kind>) {
    if let Some(Value::Object(members)) = &mut result.structured_content {
        // A hub there has said which way it went on.
        let onward = members.remove("via");
        members.extend(place(host, path));
        if let (Some(path), Some(Value::String(onward))) = (path, onward) {
            members.insert("via".to_owned(), format!("{path}/{onward}").into());
        }
    }
    result
        .content
        .push(Content::text(format!("[{}]", shown(host, path))));
}

/// A failure as a result, which models read.
pub(crate) fn refusal(host: &str, path: Option<Kind>, failed: &Failed) -> CallToolResult {
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

pub(crate) fn shown(host: &str, path: Option<Kind>) -> String {
    match path {
        Some(path) => format!("{host} via {path}"),
        None => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use lmcp_wire::Resource;

    use super::*;

    #[test]
    fn links_to_what_cannot_be_read_through_the_hub_are_left_out() {
        let link = Content::link(Resource::new("job://x/output", "output of x"));
        let mut result = CallToolResult::new(vec![Content::text("said"), link]);
        result.structured_content = Some(json!({ "output": "job://x/output", "job": "x" }));
        let raw = serde_json::value::to_raw_value(&result).unwrap();
        for outcome in [Outcome::from(result), Outcome::new(Payload::Raw(raw))] {
            let Answer::Result(read, _) = read(outcome, None) else {
                panic!("it is a result");
            };
            assert_eq!(read.content.len(), 1);
            assert_eq!(read.content[0].as_text(), Some("said"));
            assert_eq!(read.structured_content, Some(json!({ "job": "x" })));
        }
    }

    #[test]
    fn nobody_looks_into_an_answer_of_a_million_parts() {
        let raw = format!(
            r#"{{"content":[],"structuredContent":{{"a":[0{}]}}}}"#,
            ",0".repeat(1 << 20)
        );
        let raw = serde_json::value::RawValue::from_string(raw).unwrap();
        let answered = Answered {
            path: Some(Kind::Http),
            result: Ok(Outcome::new(Payload::Raw(raw))),
        };
        let Payload::CallTool(result) = of_one("far", answered, None).payload else {
            panic!("it is a result");
        };
        assert!(result.is_error);
        assert_eq!(
            result.structured_content.unwrap()["error"]["began"],
            json!(true)
        );
    }

    #[test]
    fn an_answer_that_does_not_fit_is_left_out_and_says_so() {
        let budget = lmcp_core::Budget::of_memory(4 << 20);
        let account = budget.account("ann");
        let answer = || {
            let text = format!(
                r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#,
                "x".repeat(1 << 20)
            );
            let raw = serde_json::value::RawValue::from_string(text).unwrap();
            Outcome::new(Payload::Raw(raw))
        };
        let Answer::Result(_, first) = read(answer(), Some(&account)) else {
            panic!("one answer is always taken");
        };
        assert!(account.used() > 2 << 20);
        let answered = Answered {
            path: Some(Kind::Http),
            result: Ok(answer()),
        };
        let Payload::CallTool(result) = of_one("far", answered, Some(&account)).payload else {
            panic!("it is a result");
        };
        let text = result.content[0].as_text().unwrap();
        assert!(
            result.is_error && text.starts_with("far via http: its answer of"),
            "{text}"
        );
        assert!(text.contains("may or may not have taken effect"), "{text}");
        drop(first);
        assert_eq!(budget.used(), 0);
    }
}
