//! The example of a router: questions cross it in both directions, on every transport.

#[expect(dead_code, reason = "the test has a `main` of its own")]
#[path = "../examples/router.rs"]
mod router;

use std::path::{Path, PathBuf};

use lmcp::{
    Client, Endpoint, http,
    upstream::{Upstream, command, url},
    wire::{ProtocolVersion, input::InputRequest},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const OLD: ProtocolVersion = ProtocolVersion::V2025_11_25;
const NEW: ProtocolVersion = ProtocolVersion::V2026_07_28;

/// A program among the examples, which cargo builds before the tests.
fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().expect("tests are programs");
    let folder = tests.parent().and_then(Path::parent);
    folder
        .expect("tests lie in `deps`")
        .join("examples")
        .join(name)
}

/// A user who is sure of everything.
fn sure(_: &str, asked: &InputRequest) -> Value {
    match asked {
        InputRequest::Elicit(form) => {
            assert_eq!(form.message, "Erase the note `milk`?");
            json!({ "action": "accept", "content": { "yes": true } })
        }
        other => panic!("nobody asked for {other:?}"),
    }
}

fn user(version: ProtocolVersion) -> lmcp::client::Builder {
    Client::builder()
        .named("test", "1")
        .answering(sure)
        .version(version)
}

/// Everything that a client sees of a router in front of the example `elicitation`.
async fn look(client: &Client, at: &str) {
    let tools = client.list_tools().await.expect(at);
    let tools: Vec<_> = tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(tools, ["hello", "erase", "farewell"], "{at}");
    let hello = client.call_tool("hello", json!({})).await.expect(at);
    assert_eq!(hello.content[0].as_text(), Some("hello"), "{at}");
    let erased = client.call_tool("erase", json!({ "note": "milk" })).await;
    let erased = erased.expect(at);
    assert_eq!(erased.content[0].as_text(), Some("erased `milk`"), "{at}");
    for name in ["_hello", "_erase"] {
        let refused = client.call_tool(name, json!({})).await.expect_err(at);
        assert_eq!(refused.message, "private", "{at}");
    }
}

/// A router in front of a server that speaks this revision and no other.
fn before(version: ProtocolVersion) -> Endpoint {
    let there = Upstream::builder(command(example("elicitation")).route());
    router::router(there.version(version).build()).expect("the router is sound")
}

#[tokio::test]
async fn questions_cross_revisions_in_both_directions_over_http() {
    let mut serving = JoinSet::new();
    for behind in [OLD, NEW] {
        let router = before(behind);
        let http = http::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/mcp", http.address());
        serving.spawn(async move { router.serve(http).await });
        for version in [OLD, NEW] {
            let client = user(version).connect(url(&address)).await.unwrap();
            look(&client, &format!("{version} at {behind}")).await;
        }
    }
}

#[tokio::test]
async fn questions_cross_revisions_in_both_directions_on_lines() {
    let folder = std::env::temp_dir().join(format!("lmcp-router-{}", std::process::id()));
    let mut serving = JoinSet::new();
    for behind in [OLD, NEW] {
        let router = before(behind);
        let path = folder.with_extension(behind.as_str());
        let unix = lmcp::unix(&path).unwrap();
        serving.spawn(async move { router.serve(unix).await });
        for version in [OLD, NEW] {
            let client = user(version).connect(lmcp::upstream::socket(&path));
            look(&client.await.unwrap(), &format!("{version} at {behind}")).await;
        }
    }
}

#[tokio::test]
async fn the_program_itself_serves_both_eras_on_stdio() {
    for version in [OLD, NEW] {
        let router = command(example("router"))
            .arg("0")
            .arg(example("elicitation"));
        let client = user(version).connect(router).await.unwrap();
        look(&client, version.as_str()).await;
    }
}
