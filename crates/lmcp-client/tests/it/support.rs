//! Helpers of the tests: a server of ours on a free port, and a client on a link.

use std::net::SocketAddr;

use bytes::Bytes;
use lmcp_client::{Endpoint, Event, Link, Settings};
use lmcp_core::{Cx, NoArgs, Resource, Server, Tool, ToolResult};
use lmcp_http::Http;
use lmcp_wire::LoggingLevel;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use lmcp_testkit::Serving;
pub(crate) use lmcp_testkit::{Watcher, hanging, soon};

pub(crate) const NEWEST: &str = "2025-11-25";
pub(crate) const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST];
pub(crate) const MODERN: &str = "2026-07-28";

/// A server with tools that answer in different ways.
pub(crate) fn server() -> Server {
    #[derive(Deserialize, JsonSchema)]
    struct Name {
        name: String,
    }
    async fn greet(_: NoArgs, cx: Cx) -> ToolResult<String> {
        let Name { name } = cx.ask("name", "Who?").await?;
        Ok(format!("Hello, {name}!"))
    }
    async fn speak(_: NoArgs, cx: Cx) -> &'static str {
        for word in ["one", "two", "three"] {
            cx.log(LoggingLevel::Error, word);
            tokio::task::yield_now().await;
        }
        "spoken"
    }
    async fn grow(_: NoArgs, cx: Cx) -> ToolResult<&'static str> {
        let new = Tool::new("new", |_: NoArgs, _: Cx| async { "new" });
        cx.server().remove_tool("new");
        cx.server().add_tool(new.read_only())?;
        Ok("grown")
    }
    let quick = Tool::new("quick", |_: NoArgs, _: Cx| async { "quick" });
    Server::new("test", "1.0.0")
        .tool(quick.read_only())
        .tool(Tool::new("greet", greet).read_only())
        .tool(Tool::new("speak", speak).read_only())
        .tool(Tool::new("grow", grow).writes())
        .resource(Resource::text("test://ä", "a", "text"))
}

/// A server on a port of its own, with a handle to stop it.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    serving: Serving,
}

pub(crate) async fn serve(server: Server) -> Running {
    serve_at("127.0.0.1:0", server, |http| http).await
}

pub(crate) async fn serve_at(
    address: &str,
    server: Server,
    change: impl FnOnce(Http) -> Http,
) -> Running {
    let http = lmcp_http::bind(address).await.expect("the port is free");
    Running {
        address: http.address(),
        serving: Serving::until(|stop| server.serve(change(http.until(stop)))),
    }
}

impl Running {
    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Stops the server as an operator does.
    pub(crate) async fn stop(&mut self) {
        self.serving.close().await;
    }

    /// Stops the server as a power cut does.
    pub(crate) async fn kill(&mut self) {
        self.serving.kill().await;
    }
}

/// A client on a link. Its requests have the ids 1, 2, 3 and so on.
pub(crate) struct Client {
    pub(crate) link: Link,
    revision: String,
    last: i64,
}

impl Client {
    /// Opens a client without a handshake.
    pub(crate) async fn open(settings: Settings, revision: &str) -> Self {
        let endpoint = Endpoint::new(settings).expect("the settings are good");
        Self::at(&endpoint, revision).await
    }

    pub(crate) async fn at(endpoint: &Endpoint, revision: &str) -> Self {
        Self {
            link: soon(endpoint.open()).await.expect("the server is there"),
            revision: revision.to_owned(),
            last: 0,
        }
    }

    /// Opens a client, with the handshake if its revision has one.
    pub(crate) async fn ready(settings: Settings, revision: &str) -> Self {
        let mut client = Self::open(settings, revision).await;
        if revision != MODERN {
            client.handshake().await;
        }
        client
    }

    pub(crate) async fn handshake(&mut self) {
        let id = self.begin_handshake();
        let answer = self.answer(id).await;
        assert_eq!(
            answer["result"]["protocolVersion"], *self.revision,
            "{answer}"
        );
        self.tell("notifications/initialized", &json!({}));
    }

    pub(crate) fn begin_handshake(&mut self) -> i64 {
        let params = json!({
            "protocolVersion": self.revision,
            "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "test", "version": "1" },
        });
        self.last += 1;
        let message =
            json!({ "jsonrpc": "2.0", "id": self.last, "method": "initialize", "params": params });
        self.say(&message);
        self.last
    }

    /// Sends a request, and returns its id.
    pub(crate) fn begin(&mut self, method: &str, mut params: Value) -> i64 {
        if self.revision == MODERN {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
                "io.modelcontextprotocol/logLevel": "debug",
            });
        }
        self.last += 1;
        let message =
            json!({ "jsonrpc": "2.0", "id": self.last, "method": method, "params": params });
        self.say(&message);
        self.last
    }

    pub(crate) fn begin_call(&mut self, tool: &str) -> i64 {
        self.begin("tools/call", json!({ "name": tool }))
    }

    pub(crate) fn tell(&mut self, method: &str, params: &Value) {
        self.say(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    pub(crate) fn say(&mut self, message: &Value) {
        self.link.send(message.to_string());
    }

    pub(crate) async fn event(&mut self) -> Event {
        soon(self.link.next()).await
    }

    /// Returns the next message of the server.
    pub(crate) async fn message(&mut self) -> Value {
        match self.event().await {
            Event::Line(line) | Event::Failure(line) => {
                assert!(!line.contains(&b'\n'));
                serde_json::from_slice(&line).expect("a line is JSON")
            }
            other => panic!("{other:?}"),
        }
    }

    /// Returns the answer to a request; earlier messages are dropped.
    pub(crate) async fn answer(&mut self, id: i64) -> Value {
        self.answer_and_before(id)
            .await
            .pop()
            .expect("the answer is the last")
    }

    /// Returns all messages up to the answer to a request.
    pub(crate) async fn answer_and_before(&mut self, id: i64) -> Vec<Value> {
        let mut heard = Vec::new();
        loop {
            let message = self.message().await;
            let is_answer = message["id"] == id && message["method"].is_null();
            heard.push(message);
            if is_answer {
                return heard;
            }
        }
    }

    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.answer(id).await
    }

    pub(crate) async fn call(&mut self, tool: &str) -> Value {
        let id = self.begin_call(tool);
        self.answer(id).await
    }

    /// Returns all events up to the end of the link, which is the last event.
    pub(crate) async fn end(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let event = self.event().await;
            let is_last = matches!(
                event,
                Event::Lost(_) | Event::Refused(_) | Event::Unauthorized(_)
            );
            events.push(event);
            if is_last {
                assert_eq!(
                    self.event().await,
                    *events.last().unwrap(),
                    "the end is the end"
                );
                return events;
            }
        }
    }
}

pub(crate) fn text(answer: &Value) -> &Value {
    &answer["result"]["content"][0]["text"]
}

pub(crate) fn unsent(message: &Value) -> Event {
    Event::Unsent(Bytes::from(message.to_string()))
}

/// Waits for something while the link works; messages meanwhile are dropped.
pub(crate) async fn while_linked<T>(client: &mut Client, wait: impl Future<Output = T>) -> T {
    tokio::pin!(wait);
    soon(async {
        loop {
            tokio::select! {
                done = &mut wait => return done,
                event = client.link.next() => {
                    assert!(matches!(event, Event::Line(_) | Event::Room), "{event:?}");
                }
            }
        }
    })
    .await
}
