//! Services that are no servers of `lmcp-core`, over HTTP and in both eras.

#[path = "../../../lmcp-core/tests/it/foreign/service.rs"]
mod service;

use lmcp_core::Endpoint;
use serde_json::json;

use service::Foreign;

use crate::{
    support::{Running, call, request, serve_endpoint},
    visitor::{NEWEST, Visitor},
};

async fn serve() -> Running {
    serve_endpoint(Endpoint::new(Foreign), |http| http).await
}

#[tokio::test]
async fn what_nobody_understands_reaches_the_client_as_it_is() {
    let running = serve().await;
    let modern = running.ask(&call("raw")).await.json();
    let visitor = Visitor::new(&running).await;
    let older = running.ask(&visitor.call(1, "raw")).await.json();
    for answer in [&modern, &older] {
        let result = answer["result"].as_object().unwrap();
        assert_eq!(result["content"][0]["x-own"], json!({ "b": 1, "a": 2 }));
        assert!(result.contains_key("x-own"), "{answer}");
        assert_eq!(result["_meta"], json!({ "x/y": 1 }));
    }
    assert_eq!(modern["result"]["structuredContent"], json!([1, 2]));
    assert_eq!(older["result"]["content"][1]["text"], "[1,2]");
}

#[tokio::test]
async fn an_error_has_the_status_of_its_code() {
    let running = serve().await;
    let answer = running.ask(&call("no")).await;
    assert_eq!(
        (answer.head.status, &answer.json()["error"]["code"]),
        (200, &json!(-7))
    );
    let answer = running.ask(&request("prompts/list", json!({}))).await;
    assert_eq!(answer.head.status, 404);
    let visitor = Visitor::new(&running).await;
    let answer = running
        .ask(&visitor.request(1, "prompts/list", json!({})))
        .await;
    assert_eq!(
        (answer.head.status, &answer.json()["error"]["code"]),
        (200, &json!(-32601))
    );
    // It tells of no changes, so there is no stream to open.
    assert_eq!(running.ask(&visitor.get()).await.head.status, 405);
}

#[tokio::test]
async fn what_is_said_on_the_way_makes_the_answer_a_stream() {
    let running = serve().await;
    let mut connection = running.connect().await;
    connection.send(&call("speaks")).await;
    assert_eq!(
        connection.head().await.get("content-type"),
        Some("text/event-stream")
    );
    for step in [1, 2] {
        let progress = connection.message().await;
        assert_eq!(progress["params"]["progress"], step);
    }
    assert_eq!(connection.message().await["method"], "notifications/x-own");
    assert_eq!(connection.message().await["id"], 1);

    let visitor = Visitor::new(&running).await;
    let mut connection = running.connect().await;
    connection.open_stream(&visitor.call(1, "speaks")).await;
    let said = connection.rest().await;
    let methods: Vec<_> = said.iter().map(|said| said["method"].as_str()).collect();
    let progress = Some("notifications/progress");
    let expected = [
        progress,
        progress,
        Some("notifications/message"),
        Some("notifications/x-own"),
        None,
    ];
    assert_eq!(methods, expected, "{said:?}");
}

#[tokio::test]
async fn a_question_is_put_as_each_client_can_be_asked() {
    let running = serve().await;
    for version in ["2025-06-18", NEWEST] {
        let visitor = Visitor::of(&running, version).await;
        let mut connection = running.connect().await;
        connection.open_stream(&visitor.call(1, "asks")).await;
        let question = connection.next_message().await.json();
        assert_eq!(question["params"]["message"], "Who?");
        let named = json!({ "action": "accept", "content": { "name": "Ann" } });
        running.ask(&visitor.answer(&question["id"], named)).await;
        let rest = connection.rest().await;
        assert_eq!(rest[0]["result"]["content"][0]["text"], "Hello, Ann!");
    }
    let answer = running.ask(&call("asks")).await.json();
    assert_eq!(answer["result"]["resultType"], "input_required");
    assert_eq!(answer["result"]["requestState"], "far state");
}
