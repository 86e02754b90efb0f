//! A server at the far end of a pipe or a connection, for which a test speaks message by message.

use std::fmt;

use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, DuplexStream,
    Lines, duplex, split,
};

/// The far end: reads what a client sends, and writes what the test says.
pub struct Far {
    lines: Lines<BufReader<Box<dyn AsyncRead + Send + Unpin>>>,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
}

impl Far {
    /// Makes a pipe: the end for a client, and the far end.
    pub fn pipe() -> (DuplexStream, Self) {
        let (near, far) = duplex(1 << 16);
        (near, Self::of(far))
    }

    /// The far end of a connection.
    pub fn of(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> Self {
        let (reader, writer) = split(stream);
        let reader: Box<dyn AsyncRead + Send + Unpin> = Box::new(reader);
        Self {
            lines: BufReader::new(reader).lines(),
            writer: Box::new(writer),
        }
    }

    /// The next message of the client. `None`: the client has hung up.
    ///
    /// # Panics
    /// The client sends something that is no JSON.
    pub async fn next(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.ok().flatten()?;
        Some(serde_json::from_str(&line).expect("each line is JSON"))
    }

    /// The next message of the client with this method. Those before it are answered as usual.
    ///
    /// # Panics
    /// The client has hung up.
    pub async fn until(&mut self, method: &str) -> Value {
        loop {
            let message = self.next().await.expect("the client is there");
            if message["method"] == method {
                return message;
            }
            self.answer_as_usual(&message).await;
        }
    }

    /// Sends a message. It is lost if the client has hung up.
    pub async fn say(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        let line = format!("{message}\n");
        let _ = self.writer.write_all(line.as_bytes()).await;
    }

    /// Answers a request.
    pub async fn answer(&mut self, request: &Value, result: Value) {
        self.say(json!({ "id": request["id"], "result": result }))
            .await;
    }

    /// Answers a request as a server of 2025-11-25 with one tool, `say`. Does nothing for other messages.
    pub async fn answer_as_usual(&mut self, message: &Value) {
        let result = match message["method"].as_str().unwrap_or_default() {
            _ if message["id"].is_null() || message["method"].is_null() => return,
            "server/discover" => {
                let error = json!({ "code": -32601, "message": "unknown" });
                return self
                    .say(json!({ "id": message["id"], "error": error }))
                    .await;
            }
            "initialize" => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": { "listChanged": true } },
                "serverInfo": { "name": "far", "version": "1" },
            }),
            "tools/list" => {
                json!({ "tools": [{ "name": "say", "inputSchema": { "type": "object" } }] })
            }
            "tools/call" => json!({ "content": [{ "type": "text", "text": "hello" }] }),
            _ => json!({}),
        };
        self.answer(message, result).await;
    }
}

impl fmt::Debug for Far {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Far")
    }
}
