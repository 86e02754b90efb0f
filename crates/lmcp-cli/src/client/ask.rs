//! A server's question becomes a prompt on the terminal.

use std::io::{self, BufRead, Write, stderr, stdin};

use lmcp::wire::{ClientCapabilities, elicit::ElicitParams, input::InputRequest};
use lmcp::{RpcError, client::Asked};
use serde_json::{Map, Value, json};

use super::{
    field::{Field, truth},
    progress,
    show::visible,
};

/// The capabilities of a person at a terminal: forms and addresses.
pub(super) fn capabilities() -> ClientCapabilities {
    let declared = json!({ "elicitation": { "form": {}, "url": {} } });
    serde_json::from_value(declared).unwrap_or_default()
}

/// Asks the person, and answers the server.
pub(super) async fn person(asked: Asked) -> Result<Value, RpcError> {
    let InputRequest::Elicit(form) = asked.question else {
        let words = "there is a person at a terminal here, and no model or folders";
        return Err(RpcError::invalid_request(words));
    };
    progress::clear();
    // A person may take long, and the call goes on meanwhile.
    let answer =
        tokio::task::spawn_blocking(move || fill_in(&form, &mut stdin().lock(), &mut stderr()));
    match answer.await {
        Ok(Ok(answer)) => Ok(answer),
        // The terminal is gone, and the person with it.
        Ok(Err(_)) | Err(_) => Ok(json!({ "action": "cancel" })),
    }
}

/// Asks for one field after the other. The end of the input cancels.
fn fill_in(
    form: &ElicitParams,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<Value> {
    writeln!(output, "{}", visible(&form.message))?;
    writeln!(
        output,
        "({DECLINE} refuses, {CANCEL} or Ctrl-D dismisses the question)"
    )?;
    match &form.url {
        Some(url) => agree(url, input, output),
        None => fields(form, input, output),
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

fn fields(
    form: &ElicitParams,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<Typed<Value>> {
    let schema = form.requested_schema.as_ref();
    let properties = schema.and_then(|schema| schema["properties"].as_object());
    let required = schema.and_then(|schema| schema["required"].as_array());
    let mut content = Map::new();
    let mut shown = Vec::new();
    for (name, schema) in properties.into_iter().flatten() {
        let is_required = required.is_some_and(|names| names.iter().any(|it| it == name));
        let field = Field::new(name, schema, is_required);
        match one_field(&field, input, output)? {
            Typed::Line(None) => {}
            Typed::Line(Some(value)) => {
                shown.push(format!("  {}: {}", field.title(), field.shown(&value)));
                content.insert(name.clone(), value);
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

/// A person answered with a line, declined the question or cancelled it.
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
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<Typed<Option<Value>>> {
    loop {
        let line = match ask(&field.question(), input, output)? {
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

/// Asks until somebody agrees or does not.
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

/// A line of input.
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

/// Lines that answer no field.
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
