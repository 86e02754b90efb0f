//! Clients of revisions with sessions, on a connection of their own.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use lmcp_core::{
    Caller, CallerTransport, Endpoint, Handle, Limits, Replies, Request, Service, Tasks, Terms,
    streams,
};
use lmcp_hub::Hub;
use lmcp_wire::RpcError;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, duplex, split,
};

use crate::{hub, notes};

struct Session {
    lines: Lines<BufReader<tokio::io::ReadHalf<DuplexStream>>>,
    writer: tokio::io::WriteHalf<DuplexStream>,
    /// Ends with the session.
    _serving: Tasks,
}

impl Session {
    async fn new(hub: &Hub) -> Self {
        let caller = Caller::new(CallerTransport::Stdio);
        Self::at(Endpoint::new(hub.clone()), caller).await
    }

    async fn at(endpoint: Endpoint, caller: Caller) -> Self {
        let (here, there) = duplex(1 << 16);
        let serving = Tasks::default();
        serving.spawn(async move {
            let (reader, writer) = split(there);
            let _ = endpoint.serve(streams(reader, writer, caller)).await;
        });
        let (reader, writer) = split(here);
        let mut session = Self {
            lines: BufReader::new(reader).lines(),
            writer,
            _serving: serving,
        };
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "test", "version": "1" } });
        session
            .send(json!({ "id": 0, "method": "initialize", "params": params }))
            .await;
        session.until(|message| message["id"] == 0).await;
        session
            .send(json!({ "method": "notifications/initialized" }))
            .await;
        session
    }

    async fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        let line = format!("{message}\n");
        self.writer
            .write_all(line.as_bytes())
            .await
            .expect("it reads");
    }

    /// Sends a request, and returns the answer.
    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.send(json!({ "id": 1, "method": method, "params": params }))
            .await;
        self.until(|message| message["id"] == 1).await
    }

    /// Returns the next message that fits; other messages are skipped.
    async fn until(&mut self, is_meant: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.lines.next_line().await.expect("it writes");
            let message = serde_json::from_str(&line.expect("it goes on")).expect("it is JSON");
            if is_meant(&message) {
                return message;
            }
        }
    }
}

/// The time that people take does not count as silence of the server, neither while they think nor afterwards.
#[tokio::test(start_paused = true)]
async fn a_person_may_think_for_longer_than_a_server_may_be_silent() {
    let (hub, _) = hub(&[("one", notes())]);
    let mut session = Session::new(&hub).await;
    let call = json!({ "name": "one__ask", "arguments": {} });
    session
        .send(json!({ "id": 1, "method": "tools/call", "params": call }))
        .await;
    let asked = session
        .until(|message| message["method"] == "elicitation/create" || message["id"] == 1)
        .await;
    tokio::time::sleep(std::time::Duration::from_secs(1000)).await;
    let answer = json!({ "action": "accept", "content": { "name": "Ann" } });
    session
        .send(json!({ "id": asked["id"], "result": answer }))
        .await;
    let called = session.until(|message| message["id"] == 1).await;
    assert_eq!(called["result"]["content"][0]["text"], "Ann", "{called}");
}

#[tokio::test]
async fn a_progress_token_that_is_none_is_refused_as_by_any_server() {
    let (hub, client) = hub(&[("one", notes())]);
    client.list_tools().await.unwrap();
    let mut session = Session::new(&hub).await;
    let all = [
        ("tools/list", json!({})),
        ("tools/call", json!({ "name": "one__ask", "arguments": {} })),
        ("resources/read", json!({ "uri": "one+note://about" })),
        ("resources/subscribe", json!({ "uri": "one+note://about" })),
    ];
    for (method, mut params) in all {
        params["_meta"] = json!({ "progressToken": [1] });
        let answer = session.ask(method, params).await;
        let words = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(
            words.contains("a string or an integer"),
            "{method}: {answer}"
        );
    }
    let unknown = json!({ "_meta": { "progressToken": [1] } });
    let answer = session.ask("no/such", unknown).await;
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
}

