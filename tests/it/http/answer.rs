//! One answer as messages. What the specification says about status, headers and events is checked on every one.

use serde_json::Value;
use tokio::sync::mpsc;

use super::{
    Event,
    connection::{Connection, Framing, Head},
};
use crate::transcript::HttpPart;

/// Reads an answer to its end. Returns the connection, if it can be used again.
pub(crate) async fn read(
    post: usize,
    mut connection: Connection,
    part: &HttpPart,
    events: &mpsc::Sender<Event>,
) -> Result<Option<Connection>, String> {
    let head = connection.read_head().await?;
    for (name, value) in &part.got {
        let got = head.header(name);
        if got != Some(value) {
            return Err(format!("header `{name}` should be `{value}`, is {got:?}"));
        }
    }
    let mut framing = head.framing()?;
    if head.header("content-type") == Some("text/event-stream") {
        expect_status(&head, part.status.unwrap_or(200))?;
        expect_stream_headers(&head)?;
        read_events(post, &mut connection, &mut framing, events).await?;
    } else {
        let mut body = Vec::new();
        while let Some(piece) = connection.read_piece(&mut framing).await? {
            body.extend(piece);
        }
        let event = match whole(&head, part, &body)? {
            Some(message) => Event::Message(post, message),
            None => Event::Silent(post),
        };
        // A transcript that is over listens no more.
        let _ = events.send(event).await;
    }
    Ok((!head.is_last()).then_some(connection))
}

/// The message in a plain body, if there is one.
fn whole(head: &Head, part: &HttpPart, body: &[u8]) -> Result<Option<Value>, String> {
    if body.is_empty() {
        expect_status(head, part.status.unwrap_or(202))?;
        return Ok(None);
    }
    let kind = head.header("content-type");
    if kind != Some("application/json") {
        return Err(format!("the type of the answer is {kind:?}"));
    }
    let message: Value = serde_json::from_slice(body).map_err(|err| {
        format!(
            "a body that is no JSON ({err}): {}",
            String::from_utf8_lossy(body)
        )
    })?;
    expect_status(head, part.status.unwrap_or_else(|| status(&message)))
        .map_err(|err| format!("{err}: {message}"))?;
    Ok(Some(message))
}

/// The status that follows from a response: fixed by the specification for some codes, by this project for the others.
fn status(message: &Value) -> u16 {
    match message["error"]["code"].as_i64() {
        Some(-32601) => 404,
        Some(-32700 | -32600 | -32602 | -32022..=-32020) => 400,
        _ => 200,
    }
}

async fn read_events(
    post: usize,
    connection: &mut Connection,
    framing: &mut Framing,
    events: &mpsc::Sender<Event>,
) -> Result<(), String> {
    let (mut text, mut answered) = (String::new(), false);
    while let Some(piece) = connection.read_piece(framing).await? {
        let piece =
            String::from_utf8(piece).map_err(|err| format!("an event that is no UTF-8: {err}"))?;
        text.push_str(&piece);
        while let Some((event, rest)) = text.split_once("\n\n") {
            let message = message(event)?;
            text = rest.into();
            let Some(message) = message else { continue };
            if answered {
                return Err(format!("an event after the response: {message}"));
            }
            answered = message.get("method").is_none();
            let _ = events.send(Event::Message(post, message)).await;
        }
    }
    if text.is_empty() {
        Ok(())
    } else {
        Err(format!("half an event: {text}"))
    }
}

/// The message of an event: one line of data. A comment is none, and there are no other fields in 2026-07-28.
fn message(event: &str) -> Result<Option<Value>, String> {
    if event.starts_with(':') && !event.contains('\n') {
        return Ok(None);
    }
    let data = event
        .strip_prefix("data: ")
        .filter(|data| !data.contains('\n'));
    let data = data.ok_or_else(|| format!("not one line of data: {event}"))?;
    serde_json::from_str(data)
        .map(Some)
        .map_err(|err| format!("an event that is no JSON ({err}): {data}"))
}

fn expect_status(head: &Head, expected: u16) -> Result<(), String> {
    if head.status == expected {
        Ok(())
    } else {
        Err(format!(
            "the status should be {expected}, is {}",
            head.status
        ))
    }
}

fn expect_stream_headers(head: &Head) -> Result<(), String> {
    for (name, value) in [("cache-control", "no-cache"), ("x-accel-buffering", "no")] {
        if head.header(name) != Some(value) {
            return Err(format!("a stream without `{name}: {value}`"));
        }
    }
    Ok(())
}
