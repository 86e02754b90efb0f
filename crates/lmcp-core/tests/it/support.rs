//! What the tests share: a peer that speaks lines, and figures for people. What other crates use, too, is in `lmcp-testkit`.

use std::time::Instant;

use lmcp_core::{
    Caller, CallerTransport, Handle, Server,
    client::{self, Calling, Event},
    streams,
};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};

pub(crate) use lmcp_testkit::{
    Folder, Guards, Serving, Watcher, hanging, limits, request, soon, text, watched,
};

/// A server without anything.
pub(crate) fn server() -> Server {
    Server::new("test", "1.0.0")
}

/// Everything a request says before it ends, and how it ends.
pub(crate) async fn all(mut calling: Calling) -> (Vec<Event>, Result<Value, client::Error>) {
    let mut events = Vec::new();
    loop {
        match soon(calling.next()).await {
            Some(Event::Done(result)) => return (events, result),
            Some(event) => events.push(event),
            None => panic!("a request ends with a response"),
        }
    }
}

/// The client's side of a connection of lines.
pub(crate) struct Peer {
    reader: Reader,
    writer: Writer,
}

pub(crate) struct Reader(BufReader<Box<dyn AsyncRead + Send + Unpin>>);

pub(crate) struct Writer(Box<dyn AsyncWrite + Send + Unpin>);

impl Peer {
    pub(crate) fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self {
            reader: Reader(BufReader::new(Box::new(reader))),
            writer: Writer(Box::new(writer)),
        }
    }

    pub(crate) fn split(self) -> (Reader, Writer) {
        (self.reader, self.writer)
    }

    /// Writes bytes as they are.
    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.writer.write(bytes).await;
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.writer.send(message).await;
    }

    /// Sends a request with what every request needs.
    pub(crate) async fn request(&mut self, id: i64, method: &str, params: Value) {
        self.writer.request(id, method, params).await;
    }

    pub(crate) async fn call(&mut self, id: i64, tool: &str) {
        self.request(id, "tools/call", json!({ "name": tool }))
            .await;
    }

    pub(crate) async fn cancel(&mut self, id: i64) {
        let params = json!({ "requestId": id });
        self.send(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }),
        )
        .await;
    }

    /// Opens a session of an older revision, as a client that can be asked.
    pub(crate) async fn shake_hands(&mut self, version: &str) {
        let params = json!({
            "protocolVersion": version,
            "capabilities": { "elicitation": {}, "roots": {}, "sampling": {} },
            "clientInfo": { "name": "peer", "version": "1" },
        });
        self.send(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }))
            .await;
        let answer = self.receive().await;
        assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
            .await;
    }

    /// A request of a session.
    pub(crate) async fn ask(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let id = id.into();
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await;
    }

    /// A call of a tool, in a session.
    pub(crate) async fn ask_tool(&mut self, id: impl Into<Value>, tool: &str) {
        let meta = json!({ "progressToken": "token" });
        self.ask(id, "tools/call", json!({ "name": tool, "_meta": meta }))
            .await;
    }

    /// The answer to a question of the server.
    pub(crate) async fn answer(&mut self, id: &Value, result: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }))
            .await;
    }

    /// The next message; `None` when the server has hung up.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        self.reader.next().await
    }

    pub(crate) async fn receive(&mut self) -> Value {
        self.reader.receive().await
    }

    /// Says that nothing more will be sent, and reads what still comes.
    pub(crate) async fn finish(self) -> String {
        let (mut reader, mut writer) = self.split();
        let closed = writer.0.shutdown().await;
        closed.expect("the connection can be half closed");
        // A pipe has only this way to say so.
        drop(writer);
        let mut rest = String::new();
        let read = soon(reader.0.read_to_string(&mut rest)).await;
        read.expect("the rest is text");
        rest
    }
}

impl Writer {
    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.expect("the server reads");
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes()).await;
    }

    pub(crate) async fn request(&mut self, id: i64, method: &str, params: Value) {
        self.send(&request(id, method, params)).await;
    }
}

impl Reader {
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        soon(self.0.read_line(&mut line)).await.ok()?;
        (!line.is_empty()).then(|| serde_json::from_str(&line).expect("a line is JSON"))
    }

    pub(crate) async fn receive(&mut self) -> Value {
        self.next().await.expect("the connection lives")
    }
}

/// Serves over a pipe in memory.
pub(crate) fn connect(server: &Handle) -> (Peer, Serving) {
    connect_as(server, Caller::new(CallerTransport::Memory))
}

/// The same for somebody in particular.
pub(crate) fn connect_as(server: &Handle, caller: Caller) -> (Peer, Serving) {
    let (near, far) = tokio::io::duplex(64 << 10);
    let (reader, writer) = tokio::io::split(far);
    let server = server.clone();
    let serving =
        Serving::start(async move { server.serve(streams(reader, writer, caller)).await });
    let (reader, writer) = tokio::io::split(near);
    (Peer::new(reader, writer), serving)
}

/// Shows how long something took.
pub(crate) fn show_time(what: &str, since: Instant, until: Instant) {
    let millis = until.duration_since(since).as_secs_f64() * 1e3;
    show(what, format_args!("{millis:.2}"), "ms");
}

/// Shows a measured figure to whoever runs the tests with `--nocapture`.
#[expect(clippy::print_stderr, reason = "a figure for people, not an assertion")]
pub(crate) fn show(what: &str, figure: impl std::fmt::Display, unit: &str) {
    eprintln!("measured: {what}: {figure} {unit}");
}
