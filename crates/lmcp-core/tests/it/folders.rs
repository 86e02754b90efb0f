//! Which folder a caller means: that of its process, or what its client says.

use std::path::Path;

use lmcp_core::{Caller, CallerTransport, Cx, Handle, NoArgs, Tool, Workplace, streams, unix};
use serde_json::{Value, json};
use tokio::net::UnixStream;

use crate::support::{Folder, Peer, Serving, connect, server, soon};

const NEWEST: &str = "2025-11-25";

/// A server whose tool `where` tells the folders, one a line.
fn telling() -> Handle {
    async fn folders(_: NoArgs, cx: Cx) -> String {
        let folders = cx.folders().await.into_iter();
        let folders: Vec<_> = folders.map(|folder| folder.display().to_string()).collect();
        folders.join("\n")
    }
    let tool = Tool::new("where", folders).read_only();
    server().tool(tool).start().expect("it is right")
}

fn roots(folders: &[&Path]) -> Value {
    let uri = |folder: &&Path| json!({ "uri": format!("file://{}", folder.display()) });
    json!({ "roots": folders.iter().map(uri).collect::<Vec<_>>() })
}

fn text(answer: &Value) -> &str {
    let text = answer["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{answer}"))
}

/// Calls, and answers the question that comes.
async fn ask_and_say(peer: &mut Peer, id: u64, folders: &[&Path]) -> Value {
    peer.ask_tool(id, "where").await;
    let question = peer.receive().await;
    assert_eq!(question["method"], "roots/list", "{question}");
    peer.answer(&question["id"], roots(folders)).await;
    peer.receive().await
}

#[tokio::test]
async fn a_client_is_asked_once_and_again_when_it_says_so() {
    let (first, second) = (Folder::new(), Folder::new());
    let [first, second] = [first.path(), second.path()].map(|path| path.canonicalize().unwrap());
    let (mut peer, _serving) = connect(&telling());
    peer.shake_hands(NEWEST).await;
    let answer = ask_and_say(&mut peer, 1, &[&first]).await;
    assert_eq!(Path::new(text(&answer)), first);
    peer.ask_tool(2, "where").await;
    assert_eq!(Path::new(text(&peer.receive().await)), first, "unasked");
    peer.send(&json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" }))
        .await;
    let answer = ask_and_say(&mut peer, 3, &[&second]).await;
    assert_eq!(Path::new(text(&answer)), second);
}

#[tokio::test]
async fn calls_at_once_share_one_question() {
    let folder = Folder::new();
    let (mut peer, _serving) = connect(&telling());
    peer.shake_hands(NEWEST).await;
    peer.ask_tool(1, "where").await;
    peer.ask_tool(2, "where").await;
    let question = peer.receive().await;
    assert_eq!(question["method"], "roots/list", "{question}");
    peer.answer(&question["id"], roots(&[folder.path()])).await;
    for _ in 0..2 {
        let answer = peer.receive().await;
        assert!(
            text(&answer).ends_with(folder.path().to_str().unwrap()),
            "{answer}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_answer_is_not_waited_for() {
    let (mut peer, _serving) = connect(&telling());
    peer.shake_hands(NEWEST).await;
    peer.ask_tool(1, "where").await;
    assert_eq!(peer.receive().await["method"], "roots/list");
    let taken_back = peer.receive().await;
    assert_eq!(taken_back["method"], "notifications/cancelled");
    assert_eq!(text(&peer.receive().await), "");
    peer.ask_tool(2, "where").await;
    assert_eq!(text(&peer.receive().await), "", "it is not asked again");
}

#[tokio::test]
async fn a_client_that_refuses_has_no_folder() {
    let (mut peer, _serving) = connect(&telling());
    peer.shake_hands(NEWEST).await;
    peer.ask_tool(1, "where").await;
    let question = peer.receive().await;
    let error = json!({ "code": -32601, "message": "no such method" });
    peer.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "error": error }))
        .await;
    assert_eq!(text(&peer.receive().await), "");
    peer.ask_tool(2, "where").await;
    assert_eq!(text(&peer.receive().await), "", "it is not asked again");
}

#[tokio::test]
async fn what_is_no_folder_here_is_passed_over() {
    let folder = Folder::new();
    let path = folder.path().canonicalize().unwrap();
    std::fs::write(path.join("file"), "").unwrap();
    let (mut peer, _serving) = connect(&telling());
    peer.shake_hands(NEWEST).await;
    peer.ask_tool(1, "where").await;
    let question = peer.receive().await;
    let file = |name: &str| json!({ "uri": format!("file://{}/{name}", path.display()) });
    let elsewhere = json!({ "uri": "https://example.org/work" });
    let named = json!([elsewhere, file("none"), file("file"), file("")]);
    peer.answer(&question["id"], json!({ "roots": named }))
        .await;
    assert_eq!(Path::new(text(&peer.receive().await)), path);
}

#[tokio::test]
async fn on_a_socket_it_is_the_folder_of_the_process() {
    let folder = Folder::new();
    let path = folder.join("s");
    let (server, transport) = (telling(), unix(&path).unwrap());
    let _serving = Serving::start(async move { server.serve(transport).await });
    let own = std::env::current_dir().unwrap();
    let stream = soon(UnixStream::connect(&path)).await.unwrap();
    let (reader, writer) = stream.into_split();
    let mut peer = Peer::new(reader, writer);
    peer.call(1, "where").await;
    assert_eq!(Path::new(text(&peer.receive().await)), own, "2026-07-28");
    peer.shake_hands(NEWEST).await;
    // The client names the folder above, so the process's is the more exact.
    let answer = ask_and_say(&mut peer, 2, &[Path::new("/"), folder.path()]).await;
    assert_eq!(Path::new(text(&answer)), own);
    peer.send(&json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" }))
        .await;
    // It works elsewhere than where it was started.
    let answer = ask_and_say(&mut peer, 3, &[folder.path()]).await;
    let named = folder.path().canonicalize().unwrap();
    assert_eq!(
        text(&answer),
        format!("{}\n{}", named.display(), own.display())
    );
}

#[tokio::test]
async fn a_caller_that_the_program_vouches_for_works_where_it_says() {
    async fn tool_chain(_: NoArgs, cx: Cx) -> String {
        let (caller, mut all) = (cx.caller(), Vec::new());
        all.extend(caller.folder().map(|folder| folder.display().to_string()));
        let variables = caller.variables().into_iter().flatten();
        all.extend(variables.map(|(name, value)| format!("{name}={value}")));
        all.join(" ")
    }
    let handle = server()
        .tool(Tool::new("where", tool_chain).read_only())
        .start()
        .unwrap();
    let variables = [
        ("PATH", "/x/bin"),
        ("GITHUB_TOKEN", "hush"),
        ("LMCP_ROOT", "/x"),
    ];
    let workplace = Workplace::new("/x").with_variables(variables);
    let caller = Caller::new(CallerTransport::Memory)
        .working_at(workplace)
        .known_as("ann");
    let (near, far) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(far);
    let _serving =
        Serving::start(async move { handle.serve(streams(reader, writer, caller)).await });
    let (reader, writer) = tokio::io::split(near);
    let mut peer = Peer::new(reader, writer);
    peer.call(1, "where").await;
    assert_eq!(text(&peer.receive().await), "/x PATH=/x/bin");
}
