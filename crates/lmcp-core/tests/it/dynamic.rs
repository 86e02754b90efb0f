//! A server that changes while it runs, and one that closes.

use std::sync::Arc;

use lmcp_core::{
    Cx, Handle, NoArgs, Prompt, Resource, Tool, ToolResult, ToolSet,
    client::{Calling, Event},
    unix,
};
use serde_json::{Value, json};
use tokio::{net::UnixStream, sync::Notify};

use crate::support::{Folder, Peer, Serving, connect, hanging, server, soon, text};

#[tokio::test]
async fn a_tool_can_be_called_as_soon_as_it_is_added() {
    let server = server().start().unwrap();
    let client = server.client();
    let error = client.request("tools/list", json!({})).await.unwrap_err();
    assert_eq!(error.code, -32601, "without tools there is no such method");
    server
        .add_tool(Tool::new("late", hello).read_only())
        .unwrap();
    assert_eq!(text(&client, "late", json!({})).await, "hello");
    assert_eq!(server.tool_names(), ["late"]);
    let discovered = client.request("server/discover", json!({})).await.unwrap();
    assert_eq!(discovered["capabilities"]["tools"]["listChanged"], true);
}

#[tokio::test]
async fn a_removed_tool_is_unknown_and_the_list_stays() {
    let server = server()
        .tool(Tool::new("gone", hello).read_only())
        .start()
        .unwrap();
    let client = server.client();
    assert!(server.remove_tool("gone"));
    assert!(!server.remove_tool("gone"));
    let error = client.call_tool("gone", json!({})).await.unwrap_err();
    assert_eq!(error.code, -32602);
    let list = client.request("tools/list", json!({})).await.unwrap();
    assert_eq!(list["tools"], json!([]));
}

#[tokio::test]
async fn a_tool_beside_another_is_in_no_list_and_goes_with_it() {
    let server = server()
        .tool(Tool::new("read", hello).read_only())
        .tool(Tool::new("read_part", hello).read_only().beside("read"))
        .start()
        .unwrap();
    let client = server.client();
    assert_eq!(text(&client, "read_part", json!({})).await, "hello");
    assert_eq!(server.tool_names(), ["read"]);
    assert_eq!(client.list_tools().await.unwrap().len(), 1);
    assert!(server.remove_tool("read"));
    let error = client.call_tool("read_part", json!({})).await.unwrap_err();
    assert_eq!(error.code, -32602);
}

#[tokio::test]
async fn whoever_may_not_see_a_tool_cannot_call_the_one_beside_it() {
    let server = server()
        .tool(Tool::new("read", hello).read_only())
        .tool(Tool::new("read_part", hello).read_only().beside("read"))
        .show_tools(|_, name| name != "read")
        .start()
        .unwrap();
    let error = server.client().call_tool("read_part", json!({})).await;
    assert_eq!(error.unwrap_err().code, -32602);
}

#[tokio::test]
async fn a_call_in_flight_survives_the_removal_of_its_tool() {
    let release = Arc::new(Notify::new());
    let waits = Arc::clone(&release);
    let tool = Tool::new("wait", move |_: NoArgs, _: Cx| {
        let waits = Arc::clone(&waits);
        async move {
            waits.notified().await;
            "released"
        }
    });
    let server = server().tool(tool.read_only()).start().unwrap();
    let mut calling = server.client().start_tool("wait", json!({}));
    tokio::select! {
        biased;
        _ = calling.next() => panic!("it waits"),
        () = std::future::ready(()) => {}
    }
    server.remove_tool("wait");
    release.notify_one();
    let Some(Event::Done(Ok(result))) = soon(calling.next()).await else {
        panic!("it is answered")
    };
    assert_eq!(result["content"][0]["text"], "released");
}

