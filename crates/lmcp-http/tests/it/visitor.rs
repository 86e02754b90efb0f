//! A client of an older revision: it opens with a handshake and keeps what it was given.

#![expect(
    clippy::needless_pass_by_value,
    reason = "messages are written where they are sent"
)]

use std::sync::Arc;

use lmcp_core::{Cx, NoArgs, Tool};
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::support::{Connection, Post, Running, body, soon};

/// The revision most tests speak: it has everything.
pub(crate) const NEWEST: &str = "2025-11-25";

/// One session over HTTP.
pub(crate) struct Visitor {
    pub(crate) session: String,
    version: String,
}

impl Visitor {
    pub(crate) async fn new(running: &Running) -> Self {
        Self::of(running, NEWEST).await
    }

    pub(crate) async fn of(running: &Running, version: &str) -> Self {
        let capabilities = json!({ "elicitation": {}, "roots": {}, "sampling": {} });
        Self::with(running, version, "visitor", capabilities).await
    }

    pub(crate) async fn with(
        running: &Running,
        version: &str,
        name: &str,
        capabilities: Value,
    ) -> Self {
        let post = opening(version, name, capabilities);
        Self::open(&mut running.connect().await, version, &post).await
    }

    /// For servers that know callers by the header `x-user`.
    pub(crate) async fn as_user(running: &Running, user: &str) -> Self {
        Self::showing(running, "x-user", user).await
    }

    /// For servers that know callers by some header.
    pub(crate) async fn showing(running: &Running, header: &str, value: &str) -> Self {
        let post = opening(NEWEST, "visitor", json!({})).with(header, value);
        let answer = running.ask(&post).await;
        let session = answer.head.get("mcp-session-id");
        Self {
            session: session.expect("a handshake gives a session").to_owned(),
            version: NEWEST.to_owned(),
        }
    }

    /// For servers that allow no second connection.
    pub(crate) async fn on(connection: &mut Connection) -> Self {
        Self::open(connection, NEWEST, &opening(NEWEST, "visitor", json!({}))).await
    }

    async fn open(connection: &mut Connection, version: &str, post: &Post) -> Self {
        let answer = connection.ask(post).await;
        assert_eq!(answer.head.status, 200, "{}", answer.body);
        assert_eq!(answer.json()["result"]["protocolVersion"], version);
        let session = answer.head.get("mcp-session-id");
        let visitor = Self {
            session: session.expect("a handshake gives a session").to_owned(),
            version: version.to_owned(),
        };
        let ready = visitor.tell("notifications/initialized", json!({}));
        assert_eq!(connection.ask(&ready).await.head.status, 202);
        visitor
    }

    pub(crate) fn request(&self, id: impl Into<Value>, method: &str, params: Value) -> Post {
        let id = id.into();
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
    }

    /// A call of a tool without arguments, with a token for its progress.
    pub(crate) fn call(&self, id: impl Into<Value>, tool: &str) -> Post {
        let meta = json!({ "progressToken": "token" });
        self.request(id, "tools/call", json!({ "name": tool, "_meta": meta }))
    }

    pub(crate) fn tell(&self, method: &str, params: Value) -> Post {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
    }

    pub(crate) fn cancel(&self, id: impl Into<Value>) -> Post {
        self.tell("notifications/cancelled", json!({ "requestId": id.into() }))
    }

    /// The answer to a question.
    pub(crate) fn answer(&self, id: &Value, result: Value) -> Post {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }))
    }

    pub(crate) fn set_level(&self, level: &str) -> Post {
        self.request(90, "logging/setLevel", json!({ "level": level }))
    }

    pub(crate) fn subscribe(&self, uri: &str) -> Post {
        self.request(91, "resources/subscribe", json!({ "uri": uri }))
    }

    /// Any body.
    pub(crate) fn send(&self, message: &Value) -> Post {
        self.sign(body(&message.to_string()))
    }

    pub(crate) fn get(&self) -> Post {
        let get = body("").verb("GET").without("content-type");
        self.sign(get.with("accept", "text/event-stream"))
    }

    pub(crate) fn get_after(&self, event: &str) -> Post {
        self.get().with("last-event-id", event)
    }

    pub(crate) fn delete(&self) -> Post {
        self.sign(body("").verb("DELETE"))
    }

    fn sign(&self, post: Post) -> Post {
        post.with("mcp-session-id", &self.session)
            .with("mcp-protocol-version", &self.version)
    }
}

/// A request of a client that made no handshake.
pub(crate) fn sessionless(method: &str, params: Value) -> Post {
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    body(&message.to_string()).with("mcp-protocol-version", NEWEST)
}

