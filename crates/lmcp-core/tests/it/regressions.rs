//! What once was wrong, and must not be again.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use lmcp_core::{
    Client, Completing, Cx, Handle, Limits, NoArgs, Prompt, Replies, Resource, Tool, ToolResult,
    client::Event, unix,
};
use lmcp_wire::{CallToolResult, LoggingLevel};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::{
    net::UnixStream,
    sync::{mpsc, oneshot, watch},
    time::timeout,
};

use crate::support::{Folder, Peer, Serving, all, connect, hanging, limits, server, soon};

#[tokio::test]
async fn a_panic_in_a_later_reply_costs_one_answer() {
    let server = server()
        .layer(|_, _| Replies::later(async { panic!("a secret") }))
        .start()
        .unwrap();
    let (mut peer, _serving) = connect(&server);
    peer.call(1, "any").await;
    let answer = timeout(Duration::from_secs(5), peer.next())
        .await
        .expect("it is answered");
    assert_eq!(answer.unwrap()["error"]["code"], -32603);
}

#[tokio::test]
async fn a_panic_in_a_layer_costs_one_answer() {
    let server = server()
        .layer(|request, next| {
            assert!(request.method() != "tools/call", "a secret");
            next.call(request)
        })
        .start()
        .unwrap();
    let (mut peer, _serving) = connect(&server);
    peer.call(1, "any").await;
    assert_eq!(peer.receive().await["error"]["code"], -32603);
    peer.request(2, "server/discover", json!({})).await;
    assert_eq!(peer.receive().await["id"], 2);
}

#[tokio::test]
async fn a_shielded_step_survives_a_graceful_stop() {
    // The connection waits for the answer longer than any test takes.
    let mut saving = Saving::begin(Duration::from_secs(600)).await;
    saving.stop().await;
    saving.finish.send_replace(true);
    let answer = saving.peer.receive().await;
    assert_eq!(answer["result"]["content"][0]["text"], "saved");
    saving.serving.ended().await.unwrap();
    assert_eq!(saving.saved.recv().await, Some(()));
}

#[tokio::test]
async fn a_shielded_step_survives_a_stop_that_waits_for_no_answer() {
    let mut saving = Saving::begin(Duration::ZERO).await;
    saving.stop().await;
    saving.serving.ended().await.unwrap();
    assert_eq!(saving.peer.next().await, None, "its call was dropped");
    saving.finish.send_replace(true);
    assert_eq!(soon(saving.saved.recv()).await, Some(()));
}

/// A server on a socket, with a call in a shielded step that ends when it is told to.
struct Saving {
    folder: Folder,
    peer: Peer,
    serving: Serving,
    stop: Option<oneshot::Sender<()>>,
    finish: watch::Sender<bool>,
    saved: mpsc::UnboundedReceiver<()>,
    /// What was shielded runs for as long as the server is there.
    _server: Handle,
}

impl Saving {
    async fn begin(drain_wait: Duration) -> Self {
        let folder = Folder::new();
        let (begun, mut begins) = mpsc::unbounded_channel();
        let (save, saved) = mpsc::unbounded_channel();
        let finish = watch::Sender::new(false);
        let finishes = finish.subscribe();
        let tool = Tool::new("save", move |_: NoArgs, cx: Cx| {
            let (begun, save, mut finishes) = (begun.clone(), save.clone(), finishes.clone());
            async move {
                cx.shield(async move {
                    let _ = begun.send(());
                    let _ = finishes.wait_for(|finish| *finish).await;
                    let _ = save.send(());
                })
                .await?;
                ToolResult::Ok("saved")
            }
        });
        let server = server()
            .limits(limits(|limits| limits.drain_wait = drain_wait))
            .tool(tool.writes())
            .start()
            .expect("the server starts");
        let (stop, stopped) = oneshot::channel::<()>();
        let transport = unix(folder.join("s")).expect("the name is free");
        let transport = transport.until(async {
            let _ = stopped.await;
        });
        let handle = server.clone();
        let serving = Serving::start(async move { handle.serve(transport).await });
        let connected = UnixStream::connect(folder.join("s")).await;
        let connected = connected.expect("it listens");
        let (reader, writer) = connected.into_split();
        let mut peer = Peer::new(reader, writer);
        peer.call(1, "save").await;
        soon(begins.recv()).await;
        Self {
            folder,
            peer,
            serving,
            stop: Some(stop),
            finish,
            saved,
            _server: server,
        }
    }