#[tokio::test]
async fn resources_and_prompts_come_and_go() {
    let server = server()
        .resource(Resource::text("x://a", "a", "old"))
        .prompt(Prompt::new("p", hello))
        .start()
        .unwrap();
    let client = server.client();
    server
        .add_resource(Resource::template("y://{name}", "y", hello))
        .unwrap();
    server.add_prompt(Prompt::new("q", hello)).unwrap();
    let read = client
        .request("resources/read", json!({ "uri": "y://1" }))
        .await
        .unwrap();
    assert_eq!(read["contents"][0]["text"], "hello");
    assert!(
        client
            .request("prompts/get", json!({ "name": "q" }))
            .await
            .is_ok()
    );
    assert!(server.remove_resource("y://{name}") && server.remove_prompt("q"));
    assert!(!server.remove_resource("y://{name}") && !server.remove_prompt("q"));
    assert!(
        client
            .request("resources/read", json!({ "uri": "y://1" }))
            .await
            .is_err()
    );
    assert!(
        client
            .request("prompts/get", json!({ "name": "q" }))
            .await
            .is_err()
    );
    server.remove_resource("x://a");
    server
        .add_resource(Resource::text("x://a", "a", "new"))
        .unwrap();
    let read = client
        .request("resources/read", json!({ "uri": "x://a" }))
        .await
        .unwrap();
    assert_eq!(read["contents"][0]["text"], "new");
}

#[tokio::test]
async fn a_resource_that_is_set_again_has_new_contents_and_the_list_stays() {
    let server = server().start().unwrap();
    let set = |uri: &str, text: &str| server.set_resource(Resource::text(uri, "a", text));
    set("x://a", "old").unwrap();
    let filter = json!({ "resourcesListChanged": true, "resourceSubscriptions": ["x://a"] });
    let mut listening = opened(&server, filter).await;
    assert!(set("x://a b", "bad").is_err());
    set("x://a", "new").unwrap();
    let updated = Some("notifications/resources/updated".to_owned());
    let listed = Some("notifications/resources/list_changed".to_owned());
    assert_eq!(heard(&mut listening).await, updated);
    assert_eq!(heard(&mut listening).await, None);
    let read = json!({ "uri": "x://a" });
    let read = server.client().request("resources/read", read).await;
    assert_eq!(read.unwrap()["contents"][0]["text"], "new");
    set("x://b", "another").unwrap();
    let named = Resource::text("x://a", "another name", "new");
    server.set_resource(named).unwrap();
    assert_eq!(heard(&mut listening).await, listed);
    assert_eq!(heard(&mut listening).await, updated);
    assert_eq!(heard(&mut listening).await, None);
}

