//! Sessions of older revisions on stdio and unix sockets: here the connection is the session.

use std::path::Path;

use lmcp_core::{Cx, Handle, NoArgs, Resource, Tool, ToolResult, unix};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::UnixStream;

use crate::{
    stdio::Process,
    support::{Folder, Peer, Serving, connect, hanging, server, soon},
};

const NEWEST: &str = "2025-11-25";

// L16, L29
#[tokio::test]
async fn on_stdio_a_slow_call_delays_nobody() {
    let mut process = Process::start();
    process.peer.shake_hands(NEWEST).await;
    process.peer.ask_tool(1, "hang").await;
    assert_eq!(process.stderr.line().await, "started");
    process.peer.ask(2, "ping", json!({})).await;
    assert_eq!(
        process.peer.receive().await,
        json!({ "jsonrpc": "2.0", "id": 2, "result": {} })
    );
    process.peer.ask_tool(3, "quick").await;
    assert_eq!(process.peer.receive().await["id"], 3);
}

// L29
#[tokio::test]
async fn on_stdio_a_cancel_arrives_while_the_call_runs() {
    let mut process = Process::start();
    process.peer.shake_hands(NEWEST).await;
    process.peer.ask_tool(1, "hang").await;
    assert_eq!(process.stderr.line().await, "started");
    process.peer.cancel(1).await;
    assert_eq!(process.stderr.line().await, "dropped");
    // No answer comes, and its id is free.
    process.peer.ask_tool(1, "quick").await;
    assert_eq!(
        process.peer.receive().await["result"]["content"][0]["text"],
        "quick"
    );
}

/// The time that people take is not the handler's.
#[tokio::test(start_paused = true)]
async fn a_question_may_take_longer_than_the_deadline() {
    #[derive(Deserialize, JsonSchema)]
    struct Name {
        name: String,
    }
    async fn greet(_: NoArgs, cx: Cx) -> ToolResult<String> {
        let Name { name } = cx.ask("name", "Who?").await?;
        // Less than the deadline, but more than what would be left of it.
        tokio::time::sleep(std::time::Duration::from_secs(400)).await;
        Ok(name)
    }
    let (mut peer, _serving) = connect(
        &server()
            .tool(Tool::new("greet", greet).read_only())
            .start()
            .unwrap(),
    );
    peer.shake_hands(NEWEST).await;
    peer.ask_tool(1, "greet").await;
    let asked = peer.receive().await;
    assert_eq!(asked["method"], "elicitation/create");
    tokio::time::sleep(std::time::Duration::from_secs(1500)).await;
    let answer = json!({ "action": "accept", "content": { "name": "Ann" } });
    peer.answer(&asked["id"], answer).await;
    tokio::time::sleep(std::time::Duration::from_secs(500)).await;
    let answer = peer.receive().await;
    assert_eq!(answer["result"]["content"][0]["text"], "Ann", "{answer}");
}

/// A deadline that no clock reaches is no deadline, also where it begins anew behind a question.
#[tokio::test]
async fn a_question_of_a_tool_without_end_is_answered() {
    async fn ask(_: NoArgs, cx: Cx) -> ToolResult<String> {
        let _: Option<Value> = cx.ask_opt("sure", "Sure?").await?;
        tokio::task::yield_now().await;
        Ok("done".to_owned())
    }
    let tool = Tool::new("ask", ask).read_only();
    let server = server().tool(tool.deadline(std::time::Duration::MAX));
    let (mut peer, _serving) = connect(&server.start().unwrap());
    peer.shake_hands(NEWEST).await;
    peer.ask_tool(1, "ask").await;
    let asked = peer.receive().await;
    peer.answer(&asked["id"], json!({ "action": "decline" }))
        .await;
    let answer = peer.receive().await;
    assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
}

// L29
#[tokio::test]
async fn on_stdio_progress_comes_before_the_answer() {
    let mut process = Process::start();
    process.peer.shake_hands(NEWEST).await;
    process.peer.ask_tool(1, "steps").await;
    let said = process.peer.receive().await;
    assert_eq!(said["method"], "notifications/progress");
    assert_eq!(
        said["params"],
        json!({ "progressToken": "token", "progress": 1, "total": 2, "message": "half" })
    );
    assert_eq!(
        process.peer.receive().await["result"]["content"][0]["text"],
        "stepped"
    );
}

// L29
#[tokio::test]
async fn on_stdio_a_question_is_asked_and_answered() {
    for version in ["2025-06-18", NEWEST] {
        let mut process = Process::start();
        process.peer.shake_hands(version).await;
        process.peer.ask_tool(1, "greet").await;
        let question = process.peer.receive().await;
        assert_eq!(question["method"], "elicitation/create");
        // Others are served while it waits.
        process.peer.ask_tool(2, "quick").await;
        assert_eq!(process.peer.receive().await["id"], 2);
        process.peer.answer(&question["id"], named("Ann")).await;
        let answer = process.peer.receive().await;
        assert_eq!(answer["result"]["content"][0]["text"], "Hello, Ann!");
    }
}

