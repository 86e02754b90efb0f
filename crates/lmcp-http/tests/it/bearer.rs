//! A server that wants a token: what is told to whoever has none.

use lmcp_core::{Cx, NoArgs, Server, Tool};
use lmcp_http::{Http, bearer};

use crate::support::{Post, Running, body, call, serve_as, server};

const NOTHING_SENT: &str = r#"Bearer realm="lmcp""#;
const WRONG: &str = r#"Bearer realm="lmcp", error="invalid_token""#;

async fn running() -> Running {
    serve_as(server(), |http| {
        http.legacy_sse().identify(|headers| match bearer(headers) {
            Some("right") => Ok(None),
            _ => Err("a token is needed".into()),
        })
    })
    .await
}

fn with(value: &str) -> Post {
    call("quick").with("authorization", value)
}

// L5: the name of the scheme has no case.
#[tokio::test]
async fn the_right_token_opens_whatever_the_case_of_its_scheme() {
    let running = running().await;
    for value in [
        "Bearer right",
        "bearer right",
        "BEARER right",
        "bEaReR   right",
    ] {
        assert_eq!(running.ask(&with(value)).await.head.status, 200, "{value}");
    }
}

#[tokio::test]
async fn the_challenge_says_whether_a_token_was_sent() {
    let running = running().await;
    for (post, challenge) in [
        (call("quick"), NOTHING_SENT),
        (with("Bearer"), NOTHING_SENT),
        (with("Bearer "), NOTHING_SENT),
        (with("Basic right"), NOTHING_SENT),
        (with("Bearerright"), NOTHING_SENT),
        (with("Bearer wrong"), WRONG),
        (with("Bearer Right"), WRONG),
        (with("Bearer right right"), WRONG),
    ] {
        let answer = running.ask(&post).await;
        assert_eq!(answer.head.status, 401, "{post:?}");
        assert_eq!(
            answer.head.get("www-authenticate"),
            Some(challenge),
            "{post:?}"
        );
        assert_eq!(answer.json()["error"]["message"], "a token is needed");
    }
}

#[tokio::test]
async fn of_two_tokens_neither_counts() {
    let running = running().await;
    let twice = with("Bearer right").with("Authorization", "Bearer right");
    assert_eq!(running.ask(&twice).await.head.status, 401);
}

#[tokio::test]
async fn without_it_nothing_is_served_and_nothing_else_is_said() {
    let running = running().await;
    for post in [
        call("quick").verb("GET"),
        call("quick").verb("DELETE"),
        call("quick").verb("GET").with("accept", "text/html"),
        call("quick").without("content-type"),
        call("quick").with("accept", "text/html"),
        call("quick").with("mcp-session-id", "x"),
        body("no json"),
        body("").verb("GET").path("/sse"),
        body("{}").path("/messages"),
        body("{}")
            .path("/messages")
            .with("content-type", "text/plain"),
        body("{}").path("/messages?session=x"),
        call("quick").verb("PUT"),
        body("{}").path("/sse"),
        body("").verb("GET").path("/messages"),
    ] {
        assert_eq!(running.ask(&post).await.head.status, 401, "{post:?}");
    }
}

#[tokio::test]
async fn who_is_not_let_in_is_not_asked_for_the_body() {
    let running = running().await;
    let post = call("quick").with("expect", "100-continue");
    let mut connection = running.connect().await;
    connection
        .write(post.head(running.address).as_bytes())
        .await;
    assert_eq!(connection.head().await.status, 401);
}

/// Clients of HTTP+SSE show the token twice: when they open the stream, and with each message.
#[tokio::test]
async fn a_token_with_the_stream_and_with_each_message_serves_the_oldest_transport() {
    let running = running().await;
    let shown = |post: Post| post.with("authorization", "Bearer right");
    let get = body("").verb("GET").path("/sse").without("content-type");
    let get = shown(get.with("accept", "text/event-stream"));
    let mut stream = running.connect().await;
    stream.open_stream(&get).await;
    let first = stream.event().await.expect("a stream begins");
    let endpoint = first.strip_prefix("event: endpoint\ndata: ").unwrap();
    let ping = body(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#).path(endpoint);
    assert_eq!(running.ask(&ping).await.head.status, 401);
    assert_eq!(running.ask(&shown(ping)).await.head.status, 202);
    let answer = stream.event().await.expect("the stream goes on");
    assert!(answer.contains(r#""id":7,"result":{}"#), "{answer}");
}

#[tokio::test]
async fn browsers_may_ask_first_at_every_endpoint() {
    let running = running().await;
    let origin = format!("http://localhost:{}", running.address.port());
    for path in ["/mcp", "/sse", "/messages"] {
        let ask = body("").verb("OPTIONS").path(path).with("origin", &origin);
        let answer = running.ask(&ask).await;
        assert_eq!(answer.head.status, 204, "{path}");
        let allowed = answer.head.get("access-control-allow-headers");
        assert!(allowed.is_some_and(|allowed| allowed.contains("authorization")));
    }
    let refused = call("quick").with("origin", &origin);
    let answer = running.ask(&refused).await;
    assert_eq!(answer.head.status, 401);
    // The page can read why.
    assert_eq!(
        answer.head.get("access-control-allow-origin"),
        Some(&*origin)
    );
}

// Clients look for a login there, and one that finds anything stops using its token.
#[tokio::test]
async fn there_is_no_login_to_be_found() {
    let running = running().await;
    for path in [
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
        "/mcp/.well-known/openid-configuration",
        "/register",
    ] {
        let answer = running.ask(&body("").verb("GET").path(path)).await;
        assert_eq!((answer.head.status, &*answer.body), (404, ""), "{path}");
        assert_eq!(answer.head.get("www-authenticate"), None, "{path}");
    }
}

#[tokio::test]
async fn a_large_body_does_not_hide_the_refusal() {
    let running = running().await;
    let mut connection = running.connect().await;
    let large = body(&"x".repeat(3 << 20));
    assert_eq!(connection.ask(&large).await.head.status, 401);
    // All of it was read, so the connection is still of use.
    assert_eq!(connection.ask(&with("Bearer right")).await.head.status, 200);
}

#[tokio::test]
async fn what_is_longer_than_any_body_ends_the_connection() {
    fn wants_token(http: Http) -> Http {
        http.identify(|_| Err("a token is needed".into()))
    }
    let mut limits = lmcp_core::Limits::default();
    limits.body_bytes = 10;
    let running = serve_as(server().limits(limits), wants_token).await;
    let answer = running.ask(&body(&"x".repeat(11))).await;
    assert_eq!(answer.head.status, 401);
    assert_eq!(answer.head.get("connection"), Some("close"));
}

async fn who(_: NoArgs, cx: Cx) -> String {
    cx.principal().unwrap_or("nobody").to_owned()
}

#[tokio::test]
async fn a_token_lets_its_holder_in_and_says_its_name() {
    let server = Server::new("named", "0").tool(Tool::new("who", who).about("Who.").read_only());
    let tokens = |http: Http| http.token("ann", "a1").token("bob", "b2");
    let running = serve_as(server, tokens).await;
    for (value, name) in [("Bearer a1", "ann"), ("bearer b2", "bob")] {
        let answer = running.ask(&call("who").with("authorization", value)).await;
        assert_eq!(answer.json()["result"]["content"][0]["text"], name);
    }
    for value in ["Bearer a", "Bearer a11", "Bearer ", "Basic a1", "a1"] {
        let answer = running.ask(&call("who").with("authorization", value)).await;
        assert_eq!(answer.head.status, 401, "{value}");
    }
    assert_eq!(running.ask(&call("who")).await.head.status, 401);
}
