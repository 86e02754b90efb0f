//! A server's question becomes a prompt on the terminal.

use std::io::{self, BufRead, Write, stderr, stdin};

use lmcp::wire::{ClientCapabilities, elicit::ElicitParams, input::InputRequest};
use lmcp::{RpcError, client::Asked};
use serde_json::{Map, Value, json};

use super::{progress, show::visible};

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
    if let Some(url) = &form.url {
        writeln!(output, "{}", visible(url))?;
        let agreed = yes_or_no("Open this address yourself, and go on?", input, output)?;
        return Ok(action(agreed));
    }
    let schema = form.requested_schema.as_ref();
    let fields = schema.and_then(|schema| schema["properties"].as_object());
    let fields = fields.into_iter().flatten();
    let required = schema.and_then(|schema| schema["required"].as_array());
    let mut content = Map::new();
    for (name, field) in fields {
        let is_required = required.is_some_and(|names| names.iter().any(|it| it == name));
        match one_field(name, field, is_required, input, output)? {
            Filled::In(value) => drop(content.insert(name.clone(), value)),
            Filled::Empty => {}
            Filled::Cancelled => return Ok(action(None)),
        }
    }
    let sent = yes_or_no("Send this to the server?", input, output)?;
    let mut answer = action(sent);
    if sent == Some(true) {
        answer["content"] = content.into();
    }
    Ok(answer)
}

fn action(agreed: Option<bool>) -> Value {
    json!({ "action": match agreed {
        Some(true) => "accept",
        Some(false) => "decline",
        None => "cancel",
    } })
}

enum Filled {
    In(Value),
    Empty,
    Cancelled,
}

/// Asks until the answer fits.
fn one_field(
    name: &str,
    field: &Value,
    is_required: bool,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<Filled> {
    let title = field["title"].as_str().unwrap_or(name);
    let about = field["description"]
        .as_str()
        .map(|about| format!(" ({about})"));
    let choices = choices(field);
    let offered = match &choices[..] {
        [] if field["type"] == "boolean" => " [yes/no]".to_owned(),
        [] => String::new(),
        choices => format!(" [{}]", choices.join("/")),
    };
    let default = field.get("default").filter(|value| !value.is_null());
    let shown = default.map(|value| format!(" = {}", plain(value)));
    let question = format!(
        "{title}{}{offered}{}: ",
        about.unwrap_or_default(),
        shown.unwrap_or_default()
    );
    loop {
        let Some(line) = ask(&question, input, output)? else {
            return Ok(Filled::Cancelled);
        };
        match (line.is_empty(), default) {
            (true, Some(default)) => return Ok(Filled::In(default.clone())),
            (true, None) if !is_required => return Ok(Filled::Empty),
            (true, None) => writeln!(output, "an answer is needed; Ctrl-D cancels")?,
            (false, _) => match value(&line, field, &choices) {
                Ok(value) => return Ok(Filled::In(value)),
                Err(words) => writeln!(output, "{words}")?,
            },
        }
    }
}

/// The value that a line stands for. In words, what is expected instead.
fn value(line: &str, field: &Value, choices: &[String]) -> Result<Value, String> {
    if field["type"] == "array" {
        let items = line
            .split(',')
            .map(|item| value(item.trim(), &field["items"], choices));
        return items.collect();
    }
    if !choices.is_empty() && !choices.iter().any(|choice| choice == line) {
        return Err(format!("it is one of {}", choices.join(", ")));
    }
    let number: Option<Value> = serde_json::from_str(line).ok().filter(Value::is_number);
    match field["type"].as_str() {
        Some("boolean") => truth(line)
            .map(Value::Bool)
            .ok_or_else(|| "yes or no".to_owned()),
        Some("integer") => number
            .filter(|it| !it.is_f64())
            .ok_or_else(|| "a whole number is needed".to_owned()),
        Some("number") => number.ok_or_else(|| "a number is needed".to_owned()),
        _ => Ok(line.into()),
    }
}

/// The values that a field can have, if they are few.
fn choices(field: &Value) -> Vec<String> {
    let field = if field["type"] == "array" {
        &field["items"]
    } else {
        field
    };
    let plain_ones = field["enum"].as_array().into_iter().flatten();
    let titled = ["oneOf", "anyOf"]
        .iter()
        .filter_map(|name| field[name].as_array());
    let titled = titled.flatten().filter_map(|choice| choice.get("const"));
    plain_ones.chain(titled).map(plain).collect()
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn yes_or_no(
    question: &str,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<Option<bool>> {
    loop {
        match ask(&format!("{question} [yes/no]: "), input, output)? {
            None => return Ok(None),
            Some(line) => {
                if let Some(truth) = truth(&line) {
                    return Ok(Some(truth));
                }
            }
        }
    }
}

fn truth(line: &str) -> Option<bool> {
    match &*line.to_ascii_lowercase() {
        "y" | "yes" | "true" => Some(true),
        "n" | "no" | "false" => Some(false),
        _ => None,
    }
}

/// A line of input; `None` at its end.
fn ask(
    question: &str,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<Option<String>> {
    write!(output, "{}", visible(question))?;
    output.flush()?;
    let mut line = String::new();
    match input.read_line(&mut line)? {
        0 => Ok(None),
        _ => Ok(Some(line.trim().to_owned())),
    }
}

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
    fn an_address_is_shown_and_agreed_to() {
        let form = ElicitParams::url("Please log in", "https://example.org/\x1b[2J");
        let mut output = Vec::new();
        let answer = fill_in(&form, &mut "y\n".as_bytes(), &mut output).unwrap();
        assert_eq!(answer, json!({ "action": "accept" }));
        assert!(!output.contains(&0x1b));
    }
}