// L16: who gives others their turn between two words must not take them all.
#[tokio::test]
async fn a_handler_that_never_stops_talking_delays_nobody() {
    let talk = Tool::new("talk", |_: NoArgs, cx: Cx| async move {
        for _ in 0..100_000 {
            cx.log(lmcp_wire::LoggingLevel::Error, "word");
            tokio::task::yield_now().await;
        }
        "nobody could stop it"
    });
    let (mut peer, _serving) = connect(&server().tool(talk.read_only()).start().unwrap());
    peer.shake_hands(NEWEST).await;
    peer.ask_tool(1, "talk").await;
    peer.ask(2, "ping", json!({})).await;
    peer.cancel(1).await;
    peer.ask(3, "ping", json!({})).await;
    let mut answers = Vec::new();
    while answers.len() < 2 {
        let said = peer.receive().await;
        answers.extend(said.get("id").cloned());
    }
    assert_eq!(answers, [2, 3]);
}

// L23, L29
#[tokio::test]
async fn on_stdio_a_panic_costs_one_answer() {
    let mut process = Process::start();
    process.peer.shake_hands(NEWEST).await;
    process.peer.ask_tool(1, "panic").await;
    let answer = process.peer.receive().await;
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!(1), &json!(-32603))
    );
    assert!(!answer.to_string().contains("secret"), "{answer}");
    process.peer.ask_tool(2, "quick").await;
    assert_eq!(process.peer.receive().await["id"], 2);
}

// L30
#[tokio::test]
async fn on_stdio_a_late_cancel_leaves_the_next_use_of_the_id() {
    let mut process = Process::start();
    process.peer.shake_hands(NEWEST).await;
    for _ in 0..3 {
        process.peer.ask_tool(1, "quick").await;
        assert_eq!(process.peer.receive().await["id"], 1);
        process.peer.cancel(1).await;
    }
}

#[tokio::test]
async fn on_stdio_the_answers_in_flight_arrive_when_the_input_ends() {
    let mut process = Process::start();
    process.peer.shake_hands(NEWEST).await;
    process.peer.ask_tool(0, "hang").await;
    process.peer.ask_tool("asks", "greet").await;
    assert_eq!(process.stderr.line().await, "started");
    for id in 1..=20 {
        process.peer.ask_tool(id, "quick").await;
    }
    let rest = process.peer.finish().await;
    let mut ids: Vec<_> = rest
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|message| message["result"].is_object())
        .map(|answer| answer["id"].as_i64().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, Vec::from_iter(1..=20));
    // What would never end does not hold the process.
    assert_eq!(process.stderr.line().await, "dropped");
    assert_eq!(soon(process.child.wait()).await.unwrap().code(), Some(0));
}

// L6, L8
#[tokio::test]
async fn two_connections_cannot_stop_or_answer_each_other() {
    let folder = Folder::new();
    let (tool, mut watcher) = hanging("hang");
    let greet = Tool::new("greet", greet).read_only();
    let _serving = serve(
        &folder.join("s"),
        server().tool(tool).tool(greet).start().unwrap(),
    );
    let (mut ann, mut bob) = (dial(&folder.join("s")).await, dial(&folder.join("s")).await);
    ann.shake_hands(NEWEST).await;
    bob.shake_hands("2025-06-18").await;
    ann.ask_tool(7, "hang").await;
    watcher.started().await;
    ann.ask_tool(8, "greet").await;
    let question = ann.receive().await;

    bob.cancel(7).await;
    bob.answer(&question["id"], named("Eve")).await;
    bob.ask(7, "ping", json!({})).await;
    assert_eq!(bob.receive().await["result"], json!({}));
    assert!(watcher.is_running());
    ann.answer(&question["id"], named("Ann")).await;
    assert_eq!(
        ann.receive().await["result"]["content"][0]["text"],
        "Hello, Ann!"
    );
    ann.cancel(7).await;
    watcher.dropped().await;
}

// L7
#[tokio::test]
async fn a_number_and_a_text_are_different_ids() {
    let (first, mut number) = hanging("first");
    let (second, mut text) = hanging("second");
    let (mut peer, _serving) = connect(&server().tool(first).tool(second).start().unwrap());
    peer.shake_hands(NEWEST).await;
    peer.ask_tool(7, "first").await;
    number.started().await;
    peer.ask_tool("7", "second").await;
    text.started().await;
    let params = json!({ "requestId": "7" });
    peer.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }))
        .await;
    text.dropped().await;
    assert!(number.is_running());
}