pub(crate) fn opening(version: &str, name: &str, capabilities: Value) -> Post {
    let info = json!({ "name": name, "version": "1" });
    let params =
        json!({ "protocolVersion": version, "capabilities": capabilities, "clientInfo": info });
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    body(&message.to_string())
}

/// What an event of a stream says.
#[derive(Debug, Default)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) data: String,
    pub(crate) retry: Option<String>,
}

impl Event {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).expect("data is JSON")
    }
}

impl Connection {
    /// Sends a request whose answer must be a stream.
    pub(crate) async fn open_stream(&mut self, post: &Post) {
        self.send(post).await;
        let head = self.head().await;
        let kind = head.get("content-type");
        assert_eq!((head.status, kind), (200, Some("text/event-stream")));
    }

    /// The next event; `None` at the end of the stream. Comments are passed over.
    pub(crate) async fn next_event(&mut self) -> Option<Event> {
        soon(self.next_but_comments()).await
    }

    async fn next_but_comments(&mut self) -> Option<Event> {
        loop {
            let text = self.event().await?;
            let mut event = Event::default();
            for line in text.lines() {
                match line.split_once(':') {
                    Some(("id", value)) => value.trim().clone_into(&mut event.id),
                    Some(("data", value)) => value.trim().clone_into(&mut event.data),
                    Some(("retry", value)) => event.retry = Some(value.trim().to_owned()),
                    _ => assert!(line.starts_with(':'), "a strange line: {line}"),
                }
            }
            if !text.starts_with(':') {
                return Some(event);
            }
        }
    }

    /// The next event that says something.
    pub(crate) async fn next_message(&mut self) -> Event {
        loop {
            let event = self.next_event().await.expect("the stream goes on");
            if !event.data.is_empty() {
                return event;
            }
        }
    }

    /// What the rest of a stream says.
    pub(crate) async fn rest(&mut self) -> Vec<Value> {
        let mut rest = Vec::new();
        while let Some(event) = self.next_event().await {
            if !event.data.is_empty() {
                rest.push(event.json());
            }
        }
        rest
    }
}

type Deed = Box<dyn FnOnce(&Cx) + Send>;

/// A tool that does what the test tells it to, and ends when it is told to.
pub(crate) fn puppet(name: &str) -> (Tool, Puppet) {
    let (order, orders) = mpsc::unbounded_channel::<(Option<Deed>, oneshot::Sender<()>)>();
    let (started, starts) = mpsc::unbounded_channel();
    let orders = Arc::new(Mutex::new(orders));
    let tool = Tool::new(name, move |_: NoArgs, cx: Cx| {
        let (orders, started) = (Arc::clone(&orders), started.clone());
        async move {
            let _ = started.send(());
            let mut orders = orders.lock().await;
            while let Some((deed, done)) = orders.recv().await {
                let last = deed.is_none();
                deed.into_iter().for_each(|deed| deed(&cx));
                let _ = done.send(());
                if last {
                    break;
                }
            }
            "done"
        }
    });
    let puppet = Puppet {
        order,
        started: starts,
    };
    (tool.read_only(), puppet)
}

pub(crate) struct Puppet {
    order: mpsc::UnboundedSender<(Option<Deed>, oneshot::Sender<()>)>,
    started: mpsc::UnboundedReceiver<()>,
}

impl Puppet {
    pub(crate) async fn started(&mut self) {
        soon(self.started.recv()).await.expect("the tool lives");
    }

    /// Lets a running call do something.
    pub(crate) async fn act(&self, deed: impl FnOnce(&Cx) + Send + 'static) {
        self.tell(Some(Box::new(deed))).await;
    }

    pub(crate) async fn log(&self, text: impl Into<String>) {
        let text = text.into();
        self.act(move |cx| cx.log(lmcp_wire::LoggingLevel::Warning, text))
            .await;
    }

    pub(crate) async fn finish(&self) {
        self.tell(None).await;
    }

    async fn tell(&self, deed: Option<Deed>) {
        let (done, did) = oneshot::channel();
        self.order.send((deed, done)).expect("the tool lives");
        soon(did).await.expect("a call runs");
    }
}

/// A connection to a server that allows no more than one: it is there once the server has noticed that the last is gone.
pub(crate) async fn only_connection(running: &Running) -> Connection {
    loop {
        let mut next = running.connect().await;
        next.send(&sessionless("ping", json!({}))).await;
        let head = next.head().await;
        if head.status == 200 {
            next.body(&head).await;
            return next;
        }
    }
}
