//! Services that are no servers of this crate, on lines and in both eras.

mod service;

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use lmcp_core::{
    Caller, CallerTransport, Endpoint, Layered, Payload, Replies, Reply, Request, Service, Terms,
    client::Event, streams,
};
use lmcp_wire::{LoggingLevel, RpcError};
use serde_json::{Value, json};

use service::Foreign;

use crate::support::{Peer, Serving, all, limits, soon};

fn connect(endpoint: Endpoint) -> (Peer, Serving) {
    let (near, far) = tokio::io::duplex(64 << 10);
    let (reader, writer) = tokio::io::split(far);
    let caller = Caller::new(CallerTransport::Memory);
    let serving =
        Serving::start(async move { endpoint.serve(streams(reader, writer, caller)).await });
    let (reader, writer) = tokio::io::split(near);
    (Peer::new(reader, writer), serving)
}

#[tokio::test]
async fn what_nobody_understands_reaches_a_modern_client_as_it_is() {
    let client = Endpoint::new(Foreign).client();
    let params = json!({ "name": "raw" });
    let result = soon(client.request("tools/call", params)).await.unwrap();
    let expected = json!({
        "resultType": "complete",
        "content": [{ "type": "text", "text": "far", "x-own": { "b": 1, "a": 2 } }],
        "structuredContent": [1, 2],
        "x-own": null,
        "_meta": { "x/y": 1 },
    });
    assert_eq!(result, expected);
    let found = soon(client.request("server/discover", json!({})))
        .await
        .unwrap();
    assert_eq!(
        found["supportedVersions"][0], "2026-07-28",
        "ours, for we speak with the client"
    );
    assert_eq!(found["x-own"], json!([1.0, "one"]));
    assert_eq!(found["_meta"]["x/y"], "z");
    assert_eq!(
        found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"],
        "far"
    );
    assert_eq!(
        (&found["ttlMs"], &found["cacheScope"]),
        (&json!(0), &json!("private"))
    );
    let list = soon(client.request("tools/list", json!({}))).await.unwrap();
    assert_eq!(list["tools"][0]["x-own"], json!({ "z": 1, "a": 2 }));
    assert_eq!(
        list["tools"][0]["inputSchema"]["properties"]["b"]["x-mcp-header"],
        "B"
    );
}

#[tokio::test]
async fn an_older_client_gets_it_in_the_shape_of_its_revision() {
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let (mut peer, _serving) = connect(Endpoint::new(Foreign));
        peer.shake_hands(version).await;
        peer.ask_tool(1, "raw").await;
        let result = peer.receive().await["result"].take();
        assert_eq!(result["x-own"], Value::Null);
        assert!(
            result.as_object().unwrap().contains_key("x-own"),
            "{result}"
        );
        assert!(result.get("resultType").is_none(), "{result}");
        assert_eq!(result["content"][0]["x-own"], json!({ "b": 1, "a": 2 }));
        // Structured content of any other kind than an object came later, and is not lost.
        assert_eq!(result["content"][1]["text"], "[1,2]");
        assert!(result.get("structuredContent").is_none(), "{result}");
        assert_eq!(result["_meta"], json!({ "x/y": 1 }));
        peer.ask(2, "tools/list", json!({})).await;
        let list = peer.receive().await["result"].take();
        let tool = &list["tools"][0];
        assert_eq!(tool["x-own"], json!({ "z": 1, "a": 2 }), "{version}");
        assert_eq!(tool.get("icons").is_some(), version == "2025-11-25");
        assert_eq!(tool.get("title").is_some(), version != "2024-11-05");
        assert!(tool.get("outputSchema").is_none());
        let properties = &tool["inputSchema"]["properties"];
        assert_eq!(*properties, json!({ "b": { "type": "string" }, "a": {} }));
    }
}

