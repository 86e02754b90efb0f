//! A server written by hand, for behaviour that our server never has.

use std::{net::SocketAddr, sync::Arc};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};

use crate::support::soon;

/// One request, as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) verb: String,
    pub(crate) target: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// Returns the method of the message; for `GET` and `DELETE`, the verb itself.
    pub(crate) fn method(&self) -> String {
        match self.json()["method"].as_str() {
            Some(method) => method.to_owned(),
            None if self.verb == "POST" => "(response)".to_owned(),
            None => self.verb.clone(),
        }
    }
}

/// A server. Every connection gets one request.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    requests: mpsc::UnboundedReceiver<Request>,
    _serving: JoinSet<()>,
}

impl Site {
    /// Starts a server. `answer` writes the whole response. If it returns nothing, or a response with `connection:
    /// keep-alive`, the connection stays open and silent.
    pub(crate) async fn new(
        answer: impl Fn(&Request) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let (sender, requests) = mpsc::unbounded_channel();
        let answer = Arc::new(answer);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, sender) = (Arc::clone(&answer), sender.clone());
                connections.spawn(async move {
                    let mut stream = BufReader::new(stream);
                    let Some(request) = read(&mut stream).await else {
                        return;
                    };
                    let text = answer(&request);
                    let _ = sender.send(request);
                    match text {
                        Some(text) => {
                            let _ = stream.write_all(&text).await;
                            if contains(&text, b"connection: keep-alive") {
                                std::future::pending().await
                            }
                        }
                        None => std::future::pending().await,
                    }
                });
            }
        });
        Self {
            address,
            requests,
            _serving: serving,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Returns the next request.
    pub(crate) async fn request(&mut self) -> Request {
        soon(self.requests.recv()).await.expect("the site is up")
    }

    /// Returns whether another request has come.
    pub(crate) fn has_request(&mut self) -> bool {
        !self.requests.is_empty()
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        head.push(line.trim().to_owned());
    }
    let mut words = head.first()?.split(' ').map(ToOwned::to_owned);
    let (verb, target) = (words.next()?, words.next()?);
    let headers: Vec<_> = head
        .iter()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
    stream.read_exact(&mut body).await.ok()?;
    Some(Request {
        verb,
        target,
        headers,
        body: String::from_utf8(body).ok()?,
    })
}

/// Returns a whole response.
pub(crate) fn respond(status: &str, kind: &str, body: &str) -> Vec<u8> {
    respond_with(status, &[("content-type", kind)], body)
}

pub(crate) fn respond_with(status: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    (text + "\r\n" + body).into_bytes()
}

pub(crate) fn json(body: &Value) -> Vec<u8> {
    respond("200 OK", "application/json", &body.to_string())
}

pub(crate) fn accepted() -> Vec<u8> {
    respond("202 Accepted", "text/plain", "")
}

/// Returns a response with events, which ends with the connection.
pub(crate) fn events(text: &str) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n";
    [head, text].concat().into_bytes()
}
