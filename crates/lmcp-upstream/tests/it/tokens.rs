//! Servers that ask for a token: on a socket and over HTTP; and the keys of questions in one process.

use lmcp_core::{
    Client, Cx, NoArgs, Server, Tool, ToolResult,
    client::{Error, Fault},
    transport::Unix,
    unix,
};
use lmcp_upstream::{in_process, socket, url};
use lmcp_wire::{ProtocolVersion, elicit::ElicitResult};
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::support::{soon, text};

async fn whoami(_: NoArgs, cx: Cx) -> String {
    cx.principal().unwrap_or("nobody").to_owned()
}

fn server() -> Server {
    Server::new("door", "1.0.0").tool(Tool::new("whoami", whoami).read_only())
}

/// Starts a server on a socket, in a new folder.
fn serve(guard: impl FnOnce(Unix) -> Unix) -> (TempDir, JoinSet<()>) {
    let folder = TempDir::new().expect("a folder can be made");
    let transport = guard(unix(folder.path().join("s")).expect("the path is free"));
    let mut serving = JoinSet::new();
    serving.spawn(async move { server().serve(transport).await.expect("it serves") });
    (folder, serving)
}

#[tokio::test]
async fn a_client_shows_its_token_on_a_socket() {
    let (folder, _serving) = serve(|unix| unix.token("ann", "s3cret").token("bob", "hush"));
    for (token, name) in [("s3cret", "ann"), ("hush", "bob")] {
        let target = socket(folder.path().join("s")).token(token);
        let client = soon(Client::connect(target)).await.unwrap();
        assert_eq!(text(&client, "whoami", json!({})).await, name);
    }
}

#[tokio::test]
async fn a_client_tells_why_a_socket_turned_it_away() {
    let (folder, _serving) = serve(|unix| unix.token("ann", "s3cret"));
    let path = folder.path().join("s");
    for target in [socket(&path).token("guess"), socket(&path)] {
        let error = soon(Client::connect(target)).await.unwrap_err();
        assert!(error.message.contains("a token is needed"), "{error}");
    }
}

#[tokio::test]
async fn a_request_without_the_right_token_is_the_fault_of_the_caller() {
    let http = lmcp_http::bind("127.0.0.1:0").await.unwrap();
    let http = http.token("ann", "s3cret");
    let at = http.url();
    let mut serving = JoinSet::new();
    serving.spawn(async move { server().serve(http).await.unwrap() });
    for target in [url(&at), url(&at).token("guess")] {
        let error: Error = soon(Client::connect(target)).await.unwrap_err();
        assert!(error.is_unauthorized(), "{error:?}");
        assert_eq!(error.fault(), Fault::Caller);
        assert!(!error.is_retriable());
        assert!(error.message.contains("wants a token"), "{error}");
        assert!(
            !error.message.contains("--"),
            "no option of a program: {error}"
        );
    }
    let target = url(&at).token("s3cret");
    let client = soon(Client::connect(target)).await.unwrap();
    assert_eq!(text(&client, "whoami", json!({})).await, "ann");
}

#[tokio::test]
async fn who_is_not_let_in_reads_the_words_of_the_server() {
    let http = lmcp_http::bind("127.0.0.1:0").await.unwrap();
    let http = http.identify(|_| Err("ask \u{1b}Ann for a key".to_owned()));
    let at = http.url();
    let mut serving = JoinSet::new();
    serving.spawn(async move { server().serve(http).await.unwrap() });
    for version in [ProtocolVersion::V2025_06_18, ProtocolVersion::V2026_07_28] {
        let builder = Client::builder().version(version);
        let error: Error = soon(builder.connect(url(&at))).await.unwrap_err();
        assert!(error.message.contains("(`ask  Ann for a key`)"), "{error}");
        let data = error.data.clone().expect("it says whose fault it is");
        assert_eq!(data["fault"], "caller", "{error:?}");
    }
}

#[tokio::test]
async fn in_one_process_questions_have_keys_in_every_revision() {
    async fn erase(_: NoArgs, cx: Cx) -> ToolResult<String> {
        let sure = cx.confirm("sure", "Erase it?").await?;
        let really = cx.confirm("really", "Erase it?").await?;
        Ok(format!("{sure} {really}"))
    }
    let server = Server::new("careful", "1.0.0").tool(Tool::new("erase", erase).destructive());
    let server = server.start().unwrap();
    let revisions = ProtocolVersion::ALL.into_iter();
    for version in revisions.filter(|version| *version >= ProtocolVersion::V2025_06_18) {
        let builder = Client::builder()
            .version(version)
            .answering(|key, _| match key {
                "sure" => ElicitResult::accept([("yes".into(), true.into())]).into(),
                _ => ElicitResult::decline().into(),
            });
        let target = in_process(server.clone());
        let client = soon(builder.connect(target)).await.unwrap();
        assert_eq!(
            text(&client, "erase", json!({})).await,
            "true false",
            "{version}"
        );
    }
}
