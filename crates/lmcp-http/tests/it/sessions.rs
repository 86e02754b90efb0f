//! Sessions of older revisions over HTTP: how long an id is good, and for what.

use std::{collections::HashSet, time::Duration};

use lmcp_core::{Cx, Json, NoArgs, Resource, Server, Tool, ToolResult};
use lmcp_wire::{CallToolResult, Content};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    support::{Answer, body, call, hanging, limits, serve, server},
    visitor::{NEWEST, Visitor, opening, sessionless},
};

#[tokio::test]
async fn a_restart_with_the_same_key_keeps_every_session() {
    let mut before = serve(server().key([7; 32])).await;
    let visitor = Visitor::new(&before).await;
    assert_eq!(text(&before.ask(&visitor.call(1, "quick")).await), "quick");
    before.stop();
    before.ended().await.unwrap();
    let after = serve(server().key([7; 32])).await;
    assert_eq!(text(&after.ask(&visitor.call(2, "quick")).await), "quick");
    for other in [server().key([8; 32]), server()] {
        let other = serve(other).await;
        let answer = other.ask(&visitor.call(3, "quick")).await;
        assert_eq!(answer.head.status, 404, "the word to begin anew");
        assert!(answer.body.contains("initialize"), "{}", answer.body);
    }
}

#[tokio::test]
async fn servers_with_one_key_can_take_turns() {
    let servers = [
        serve(server().key([7; 32])).await,
        serve(server().key([7; 32])).await,
    ];
    let visitor = Visitor::new(&servers[0]).await;
    for turn in 0..10 {
        let running = &servers[turn % 2];
        assert_eq!(
            text(&running.ask(&visitor.call(turn, "quick")).await),
            "quick"
        );
    }
}

