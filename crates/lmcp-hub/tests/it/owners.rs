//! A caller of a hub cannot use what another caller carries between its requests, whatever the server behind the hub does.

use lmcp_core::{
    CALL_BYTES, Caller, CallerTransport, Client, Cx, Endpoint, Layered, Limits, Messages, NoArgs,
    Outcome, Owned, OwnerKey, Replies, Server, Tasks, Terms, Tool, admit, bytes::Bytes,
    client::Event, unix,
};
use lmcp_hub::Hub;
use lmcp_upstream::{Upstream, socket};
use lmcp_wire::{Incoming, meta};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::ask;

async fn wait(_: NoArgs, _: Cx) -> &'static str {
    std::future::pending().await
}

async fn long(_: NoArgs, _: Cx) -> String {
    "a".repeat(1 << 20)
}

/// A server on a socket: all callers behind a hub or a bridge are the same user to it.
struct Shared {
    folder: TempDir,
    /// Ends with the server.
    _serving: Tasks,
}

impl Shared {
    fn new() -> Self {
        let server = Server::new("shared", "1")
            .tool(Tool::new("wait", wait).read_only().as_task())
            .tool(Tool::new("ask", ask).read_only())
            .tool(Tool::new("also", ask).read_only())
            .tool(Tool::new("long", long).read_only())
            .start()
            .expect("the server is sound");
        let folder = TempDir::new().expect("a folder can be made");
        let listener = unix(folder.path().join("socket")).expect("a socket can be made");
        let serving = Tasks::default();
        serving.spawn(async move {
            let _ = server.endpoint().serve(listener).await;
        });
        Self {
            folder,
            _serving: serving,
        }
    }

    fn upstream(&self) -> Upstream {
        Upstream::new(socket(self.folder.path().join("socket")).route())
    }
}

fn client(endpoint: &Endpoint, name: &str) -> Client {
    let declared =
        json!({ "extensions": { "io.modelcontextprotocol/tasks": {} }, "elicitation": {} });
    let declared = serde_json::from_value(declared).expect("these are capabilities");
    let caller = Caller::new(CallerTransport::Memory).known_as(name);
    endpoint.client().capabilities(declared).caller(caller)
}

