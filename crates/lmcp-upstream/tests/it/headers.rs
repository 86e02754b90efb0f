//! Headers that repeat arguments of calls, checked in front of a server that gets no headers.

use lmcp_core::Endpoint;
use lmcp_upstream::{Upstream, socket};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::support::{Place, soon};

/// Calls `travel` over HTTP with these additional headers, and returns the whole response.
async fn travel(place: &Place, more: &str) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": "travel", "arguments": { "region": "north" }, "_meta": meta });
    let body: Value =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let body = body.to_string();
    let host = place.host();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: travel\r\n{more}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut connection = TcpStream::connect(host).await.expect("it listens");
    connection
        .write_all(request.as_bytes())
        .await
        .expect("it reads");
    let mut response = String::new();
    connection
        .read_to_string(&mut response)
        .await
        .expect("it is text");
    response
}

#[tokio::test]
async fn a_bridge_refuses_calls_whose_headers_say_something_else() {
    let far = Place::new().await;
    let upstream = Upstream::builder(socket(far.path()).route()).checks_headers();
    let near = Place::serving(Endpoint::new(upstream.build())).await;
    // Nobody has listed the tools yet.
    let refused = soon(travel(&near, "")).await;
    assert!(refused.starts_with("HTTP/1.1 400"), "{refused}");
    assert!(refused.contains("mcp-param-region"), "{refused}");
    let other = soon(travel(&near, "Mcp-Param-Region: south\r\n")).await;
    assert!(other.starts_with("HTTP/1.1 400"), "{other}");
    let served = soon(travel(&near, "Mcp-Param-Region: north\r\n")).await;
    assert!(served.contains("to the north"), "{served}");
}