#[tokio::test]
async fn a_handshake_is_answered_from_what_discovery_says() {
    let (mut peer, _serving) = connect(Endpoint::new(Foreign));
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {} });
    peer.ask(0, "initialize", params).await;
    let result = peer.receive().await["result"].take();
    assert_eq!(result["protocolVersion"], "2025-06-18");
    assert_eq!(
        result["serverInfo"],
        json!({ "name": "far", "version": "9" })
    );
    assert_eq!(result["capabilities"], json!({ "tools": {}, "x-more": 1 }));
    assert!(result.get("supportedVersions").is_none());
    assert_eq!(result["_meta"], json!({ "x/y": "z" }));
}

#[tokio::test]
async fn progress_and_logs_reach_clients_that_want_them() {
    let client = Endpoint::new(Foreign).client();
    let (events, result) = all(client.start_tool("speaks", json!({}))).await;
    assert_eq!(result.unwrap()["content"][0]["text"], "progress: true");
    let (mut progress, mut other) = (Vec::new(), Vec::new());
    for event in events {
        match event {
            Event::Progress(params) => progress.push((params.progress, params.message)),
            Event::Other(method, params) => other.push((method, params)),
            event => panic!("nobody asked for {event:?}"),
        }
    }
    let step = |step: f64| (step, Some(format!("step {step}")));
    assert_eq!(progress, [step(1.0), step(2.0)]);
    assert_eq!(
        other,
        [("notifications/x-own".to_owned(), json!({ "far": [] }))]
    );
    let client = client.log_level(LoggingLevel::Warning);
    let (events, _) = all(client.start_tool("speaks", json!({}))).await;
    let logs = events.into_iter().filter_map(|event| match event {
        Event::Log(params) => Some(params.level),
        _ => None,
    });
    assert_eq!(logs.collect::<Vec<_>>(), [LoggingLevel::Error]);

    let (mut peer, _serving) = connect(Endpoint::new(Foreign));
    peer.shake_hands("2024-11-05").await;
    peer.ask_tool(1, "speaks").await;
    let mut said = Vec::new();
    for _ in 0..5 {
        said.push(peer.receive().await);
    }
    let expected = [
        json!({ "progressToken": "token", "progress": 1 }),
        json!({ "progressToken": "token", "progress": 2 }),
        json!({ "level": "error", "data": { "far": "error" } }),
        json!({ "far": [] }),
    ];
    for (said, expected) in said.iter().zip(expected) {
        assert_eq!(said["params"], expected);
    }
    assert_eq!(said[4]["id"], 1);
}

#[tokio::test]
async fn a_question_is_put_as_each_client_can_be_asked() {
    let endpoint = Endpoint::new(Foreign);
    let client = endpoint.client().answering(|_, _| named("Ann"));
    let result = soon(client.call_tool("asks", json!({}))).await.unwrap();
    assert_eq!(result.content[0].as_text(), Some("Hello, Ann!"));

    let (mut peer, _serving) = connect(endpoint.clone());
    peer.shake_hands("2025-11-25").await;
    peer.ask_tool(1, "asks").await;
    let question = peer.receive().await;
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(endpoint.waiting_questions("anyone"), (1, 1));
    peer.answer(&question["id"], named("Bea")).await;
    let answer = peer.receive().await;
    assert_eq!(answer["result"]["content"][0]["text"], "Hello, Bea!");
    assert_eq!(endpoint.waiting_questions("anyone"), (0, 0));
}

#[tokio::test]
async fn a_question_that_cannot_be_put_is_an_error() {
    let terms = Terms::default().limits(limits(|limits| limits.questions = 0));
    let (mut peer, _serving) = connect(Endpoint::on_terms(Foreign, terms));
    peer.shake_hands("2025-11-25").await;
    peer.ask_tool(1, "asks").await;
    let error = peer.receive().await["error"].take();
    assert_eq!(error["data"]["limit"], "questions", "{error}");
    // Before 2025-06-18 no user could be asked anything.
    let (mut peer, _serving) = connect(Endpoint::new(Foreign));
    peer.shake_hands("2025-03-26").await;
    peer.ask_tool(1, "asks").await;
    let result = peer.receive().await["result"].take();
    assert_eq!(result["isError"], true, "{result}");
}

