//! Paths, verbs, and bodies that are no request.

use serde_json::json;

use crate::support::{body, call, request, serve, serve_as, server};

#[tokio::test]
async fn the_endpoint_has_one_path() {
    let running = serve(server()).await;
    for (path, status) in [
        ("/mcp", 200),
        ("/mcp/", 200),
        ("/mcp?x=1", 200),
        ("/", 404),
        ("/mcp/more", 404),
        ("/mcp//", 404),
        ("/MCP", 404),
        ("/mcpx", 404),
        ("//mcp", 404),
    ] {
        let answer = running.ask(&call("quick").path(path)).await;
        assert_eq!(answer.head.status, status, "{path}");
    }
}

#[tokio::test]
async fn the_path_can_be_another() {
    for given in ["tools/v1", "/tools/v1", "/tools/v1/"] {
        let running = serve_as(server(), |http| {
            let http = http.path(given);
            assert!(http.url().ends_with("/tools/v1"), "{}", http.url());
            http
        })
        .await;
        assert_eq!(
            running
                .ask(&call("quick").path("/tools/v1"))
                .await
                .head
                .status,
            200
        );
        assert_eq!(
            running
                .ask(&call("quick").path("/tools/v1/"))
                .await
                .head
                .status,
            200
        );
        assert_eq!(running.ask(&call("quick")).await.head.status, 404);
    }
}

#[tokio::test]
async fn other_verbs_are_not_allowed() {
    let running = serve(server()).await;
    for verb in ["GET", "DELETE", "PUT", "PATCH", "HEAD"] {
        let answer = running.ask(&call("quick").verb(verb)).await;
        assert_eq!(answer.head.status, 405, "{verb}");
        let allowed = answer.head.get("allow").unwrap();
        assert!(allowed.split(", ").any(|verb| verb == "POST"), "{allowed}");
    }
}

#[tokio::test]
async fn a_notification_is_accepted_without_a_body() {
    let running = serve(server()).await;
    for message in [
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/unheard-of" }),
    ] {
        let answer = running.ask(&body(&message.to_string())).await;
        assert_eq!((answer.head.status, &*answer.body), (202, ""));
    }
}

#[tokio::test]
async fn a_response_is_refused() {
    let running = serve(server()).await;
    for message in [
        json!({ "jsonrpc": "2.0", "id": 1, "result": {} }),
        json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": 1, "message": "no" } }),
    ] {
        let answer = running.ask(&body(&message.to_string())).await;
        assert_eq!(answer.head.status, 400);
        assert_eq!(answer.json()["error"]["code"], -32600);
    }
}

#[tokio::test]
async fn only_json_is_read() {
    let running = serve(server()).await;
    for (kind, status) in [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("application/jsonx", 415),
        ("", 415),
    ] {
        let answer = running.ask(&call("quick").with("content-type", kind)).await;
        assert_eq!(answer.head.status, status, "{kind}");
    }
    let answer = running.ask(&call("quick").without("content-type")).await;
    assert_eq!(answer.head.status, 415);
}

#[tokio::test]
async fn a_body_that_is_no_message_is_told_so() {
    let running = serve(server()).await;
    for text in ["", "{", "[]", "{}", "\"text\""] {
        let answer = running.ask(&body(text)).await;
        assert_eq!(answer.head.status, 400, "{text}");
        assert_eq!(answer.json().get("id"), None, "{text}");
    }
}

#[tokio::test]
async fn one_connection_carries_many_requests() {
    let running = serve(server()).await;
    let mut connection = running.connect().await;
    for _ in 0..100 {
        let answer = connection.ask(&call("quick")).await;
        assert_eq!(answer.json()["result"]["content"][0]["text"], "quick");
        let answer = connection.ask(&request("server/discover", json!({}))).await;
        assert_eq!(answer.json()["result"]["resultType"], "complete");
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let running = serve(server()).await;
    let mut connection = running.connect().await;
    let message = |id: i64| {
        let text = call("quick")
            .body()
            .replace("\"id\":1", &format!("\"id\":{id}"));
        body(&text)
            .with("mcp-protocol-version", "2026-07-28")
            .with("mcp-method", "tools/call")
            .with("mcp-name", "quick")
    };
    for id in 0..20 {
        connection.send(&message(id)).await;
    }
    for id in 0..20 {
        let head = connection.head().await;
        let answer: serde_json::Value =
            serde_json::from_str(&connection.body(&head).await).unwrap();
        assert_eq!(answer["id"], id);
    }
}
