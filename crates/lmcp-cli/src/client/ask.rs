//! Turns a server's question into a prompt on the terminal.

use std::{
    io::{self, BufRead, Write, stderr, stdin},
    sync::Arc,
};

use lmcp::wire::{ClientCapabilities, elicit::ElicitParams, input::InputRequest};
use lmcp::{RpcError, client::Asked};
use serde_json::{Map, Value, json};

use super::{
    answers::Answers,
    field::{self, Field, truth},
    progress,
    show::visible,
};
use crate::report;

/// Returns the capabilities of a person at a terminal: forms and addresses.
pub(super) fn capabilities() -> ClientCapabilities {
    let declared = json!({ "elicitation": { "form": {}, "url": {} } });
    serde_json::from_value(declared).unwrap_or_default()
}

/// Returns the capabilities of a command line with answers: forms alone, because nobody can open an address.
pub(super) fn capabilities_of_answers() -> ClientCapabilities {
    let declared = json!({ "elicitation": { "form": {} } });
    serde_json::from_value(declared).unwrap_or_default()
}

/// Answers the server with the answers of the command line. Declines a question that they do not answer, and says why.
pub(super) async fn answers(asked: Asked, answers: Arc<Answers>) -> Result<Value, RpcError> {
    let form = form(asked)?;
    progress::clear();
    Ok(answers.to(&form).unwrap_or_else(|why| {
        let words = format!("the question `{}` is declined: {why}", form.message);
        report::note(&visible(&words));
        json!({ "action": "decline" })
    }))
}

/// Answers the server with the answers of the command line. Asks the person if they are not enough.
pub(super) async fn person(asked: Asked, answers: Arc<Answers>) -> Result<Value, RpcError> {
    let form = form(asked)?;
    if !answers.is_empty()
        && let Ok(answer) = answers.to(&form)
    {
        return Ok(answer);
    }
    progress::clear();
    // A person may take long, and the call continues meanwhile.
    let answer =
        tokio::task::spawn_blocking(move || fill_in(&form, &mut stdin().lock(), &mut stderr()));
    match answer.await {
        Ok(Ok(answer)) => Ok(answer),
        // The terminal is gone, so nobody can answer.
        Ok(Err(_)) | Err(_) => Ok(json!({ "action": "cancel" })),
    }
}

fn form(asked: Asked) -> Result<ElicitParams, RpcError> {
    let InputRequest::Elicit(form) = asked.question else {
        let words = "questions to a person are answered here, and there is no model or folders";
        return Err(RpcError::invalid_request(words));
    };
    Ok(form)
}

/// Asks for one field after another. The end of the input cancels the question.
fn fill_in(
    form: &ElicitParams,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<Value> {
    let only = only_truth(form);
    // The message is the label of a single yes or no, so it comes with the prompt.
    if only.is_none() {
        writeln!(output, "{}", visible(&form.message))?;
    }
    writeln!(
        output,
        "({DECLINE} refuses, {CANCEL} or Ctrl-D dismisses the question)"
    )?;
    match (&form.url, only) {
        (Some(url), _) => agree(url, input, output),
        (None, Some(field)) => one_truth(form, &field, input, output),
        (None, None) => fields(form, input, output),
    }
    .map(|answered| match answered {
        Typed::Line(answer) => answer,
        Typed::Declined => json!({ "action": "decline" }),
        Typed::Cancelled => json!({ "action": "cancel" }),
    })
}

fn agree(url: &str, input: &mut impl BufRead, output: &mut impl Write) -> io::Result<Typed<Value>> {
    writeln!(output, "{}", visible(url))?;
    let agreed = yes_or_no("Open this address yourself, and go on?", input, output)?;
    Ok(agreed.map(|()| json!({ "action": "accept" })))
}

/// Returns the field of a form that has one alone, if the answer is yes or no.
fn only_truth(form: &ElicitParams) -> Option<Field<'_>> {
    let mut fields = field::fields(form);
    let only = fields.next().filter(Field::is_truth)?;
    (form.url.is_none() && fields.next().is_none()).then_some(only)
}

