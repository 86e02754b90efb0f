//! A web site on loopback, as good or as bad as a test wants it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use lmcp_core::{Client, Server};
use lmcp_tools::{HostTools, Settings};
use lmcp_wire::CallToolResult;
use serde_json::Value;

/// What somebody asked for.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Method and target.
    pub(crate) line: String,
    /// Everything before the body, in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Site {
    /// Answers everything with what a function writes.
    pub(crate) fn new(answer: impl Fn(&Asked, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (log, answer) = (Arc::clone(&asked), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let mut stream = stream;
                    if let Some(asked) = read(&stream) {
                        log.lock().unwrap().push(asked.clone());
                        answer(&asked, &mut stream);
                    }
                });
            }
        });
        Self { address, asked }
    }

    /// Answers everything with the same body.
    pub(crate) fn of(content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        Self::new(move |_, stream| send(stream, "200 OK", &[("Content-Type", content_type)], &body))
    }

    /// Answers with these header lines and this body, status 200 by default.
    pub(crate) fn with(
        status: &'static str,
        headers: &'static [(&'static str, &'static str)],
        body: impl Into<Vec<u8>>,
    ) -> Self {
        let body = body.into();
        Self::new(move |_, stream| send(stream, status, headers, &body))
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn read(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let line = head
        .lines()
        .next()?
        .trim_end_matches(" HTTP/1.1")
        .to_owned();
    let head = head.to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    let body = String::from_utf8(body).ok()?;
    Some(Asked { line, head, body })
}

/// A whole answer.
pub(crate) fn send(stream: &mut impl Write, status: &str, headers: &[(&str, &str)], body: &[u8]) {
    let mut head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    // Whoever does not want it hangs up.
    let _ = stream.write_all(format!("{head}\r\n").as_bytes());
    let _ = stream.write_all(body);
}

/// Settings under which loopback may be reached.
pub(crate) fn loopback() -> Settings {
    let mut settings = Settings::default();
    settings.web.allow = vec!["127.0.0.0/8".parse().unwrap()];
    settings
}

pub(crate) fn client(settings: Settings) -> Client {
    let server = HostTools::new(settings)
        .unwrap()
        .add_to(Server::new("t", "0"));
    server.start().unwrap().client()
}

/// Calls a tool that answers.
pub(crate) async fn call(client: &Client, tool: &str, arguments: Value) -> (CallToolResult, Value) {
    let result = client.call_tool(tool, arguments).await.unwrap();
    let value = result.structured_content.clone().unwrap_or_default();
    (result, value)
}

/// The text of a call that fails.
pub(crate) async fn failure(client: &Client, tool: &str, arguments: Value) -> String {
    let result = client.call_tool(tool, arguments).await.unwrap();
    let text = text(&result).to_owned();
    assert!(result.is_error, "no failure: {text}");
    text
}

pub(crate) fn text(result: &CallToolResult) -> &str {
    result.content[0].as_text().unwrap()
}
