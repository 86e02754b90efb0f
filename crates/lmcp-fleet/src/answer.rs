//! Turns the answer of one host into the answer for callers: the host's own result, plus the host and the way to it. No I/O.

use lmcp_core::{Account, CALL_BYTES, NoRoom, Outcome, Payload, Reservation, weigh_json};
use lmcp_wire::{CallToolResult, Content, members::Members};
use serde_json::{Map, Value, json};

use crate::{
    failed::Failed,
    host::{Answered, Host},
    limits::ANSWER_PARTS,
    path::Kind,
};

/// The result of a tool that has ended, and the memory of the caller that the result takes.
pub(crate) type Read = (CallToolResult, Option<Reservation>);

/// Reads an answer, and counts its memory for the caller. Links to resources are left out: they are resources of the host,
/// which cannot be read through the hub.
///
/// # Errors
/// The answer is left out. It does not fit the memory of its caller; or it has more parts than a tool of ours ever makes,
/// and as values they take many times the memory of the text; or it is not a result but, for example, a question or a task,
/// which tools of ours never give.
pub(crate) fn read(outcome: Outcome, account: Option<&Account>) -> Result<Read, Failed> {
    if let Payload::Raw(text) = &outcome.payload
        && parts(text.get()) > ANSWER_PARTS
    {
        let words = format!("its answer has more than {ANSWER_PARTS} parts, and is left out");
        return Err(left_out(words));
    }
    let Ok(counted) = count(&outcome, account) else {
        let words = format!(
            "its answer of {} bytes does not fit your share of the memory of this hub, and is left out",
            outcome.bytes()
        );
        return Err(left_out(words));
    };
    let strange = || left_out("its answer is no result of this tool, and is left out".to_owned());
    let mut result: CallToolResult = match outcome.payload {
        Payload::CallTool(result) => result,
        Payload::Raw(text) => complete(text.get()).ok_or_else(strange)?,
        _ => return Err(strange()),
    };
    let is_shown = |block: &Content| !matches!(block, Content::ResourceLink(_));
    result.content.retain(is_shown);
    if let Some(Value::Object(members)) = &mut result.structured_content {
        members.retain(|_, value| !value.as_str().is_some_and(|text| text.starts_with(JOB)));
    }
    Ok((result, counted))
}

/// Counts a long answer as memory of its caller: the text, and the values that are read from the text.
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

/// Reads the result of a tool that has ended.
fn complete(text: &str) -> Option<CallToolResult> {
    let members = Members::read(text).ok()?;
    let kind = members
        .get("resultType")
        .map_or(Ok("complete".to_owned()), |kind| {
            serde_json::from_str::<String>(kind.get())
        });
    (kind.ok()? == "complete").then(|| serde_json::from_str(text).ok())?
}

/// Returns an upper bound for the number of values in a JSON text: commas and brackets inside strings count, too.
fn parts(text: &str) -> usize {
    memchr::memchr3_iter(b',', b'[', b'{', text.as_bytes()).count()
}

/// The beginning of the address of a job's output.
const JOB: &str = "job://";

/// Returns the answer for a call that was for one host.
pub(crate) fn of_one(host: &Host, answered: Answered, account: Option<&Account>) -> Outcome {
    let path = answered.path;
    let read = answered.result.and_then(|outcome| read(outcome, account));
    match read {
        Ok((mut result, _counted)) => {
            mark(&mut result, host, path);
            result.into()
        }
        Err(failed) => refusal(&host.name, path, &failed).into(),
    }
}

/// Adds the origin to a result: in one line for models, in two members for programs.
fn mark(result: &mut CallToolResult, host: &Host, path: Option<Kind>) {
    if let Some(Value::Object(members)) = &mut result.structured_content {
        // A hub adds to `via` on which way it passed the call on. `via` from any other host is removed.
        let onward = members.remove("via").filter(|_| host.config.hub);
        members.extend(place(&host.name, path));
        if let (Some(path), Some(Value::String(onward))) = (path, onward) {
            members.insert("via".to_owned(), format!("{path}/{onward}").into());
        }
    }
    let mark = format!("[{}]", shown(&host.name, path));
    result.content.push(Content::text(mark));
}

/// Turns a failure into a result that models read.
pub(crate) fn refusal(host: &str, path: Option<Kind>, failed: &Failed) -> CallToolResult {
    let mut result = CallToolResult::error(format!("{}: {}", shown(host, path), in_words(failed)));
    let mut members = place(host, path);
    members.insert("error".to_owned(), error(failed));
    result.structured_content = Some(members.into());
    result
}

/// Returns the words of a failure, and says whether the call was sent.
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

/// Returns the members that name the host and the way. The way is called `via`, because results have paths of files in them.
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
    use crate::config::{HostConfig, Times};

    /// Returns a host without any ways.
    fn far(more: &str) -> Host {
        let config: HostConfig = toml::from_str(&format!("url = 'http://x'\n{more}")).unwrap();
        Host::over("far", config, Times::default(), Vec::new())
    }

    fn answered(text: &str) -> Answered {
        let raw = serde_json::value::RawValue::from_string(text.to_owned()).unwrap();
        Answered {
            path: Some(Kind::Http),
            result: Ok(Outcome::new(Payload::Raw(raw))),
        }
    }

    #[test]
    fn only_a_hub_says_which_way_a_call_went_on() {
        let said = r#"{"content":[],"structuredContent":{"host":"near","via":"ssh"}}"#;
        for (more, via) in [("", "http"), ("hub = true", "http/ssh")] {
            let Payload::CallTool(result) = of_one(&far(more), answered(said), None).payload else {
                panic!("it is a result");
            };
            let expected = json!({ "host": "far", "via": via });
            assert_eq!(result.structured_content, Some(expected));
        }
    }

    #[test]
    fn a_question_or_a_task_of_a_host_reaches_nobody() {
        for said in [
            r#"{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"your password?"}}}}"#,
            r#"{"resultType":"task","taskId":"1","status":"working"}"#,
            r#"[]"#,
        ] {
            let Payload::CallTool(result) = of_one(&far(""), answered(said), None).payload else {
                panic!("{said} is passed on");
            };
            assert!(result.is_error);
            assert!(!json!(result).to_string().contains("password"));
        }
    }

    #[test]
    fn links_to_what_cannot_be_read_through_the_hub_are_left_out() {
        let link = Content::link(Resource::new("job://x/output", "output of x"));
        let mut result = CallToolResult::new(vec![Content::text("said"), link]);
        result.structured_content = Some(json!({ "output": "job://x/output", "job": "x" }));
        let raw = serde_json::value::to_raw_value(&result).unwrap();
        for outcome in [Outcome::from(result), Outcome::new(Payload::Raw(raw))] {
            let (read, _) = read(outcome, None).expect("it is a result");
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
        let Payload::CallTool(result) = of_one(&far(""), answered, None).payload else {
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
        let (_, first) = read(answer(), Some(&account)).expect("one answer is always taken");
        assert!(account.used() > 2 << 20);
        let answered = Answered {
            path: Some(Kind::Http),
            result: Ok(answer()),
        };
        let Payload::CallTool(result) = of_one(&far(""), answered, Some(&account)).payload else {
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
