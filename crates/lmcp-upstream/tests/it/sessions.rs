//! Sessions over HTTP with a server behind an upstream: the subscriptions of a client outlast its streams.

use lmcp_core::{Endpoint, Handle, Terms};
use lmcp_testkit::limits;
use lmcp_upstream::{Upstream, socket};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

use crate::{
    server::server,
    support::{Place, soon},
};

/// Returns a server, and an upstream of it that allows one open connection: the next one is served only after the server has
/// noticed the end of the last.
async fn places() -> (Handle, Place, Place) {
    let handle = server().start().expect("the server is sound");
    let far = Place::serving(handle.endpoint()).await;
    let upstream = Upstream::new(socket(far.path()).route());
    let one = limits(|limits| limits.connections = 1);
    let near = Endpoint::on_terms(upstream, Terms::default().limits(one));
    let near = Place::serving(near).await;
    (handle, far, near)
}

/// Sends a request on a connection of its own, and reads the answer up to its blank line.
async fn open(
    near: &Place,
    verb: &str,
    session: &str,
    body: &str,
) -> (String, BufReader<TcpStream>) {
    let session = match session {
        "" => String::new(),
        id => format!("Mcp-Session-Id: {id}\r\nMCP-Protocol-Version: 2025-06-18\r\n"),
    };
    let request = format!(
        "{verb} /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{session}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        near.host(),
        body.len()
    );
    loop {
        let mut connection = TcpStream::connect(near.host()).await.expect("it listens");
        let _ = connection.write_all(request.as_bytes()).await;
        let (mut reader, mut head) = (BufReader::new(connection), String::new());
        while !head.ends_with("\r\n\r\n") {
            match reader.read_line(&mut head).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
        if head.starts_with("HTTP/1.1 20") {
            return (head, reader);
        }
        assert!(head.is_empty() || head.contains(" 503 "), "{head}");
    }
}

async fn post(near: &Place, session: &str, method: &str, params: Value) -> (String, String) {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let (head, mut reader) = open(near, "POST", session, &body.to_string()).await;
    let mut answer = String::new();
    reader
        .read_to_string(&mut answer)
        .await
        .expect("it is text");
    (head, answer)
}

async fn initialize(near: &Place) -> String {
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" } });
    let (head, _) = post(near, "", "initialize", params).await;
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    let id = lines.find(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id"));
    id.expect("there is a session").1.to_owned()
}

/// Opens the stream of a session, and waits until the server listens for it.
async fn listen(near: &Place, session: &str) -> BufReader<TcpStream> {
    let (_, mut stream) = open(near, "GET", session, "").await;
    until(&mut stream, ": still here").await;
    stream
}

async fn until(stream: &mut BufReader<TcpStream>, word: &str) {
    let mut line = String::new();
    while !line.contains(word) {
        line.clear();
        let read = stream.read_line(&mut line).await.expect("it is text");
        assert!(read > 0, "the stream goes on");
    }
}

#[tokio::test]
async fn a_client_that_comes_back_still_hears_of_what_it_watches() {
    let (server, _far, near) = places().await;
    let session = soon(initialize(&near)).await;
    let uri = json!({ "uri": "probe://text" });
    let (_, watched) = soon(post(&near, &session, "resources/subscribe", uri)).await;
    assert!(watched.contains("\"result\""), "{watched}");
    drop(soon(listen(&near, &session)).await);
    let mut stream = soon(listen(&near, &session)).await;
    server.resource_updated("probe://text");
    soon(until(&mut stream, "notifications/resources/updated")).await;
}

#[tokio::test]
async fn a_session_hears_why_it_may_not_watch_a_resource() {
    let (_server, _far, near) = places().await;
    let session = soon(initialize(&near)).await;
    for _ in 0..2 {
        let uri = json!({ "uri": "probe://missing" });
        let (_, answer) = soon(post(&near, &session, "resources/subscribe", uri)).await;
        assert!(
            answer.contains("\"error\"") && answer.contains("probe://missing"),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn a_client_that_comes_back_hears_of_what_changed_meanwhile() {
    let (server, far, near) = places().await;
    let session = soon(initialize(&near)).await;
    let uri = json!({ "uri": "probe://text" });
    let (_, watched) = soon(post(&near, &session, "resources/subscribe", uri)).await;
    assert!(watched.contains("\"result\""), "{watched}");
    // When another listener at the same server is told, the upstream was told, too.
    let upstream = Upstream::new(socket(far.path()).route());
    let other = Endpoint::new(upstream).client();
    let mut changes = soon(other.subscribe(["probe://text"])).await.unwrap();
    server.resource_updated("probe://text");
    soon(changes.next()).await.unwrap();
    let (_, answer) = soon(post(&near, &session, "ping", json!({}))).await;
    assert!(answer.contains("\"result\""), "{answer}");
    let (_, mut stream) = soon(open(&near, "GET", &session, "")).await;
    soon(until(&mut stream, "notifications/resources/updated")).await;
}

#[tokio::test]
async fn a_progress_token_that_is_none_is_refused_as_by_any_server() {
    let (_server, _far, near) = places().await;
    let session = soon(initialize(&near)).await;
    let all = [
        ("tools/list", json!({})),
        (
            "tools/call",
            json!({ "name": "echo", "arguments": { "text": "x" } }),
        ),
        ("resources/subscribe", json!({ "uri": "probe://text" })),
    ];
    for (method, mut params) in all {
        params["_meta"] = json!({ "progressToken": [1] });
        let (_, answer) = soon(post(&near, &session, method, params)).await;
        assert!(
            answer.contains("a string or an integer"),
            "{method}: {answer}"
        );
    }
}