#[tokio::test]
async fn an_error_is_passed_on() {
    let endpoint = Endpoint::new(Foreign);
    let error = endpoint
        .client()
        .call_tool("no", json!({}))
        .await
        .unwrap_err();
    assert_eq!((error.code, &*error.message), (-7, "far away"));
    let (mut peer, _serving) = connect(endpoint);
    peer.shake_hands("2025-06-18").await;
    peer.ask_tool(1, "no").await;
    let error = peer.receive().await["error"].take();
    let expected = json!({ "code": -7, "message": "far away", "data": { "far": true } });
    assert_eq!(error, expected);
}

#[tokio::test]
async fn a_layer_stands_around_any_service() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let layered = Layered::new(Foreign)
        .layer(move |request, next| {
            counted.fetch_add(1, Ordering::Relaxed);
            next.call(request)
        })
        .layer(|request, next| match request.target().as_deref() {
            Ok("no") => Replies::error(RpcError::new(403, "not this one")),
            Ok("panics") => panic!("a secret"),
            _ => next.call(request),
        });
    let client = Endpoint::new(layered).client();
    let error = client.call_tool("no", json!({})).await.unwrap_err();
    assert_eq!(error.code, 403);
    let error = client.call_tool("panics", json!({})).await.unwrap_err();
    assert!(error.message.contains("incident"), "{error}");
    let result = client.call_tool("raw", json!({})).await.unwrap();
    assert_eq!(result.content[0].as_text(), Some("far"));
    assert_eq!(calls.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_service_that_gives_no_answer_is_an_error() {
    struct Silent;
    impl Service for Silent {
        fn call(&self, _: Request) -> Replies {
            let mut replies = Replies::done(Payload::Acknowledged);
            replies.take_ready();
            replies
        }
    }
    let error = Endpoint::new(Silent)
        .client()
        .request("any/thing", json!({}))
        .await
        .unwrap_err();
    assert_eq!(error.message, "the service gave no answer");
}

#[tokio::test]
async fn changes_are_told_as_each_client_listens() {
    /// Tells of one change, and ends.
    struct Changing;
    impl Service for Changing {
        fn call(&self, request: Request) -> Replies {
            if request.method() != "subscriptions/listen" {
                return Foreign.call(request);
            }
            Replies::speaking(async |say| {
                let wanted = json!({ "notifications": { "toolsListChanged": true } });
                say.say(Reply::notify(
                    "notifications/subscriptions/acknowledged",
                    &wanted,
                ))
                .await;
                let own =
                    json!({ "_meta": { "x/y": 1, "io.modelcontextprotocol/subscriptionId": 99 } });
                say.say(Reply::notify("notifications/tools/list_changed", &own))
                    .await;
                Ok(Payload::Acknowledged.into())
            })
        }
    }
    let id = "io.modelcontextprotocol/subscriptionId";
    let (mut peer, _serving) = connect(Endpoint::new(Changing));
    peer.request(7, "subscriptions/listen", json!({ "notifications": {} }))
        .await;
    let acknowledged = peer.receive().await;
    assert_eq!(acknowledged["params"]["_meta"], json!({ id: 7 }));
    let changed = peer.receive().await;
    assert_eq!(
        changed["params"]["_meta"],
        json!({ "x/y": 1, id: 7 }),
        "ours, not the one behind"
    );
    let notice = peer.receive().await;
    assert_eq!(notice["method"], "notifications/cancelled");
    let end = peer.receive().await;
    assert_eq!(
        (&end["id"], &end["result"]["_meta"]),
        (&json!(7), &json!({ id: 7 }))
    );

    // A session hears of the change alone, and asked for nothing that could end.
    let (mut peer, _serving) = connect(Endpoint::new(Changing));
    peer.shake_hands("2025-11-25").await;
    let changed = peer.receive().await;
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    peer.ask_tool(1, "raw").await;
    assert_eq!(peer.receive().await["id"], 1);
}

fn named(name: &str) -> Value {
    json!({ "action": "accept", "content": { "name": name } })
}