/// Returns a hub over one server under two names, and a bridge to the server, each with the prefix of its tools.
async fn ways(shared: &Shared) -> [(Endpoint, &'static str); 2] {
    ways_within(shared, &Limits::default()).await
}

/// Does the same within other bounds.
async fn ways_within(shared: &Shared, limits: &Limits) -> [(Endpoint, &'static str); 2] {
    let terms = || Terms::default().limits(limits.clone());
    let hub = Hub::new("hub", "1").key([7; 32]);
    hub.mount("one", shared.upstream());
    hub.mount("two", shared.upstream());
    let hub = Endpoint::on_terms(hub, terms());
    hub.client().list_tools().await.expect("it lists");
    let bridge = Owned::new(shared.upstream(), &OwnerKey::random(), "");
    [(hub, "one__"), (Endpoint::on_terms(bridge, terms()), "")]
}

#[tokio::test]
async fn a_task_behind_a_hub_or_a_bridge_belongs_to_its_caller() {
    let shared = Shared::new();
    for (endpoint, prefix) in ways(&shared).await {
        let (ann, bob) = (client(&endpoint, "ann"), client(&endpoint, "bob"));
        let tool = json!({ "name": format!("{prefix}wait") });
        let task = ann.request("tools/call", tool.clone()).await.unwrap();
        let id = &task["taskId"];
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let params = json!({ "taskId": id, "inputResponses": {} });
            let error = bob.request(method, params).await.unwrap_err();
            assert_eq!(error.code, -32602, "{method}");
            let none =
                json!({ "taskId": format!("{}x", id.as_str().unwrap()), "inputResponses": {} });
            let unknown = ann.request(method, none).await.unwrap_err();
            assert_eq!(error.code, unknown.code, "{unknown}");
            assert_eq!(error.data, unknown.data, "{unknown}");
        }
        // A subscription tells only the owner of a task about its end, under the id that the owner knows.
        let bobs = bob.request("tools/call", tool).await.unwrap();
        let bobs = &bobs["taskId"];
        let filter = json!({ "notifications": { "taskIds": [id, bobs] } });
        let mut hears = ann.start("subscriptions/listen", filter.clone());
        let mut eavesdrops = bob.start("subscriptions/listen", filter);
        hears.next().await.expect("it is acknowledged");
        eavesdrops.next().await.expect("it is acknowledged");
        let now = ann.request("tasks/get", json!({ "taskId": id })).await;
        let now = now.unwrap();
        assert_eq!((&now["status"], &now["taskId"]), (&json!("working"), id));
        for (client, listening, id) in [(&ann, &mut hears, id), (&bob, &mut eavesdrops, bobs)] {
            let cancel = client.request("tasks/cancel", json!({ "taskId": id }));
            cancel.await.unwrap();
            let Some(Event::Other(_, told)) = listening.next().await else {
                panic!("its owner is told");
            };
            assert_eq!(told["taskId"], *id, "{told}");
        }
    }
}

/// Calls a tool that asks, and returns the state for the next request.
async fn state(client: &Client, tool: &str) -> Value {
    let asked = client.request("tools/call", json!({ "name": tool })).await;
    let mut asked = asked.expect("it is answered");
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    asked["requestState"].take()
}

/// Returns the arguments of the next request, with this state and an answer.
fn answer(tool: &str, state: &Value) -> Value {
    let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
    json!({ "name": tool, "requestState": state, "inputResponses": { "name": answer } })
}

#[tokio::test]
async fn a_state_is_good_for_its_caller_its_server_and_its_tool_only() {
    let shared = Shared::new();
    for (endpoint, prefix) in ways(&shared).await {
        let (ann, bob) = (client(&endpoint, "ann"), client(&endpoint, "bob"));
        let tool = format!("{prefix}ask");
        let state = state(&ann, &tool).await;
        let mut foreign = vec![(&bob, tool.clone()), (&ann, format!("{prefix}also"))];
        if !prefix.is_empty() {
            foreign.push((&ann, "two__ask".to_owned()));
        }
        for (client, tool) in foreign {
            let answered = client.request("tools/call", answer(&tool, &state)).await;
            let error = answered.expect_err(&tool);
            assert_eq!(error.code, -32602, "{error}");
            assert!(error.message.contains("requestState"), "{error}");
        }
        let answered = ann.request("tools/call", answer(&tool, &state)).await;
        assert_eq!(answered.unwrap()["content"][0]["text"], "Ada");
    }
}

#[tokio::test]
async fn tasks_and_states_outlast_a_hub_whose_key_is_kept() {
    let shared = Shared::new();
    let [(before, _), _] = ways(&shared).await;
    let [(after, _), _] = ways(&shared).await;
    let (before, after) = (client(&before, "ann"), client(&after, "ann"));
    let tool = json!({ "name": "one__wait" });
    let task = before.request("tools/call", tool).await.unwrap();
    let id = json!({ "taskId": task["taskId"] });
    let task = after.request("tasks/get", id).await.unwrap();
    assert_eq!(task["status"], "working");
    let state = state(&before, "one__ask").await;
    let answered = after.request("tools/call", answer("one__ask", &state));
    assert_eq!(answered.await.unwrap()["content"][0]["text"], "Ada");
}

/// A server on a socket whose every task has the same id.
fn forgetful(folder: &TempDir) -> Tasks {
    let server = Server::new("forgetful", "1").tool(Tool::new("wait", wait).read_only().as_task());
    let server = Layered::new(server.start().expect("the server is sound"));
    let task = json!({ "taskId": "1", "status": "working", "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": null });
    let server = server.layer(move |request, next| {
        let mut result = task.clone();
        result["resultType"] = match request.method() {
            "tools/call" => "task".into(),
            "tasks/get" => "complete".into(),
            _ => return next.call(request),
        };
        let result = serde_json::value::to_raw_value(&result).expect("it is JSON");
        Replies::done(Outcome::from(result))
    });
    let listener = unix(folder.path().join("socket")).expect("a socket can be made");
    let serving = Tasks::default();
    serving.spawn(async move {
        let _ = Endpoint::new(server).serve(listener).await;
    });
    serving
}

#[tokio::test]
async fn a_task_of_one_server_is_unknown_to_another_with_the_same_key() {
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let _serving = folders.each_ref().map(forgetful);
    let bridge = |folder: &TempDir| {
        let upstream = Upstream::new(socket(folder.path().join("socket")).route());
        let bridge = Endpoint::new(upstream.owned(&OwnerKey::from([7; 32]), ""));
        client(&bridge, "ann")
    };
    let [one, other] = folders.each_ref().map(bridge);
    let task = one.request("tools/call", json!({ "name": "wait" })).await;
    let id = json!({ "taskId": task.unwrap()["taskId"] });
    let again = bridge(&folders[0]).request("tasks/get", id.clone()).await;
    assert_eq!(again.unwrap()["status"], "working");
    let error = other.request("tasks/get", id).await.unwrap_err();
    assert_eq!(error.code, -32602, "{error}");
}

/// Starts a call of this caller.
fn call(endpoint: &Endpoint, name: &str, tool: &str) -> Messages {
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool, "_meta": {
        meta::PROTOCOL_VERSION: "2026-07-28", meta::CLIENT_CAPABILITIES: {}, meta::CLIENT_INFO: { "name": "x", "version": "1" },
    }}});
    let message = Bytes::from(message.to_string());
    let Ok(Incoming::Request { id, method, params }) = Incoming::parse(&message) else {
        panic!("it is a request");
    };
    let caller = Caller::new(CallerTransport::Memory).known_as(name);
    endpoint.start(admit(&message, id, &method, params, caller, None).expect("it is valid"))
}