#[tokio::test]
async fn a_client_is_presented_to_as_itself_on_every_request_of_its_session() {
    #[derive(Serialize, JsonSchema)]
    struct Count {
        count: u8,
    }
    async fn count(_: NoArgs, _: Cx) -> Json<Count> {
        Json(Count { count: 3 })
    }
    let counting = || {
        let tool = Tool::new("count", count).read_only();
        server().key([7; 32]).tool(tool)
    };
    let (running, restarted) = (serve(counting()).await, serve(counting()).await);
    let much = json!({ "experimental": { "much": "x".repeat(3000) } });
    for capabilities in [json!({}), much] {
        let visitor = Visitor::with(&running, NEWEST, "claude-code", capabilities).await;
        for running in [&running, &restarted] {
            let list = running
                .ask(&visitor.request(1, "tools/list", json!({})))
                .await;
            assert!(!list.body.contains("outputSchema"), "{}", list.body);
            let called = running.ask(&visitor.call(2, "count")).await;
            assert!(
                !called.body.contains("structuredContent"),
                "{}",
                called.body
            );
            assert_eq!(text(&called), r#"{"count":3}"#);
        }
    }
}

#[tokio::test]
async fn an_ended_session_is_gone_for_good() {
    let (tool, mut watcher) = hanging("hang");
    let running = serve(server().tool(tool)).await;
    let (visitor, other) = (Visitor::new(&running).await, Visitor::new(&running).await);
    let mut stream = running.connect().await;
    stream.open_stream(&visitor.get()).await;
    let mut calling = running.connect().await;
    calling.send(&visitor.call(1, "hang")).await;
    watcher.started().await;

    let ended = running.ask(&visitor.delete()).await;
    assert!((200..300).contains(&ended.head.status));
    // L11: what ran in it is stopped, and nobody is left waiting.
    watcher.dropped().await;
    assert_eq!(stream.rest().await, Vec::<Value>::new());
    let head = calling.head().await;
    assert!(!calling.body(&head).await.contains("result"));
    for post in [
        visitor.call(2, "quick"),
        visitor.get(),
        visitor.delete(),
        visitor.tell("notifications/initialized", json!({})),
        visitor.answer(&json!(1), json!({})),
    ] {
        assert_eq!(running.ask(&post).await.head.status, 404, "{post:?}");
    }
    assert_eq!(text(&running.ask(&other.call(2, "quick")).await), "quick");
}

#[tokio::test]
async fn a_session_that_never_was_cannot_be_used_or_ended() {
    let running = serve(server()).await;
    let mut visitor = Visitor::new(&running).await;
    let true_id = visitor.session.clone();
    for session in ["none", "AAAA", "é", &true_id[1..]] {
        session.clone_into(&mut visitor.session);
        // What is no text is no id at all.
        let expected: &[u16] = if session.is_ascii() {
            &[404]
        } else {
            &[400, 404, 405]
        };
        for post in [visitor.delete(), visitor.get()] {
            let status = running.ask(&post).await.head.status;
            assert!(expected.contains(&status), "{session}: {status}");
        }
    }
}

/// Taken for a request without a session, it would be served without what the session wished for.
#[tokio::test]
async fn an_id_that_is_written_twice_is_refused() {
    let running = serve(server()).await;
    let (ann, bob) = (Visitor::new(&running).await, Visitor::new(&running).await);
    // The helper keeps one field of a name; the server sees two, whatever their case.
    for post in [ann.call(1, "quick"), ann.get(), ann.delete()] {
        let answer = running
            .ask(&post.with("Mcp-Session-Id", &bob.session))
            .await;
        assert!((400..500).contains(&answer.head.status), "{}", answer.body);
    }
    for visitor in [ann, bob] {
        assert_eq!(text(&running.ask(&visitor.call(1, "quick")).await), "quick");
    }
}

// L1
#[tokio::test]
async fn ids_are_unique_and_cannot_be_guessed() {
    let running = serve(server()).await;
    let mut connection = running.connect().await;
    let mut known = HashSet::new();
    for _ in 0..300 {
        let answer = connection.ask(&opening(NEWEST, "x", json!({}))).await;
        let id = answer.head.get("mcp-session-id").unwrap().to_owned();
        assert!(id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "{id}");
        assert!(id.len() >= 22, "128 random bits do not fit into `{id}`");
        assert!(known.insert(id));
    }
    let mut visitor = Visitor::new(&running).await;
    let true_id = visitor.session.clone();
    // No id that differs from a true one by a character is one.
    for place in 0..true_id.len() {
        let other = if &true_id[place..=place] == "A" {
            "B"
        } else {
            "A"
        };
        visitor.session = true_id.clone();
        visitor.session.replace_range(place..=place, other);
        let answer = connection.ask(&visitor.call(1, "quick")).await;
        assert_eq!(answer.head.status, 404, "{place}");
    }
}

// L27
#[tokio::test]
async fn a_session_does_not_end_by_waiting() {
    let forgetful = limits(|limits| {
        limits.session_wait = Duration::ZERO;
        limits.replay_wait = Duration::ZERO;
        limits.sessions = 64;
    });
    let running = serve(server().limits(forgetful)).await;
    let visitor = Visitor::new(&running).await;
    assert_eq!(
        running.ask(&visitor.set_level("error")).await.head.status,
        200
    );
    // Enough others that everything that can be forgotten is.
    for _ in 0..200 {
        let other = Visitor::new(&running).await;
        let answer = running.ask(&other.set_level("debug")).await;
        assert_eq!(answer.json()["result"], json!({}));
    }
    assert_eq!(text(&running.ask(&visitor.call(1, "quick")).await), "quick");
}

// L21
#[tokio::test]
async fn calls_without_a_session_are_served_and_leave_nothing() {
    let small = limits(|limits| limits.sessions = 64);
    let running = serve(server().limits(small)).await;
    let mut connection = running.connect().await;
    for _ in 0..500 {
        let answer = connection
            .ask(&sessionless("tools/call", json!({ "name": "quick" })))
            .await;
        assert_eq!(text(&answer), "quick");
        assert_eq!(answer.head.get("mcp-session-id"), None);
    }
    // Had each of them left a session, there would be no room for this one.
    let visitor = Visitor::new(&running).await;
    let answer = running.ask(&visitor.set_level("debug")).await;
    assert_eq!(answer.json()["result"], json!({}));
}

/// Whoever has no session, or an old one, knows nothing of structure; its text is all there is to see, and is there once.
#[tokio::test]
async fn a_payload_comes_once_to_who_does_not_know_structure() {
    async fn page(_: NoArgs, _: Cx) -> CallToolResult {
        let mut result = CallToolResult::new(vec![Content::text("all of it")]);
        result.structured_content = Some(json!({ "text": "all of it" }));
        result.text_is_whole = true;
        result
    }
    async fn value(_: NoArgs, _: Cx) -> Json<Vec<u8>> {
        Json(vec![7])
    }
    let page = Tool::new("page", page).read_only();
    let value = Tool::new("value", value).read_only();
    let running = serve(server().tool(page).tool(value)).await;
    let opened = running.ask(&opening("2025-03-26", "old", json!({}))).await;
    let session = opened.head.get("mcp-session-id").unwrap();
    for (tool, text) in [("page", "all of it"), ("value", "[7]")] {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool } });
        let call = body(&call.to_string());
        for post in [
            call.clone(),
            call.clone().with("mcp-protocol-version", "2025-03-26"),
            call.with("mcp-session-id", session),
        ] {
            let answer = running.ask(&post).await.json();
            let expected = json!({ "content": [{ "type": "text", "text": text }] });
            assert_eq!(answer["result"], expected, "{post:?}");
        }
    }
}

