//! One answer as messages. What the specification says about status, headers and events is checked on every one.

use serde_json::Value;
use tokio::sync::mpsc;

use super::{
    Event, Way,
    connection::{Connection, Framing, Head},
};
use crate::transcript::HttpPart;

/// Reads an answer to its end. Returns the connection, if it can be used again.
pub(crate) async fn read(
    post: usize,
    mut connection: Connection,
    part: &HttpPart,
    way: Way,
    events: &mpsc::Sender<Event>,
) -> Result<Option<Connection>, String> {
    let head = connection.read_head().await?;
    for (name, value) in &part.got {
        let got = head.header(name);
        if got != Some(value) {
            return Err(format!("header `{name}` should be `{value}`, is {got:?}"));
        }
    }
    if let Some(session) = head.header("mcp-session-id") {
        expect_session(session, way)?;
        let _ = events.send(Event::Session(session.into())).await;
    }
    let mut framing = head.framing()?;
    if head.header("content-type") == Some("text/event-stream") {
        expect_status(&head, part.status.unwrap_or(200))?;
        expect_stream_headers(&head)?;
        let _ = events.send(Event::Opened(post)).await;
        read_events(post, &mut connection, &mut framing, way, events).await?;
    } else {
        let mut body = Vec::new();
        while let Some(piece) = connection.read_piece(&mut framing).await? {
            body.extend(piece);
        }
        let event = match whole(&head, part, way, &body)? {
            Some(message) => Event::Message(post, message),
            None => Event::Silent(post),
        };
        // A transcript that is over listens no more.
        let _ = events.send(event).await;
    }
    Ok((!head.is_last()).then_some(connection))
}

/// The message in a plain body, if there is one.
fn whole(head: &Head, part: &HttpPart, way: Way, body: &[u8]) -> Result<Option<Value>, String> {
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
    expect_status(head, part.status.unwrap_or_else(|| status(&message, way)))
        .map_err(|err| format!("{err}: {message}"))?;
    Ok(Some(message))
}

/// The status that follows from a response: fixed by the specification for some codes, by this project for the others.
/// In older revisions a request that was read is answered with 200, whatever the answer is.
fn status(message: &Value, way: Way) -> u16 {
    match way {
        Way::Modern => {}
        Way::Legacy { .. } if message.get("error").is_some() && message.get("id").is_none() => {
            return 400;
        }
        Way::Legacy { .. } | Way::Standing { .. } => return 200,
    }
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
    way: Way,
    events: &mpsc::Sender<Event>,
) -> Result<(), String> {
    let (mut text, mut answered) = (String::new(), false);
    while let Some(piece) = connection.read_piece(framing).await? {
        let piece =
            String::from_utf8(piece).map_err(|err| format!("an event that is no UTF-8: {err}"))?;
        text.push_str(&piece);
        while let Some((event, rest)) = text.split_once("\n\n") {
            if let Some(name) = event.lines().find_map(|line| line.strip_prefix("id: ")) {
                let _ = events.send(Event::Named(name.into())).await;
            }
            let message = message(event, way)?;
            text = rest.into();
            let Some(message) = message else { continue };
            let response = message.get("method").is_none();
            if response && matches!(way, Way::Standing { .. }) {
                return Err(format!("a response on the GET stream: {message}"));
            }
            if answered {
                return Err(format!("an event after the response: {message}"));
            }
            answered = response && !matches!(way, Way::Legacy { batch: true, .. });
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
fn message(event: &str, way: Way) -> Result<Option<Value>, String> {
    if event.starts_with(':') && !event.contains('\n') {
        return Ok(None);
    }
    // Older revisions name their events, and say when to come back.
    let named = |line: &&str| line.starts_with("id: ") || line.starts_with("retry: ");
    let mut lines = event
        .split('\n')
        .filter(|line| way == Way::Modern || !named(line));
    let data = match (lines.next(), lines.next()) {
        (None, _) => return Ok(None),
        (Some(line), None) => line.strip_prefix("data: "),
        (Some(_), Some(_)) => None,
    };
    let data = data.ok_or_else(|| format!("not one line of data: {event}"))?;
    if data.is_empty() && way.primes() {
        return Ok(None);
    }
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

fn expect_session(session: &str, way: Way) -> Result<(), String> {
    match way {
        Way::Modern => Err("a session for a request that stands alone".into()),
        _ if session.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(()),
        _ => Err(format!("the id of a session is not plain: {session:?}")),
    }
}