#[tokio::test]
async fn answers_that_one_caller_does_not_read_keep_no_other_caller_out() {
    let shared = Shared::new();
    let mut few = Limits::default();
    few.memory_bytes = 8 << 20;
    for (endpoint, prefix) in ways_within(&shared, &few).await {
        let tool = format!("{prefix}long");
        let answer = async |name: &str| call(&endpoint, name, &tool).response().await.unwrap();
        let read = |json: &[u8]| serde_json::from_slice::<Value>(json).unwrap();
        let mut unread = Vec::new();
        for _ in 0..12 {
            unread.push(answer("ann").await);
        }
        let last = read(unread.last().unwrap().json());
        assert_eq!(last["error"]["data"]["limit"], "memory_bytes", "{last}");
        let words = last["error"]["message"].as_str().unwrap();
        assert!(words.contains("may have taken effect"), "{words}");
        let room = |name: &str| {
            let account = endpoint.budget().account(&format!("principal:{name}"));
            account.try_reserve(CALL_BYTES).map(drop)
        };
        room("bob").unwrap();
        assert!(read(answer("bob").await.json())["result"].is_object());
        // A caller that reads its answers gets the next one.
        drop(unread);
        assert!(read(answer("ann").await.json())["result"].is_object());
    }
}

#[tokio::test]
async fn answers_that_many_callers_do_not_read_keep_no_other_caller_out() {
    let shared = Shared::new();
    let mut few = Limits::default();
    few.memory_bytes = 8 << 20;
    for (endpoint, prefix) in ways_within(&shared, &few).await {
        let tool = format!("{prefix}long");
        let mut unread = Vec::new();
        for number in 0..12 {
            let name = format!("caller{number}");
            unread.push(call(&endpoint, &name, &tool).response().await.unwrap());
        }
        let budget = endpoint.budget();
        assert!(budget.used() < budget.total(), "{budget:?}");
        let bob = budget.account("principal:bob");
        bob.try_reserve(CALL_BYTES).unwrap();
        let last = serde_json::from_slice::<Value>(unread.last().unwrap().json()).unwrap();
        assert_eq!(last["error"]["data"]["limit"], "memory_bytes", "{last}");
        drop(unread);
    }
}
