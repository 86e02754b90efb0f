//! What the tests share: a peer that speaks lines, a handler that hangs, and a stop for tests that do.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use lmcp_core::{
    Caller, CallerTransport, Client, Cx, Error, Handle, Limits, NoArgs, Server, Tool,
    client::{self, Calling, Event},
    streams,
};
use serde_json::{Value, json};
use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _,
        BufReader,
    },
    sync::mpsc,
    task::JoinSet,
};

/// A server without anything.
pub(crate) fn server() -> Server {
    Server::new("test", "1.0.0")
}

/// The default limits but for one.
pub(crate) fn limits(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits);
    limits
}

/// Stops a test that would hang. Not a threshold: nothing here takes a thousandth of it.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future)
        .await
        .expect("nothing hangs")
}

/// The text of a tool's result.
pub(crate) async fn text(client: &Client, tool: &str, arguments: Value) -> String {
    let result = soon(client.call_tool(tool, arguments)).await;
    let result = result.expect("the call is answered with a result");
    let text = result.content.first().and_then(|content| content.as_text());
    text.expect("the result is text").to_owned()
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

/// A request of 2026-07-28.
pub(crate) fn request(id: i64, method: &str, mut params: Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    match &mut params["_meta"] {
        Value::Object(given) => given.extend(meta.as_object().cloned().unwrap_or_default()),
        absent => *absent = meta,
    }
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// A connection that is being served.
pub(crate) struct Serving(JoinSet<Result<(), Error>>);

impl Serving {
    pub(crate) fn start(serve: impl Future<Output = Result<(), Error>> + Send + 'static) -> Self {
        let mut tasks = JoinSet::new();
        tasks.spawn(serve);
        Self(tasks)
    }

    /// Waits until the transport has ended.
    pub(crate) async fn ended(&mut self) -> Result<(), Error> {
        let ended = soon(self.0.join_next()).await;
        ended.expect("it is served").expect("serving never panics")
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

/// A tool that never ends, and reports when it begins and when its future is dropped.
pub(crate) fn hanging(name: &str) -> (Tool, Watcher) {
    let (guard, watcher) = watched();
    let tool = Tool::new(name, move |_: NoArgs, _: Cx| {
        let guard = guard.clone();
        async move {
            let _held = guard.hold();
            std::future::pending::<&'static str>().await
        }
    });
    (tool.read_only(), watcher)
}

/// Reports to a [`Watcher`].
#[derive(Clone)]
pub(crate) struct Guards {
    started: mpsc::UnboundedSender<()>,
    dropped: mpsc::UnboundedSender<Instant>,
}

/// Dropped with the future that holds it, and says so.
pub(crate) struct Held(mpsc::UnboundedSender<Instant>);

pub(crate) struct Watcher {
    started: mpsc::UnboundedReceiver<()>,
    dropped: mpsc::UnboundedReceiver<Instant>,
}

pub(crate) fn watched() -> (Guards, Watcher) {
    let (started, starts) = mpsc::unbounded_channel();
    let (dropped, drops) = mpsc::unbounded_channel();
    let watcher = Watcher {
        started: starts,
        dropped: drops,
    };
    (Guards { started, dropped }, watcher)
}

impl Guards {
    pub(crate) fn hold(&self) -> Held {
        let _ = self.started.send(());
        Held(self.dropped.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.send(Instant::now());
    }
}

impl Watcher {
    /// Waits until a handler runs.
    pub(crate) async fn started(&mut self) {
        soon(self.started.recv()).await.expect("the tool lives");
    }

    /// Waits until its future is dropped.
    pub(crate) async fn dropped(&mut self) -> Instant {
        soon(self.dropped.recv()).await.expect("the tool lives")
    }

    /// Is a handler running that was not dropped?
    pub(crate) fn is_running(&mut self) -> bool {
        self.dropped.try_recv().is_err()
    }
}

/// A folder that goes when the test ends.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("lmcp-it-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the folder for temporary files can be written");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
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
