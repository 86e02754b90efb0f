//! Questions of a server reach a client of another revision with every member, and so do the answers.

use lmcp_core::Endpoint;
use lmcp_upstream::Upstream;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use crate::{
    hostile::scripted,
    support::{Place, soon},
};

/// A server with sessions: it asks the question in the arguments, and returns the answer as its result.
const ASKS_ON_THE_WAY: &str = r#"
    if method == "initialize": hello(id)
    if method == "tools/call":
        call, asked = id, message["params"]["arguments"]
        say({"jsonrpc": "2.0", "id": 7, "method": asked["method"], "params": asked["params"]})
    if method is None: ok(call, content(json.dumps(message["result"])))
    if method == "server/discover": say({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "?"}})
"#;

/// The same server with revision 2026-07-28.
const ASKS_BY_ITS_ANSWER: &str = r#"
    if method == "server/discover": ok(id, {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"})
    if method == "tools/call":
        answers = message["params"].get("inputResponses")
        asked = message["params"]["arguments"]
        if answers: ok(id, {"resultType": "complete", **content(json.dumps(answers["k"]))})
        else: ok(id, {"resultType": "input_required", "inputRequests": {"k": asked}, "requestState": "s"})
"#;

/// Questions with members that no revision knows, each with an answer of the same kind.
fn questions() -> [(Value, Value); 3] {
    let block = json!({ "type": "text", "text": "?", "x-block": [1] });
    [
        (
            json!({ "method": "elicitation/create", "params": {
                "message": "Who?", "x-own": { "deep": [1, null] }, "_meta": { "x/y": 1 },
                "requestedSchema": { "type": "object", "x-form": true, "properties": { "name": { "type": "string", "x-field": 5 } } },
            } }),
            json!({ "action": "accept", "content": { "name": "Ann" }, "x-answer": 1 }),
        ),
        (
            json!({ "method": "sampling/createMessage", "params": {
                "maxTokens": 5, "x-own": 1, "modelPreferences": { "x-model": 1, "hints": [{ "name": "m", "x-hint": 1 }] },
                "messages": [{ "role": "user", "content": block, "x-message": 1 }],
            } }),
            json!({ "role": "assistant", "content": block, "model": "m", "x-answer": { "deep": [] } }),
        ),
        (
            json!({ "method": "roots/list", "params": { "x-own": 1 } }),
            json!({ "roots": [{ "uri": "file:///here", "x-root": 1 }], "x-answer": null }),
        ),
    ]
}

struct Client {
    lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
}

impl Client {
    async fn new(place: &Place) -> Self {
        let (reader, writer) = UnixStream::connect(place.path())
            .await
            .expect("the server is there")
            .into_split();
        let lines = BufReader::new(reader).lines();
        Self { lines, writer }
    }

    async fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        let line = format!("{message}\n");
        let written = self.writer.write_all(line.as_bytes()).await;
        written.expect("the connection lives");
    }

    async fn receive(&mut self) -> Value {
        let line = soon(self.lines.next_line()).await.ok().flatten();
        serde_json::from_str(&line.expect("the connection lives")).expect("each line is JSON")
    }
}

fn capabilities() -> Value {
    json!({ "elicitation": {}, "sampling": {}, "roots": {} })
}

/// Returns the server's result.
fn said(answer: &Value) -> Value {
    let text = answer["result"]["content"][0]["text"].as_str();
    serde_json::from_str(text.unwrap_or_else(|| panic!("{answer}")))
        .expect("the server answers with JSON")
}

#[tokio::test]
async fn a_client_that_is_asked_while_it_waits_sees_every_member() {
    for (behind, server) in [ASKS_ON_THE_WAY, ASKS_BY_ITS_ANSWER]
        .into_iter()
        .enumerate()
    {
        let upstream = Upstream::new(scripted(server).route());
        let near = Place::serving(Endpoint::new(upstream)).await;
        for version in ["2025-06-18", "2025-11-25"] {
            let mut client = Client::new(&near).await;
            let info = json!({ "name": "c", "version": "1" });
            let params = json!({ "protocolVersion": version, "capabilities": capabilities(), "clientInfo": info });
            client
                .send(json!({ "id": 1, "method": "initialize", "params": params }))
                .await;
            assert_eq!(client.receive().await["result"]["protocolVersion"], version);
            client
                .send(json!({ "method": "notifications/initialized" }))
                .await;
            for (question, answer) in questions() {
                let params = json!({ "name": "t", "arguments": question });
                client
                    .send(json!({ "id": 2, "method": "tools/call", "params": params }))
                    .await;
                let asked = client.receive().await;
                let at = format!("{version} at {behind}: {asked}");
                assert_eq!(asked["method"], question["method"], "{at}");
                assert_eq!(asked["params"], question["params"], "{at}");
                client
                    .send(json!({ "id": asked["id"], "result": answer }))
                    .await;
                assert_eq!(said(&client.receive().await), answer, "{at}");
            }
        }
    }
}

#[tokio::test]
async fn a_client_that_is_asked_by_the_answer_sees_every_member() {
    for (behind, server) in [ASKS_ON_THE_WAY, ASKS_BY_ITS_ANSWER]
        .into_iter()
        .enumerate()
    {
        let upstream = Upstream::new(scripted(server).route());
        let near = Place::serving(Endpoint::new(upstream)).await;
        let mut client = Client::new(&near).await;
        for (question, answer) in questions() {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": { "name": "c", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": capabilities(),
            });
            let mut params = json!({ "name": "t", "arguments": question, "_meta": meta });
            client
                .send(json!({ "id": 1, "method": "tools/call", "params": params }))
                .await;
            let asked = client.receive().await;
            let at = format!("at {behind}: {asked}");
            let requests = asked["result"]["inputRequests"].as_object();
            let (key, found) = requests.and_then(|all| all.iter().next()).expect(&at);
            assert_eq!(found["params"], question["params"], "{at}");
            params["inputResponses"] = json!({ key: answer });
            params["requestState"] = asked["result"]["requestState"].clone();
            client
                .send(json!({ "id": 2, "method": "tools/call", "params": params }))
                .await;
            assert_eq!(said(&client.receive().await), answer, "{at}");
        }
    }
}