#[tokio::test]
async fn a_set_is_added_whole_or_not_at_all() {
    let server = server()
        .tool(Tool::new("there", hello).read_only())
        .prompt(Prompt::new("there", hello))
        .resource(Resource::text("x://there", "there", ""))
        .start()
        .unwrap();
    let every = json!({ "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true });
    let mut listening = opened(&server, every).await;
    let good = || {
        ToolSet::new(())
            .tool(Tool::new("new", hello).read_only())
            .prompt(Prompt::new("new", hello))
            .resource(Resource::text("x://new", "new", ""))
    };
    for bad in [
        good().tool(Tool::new("there", hello).read_only()),
        good().tool(Tool::new("no good", hello).read_only()),
        good().tool(Tool::raw("odd", json!([]), |_: Value, _: Cx| async { "" }).read_only()),
        good().prompt(Prompt::new("there", hello)),
        good().resource(Resource::text("nothing", "bad", "")),
    ] {
        assert!(server.add_tools(bad).unwrap_err().is_config());
        assert_eq!(server.tool_names(), ["there"]);
        assert!(heard(&mut listening).await.is_none(), "nothing has changed");
    }
    server.add_tools(good()).unwrap();
    assert_eq!(server.tool_names(), ["new", "there"]);
    let mut told = Vec::new();
    while let Some(method) = heard(&mut listening).await {
        told.push(method);
    }
    told.sort();
    assert_eq!(
        told,
        ["prompts", "resources", "tools"].map(|list| format!("notifications/{list}/list_changed"))
    );
}

#[tokio::test]
async fn what_changes_nothing_is_not_told() {
    let server = server()
        .tool(Tool::new("there", hello).read_only())
        .start()
        .unwrap();
    let mut listening = opened(&server, json!({ "toolsListChanged": true })).await;
    assert!(!server.remove_tool("nobody"));
    assert!(
        server
            .add_tool(Tool::new("there", hello).read_only())
            .is_err()
    );
    assert_eq!(heard(&mut listening).await, None);
}

#[tokio::test]
async fn a_handler_can_change_its_server() {
    async fn grow(_: NoArgs, cx: Cx) -> ToolResult<String> {
        let server = cx.server();
        server.add_tool(Tool::new("grown", hello).read_only())?;
        Ok(server.tool_names().join(" "))
    }
    let server = server()
        .tool(Tool::new("grow", grow).writes())
        .start()
        .unwrap();
    let client = server.client();
    assert_eq!(text(&client, "grow", json!({})).await, "grow grown");
    assert_eq!(text(&client, "grown", json!({})).await, "hello");
    let again = client.call_tool("grow", json!({})).await.unwrap();
    assert!(again.is_error);
}

#[tokio::test]
async fn one_server_is_served_on_several_transports() {
    let (server, folder) = (server().start().unwrap(), Folder::new());
    let (transport, handle) = (unix(folder.join("s")).unwrap(), server.clone());
    let _serving = Serving::start(async move { handle.serve(transport).await });
    let stream = UnixStream::connect(folder.join("s")).await.unwrap();
    let (reader, writer) = stream.into_split();
    let (first, _first) = connect(&server);
    let (second, _second) = connect(&server);
    let mut peers = [Peer::new(reader, writer), first, second];
    server
        .add_tool(Tool::new("late", hello).read_only())
        .unwrap();
    for peer in &mut peers {
        peer.call(1, "late").await;
        assert_eq!(
            peer.receive().await["result"]["content"][0]["text"],
            "hello"
        );
    }
}

#[tokio::test]
async fn closing_ends_subscriptions_and_tasks() {
    let (tool, mut watcher) = hanging("hang");
    let server = server().tool(tool.as_task()).start().unwrap();
    let mut listening = opened(&server, json!({ "toolsListChanged": true })).await;
    let id = begin(&server).await;
    watcher.started().await;
    server.close();
    watcher.dropped().await;
    assert_eq!(
        heard(&mut listening).await.as_deref(),
        Some("notifications/cancelled")
    );
    assert!(matches!(
        soon(listening.next()).await,
        Some(Event::Done(Ok(_)))
    ));
    let client = knowing_tasks(&server);
    assert!(
        client
            .request("tasks/get", json!({ "taskId": id }))
            .await
            .is_err()
    );
}

#[tokio::test]
async fn dropping_the_last_handle_closes() {
    let (tool, mut watcher) = hanging("hang");
    let kept = Arc::new(std::sync::Mutex::new(None::<Handle>));
    let keeper = Arc::clone(&kept);
    let keep = Tool::new("keep", move |_: NoArgs, cx: Cx| {
        *keeper.lock().unwrap() = Some(cx.server());
        async { "kept" }
    });
    let server = server()
        .tool(tool.as_task())
        .tool(keep.read_only())
        .start()
        .unwrap();
    assert_eq!(text(&server.client(), "keep", json!({})).await, "kept");
    let mut listening = opened(&server, json!({ "toolsListChanged": true })).await;
    begin(&server).await;
    watcher.started().await;
    let clone = server.clone();
    drop(server);
    assert!(watcher.is_running(), "a clone keeps it open");
    drop(clone);
    // The handle that a handler holds does not keep it open.
    watcher.dropped().await;
    assert_eq!(
        heard(&mut listening).await.as_deref(),
        Some("notifications/cancelled")
    );
    assert_eq!(
        kept.lock().unwrap().as_ref().unwrap().tool_names(),
        ["hang", "keep"]
    );
}

async fn hello(_: NoArgs, _: Cx) -> String {
    "hello".into()
}

fn knowing_tasks(server: &Handle) -> lmcp_core::Client {
    let declared = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let declared = serde_json::from_value(declared).expect("these are capabilities");
    server.client().capabilities(declared)
}

async fn begin(server: &Handle) -> Value {
    let client = knowing_tasks(server);
    let task = soon(client.request("tools/call", json!({ "name": "hang" }))).await;
    task.expect("the task begins")["taskId"].clone()
}

/// A subscription past its acknowledgement.
async fn opened(server: &Handle, filter: Value) -> Calling {
    let params = json!({ "notifications": filter });
    let mut listening = server.client().start("subscriptions/listen", params);
    assert!(heard(&mut listening).await.is_some());
    listening
}

/// What can be heard without waiting.
async fn heard(listening: &mut Calling) -> Option<String> {
    tokio::select! {
        biased;
        event = listening.next() => match event {
            Some(Event::Other(method, _)) => Some(method),
            other => panic!("{other:?}"),
        },
        () = std::future::ready(()) => None,
    }
}