// L21
#[tokio::test]
async fn what_needs_a_session_says_so() {
    async fn ask(_: NoArgs, cx: Cx) -> ToolResult<String> {
        #[derive(Deserialize, JsonSchema)]
        struct Name {
            name: String,
        }
        let Name { name } = cx.ask("name", "Who?").await?;
        Ok(name)
    }
    let server = server()
        .resource(Resource::text("test://a", "a", "text"))
        .tool(Tool::new("ask", ask).read_only());
    let running = serve(server).await;
    for (method, params) in [
        ("logging/setLevel", json!({ "level": "debug" })),
        ("resources/subscribe", json!({ "uri": "test://a" })),
    ] {
        let answer = running.ask(&sessionless(method, params)).await.json();
        assert_eq!(answer["id"], 1, "{answer}");
        let words = answer["error"]["message"].as_str().unwrap();
        assert!(words.contains("initialize"), "{words}");
    }
    let answer = running
        .ask(&sessionless("tools/call", json!({ "name": "ask" })))
        .await
        .json();
    assert_eq!(answer["result"]["isError"], true, "{answer}");
}

// L26
#[tokio::test]
async fn every_session_has_its_own_level_capabilities_and_name() {
    let running = serve(curious()).await;
    let ann = Visitor::with(&running, NEWEST, "ann", json!({ "roots": {} })).await;
    let bob = Visitor::with(&running, "2025-06-18", "bob", json!({ "sampling": {} })).await;
    for (visitor, level) in [(&ann, "debug"), (&bob, "error")] {
        let answer = running.ask(&visitor.set_level(level)).await;
        assert_eq!(answer.json()["result"], json!({}), "{level}");
    }
    for (visitor, said, known) in [
        (&ann, vec!["debug", "error"], "ann roots"),
        (&bob, vec!["error"], "bob sampling"),
        (&ann, vec!["debug", "error"], "ann roots"),
    ] {
        let mut connection = running.connect().await;
        connection.open_stream(&visitor.call(1, "who")).await;
        let rest = connection.rest().await;
        let levels: Vec<_> = rest
            .iter()
            .filter_map(|said| said["params"]["level"].as_str())
            .collect();
        assert_eq!(levels, said);
        assert_eq!(rest.last().unwrap()["result"]["content"][0]["text"], known);
    }
}

#[tokio::test]
async fn a_client_is_known_by_name_whatever_it_accepts() {
    let running = serve(curious()).await;
    let ann = Visitor::with(&running, NEWEST, "ann", json!({ "roots": {} })).await;
    let post = ann.call(1, "who").with("accept", "application/json");
    let said = text(&running.ask(&post).await);
    assert!(said.starts_with("ann"), "{said}");
}

// L36
#[tokio::test]
async fn only_a_handshake_makes_a_session() {
    let running = serve(server()).await;
    let visitor = Visitor::new(&running).await;
    let bare = visitor.get().without("mcp-session-id");
    for (post, status) in [
        (bare.clone(), 405),
        (bare.with("accept", "*/*"), 405),
        (visitor.get().with("accept", "application/json"), 405),
        (visitor.get().with("accept", "text/html"), 406),
        (visitor.call(1, "quick"), 200),
        (call("quick"), 200),
    ] {
        let answer = running.ask(&post).await;
        assert_eq!(answer.head.status, status, "{post:?}");
        assert_eq!(answer.head.get("mcp-session-id"), None, "{post:?}");
    }
}

// L26
#[tokio::test]
async fn the_revision_is_agreed_on() {
    let running = serve(server()).await;
    for (asked, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let answer = running.ask(&opening(asked, "x", json!({}))).await;
        assert_eq!(answer.json()["result"]["protocolVersion"], agreed);
    }
    let visitor = Visitor::new(&running).await;
    let unknown = visitor
        .call(1, "quick")
        .with("mcp-protocol-version", "1999-01-01");
    assert_eq!(running.ask(&unknown).await.head.status, 400);
}

#[tokio::test]
async fn a_call_of_a_session_stops_with_its_server() {
    let (tool, mut watcher) = hanging("hang");
    let short = limits(|limits| limits.shutdown_wait = Duration::from_millis(20));
    let mut running = serve(server().tool(tool).limits(short)).await;
    let visitor = Visitor::new(&running).await;
    let mut connection = running.connect().await;
    connection.send(&visitor.call(1, "hang")).await;
    watcher.started().await;
    drop(connection);
    running.stop();
    running.ended().await.unwrap();
    watcher.dropped().await;
}

/// Tells at two levels, and then who asks and what it can be asked.
fn curious() -> Server {
    async fn who(_: NoArgs, cx: Cx) -> String {
        cx.log(lmcp_wire::LoggingLevel::Debug, "low");
        cx.log(lmcp_wire::LoggingLevel::Error, "high");
        let (can, name) = (cx.capabilities(), cx.client_info());
        let name = name.map_or_else(|| "nobody".into(), |info| info.name);
        let roots = can.roots.map_or("", |_| " roots");
        let sampling = can.sampling.map_or("", |_| " sampling");
        format!("{name}{roots}{sampling}")
    }
    server().tool(Tool::new("who", who).read_only())
}

fn text(answer: &Answer) -> String {
    let text = answer.json()["result"]["content"][0]["text"]
        .as_str()
        .map(str::to_owned);
    text.unwrap_or_else(|| panic!("{} {}", answer.head.status, answer.body))
}
