//! Servers behind HTTP that answer calls with 404. It means that the session is not known, if there is one.

use std::sync::{Arc, Mutex};

use lmcp_core::Client;
use lmcp_upstream::url;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use crate::support::soon;

/// A server of 2025-06-18 that makes handshakes, and answers 404 to calls in its first sessions.
struct Site {
    url: String,
    /// The calls that the server got, by their session.
    calls: Arc<Mutex<Vec<String>>>,
    _serving: JoinSet<()>,
}

/// The behaviour of such a server.
#[derive(Clone, Copy)]
struct Habits {
    has_sessions: bool,
    /// The number of the first session whose calls the server accepts.
    first_good: usize,
}

impl Site {
    async fn new(habits: Habits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let url = format!("http://{address}/mcp");
        let calls = Arc::<Mutex<Vec<String>>>::default();
        let (kept, sessions) = (Arc::clone(&calls), Arc::<Mutex<usize>>::default());
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (calls, sessions) = (Arc::clone(&calls), Arc::clone(&sessions));
                connections.spawn(async move {
                    let mut stream = BufReader::new(stream);
                    let Some((session, message)) = read(&mut stream).await else {
                        return;
                    };
                    let answer = answer(habits, &session, &message, &calls, &sessions);
                    let _ = stream.write_all(answer.as_bytes()).await;
                });
            }
        });
        Self {
            url,
            calls: kept,
            _serving: serving,
        }
    }

    fn calls(&self) -> Vec<String> {
        self.calls.lock().expect("nobody panics with it").clone()
    }
}

fn answer(
    habits: Habits,
    session: &str,
    message: &Value,
    calls: &Mutex<Vec<String>>,
    sessions: &Mutex<usize>,
) -> String {
    let result = |result: Value| {
        json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }).to_string()
    };
    let (status, header, body) = match message["method"].as_str() {
        Some("initialize") => {
            let mut sessions = sessions.lock().expect("nobody panics with it");
            *sessions += 1;
            let header = match habits.has_sessions {
                true => format!("Mcp-Session-Id: {sessions}\r\n"),
                false => String::new(),
            };
            let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
                "serverInfo": { "name": "odd", "version": "1" } });
            ("200 OK", header, result(hello))
        }
        Some("tools/call") => {
            let mut calls = calls.lock().expect("nobody panics with it");
            calls.push(session.to_owned());
            let content = json!({ "content": [{ "type": "text", "text": "done" }] });
            match session.parse().unwrap_or(0) >= habits.first_good {
                true => ("200 OK", String::new(), result(content)),
                false => ("404 Not Found", String::new(), String::new()),
            }
        }
        Some("notifications/initialized") => ("202 Accepted", String::new(), String::new()),
        _ => ("405 Method Not Allowed", String::new(), String::new()),
    };
    format!(
        "HTTP/1.1 {status}\r\n{header}Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Returns the session and the message of a request.
async fn read(stream: &mut BufReader<TcpStream>) -> Option<(String, Value)> {
    let (mut session, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok().filter(|n| *n > 0)?;
        let Some((name, value)) = line.trim().split_once(": ") else {
            if line.trim().is_empty() {
                break;
            }
            continue;
        };
        match &*name.to_ascii_lowercase() {
            "mcp-session-id" => value.clone_into(&mut session),
            "content-length" => length = value.parse().ok()?,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let message = serde_json::from_slice(&body).unwrap_or_default();
    Some((session, message))
}

#[tokio::test]
async fn a_call_that_no_session_of_a_server_knows_is_sent_twice_and_fails_in_words() {
    let site = Site::new(Habits {
        has_sessions: true,
        first_good: usize::MAX,
    })
    .await;
    let client = soon(Client::connect(url(site.url.clone()))).await.unwrap();
    let error = soon(client.call_tool("any", json!({}))).await.unwrap_err();
    assert!(error.message.contains("404"), "{error}");
    assert!(error.message.contains(&site.url), "{error}");
    assert!(!error.is_retriable(), "{error}");
    assert_eq!(site.calls(), ["1", "2"]);
}

#[tokio::test]
async fn a_call_of_a_session_that_is_not_known_any_more_is_made_in_a_new_one() {
    let site = Site::new(Habits {
        has_sessions: true,
        first_good: 2,
    })
    .await;
    let client = soon(Client::connect(url(site.url.clone()))).await.unwrap();
    for _ in 0..2 {
        soon(client.call_tool("any", json!({}))).await.unwrap();
    }
    assert_eq!(site.calls(), ["1", "2", "2"]);
}

#[tokio::test]
async fn a_call_outside_of_any_session_that_is_answered_with_404_is_sent_once() {
    let site = Site::new(Habits {
        has_sessions: false,
        first_good: usize::MAX,
    })
    .await;
    let client = soon(Client::connect(url(site.url.clone()))).await.unwrap();
    let error = soon(client.call_tool("any", json!({}))).await.unwrap_err();
    assert!(
        error.message.contains("404") && error.message.contains(&site.url),
        "{error}"
    );
    assert_eq!(site.calls(), [""]);
}
