//! Folders that clients name, in sessions over HTTP: asked for once in each.

use lmcp_core::{Cx, NoArgs, Server, Tool};
use serde_json::json;

use crate::{
    support::{Running, serve, server},
    visitor::{NEWEST, Visitor},
};

fn telling() -> Server {
    async fn folders(_: NoArgs, cx: Cx) -> String {
        let folders = cx.folders().await.into_iter();
        let folders: Vec<_> = folders.map(|folder| folder.display().to_string()).collect();
        folders.join("\n")
    }
    server().tool(Tool::new("where", folders).read_only())
}

/// Calls, answers the question that comes with a folder, and returns what the tool says.
async fn ask_and_say(running: &Running, visitor: &Visitor, folder: &str) -> String {
    let mut connection = running.connect().await;
    connection.open_stream(&visitor.call(1, "where")).await;
    let question = connection.next_message().await.json();
    assert_eq!(question["method"], "roots/list", "{question}");
    let roots = json!({ "roots": [{ "uri": format!("file://{folder}") }] });
    running.ask(&visitor.answer(&question["id"], roots)).await;
    let rest = connection.rest().await;
    let text = rest[0]["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{rest:?}")).to_owned()
}

async fn ask(running: &Running, visitor: &Visitor) -> String {
    let answer = running.ask(&visitor.call(2, "where")).await.json();
    let text = answer["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[tokio::test]
async fn each_session_is_asked_once() {
    let running = serve(telling()).await;
    let (ann, bob) = (Visitor::new(&running).await, Visitor::new(&running).await);
    assert_eq!(ask_and_say(&running, &ann, "/usr").await, "/usr");
    assert_eq!(ask_and_say(&running, &bob, "/etc").await, "/etc");
    assert_eq!(ask(&running, &ann).await, "/usr");
    assert_eq!(ask(&running, &bob).await, "/etc");
    let changed = ann.tell("notifications/roots/list_changed", json!({}));
    assert_eq!(running.ask(&changed).await.head.status, 202);
    assert_eq!(ask_and_say(&running, &ann, "/etc").await, "/etc");
    assert_eq!(ask(&running, &bob).await, "/etc");
}

#[tokio::test]
async fn a_client_without_roots_is_not_asked() {
    let running = serve(telling()).await;
    let visitor = Visitor::with(&running, NEWEST, "visitor", json!({})).await;
    assert_eq!(ask(&running, &visitor).await, "");
}
