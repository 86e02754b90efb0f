//! HTTP as a hostile or clumsy client writes it, byte by byte.

use std::time::Duration;

use lmcp_core::{Cx, NoArgs, Tool, ToolResult};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    support::{Post, body, call, hanging, limits, serve, serve_as, server, soon},
    visitor::{Visitor, opening},
};

const PAGE: &str = "https://app.example";

// L4
#[tokio::test]
async fn an_allowed_page_can_read_every_answer() {
    let small = limits(|limits| limits.body_bytes = 2000);
    let running = serve_as(server().limits(small), |http| http.allow_origin(PAGE)).await;
    let visitor = Visitor::new(&running).await;
    let stranger = visitor.call(1, "quick").with("mcp-session-id", "none");
    for (post, status) in [
        (opening("2025-11-25", "page", json!({})), 200),
        (visitor.call(1, "quick"), 200),
        (visitor.tell("notifications/initialized", json!({})), 202),
        (call("quick"), 200),
        (body("{"), 400),
        (stranger, 404),
        (call("quick").path("/elsewhere"), 404),
        (visitor.get().without("mcp-session-id"), 405),
        (call("quick").verb("PUT"), 405),
        (visitor.get().with("accept", "text/html"), 406),
        (body(&" ".repeat(2001)), 413),
        (call("quick").with("content-type", "text/plain"), 415),
        (visitor.delete(), 204),
    ] {
        let answer = running.ask(&post.clone().with("origin", PAGE)).await;
        assert_eq!(answer.head.status, status, "{post:?}");
        let allowed = answer.head.get("access-control-allow-origin");
        assert_eq!(allowed, Some(PAGE), "{status} {post:?}");
        let exposed = answer
            .head
            .get("access-control-expose-headers")
            .unwrap_or_default();
        assert!(
            exposed.to_lowercase().contains("mcp-session-id"),
            "{status} {post:?}"
        );
        let bare = running.ask(&post).await;
        assert_eq!(
            bare.head.get("access-control-allow-origin"),
            None,
            "never for anybody"
        );
    }
}

// L4
#[tokio::test]
async fn a_foreign_page_reaches_no_session() {
    let running = serve(server()).await;
    let visitor = Visitor::new(&running).await;
    for post in [visitor.call(1, "quick"), visitor.get(), visitor.delete()] {
        for (field, value) in [("origin", "https://evil.example"), ("host", "evil.example")] {
            let answer = running.ask(&post.clone().with(field, value)).await;
            assert_eq!(answer.head.status, 403, "{field}");
        }
    }
    assert_eq!(
        running.ask(&visitor.call(1, "quick")).await.head.status,
        200
    );
}

// L37
#[tokio::test]
async fn a_path_that_only_begins_like_ours_is_not_ours() {
    let running = serve(server()).await;
    let visitor = Visitor::new(&running).await;
    for path in ["/mcpfoo", "/mcp.json", "/mcp%2f", "/x/mcp", "/mcp;x"] {
        for post in [visitor.call(1, "quick"), visitor.get(), visitor.delete()] {
            assert_eq!(
                running.ask(&post.path(path)).await.head.status,
                404,
                "{path}"
            );
        }
    }
    assert_eq!(
        running.ask(&visitor.call(1, "quick")).await.head.status,
        200
    );
}

/// What two readers may read differently is refused, so that no proxy and we ever disagree about where a request ends.
// L38
#[tokio::test]
async fn a_request_whose_end_is_unclear_is_refused() {
    let running = serve(server()).await;
    let quick = call("quick");
    let length = quick.body().len();
    let twice = format!(
        "content-length: {length}\r\ncontent-length: {}\r\n",
        length + 1
    );
    for fields in [
        format!("content-length : {length}\r\n"),
        twice,
        format!("content-length: {length:#x}\r\n"),
        format!("content-length: {length}e0\r\n"),
        format!("content-length: +{length}\r\n"),
        format!("content-length: -{length}\r\n"),
        format!("content-length: {length}, {}\r\n", length + 1),
        "transfer-encoding: chunked, identity\r\n".to_owned(),
        "transfer-encoding: xchunked\r\n".to_owned(),
        "host:localhost\rx: y\r\n".to_owned(),
        " content-length: 5\r\n".to_owned(),
    ] {
        let head = quick
            .clone()
            .without("content-length")
            .head(running.address);
        let head = head.replacen("\r\n", &format!("\r\n{fields}"), 1);
        let (status, rest) = exchange(&running.address, &(head + quick.body())).await;
        assert!((400..=501).contains(&status), "{fields:?}: {status}");
        assert_eq!(
            rest.matches("HTTP/1.1").count(),
            1,
            "{fields:?} is two requests"
        );
    }
}