/// Asks once for a form whose only answer is yes or no. The answer is sent at once: there is nothing to look over.
fn one_truth(
    form: &ElicitParams,
    field: &Field<'_>,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<Typed<Value>> {
    let answer = one_field(field, &field.question_as(&form.message), input, output)?;
    Ok(answer.map(|value| {
        let content: Map<_, _> = value
            .map(|value| (field.name.to_owned(), value))
            .into_iter()
            .collect();
        json!({ "action": "accept", "content": content })
    }))
}

fn fields(
    form: &ElicitParams,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<Typed<Value>> {
    let mut content = Map::new();
    let mut shown = Vec::new();
    for field in field::fields(form) {
        match one_field(&field, &field.question(), input, output)? {
            Typed::Line(None) => {}
            Typed::Line(Some(value)) => {
                shown.push(format!("  {}: {}", field.title(), field.shown(&value)));
                content.insert(field.name.to_owned(), value);
            }
            Typed::Declined => return Ok(Typed::Declined),
            Typed::Cancelled => return Ok(Typed::Cancelled),
        }
    }
    for line in shown {
        writeln!(output, "{}", visible(&line))?;
    }
    let sent = yes_or_no("Send this to the server?", input, output)?;
    Ok(sent.map(|()| json!({ "action": "accept", "content": content })))
}

/// The reaction of a person: a line, a refusal, or a cancellation.
enum Typed<T> {
    Line(T),
    Declined,
    Cancelled,
}

impl<T> Typed<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> Typed<U> {
        match self {
            Self::Line(line) => Typed::Line(change(line)),
            Self::Declined => Typed::Declined,
            Self::Cancelled => Typed::Cancelled,
        }
    }
}

