//! Who calls: by credentials on a socket, and what belongs to whom.

use std::path::Path;

use lmcp_core::{
    Authenticate, Caller, CallerTransport, Challenge, Client, Cx, Handle, NoArgs, Principal,
    Prompt, Tool, unix,
};
use lmcp_wire::task;
use serde_json::{Value, json};
use tokio::net::UnixStream;

use crate::support::{Folder, Peer, Serving, connect_as, hanging, server, soon, text};

/// A token, where one is shown; else the user of the process that connected.
struct Door;

impl Authenticate for Door {
    async fn authenticate(&self, caller: &Caller) -> Result<Principal, Challenge> {
        tokio::task::yield_now().await;
        match (caller.bearer(), caller.peer()) {
            (Some("s3cret"), _) => Ok(Principal::new("ann").role("admin")),
            (Some(_), _) => Err(Challenge::new("this token is not known")),
            (None, Some(process)) => Ok(Principal::new(format!("user {}", process.uid))),
            (None, None) => Err(Challenge::new("who is this?")),
        }
    }
}

async fn tell(_: NoArgs, cx: Cx) -> String {
    format!("{:?} {:?}", cx.principal(), cx.role())
}

fn serve(path: &Path) -> Serving {
    let tool = |name| Tool::new(name, tell).read_only();
    let server = server()
        .tool(tool("tell"))
        .tool(tool("remove").only_for(["admin"]));
    let server = server.start().expect("it is right");
    let transport = unix(path).expect("the path is free").authenticate(Door);
    Serving::start(async move { server.serve(transport).await })
}

async fn dial(path: &Path) -> Peer {
    let stream = soon(UnixStream::connect(path)).await;
    let (reader, writer) = stream.expect("the server listens").into_split();
    Peer::new(reader, writer)
}

fn words(answer: &Value) -> &str {
    let text = answer["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no text: {answer}"))
}

#[tokio::test]
async fn a_process_on_a_socket_is_known_by_its_user() {
    let folder = Folder::new();
    let _serving = serve(&folder.join("s"));
    let uid = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(folder.path()).unwrap());
    let mut peer = dial(&folder.join("s")).await;
    peer.call(1, "tell").await;
    let expected = format!("Some(\"user {uid}\") None");
    assert_eq!(words(&peer.receive().await), expected);
    peer.call(2, "remove").await;
    let error = &peer.receive().await["error"];
    assert_eq!(error["message"], "there is no tool `remove`");
}

#[tokio::test]
async fn the_holder_of_a_token_is_known_on_a_socket_by_its_name() {
    let folder = Folder::new();
    let path = folder.join("s");
    let server = server().tool(Tool::new("tell", tell).read_only());
    let transport = unix(&path).unwrap();
    let transport = transport.token("ann", "s3cret").token("bob", "hush");
    let _serving = Serving::start(async move { server.serve(transport).await });
    for (token, name) in [("s3cret", "ann"), ("hush", "bob")] {
        let mut peer = dial(&path).await;
        peer.send(&json!({ "lmcp_identity": token })).await;
        assert_eq!(peer.receive().await["lmcp_welcome"]["id"], name);
        peer.call(1, "tell").await;
        let expected = format!("Some({name:?}) None");
        assert_eq!(words(&peer.receive().await), expected);
    }
    for greeting in [
        json!({ "lmcp_identity": "guess" }),
        json!({ "lmcp_identity": "" }),
    ] {
        let mut peer = dial(&path).await;
        peer.send(&greeting).await;
        let refusal = peer.receive().await;
        let words = refusal["error"]["message"].as_str().unwrap();
        assert!(words.contains("a token is needed"), "{words}");
        assert!(peer.next().await.is_none());
    }
    // Who shows no token is refused as well.
    let mut peer = dial(&path).await;
    peer.call(1, "tell").await;
    assert!(peer.receive().await["error"]["message"].is_string());
    assert!(peer.next().await.is_none());
}

#[tokio::test]
async fn a_token_that_admits_nobody_stops_the_start() {
    let folder = Folder::new();
    let transport = unix(folder.join("s")).unwrap();
    let transport = transport.token("ann", "s3cret").token("bob", "");
    let refused = server().serve(transport).await.unwrap_err().to_string();
    assert!(refused.contains("`bob`"), "{refused}");
}