// L38: a length and chunks at once is what smuggling is made of. Refused, or the chunks count and the connection ends.
#[tokio::test]
async fn a_length_beside_chunks_is_not_believed() {
    let running = serve(server()).await;
    let quick = call("quick");
    let smuggled = "GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n";
    for length in [4, 6, 500] {
        let head = quick
            .clone()
            .with("content-length", &length.to_string())
            .with("transfer-encoding", "chunked")
            .head(running.address);
        let text = quick.body();
        let request = format!("{head}{:x}\r\n{text}\r\n0\r\n\r\n", text.len());
        let (status, rest) = exchange(&running.address, &(request + smuggled)).await;
        if status == 200 {
            assert_eq!(rest.matches("HTTP/1.1").count(), 1, "{rest}");
        } else {
            assert!((400..=501).contains(&status), "{status}");
        }
    }
}

// L38
#[tokio::test]
async fn the_same_length_twice_and_bare_line_ends_do_no_harm() {
    let running = serve(server()).await;
    let quick = call("quick");
    let length = quick.body().len();
    let head = quick.head(running.address);
    let twice = head.replacen("\r\n", &format!("\r\ncontent-length: {length}\r\n"), 1);
    let bare = head.replace("\r\n", "\n");
    for head in [twice, bare] {
        let (status, rest) = exchange(&running.address, &(head + quick.body())).await;
        assert!(status == 200 || (400..=501).contains(&status), "{status}");
        assert_eq!(rest.matches("HTTP/1.1").count(), 1);
    }
    assert_eq!(running.ask(&quick).await.head.status, 200);
}

// L39: the client writes all it has before it reads, as simple ones do.
#[tokio::test]
async fn who_sends_too_much_can_read_that_it_was_too_much() {
    let small = limits(|limits| limits.body_bytes = 1000);
    let running = serve(server().limits(small)).await;
    for size in [1001, 100_000, 4 << 20] {
        let (status, rest) =
            exchange(&running.address, &whole(&running, &body(&" ".repeat(size)))).await;
        assert_eq!(status, 413, "{size}");
        assert!(rest.contains("body_bytes"), "{size}: {rest}");
    }
}

// L39: likewise where the body is not even looked at.
#[tokio::test]
async fn a_refusal_before_the_body_can_be_read() {
    let running = serve(server()).await;
    let large = body(&" ".repeat(4 << 20));
    for (post, expected) in [
        (large.clone().with("content-type", "text/plain"), 415),
        (large.clone().with("origin", "https://evil.example"), 403),
        (large.clone().path("/elsewhere"), 404),
        (large.with("accept", "text/html"), 406),
    ] {
        let (status, _) = exchange(&running.address, &whole(&running, &post)).await;
        assert_eq!(status, expected);
    }
}

// L39
#[tokio::test]
async fn a_session_lives_on_one_connection_or_on_many() {
    let running = serve(server()).await;
    let mut connection = running.connect().await;
    let visitor = Visitor::on(&mut connection).await;
    for id in 0..20 {
        for answer in [
            connection.ask(&visitor.call(id, "quick")).await,
            running.ask(&visitor.call(id, "quick")).await,
        ] {
            assert_eq!(answer.json()["id"], id);
        }
    }
    let chunked = visitor
        .call(1, "quick")
        .without("content-length")
        .with("transfer-encoding", "chunked");
    let text = chunked.body().to_owned();
    connection
        .write(chunked.head(running.address).as_bytes())
        .await;
    connection
        .write(format!("{:x}\r\n{text}\r\n0\r\n\r\n", text.len()).as_bytes())
        .await;
    assert_eq!(connection.head().await.status, 200);
}