/// Asks until the answer fits. `None`: the field stays empty.
fn one_field(
    field: &Field<'_>,
    question: &str,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<Typed<Option<Value>>> {
    loop {
        let line = match ask(question, input, output)? {
            Typed::Line(line) => line,
            Typed::Declined => return Ok(Typed::Declined),
            Typed::Cancelled => return Ok(Typed::Cancelled),
        };
        match (line.is_empty(), field.default()) {
            (true, Some(default)) => return Ok(Typed::Line(Some(default.clone()))),
            (true, None) if !field.is_required => return Ok(Typed::Line(None)),
            (true, None) => writeln!(output, "an answer is needed")?,
            (false, _) => match field.value(&line) {
                Ok(value) => return Ok(Typed::Line(Some(value))),
                Err(words) => writeln!(output, "{}", visible(&words))?,
            },
        }
    }
}

/// Asks until the answer is yes or no.
fn yes_or_no(
    question: &str,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<Typed<()>> {
    loop {
        match ask(&format!("{question} [yes/no]: "), input, output)? {
            Typed::Line(line) => match truth(&line) {
                Some(true) => return Ok(Typed::Line(())),
                Some(false) => return Ok(Typed::Declined),
                None => {}
            },
            other => return Ok(other.map(drop)),
        }
    }
}

/// Reads a line of input.
fn ask(
    question: &str,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<Typed<String>> {
    write!(output, "{}", visible(question))?;
    output.flush()?;
    let mut line = String::new();
    let read = input.read_line(&mut line)?;
    Ok(match line.trim() {
        _ if read == 0 => Typed::Cancelled,
        CANCEL => Typed::Cancelled,
        DECLINE => Typed::Declined,
        line => Typed::Line(line.to_owned()),
    })
}

/// Lines that are commands, and not the answer to a field.
const DECLINE: &str = "/decline";
const CANCEL: &str = "/cancel";

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(schema: Value, typed: &str) -> (Value, String) {
        let form = ElicitParams::form("Where to?", schema);
        let mut output = Vec::new();
        let answer = fill_in(&form, &mut typed.as_bytes(), &mut output).unwrap();
        (answer, String::from_utf8(output).unwrap())
    }

    fn form() -> Value {
        json!({
            "properties": {
                "age": { "type": "integer", "title": "Your age" },
                "color": { "enum": ["red", "blue"], "default": "red" },
                "happy": { "type": "boolean" },
                "tags": { "type": "array", "items": { "enum": ["a", "b"] } },
            },
            "required": ["age"],
        })
    }

    #[test]
    fn fields_are_asked_for_until_they_fit() {
        let (answer, said) = answer(form(), "\nold\n41\ngreen\n\nmaybe\nyes\na, b\ny\n");
        let content = json!({ "age": 41, "color": "red", "happy": true, "tags": ["a", "b"] });
        assert_eq!(answer, json!({ "action": "accept", "content": content }));
        for words in [
            "Where to?",
            "Your age: ",
            "an answer is needed",
            "a whole number",
            "[red/blue] = red",
            "one of red, blue",
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
    }

    #[test]
    fn what_is_not_needed_may_stay_empty_and_the_person_may_say_no() {
        let (answer, _) = answer(form(), "1\n\n\n\nno\n");
        assert_eq!(answer, json!({ "action": "decline" }));
    }

    #[test]
    fn the_end_of_the_input_cancels() {
        assert_eq!(answer(form(), "1\n").0, json!({ "action": "cancel" }));
        assert_eq!(answer(json!({}), "").0, json!({ "action": "cancel" }));
        assert_eq!(
            answer(json!({}), "yes\n").0,
            json!({ "action": "accept", "content": {} })
        );
    }

    #[test]
    fn a_person_can_refuse_or_dismiss_at_any_question_and_is_told_how() {
        for (typed, action) in [
            ("/decline\n", "decline"),
            ("/cancel\n", "cancel"),
            ("1\n/decline\n", "decline"),
            ("1\n\n\n\n/cancel\n", "cancel"),
        ] {
            let (answer, said) = answer(form(), typed);
            assert_eq!(answer, json!({ "action": action }), "{typed:?}");
            for words in ["/decline", "/cancel", "Ctrl-D"] {
                assert!(said.contains(words), "{said}");
            }
        }
    }

    #[test]
    fn a_single_yes_or_no_is_asked_for_once() {
        let schema = |yes: Value| json!({ "properties": { "yes": yes }, "required": ["yes"] });
        let confirm = schema(json!({ "type": "boolean", "description": "Yes or no?" }));
        for (typed, yes) in [("yes\n", true), ("maybe\ny\n", true), ("no\n", false)] {
            let (answer, said) = answer(confirm.clone(), typed);
            let content = json!({ "yes": yes });
            assert_eq!(answer, json!({ "action": "accept", "content": content }));
            assert!(said.contains("Where to? [yes/no]: "), "{said}");
            assert!(
                !said.contains("Send this") && !said.contains("Yes or"),
                "{said}"
            );
        }
        assert_eq!(answer(confirm.clone(), "").0, json!({ "action": "cancel" }));
        assert_eq!(
            answer(confirm, "/decline\n").0,
            json!({ "action": "decline" })
        );
        // The words of the field are part of the question.
        let (_, said) = answer(
            schema(
                json!({ "type": "boolean", "title": "Post", "description": "Really?", "default": false }),
            ),
            "\n",
        );
        assert!(
            said.contains("Where to? Post (Really?) [yes/no] = no: "),
            "{said}"
        );
    }

    #[test]
    fn an_answer_that_breaks_a_rule_of_its_field_is_asked_for_again() {
        let schema = json!({ "properties": {
            "day": { "type": "string", "format": "date" },
            "size": { "type": "string", "oneOf": [{ "const": "s", "title": "Small" }, { "const": "l", "title": "Large" }] },
        }, "required": ["day", "size"] });
        let (answer, said) = answer(schema, "tomorrow\n2026-07-28\nSmall\ny\n");
        let content = json!({ "day": "2026-07-28", "size": "s" });
        assert_eq!(answer, json!({ "action": "accept", "content": content }));
        assert!(said.contains("s: Small, l: Large"), "{said}");
    }

    #[test]
    fn what_is_sent_is_shown_before_it_is_sent() {
        let (_, said) = answer(form(), "41\n\nyes\na, b\ny\n");
        let shown = "  Your age: 41\n  color: red\n  happy: yes\n  tags: a, b\nSend this";
        assert!(said.contains(shown), "{said}");
    }

    #[test]
    fn an_address_is_shown_and_agreed_to() {
        let form = ElicitParams::url("Please log in", "https://example.org/\x1b[2J");
        let mut output = Vec::new();
        let answer = fill_in(&form, &mut "y\n".as_bytes(), &mut output).unwrap();
        assert_eq!(answer, json!({ "action": "accept" }));
        assert!(!output.contains(&0x1b));
    }
}