// L26
#[tokio::test]
async fn every_connection_has_its_own_level_and_name() {
    async fn who(_: NoArgs, cx: Cx) -> String {
        cx.log(lmcp_wire::LoggingLevel::Debug, "low");
        format!("{:?}", cx.client_info().map(|info| info.name))
    }
    let server = server()
        .tool(Tool::new("who", who).read_only())
        .start()
        .unwrap();
    let ((mut ann, _first), (mut bob, _second)) = (connect(&server), connect(&server));
    ann.shake_hands(NEWEST).await;
    bob.shake_hands(NEWEST).await;
    for (peer, level) in [(&mut ann, "debug"), (&mut bob, "error")] {
        peer.ask(1, "logging/setLevel", json!({ "level": level }))
            .await;
        assert_eq!(peer.receive().await["result"], json!({}));
    }
    ann.ask_tool(2, "who").await;
    assert_eq!(ann.receive().await["params"]["data"], "low");
    assert_eq!(
        ann.receive().await["result"]["content"][0]["text"],
        "Some(\"peer\")"
    );
    bob.ask_tool(2, "who").await;
    assert_eq!(bob.receive().await["id"], 2);
}

// L35: what changes is told here too, and only of what is watched.
#[tokio::test]
async fn changes_are_told_on_the_connection() {
    let server = server()
        .resource(Resource::text("test://a", "a", "text"))
        .start()
        .unwrap();
    let (mut peer, _serving) = connect(&server);
    peer.shake_hands(NEWEST).await;
    peer.ask(1, "resources/subscribe", json!({ "uri": "test://a" }))
        .await;
    assert_eq!(peer.receive().await["result"], json!({}));
    server.resource_updated("test://b");
    server.resource_updated("test://a");
    let heard = peer.receive().await;
    assert_eq!(heard["params"], json!({ "uri": "test://a" }));
    server
        .add_resource(Resource::text("test://c", "c", "text"))
        .unwrap();
    assert_eq!(
        peer.receive().await["method"],
        "notifications/resources/list_changed"
    );
}

// L28
#[tokio::test]
async fn what_is_no_message_is_told_so() {
    let (tool, _watcher) = hanging("hang");
    let (mut peer, _serving) = connect(&server().tool(tool).start().unwrap());
    peer.shake_hands("2025-06-18").await;
    for line in [
        "1",
        "null",
        "\"text\"",
        "[]",
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
        "{}",
        r#"{"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        "{",
    ] {
        peer.write(format!("{line}\n").as_bytes()).await;
        let answer = peer.receive().await;
        assert!(answer["error"]["code"].is_i64(), "{line}: {answer}");
    }
    // An answer to a question nobody asked is not answered.
    peer.answer(&json!(1), json!({})).await;
    peer.answer(&json!("srv-1"), json!({})).await;
    peer.ask(9, "ping", json!({})).await;
    assert_eq!(peer.receive().await["id"], 9);
}

#[tokio::test]
async fn a_batch_is_answered_with_one_line_when_all_of_it_is_done() {
    let (tool, mut watcher) = hanging("hang");
    let quick = Tool::new("quick", |_: NoArgs, _: Cx| async { "quick" });
    let server = server().tool(tool).tool(quick.read_only()).start().unwrap();
    let (mut peer, _serving) = connect(&server);
    peer.shake_hands("2025-03-26").await;
    let call = |id: i64, name: &str| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name } });
    peer.send(&json!([call(1, "hang"), call(2, "quick"), { "jsonrpc": "2.0", "id": 3, "method": "ping" }])).await;
    watcher.started().await;
    // The batch waits for its slow call; the rest of the connection does not.
    peer.ask(4, "ping", json!({})).await;
    assert_eq!(peer.receive().await["id"], 4);
    peer.cancel(1).await;
    let answers = peer.receive().await;
    let mut ids: Vec<_> = answers
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| answer["id"].as_i64())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, [Some(2), Some(3)]);
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

async fn greet(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let Name { name } = cx.ask("name", "Who?").await?;
    Ok(format!("Hello, {name}!"))
}

fn named(name: &str) -> Value {
    json!({ "action": "accept", "content": { "name": name } })
}

fn serve(path: &Path, server: Handle) -> Serving {
    let transport = unix(path).expect("the path is free");
    Serving::start(async move { server.serve(transport).await })
}

async fn dial(path: &Path) -> Peer {
    let stream = soon(UnixStream::connect(path)).await;
    let (reader, writer) = stream.expect("the server listens").into_split();
    Peer::new(reader, writer)
}