// L18
#[tokio::test]
async fn a_child_of_a_handler_does_not_keep_the_port() {
    let (pids, mut children) = tokio::sync::mpsc::unbounded_channel();
    let tool = Tool::new("child", move |_: NoArgs, _: Cx| {
        let pids = pids.clone();
        async move {
            let child = std::process::Command::new("sleep").arg("600").spawn()?;
            let _ = pids.send(child);
            ToolResult::Ok("started")
        }
    });
    let (hang, mut watcher) = hanging("hang");
    let short = limits(|limits| limits.shutdown_wait = Duration::from_millis(20));
    let mut running = serve(server().tool(tool.writes()).tool(hang).limits(short)).await;
    let mut streaming = running.connect().await;
    streaming.send(&call("hang")).await;
    watcher.started().await;
    assert_eq!(running.ask(&call("child")).await.head.status, 200);
    let mut child = soon(children.recv()).await.unwrap();
    running.stop();
    running.ended().await.unwrap();
    // An answer ends for its client, too: the child holds no end of that connection.
    assert_eq!(streaming.closed().await, b"");
    let again = lmcp_http::bind(running.address).await;
    assert!(child.try_wait().unwrap().is_none(), "the child lives");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(again.is_ok(), "{again:?}");
}

// L23
#[tokio::test]
async fn whatever_a_handler_does_the_server_goes_on() {
    struct Odd;
    impl serde::Serialize for Odd {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("cannot be said"))
        }
    }
    let odd = Tool::new("odd", |_: NoArgs, cx: Cx| async move {
        cx.log(lmcp_wire::LoggingLevel::Error, Odd);
        cx.log(lmcp_wire::LoggingLevel::Error, f64::NAN);
        cx.log(
            lmcp_wire::LoggingLevel::Error,
            std::collections::BTreeMap::from([(vec![1], 2)]),
        );
        tokio::task::yield_now().await;
        "done"
    });
    let panics = Tool::new("panics", |args: NoArgs, _: Cx| async move {
        tokio::task::yield_now().await;
        assert!(size_of_val(&args) > 100, "a secret");
        "never"
    });
    let running = serve(server().tool(odd.read_only()).tool(panics.read_only())).await;
    let visitor = Visitor::new(&running).await;
    let mut connection = running.connect().await;
    connection.open_stream(&visitor.call(1, "odd")).await;
    let rest = connection.rest().await;
    assert_eq!(rest.last().unwrap()["result"]["content"][0]["text"], "done");
    assert_eq!(rest.len(), 4, "{rest:?}");
    let answer = connection.ask(&visitor.call(2, "panics")).await;
    let error = &answer.json()["error"];
    assert_eq!(error["code"], -32603);
    // L12
    assert!(
        !answer.body.contains("secret") && !answer.body.contains(".rs"),
        "{error}"
    );
    assert_eq!(
        connection.ask(&visitor.call(3, "quick")).await.head.status,
        200
    );
}

// L28
#[tokio::test]
async fn what_is_no_message_is_told_so_in_a_session_too() {
    let running = serve(server()).await;
    let visitor = Visitor::new(&running).await;
    let ping = |change: Value| {
        let mut message = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
        for (key, value) in change.as_object().unwrap() {
            message[key] = value.clone();
        }
        message
    };
    let mut connection = running.connect().await;
    for message in [
        json!(1),
        json!("text"),
        json!(null),
        json!([1]),
        json!({}),
        json!({ "id": 1, "method": "ping" }),
        ping(json!({ "jsonrpc": "1.0" })),
        ping(json!({ "jsonrpc": 2.0 })),
        ping(json!({ "id": null })),
        ping(json!({ "id": {} })),
        ping(json!({ "id": 1.5 })),
        ping(json!({ "method": 7 })),
        ping(json!({ "params": [1] })),
    ] {
        let answer = connection.ask(&visitor.send(&message)).await;
        assert!([200, 400].contains(&answer.head.status), "{message}");
        assert!(
            answer.json()["error"]["code"].is_i64(),
            "{message}: {}",
            answer.body
        );
    }
    assert_eq!(
        connection.ask(&visitor.call(1, "quick")).await.head.status,
        200
    );
}

fn whole(running: &crate::support::Running, post: &Post) -> String {
    post.head(running.address) + post.body()
}

/// Writes everything, or as much as is taken, and only then reads: the status, and all that comes.
async fn exchange(address: &std::net::SocketAddr, bytes: &str) -> (u16, String) {
    let mut stream = soon(TcpStream::connect(address))
        .await
        .expect("the server listens");
    // The server may have answered and hung up before it was told everything.
    let _ = soon(stream.write_all(bytes.as_bytes())).await;
    let _ = stream.shutdown().await;
    let mut answer = Vec::new();
    let _ = soon(stream.read_to_end(&mut answer)).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok());
    (status.unwrap_or_default(), answer)
}