#[tokio::test]
async fn a_first_line_on_a_socket_shows_a_token() {
    let folder = Folder::new();
    let _serving = serve(&folder.join("s"));
    let mut peer = dial(&folder.join("s")).await;
    peer.send(&json!({ "lmcp_identity": "s3cret" })).await;
    let welcome = json!({ "id": "ann", "label": "ann", "role": "admin" });
    assert_eq!(peer.receive().await["lmcp_welcome"], welcome);
    peer.call(1, "remove").await;
    assert_eq!(words(&peer.receive().await), r#"Some("ann") Some("admin")"#);
    let mut peer = dial(&folder.join("s")).await;
    peer.send(&json!({ "lmcp_identity": "guess" })).await;
    let error = &peer.receive().await["error"];
    assert_eq!(error["message"], "this token is not known");
    assert_eq!(peer.next().await, None, "the connection ends");
}

#[tokio::test]
async fn a_first_line_that_is_longer_than_any_greeting_is_a_message() {
    let folder = Folder::new();
    let _serving = serve(&folder.join("s"));
    let mut peer = dial(&folder.join("s")).await;
    let call = json!({ "name": "tell", "arguments": {}, "extra": "x".repeat(100_000) });
    peer.request(1, "tools/call", call).await;
    assert!(words(&peer.receive().await).starts_with("Some(\"user "));
}

fn client(server: &Handle, principal: Principal) -> Client {
    let caller = Caller::new(CallerTransport::Memory).authenticated(principal);
    let known = json!({ "extensions": { task::EXTENSION: {} } });
    let known = serde_json::from_value(known).expect("they can be read");
    server.client().capabilities(known).caller(caller)
}

// Ownership has one rule: the name and the role together.
#[tokio::test]
async fn a_task_is_not_shared_with_the_same_name_in_another_role() {
    let (tool, mut watcher) = hanging("work");
    let server = server().tool(tool.as_task()).start().unwrap();
    let ann = || Principal::new("ann");
    let owner = client(&server, ann().role("admin"));
    let task = owner.request("tools/call", json!({ "name": "work" })).await;
    watcher.started().await;
    let id = json!({ "taskId": task.unwrap()["taskId"] });
    for stranger in [
        ann(),
        ann().role("reader"),
        Principal::anyone().role("admin"),
    ] {
        let stranger = client(&server, stranger);
        for method in ["tasks/get", "tasks/cancel"] {
            let error = stranger.request(method, id.clone()).await.unwrap_err();
            assert_eq!(error.code, -32602, "{error}");
        }
    }
    assert!(watcher.is_running());
    let again = client(&server, ann().role("admin").scopes(["other"]));
    let found = again.request("tasks/get", id).await.unwrap();
    assert_eq!(found["status"], "working");
}

/// Somebody of a role who listens to what changes, in either era.
async fn listening(server: &Handle, role: &str, modern: bool) -> (Peer, Serving) {
    let caller = Caller::new(CallerTransport::Memory);
    let caller = caller.authenticated(Principal::new("ann").role(role));
    let (mut peer, serving) = connect_as(server, caller);
    if modern {
        let lists = json!({ "toolsListChanged": true, "promptsListChanged": true });
        let params = json!({ "notifications": lists });
        peer.request(1, "subscriptions/listen", params).await;
        let opened = peer.receive().await;
        assert_eq!(opened["method"], "notifications/subscriptions/acknowledged");
    } else {
        peer.shake_hands("2025-11-25").await;
        peer.ask(1, "ping", json!({})).await;
        assert_eq!(peer.receive().await["id"], 1);
    }
    (peer, serving)
}

// Nobody learns of a tool by being told that the list has changed, which looks the same as before.
#[tokio::test]
async fn changes_of_tools_are_told_to_those_who_see_them() {
    for modern in [true, false] {
        let tool = |name: &str| Tool::new(name, tell).read_only();
        let prompt = |name: &str| Prompt::new(name, async |_: NoArgs, _: Cx| "said");
        let server = server().tool(tool("all")).prompt(prompt("first"));
        let server = server.start().unwrap();
        let (mut admin, _serving) = listening(&server, "admin", modern).await;
        let (mut reader, _serving) = listening(&server, "reader", modern).await;
        let tools = "notifications/tools/list_changed";
        let prompts = "notifications/prompts/list_changed";
        let heard = async |peer: &mut Peer| peer.receive().await["method"].clone();
        server.add_tool(tool("remove").only_for(["admin"])).unwrap();
        assert_eq!(heard(&mut admin).await, tools);
        assert!(server.remove_tool("remove"));
        assert_eq!(heard(&mut admin).await, tools);
        // Tools would be told first.
        server.add_prompt(prompt("second")).unwrap();
        assert_eq!(heard(&mut admin).await, prompts);
        assert_eq!(heard(&mut reader).await, prompts, "modern: {modern}");
        server.add_tool(tool("more")).unwrap();
        let both = ["admin", "reader"];
        assert_eq!(heard(&mut reader).await, tools);
        assert_eq!(heard(&mut admin).await, tools);
        server.add_tool(tool("report").only_for(both)).unwrap();
        assert_eq!(heard(&mut reader).await, tools);
        assert_eq!(heard(&mut admin).await, tools);
        // Another tool of the same name is another tool.
        assert!(server.remove_tool("report"));
        server.add_tool(tool("report").only_for(both)).unwrap();
        assert_eq!(heard(&mut reader).await, tools);
    }
}

#[tokio::test]
async fn layers_add_values_that_handlers_find() {
    struct Tenant(String);
    let tool = Tool::new("tenant", async |_: NoArgs, cx: Cx| {
        let tenant = cx.extension::<Tenant>().map(|Tenant(name)| name.clone());
        format!(
            "{tenant:?} {:?} {:?}",
            cx.extension::<u8>(),
            cx.extension::<u16>()
        )
    });
    let server = server()
        .tool(tool.read_only())
        .layer(|mut request, next| {
            let name = request.caller().principal().unwrap_or("nobody").to_owned();
            request.extend(Tenant(name));
            next.call(request)
        })
        .layer(|mut request, next| {
            if request
                .extension::<Tenant>()
                .is_some_and(|Tenant(name)| name == "ann")
            {
                request.extend(2_u8);
            }
            next.call(request)
        })
        .start()
        .unwrap();
    let caller = || Caller::new(CallerTransport::Memory).extended(1_u8);
    let known = server.client().caller(caller().known_as("ann"));
    assert_eq!(
        text(&known, "tenant", json!({})).await,
        r#"Some("ann") Some(2) None"#
    );
    let stranger = server.client().caller(caller());
    let found = text(&stranger, "tenant", json!({})).await;
    assert_eq!(found, r#"Some("nobody") Some(1) None"#);
}