#[tokio::test]
async fn a_resource_of_no_server_has_the_code_of_older_revisions() {
    let (hub, _) = hub(&[("one", notes())]);
    let mut session = Session::new(&hub).await;
    for method in ["resources/read", "resources/subscribe"] {
        let answer = session.ask(method, json!({ "uri": "x://nobody" })).await;
        assert_eq!(answer["error"]["code"], -32002, "{method}: {answer}");
        assert_eq!(answer["error"]["data"]["uri"], "x://nobody", "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_hears_of_the_resources_that_it_watches_and_no_other_does() {
    let server = notes();
    let (hub, client) = hub(&[("one", server.clone())]);
    client.list_resources().await.unwrap();
    let (mut watcher, mut other) = (Session::new(&hub).await, Session::new(&hub).await);
    let params = json!({ "uri": "one+note://about" });
    watcher
        .send(json!({ "id": 1, "method": "resources/subscribe", "params": params }))
        .await;
    watcher.until(|message| message["id"] == 1).await;
    // The subscription reaches the server a moment after it is acknowledged.
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    server.resource_updated("note://about");
    let told = watcher
        .until(|message| message["method"] == "notifications/resources/updated")
        .await;
    assert_eq!(told["params"]["uri"], "one+note://about");
    // The other client gets the answer to its next request, and no notification before it.
    other.send(json!({ "id": 2, "method": "ping" })).await;
    let next = other.until(|_| true).await;
    assert_eq!(next["id"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_stops_its_own_call_and_no_other() {
    let server = notes();
    let (hub, client) = hub(&[("one", server)]);
    client.list_tools().await.unwrap();
    let mut session = Session::new(&hub).await;
    for id in [1, 2] {
        let params = json!({ "name": "one__sleep", "_meta": { "progressToken": id } });
        session
            .send(json!({ "id": id, "method": "tools/call", "params": params }))
            .await;
        let begun = |message: &Value| message["params"]["progressToken"] == id;
        session.until(begun).await;
    }
    assert_eq!(hub.status()[0].running, 2);
    let params = json!({ "requestId": 1 });
    session
        .send(json!({ "method": "notifications/cancelled", "params": params }))
        .await;
    let answered = session
        .until(|message| message.get("result").is_some())
        .await;
    assert_eq!(answered["id"], 2);
    assert_eq!(answered["result"]["content"][0]["text"], "slept");
    assert_eq!(hub.status()[0].running, 0);
}

#[tokio::test]
async fn subscriptions_count_as_memory_of_their_caller() {
    let (hub, client) = hub(&[("one", notes())]);
    client.list_resources().await.unwrap();
    let mut limits = Limits::default();
    limits.memory_bytes = 1 << 20;
    let endpoint = Endpoint::on_terms(hub, Terms::default().limits(limits));
    let session = async |name: &str| {
        let caller = Caller::new(CallerTransport::Stdio).known_as(name);
        Session::at(endpoint.clone(), caller).await
    };
    let uri =
        |number: usize| json!({ "uri": format!("one+note://{number}/{}", "u".repeat(8_000)) });
    let (mut sessions, mut bob) = (Vec::new(), session("bob").await);
    let refused = loop {
        let mut ann = session("ann").await;
        let answer = ann.ask("resources/subscribe", uri(sessions.len())).await;
        sessions.push(ann);
        if answer.get("error").is_some() {
            break answer;
        }
        assert!(sessions.len() < 100, "nothing is refused");
    };
    let data = &refused["error"]["data"];
    assert_eq!(data["limit"], "memory_bytes", "{refused}");
    assert_eq!(data["retriable"], true, "{refused}");
    let answer = bob.ask("resources/subscribe", uri(0)).await;
    assert!(answer.get("result").is_some(), "{answer}");
    // A subscription that is given up makes room again.
    let last = sessions.len() - 1;
    sessions[0].ask("resources/unsubscribe", uri(0)).await;
    let answer = sessions[last].ask("resources/subscribe", uri(last)).await;
    assert!(answer.get("result").is_some(), "{answer}");
    // A session that ends makes room, too.
    let (mine, held) = (endpoint.budget().account("principal:ann"), 8_000 * last);
    assert!(mine.used() > held);
    drop(sessions);
    while mine.used() > 0 {
        tokio::task::yield_now().await;
    }
}

/// A server that ends every stream at once, and counts them.
struct Deaf(Handle, Arc<AtomicUsize>);

impl Service for Deaf {
    fn call(&self, request: Request) -> Replies {
        if request.method() != "subscriptions/listen" {
            return self.0.call(request);
        }
        self.1.fetch_add(1, Ordering::Relaxed);
        Replies::error(RpcError::internal("not now"))
    }
}

/// Once, the hub opened the stream again and again, without a pause.
#[tokio::test(start_paused = true)]
async fn a_server_that_ends_the_stream_of_a_session_is_listened_to_again_after_a_while() {
    let (hub, _) = hub(&[]);
    let listened = Arc::<AtomicUsize>::default();
    hub.mount("one", Deaf(notes(), Arc::clone(&listened)));
    let mut session = Session::new(&hub).await;
    let uri = json!({ "uri": "one+note://about" });
    let answer = session.ask("resources/subscribe", uri).await;
    assert!(answer["result"].is_object(), "{answer}");
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    let listened = listened.load(Ordering::Relaxed);
    assert!((2..20).contains(&listened), "listened to {listened} times");
}
