//! What is sent: from the text of a `>` line to bytes.
//!
//! - `"$meta":{}` in the params is the `_meta` of a 2026-07-28 client. Members of the object are added to it, `null`
//!   takes one away; `version`, `capabilities`, `clientInfo` and `logLevel` stand for their long names.
//! - `"${name}"` is what `"$capture:name"` caught, with its type; inside a longer string it is its text. `${host}` is
//!   the server's address on HTTP, `${space}` a space that no editor removes.
//! - `$repeat(1000,ab)` is `ab`, a thousand times.
//!
//! In a `>raw` line only `"$meta":{}`, `${name}` and `$repeat` are known.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::transcript::{Form, Send};

/// Values carried from one line to a later one.
pub(crate) type Captures = BTreeMap<String, Value>;

/// A message on its way.
#[derive(Clone)]
pub(crate) struct Outgoing {
    pub(crate) bytes: Vec<u8>,
    /// The message, where the bytes are one.
    pub(crate) message: Option<Value>,
    pub(crate) form: Form,
}

/// The bytes that a `>` line stands for.
pub(crate) fn outgoing(send: &Send, captures: &Captures) -> Result<Outgoing, String> {
    let text = repeated(&send.text)?;
    let bytes = match send.form {
        Form::Message | Form::Until => message(&text, captures)?.to_string().into_bytes(),
        Form::Raw => raw(&text, captures).into_bytes(),
        Form::Hex => hex(&text)?,
    };
    Ok(Outgoing {
        message: serde_json::from_slice(&bytes).ok(),
        bytes,
        form: send.form,
    })
}

/// `${name}` in a text, as text.
pub(crate) fn filled(text: &str, captures: &Captures) -> String {
    let mut filled = text.to_owned();
    for (name, value) in captures {
        let shown = value.as_str().map_or_else(|| value.to_string(), Into::into);
        filled = filled.replace(&format!("${{{name}}}"), &shown);
    }
    filled
}

/// The same value with every `${name}` in it replaced.
pub(crate) fn resolved(value: &Value, captures: &Captures) -> Value {
    match value {
        Value::String(text) => whole(text, captures)
            .cloned()
            .unwrap_or_else(|| filled(text, captures).into()),
        Value::Array(items) => items.iter().map(|item| resolved(item, captures)).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| (key.clone(), resolved(value, captures)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn whole<'a>(text: &str, captures: &'a Captures) -> Option<&'a Value> {
    captures.get(text.strip_prefix("${")?.strip_suffix('}')?)
}

fn message(text: &str, captures: &Captures) -> Result<Value, String> {
    let message: Value = serde_json::from_str(text)
        .map_err(|err| format!("the message is no JSON ({err}); is it meant to be `>raw`?"))?;
    let mut message = resolved(&message, captures);
    let Some(members) = message.as_object_mut() else {
        return Err("the message is no object; is it meant to be `>raw`?".into());
    };
    members
        .entry("jsonrpc")
        .or_insert_with(|| Value::from("2.0"));
    if let Some(params) = members.get_mut("params").and_then(Value::as_object_mut)
        && let Some(extra) = params.remove("$meta")
    {
        params.insert("_meta".into(), meta(extra)?);
    }
    Ok(message)
}

fn raw(text: &str, captures: &Captures) -> String {
    let standard = format!("\"_meta\":{}", standard_meta());
    filled(&text.replace(r#""$meta":{}"#, &standard), captures)
}

fn meta(extra: Value) -> Result<Value, String> {
    let Value::Object(extra) = extra else {
        return Err("`$meta` is an object".into());
    };
    let Value::Object(mut meta) = standard_meta() else {
        return Err("the standard `_meta` is an object".into());
    };
    for (key, value) in extra {
        change(&mut meta, key, value);
    }
    Ok(Value::Object(meta))
}

fn change(meta: &mut Map<String, Value>, key: String, value: Value) {
    let key = match key.as_str() {
        "version" => "io.modelcontextprotocol/protocolVersion".into(),
        "capabilities" => "io.modelcontextprotocol/clientCapabilities".into(),
        "clientInfo" => "io.modelcontextprotocol/clientInfo".into(),
        "logLevel" => "io.modelcontextprotocol/logLevel".into(),
        _ => key,
    };
    if value.is_null() {
        meta.remove(&key);
    } else {
        meta.insert(key, value);
    }
}

/// The `_meta` of a client that can do nothing optional.
pub(crate) fn standard_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "transcript", "version": "1.0.0" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

fn repeated(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("$repeat(") {
        let inside = after.split_once(',').and_then(|(count, after)| {
            let (piece, after) = after.split_once(')')?;
            Some((count.parse().ok()?, piece, after))
        });
        let Some((count, piece, after)) = inside else {
            return Err("a repetition is `$repeat(COUNT,TEXT)`".into());
        };
        out.push_str(before);
        out.push_str(&piece.repeat(count));
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: String = text.split_whitespace().collect();
    if !digits.is_ascii() || !digits.len().is_multiple_of(2) {
        return Err("`>hex` wants two digits per byte".into());
    }
    let pairs = (0..digits.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16))
        .collect::<Result<_, _>>()
        .map_err(|err| format!("`>hex`: {err}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(form: Form, text: &str) -> String {
        let captures = Captures::from([("id".into(), json!(5)), ("s".into(), json!("x"))]);
        let send = Send {
            form,
            text: text.into(),
            ..Send::default()
        };
        let bytes = outgoing(&send, &captures).unwrap().bytes;
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn captured_values_keep_their_type() {
        let text = r#"{"id":"${id}","method":"${s}-${id}"}"#;
        let expected = r#"{"id":5,"jsonrpc":"2.0","method":"x-5"}"#;
        assert_eq!(sent(Form::Message, text), expected);
    }

    #[test]
    fn meta_is_expanded_and_changed() {
        let text =
            r#"{"params":{"$meta":{"version":"1","clientInfo":null,"capabilities":null,"a":2}}}"#;
        let expected = r#"{"jsonrpc":"2.0","params":{"_meta":{"a":2,"io.modelcontextprotocol/protocolVersion":"1"}}}"#;
        assert_eq!(sent(Form::Message, text), expected);
    }

    #[test]
    fn raw_lines_are_sent_as_they_are() {
        assert_eq!(sent(Form::Raw, "{ $repeat(3,[)${s}"), "{ [[[x");
        assert_eq!(sent(Form::Hex, "7b 7D"), "{}");
    }
}