    /// Stops the server, and waits until its socket is gone: then its connections know.
    async fn stop(&mut self) {
        drop(self.stop.take());
        soon(async {
            while self.folder.join("s").exists() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_subscription_to_a_closed_server_ends() {
    let server = server()
        .tool(Tool::new("t", nothing).read_only())
        .start()
        .unwrap();
    server.close();
    let params = json!({ "notifications": { "toolsListChanged": true } });
    let mut listening = server.client().start("subscriptions/listen", params);
    let ended = timeout(Duration::from_secs(2), async {
        loop {
            if let Some(Event::Done(_)) | None = listening.next().await {
                break;
            }
        }
    });
    ended.await.expect("it ends");
}

#[tokio::test]
async fn stopping_one_transport_leaves_the_others() {
    let (folder, server) = (
        Folder::new(),
        server()
            .tool(Tool::new("t", nothing).read_only())
            .start()
            .unwrap(),
    );
    let (mut peer, _serving) = connect(&server);
    peer.request(
        1,
        "subscriptions/listen",
        json!({ "notifications": { "toolsListChanged": true } }),
    )
    .await;
    peer.receive().await;
    server
        .serve(unix(folder.join("s")).unwrap().until(async {}))
        .await
        .unwrap();
    peer.request(2, "server/discover", json!({})).await;
    assert_eq!(peer.receive().await["id"], 2);
    assert_eq!(peer.finish().await, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn subscriptions_on_a_unix_socket_end_with_their_result() {
    for _ in 0..50 {
        let (folder, server) = (
            Folder::new(),
            server()
                .tool(Tool::new("t", nothing).read_only())
                .start()
                .unwrap(),
        );
        let (stop, stopped) = oneshot::channel::<()>();
        let transport = unix(folder.join("s")).unwrap().until(async {
            let _ = stopped.await;
        });
        let _serving = Serving::start(async move { server.serve(transport).await });
        let (reader, writer) = UnixStream::connect(folder.join("s"))
            .await
            .unwrap()
            .into_split();
        let mut peer = Peer::new(reader, writer);
        peer.request(
            1,
            "subscriptions/listen",
            json!({ "notifications": { "toolsListChanged": true } }),
        )
        .await;
        peer.receive().await;
        drop(stop);
        assert_eq!(peer.receive().await["method"], "notifications/cancelled");
        assert_eq!(peer.receive().await["result"]["resultType"], "complete");
    }
}

#[tokio::test]
async fn only_a_tool_becomes_a_task() {
    async fn late(_: NoArgs, cx: Cx) -> String {
        cx.detach().await;
        "late".into()
    }
    let server = server()
        .resource(Resource::new("x://a", "a", late))
        .prompt(Prompt::new("p", late))
        .start()
        .unwrap();
    let client = knowing(&server);
    for (method, params) in [
        ("resources/read", json!({ "uri": "x://a" })),
        ("prompts/get", json!({ "name": "p" })),
    ] {
        let result = client.request(method, params).await.unwrap();
        assert_eq!(result["resultType"], "complete", "{method}");
    }
}

#[tokio::test]
async fn a_completer_cannot_ask() {
    async fn asks(_: Completing, cx: Cx) -> ToolResult<Vec<String>> {
        let _: Word = cx.ask("word", "A word?").await?;
        Ok(Vec::new())
    }
    async fn prompt(_: Word, _: Cx) -> String {
        String::new()
    }
    let server = server()
        .prompt(Prompt::new("p", prompt).complete("word", asks))
        .start()
        .unwrap();
    let params = json!({ "ref": { "type": "ref/prompt", "name": "p" }, "argument": { "name": "word", "value": "" } });
    let result = knowing(&server)
        .request("completion/complete", params)
        .await;
    assert!(result.is_err() || result.is_ok_and(|result| result["resultType"] == "complete"));
}

#[tokio::test]
async fn a_member_of_meta_is_written_once() {
    async fn twice(_: NoArgs, cx: Cx) -> ToolResult<CallToolResult> {
        cx.set_meta("a", json!(1))?;
        let mut result = CallToolResult::new(Vec::new());
        result.meta = Some([("a".to_owned(), json!(2))].into_iter().collect());
        Ok(result)
    }
    let server = server()
        .tool(Tool::new("twice", twice).read_only())
        .start()
        .unwrap();
    let (mut peer, _serving) = connect(&server);
    peer.call(1, "twice").await;
    let line = peer.finish().await;
    assert_eq!(line.matches("\"a\":").count(), 1, "{line}");
}

#[tokio::test]
async fn a_handler_cannot_forge_who_the_server_is() {
    async fn forge(_: NoArgs, cx: Cx) -> ToolResult<&'static str> {
        cx.set_meta("io.modelcontextprotocol/serverInfo", json!("forged"))?;
        Ok("forged")
    }
    let client = server()
        .tool(Tool::new("forge", forge).read_only())
        .start()
        .unwrap()
        .client();
    let result = client.call_tool("forge", json!({})).await.unwrap();
    assert_eq!(
        result.meta.unwrap()["io.modelcontextprotocol/serverInfo"]["name"],
        "test"
    );
}

#[tokio::test(start_paused = true)]
async fn a_short_deadline_is_told_as_it_is() {
    let (tool, _watcher) = hanging("hang");
    let client = server()
        .tool(tool.deadline(Duration::from_millis(500)))
        .start()
        .unwrap()
        .client();
    let error = client.call_tool("hang", json!({})).await.unwrap_err();
    assert!(!error.message.contains("within 0 s"), "{error}");
}

#[tokio::test]
async fn as_many_connections_as_one_likes() {
    let folder = Folder::new();
    let server = server()
        .limits(limits(|limits| limits.connections = usize::MAX))
        .start()
        .unwrap();
    server
        .serve(unix(folder.join("s")).unwrap().until(async {}))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_path_that_fits_the_system_fits_us() {
    let folder = Folder::new();
    let deep = folder.join(&"d".repeat(105 - folder.path().as_os_str().len() - 1));
    std::fs::create_dir(&deep).unwrap();
    drop(std::os::unix::net::UnixListener::bind(deep.join("s")).unwrap());
    unix(deep.join("s")).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_step_is_lost_between_threads() {
    async fn steps(_: NoArgs, cx: Cx) -> ToolResult<&'static str> {
        let progress = cx.progress(400_000);
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let progress = progress.clone();
                std::thread::spawn(move || (0..100_000).for_each(|_| progress.step("")))
            })
            .collect();
        tokio::task::spawn_blocking(|| threads.into_iter().for_each(|thread| drop(thread.join())))
            .await?;
        Ok("done")
    }
    let client = server()
        .tool(Tool::new("steps", steps).read_only())
        .start()
        .unwrap()
        .client();
    let (events, _) = all(client.start_tool("steps", json!({}))).await;
    let Some(Event::Progress(last)) = events.last() else {
        panic!("{events:?}")
    };
    assert_eq!(last.progress, 400_000.0);
}

#[tokio::test]
async fn dropped_messages_are_counted_even_if_none_follows() {
    async fn log(_: NoArgs, cx: Cx) -> &'static str {
        (0..100).for_each(|number| cx.log(LoggingLevel::Info, number));
        "done"
    }
    let server = server()
        .tool(Tool::new("log", log).read_only())
        .limits(limits(|limits| limits.queue = 10));
    let client = server
        .start()
        .unwrap()
        .client()
        .log_level(LoggingLevel::Info);
    let (events, _) = all(client.start_tool("log", json!({}))).await;
    let Some(Event::Log(last)) = events.last() else {
        panic!("{events:?}")
    };
    assert!(last.data.to_string().contains("90"), "{last:?}");
}

#[tokio::test]
async fn every_limit_is_named_to_the_peer() {
    async fn hoard(_: NoArgs, cx: Cx) -> ToolResult<String> {
        cx.remember(&"x".repeat(5000))?;
        let _: Word = cx.ask("q", "?").await?;
        Ok(String::new())
    }
    let server = server()
        .tool(Tool::new("hoard", hoard).read_only())
        .limits(limits(|limits: &mut Limits| limits.state_bytes = 1000))
        .start()
        .unwrap();
    let error = knowing(&server)
        .call_tool("hoard", json!({}))
        .await
        .unwrap_err();
    assert_eq!(
        error.data.as_ref().expect("the limit is named")["limit"],
        "state_bytes"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_id_is_free_once_its_answer_is_out() {
    let server = server()
        .tool(Tool::new("t", nothing).read_only())
        .start()
        .unwrap();
    let (mut peer, _serving) = connect(&server);
    let mut refused = 0;
    for _ in 0..20_000 {
        peer.call(1, "t").await;
        refused += u32::from(peer.receive().await.get("error").is_some());
    }
    assert_eq!(refused, 0, "of 20000");
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_has_not_begun() {
    let begun = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counts = Arc::clone(&begun);
    let tool = Tool::new("write", move |_: NoArgs, _: Cx| {
        let counts = Arc::clone(&counts);
        async move {
            counts.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<&'static str>().await
        }
    });
    let server = server()
        .tool(tool.writes())
        .limits(limits(|limits| limits.requests_in_flight = 1))
        .start()
        .unwrap();
    let (mut peer, _serving) = connect(&server);
    peer.call(1, "write").await;
    peer.call(2, "write").await;
    assert_eq!(
        peer.receive().await["error"]["data"]["limit"],
        "requests_in_flight"
    );
    assert_eq!(
        begun.load(Ordering::SeqCst),
        1,
        "what is refused did nothing"
    );
}

async fn nothing(_: NoArgs, _: Cx) -> &'static str {
    "nothing"
}

fn knowing(server: &Handle) -> Client {
    let declared =
        json!({ "extensions": { "io.modelcontextprotocol/tasks": {} }, "elicitation": {} });
    server
        .client()
        .capabilities(serde_json::from_value(declared).expect("these are capabilities"))
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only asked for")]
struct Word {
    word: String,
}
