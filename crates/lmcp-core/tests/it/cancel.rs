//! Who goes away stops the work: the handler's future is dropped, on every transport.
//!
//! The project promises 50 ms. The tests show the time and fail only if it never happens.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use lmcp_core::{Completing, Cx, NoArgs, Prompt, Resource, Tasks, Tool, ToolResult, unix};
use serde_json::json;
use tokio::{net::UnixStream, sync::oneshot};

use crate::{
    stdio::Process,
    support::{
        Folder, Guards, Peer, Serving, connect, hanging, server, show_time, soon, text, watched,
    },
};

#[tokio::test]
async fn in_process_by_dropping_the_call() {
    let (tool, mut watcher) = hanging("hang");
    let client = server().tool(tool).start().unwrap().client();
    let mut calling = client.start_tool("hang", json!({}));
    tokio::select! {
        biased;
        _ = calling.next() => panic!("it never ends"),
        () = watcher.started() => {}
    }
    let closed = Instant::now();
    drop(calling);
    show_time("cancel: in-process client", closed, watcher.dropped().await);
}

#[tokio::test]
async fn over_a_pair_by_closing_it() {
    let (tool, mut watcher) = hanging("hang");
    let server = server().tool(tool).start().unwrap();
    let (mut peer, mut serving) = connect(&server);
    peer.call(1, "hang").await;
    watcher.started().await;
    let closed = Instant::now();
    drop(peer);
    show_time("cancel: streams", closed, watcher.dropped().await);
    serving.ended().await.unwrap();
}

#[tokio::test]
async fn over_a_unix_socket_by_closing_it() {
    let (tool, mut watcher) = hanging("hang");
    let (server, folder) = (server().tool(tool).start().unwrap(), Folder::new());
    let socket = folder.join("s");
    let transport = unix(&socket).unwrap();
    let _serving = Serving::start(async move { server.serve(transport).await });
    let (reader, writer) = UnixStream::connect(&socket).await.unwrap().into_split();
    let mut peer = Peer::new(reader, writer);
    peer.call(1, "hang").await;
    watcher.started().await;
    let closed = Instant::now();
    drop(peer);
    show_time("cancel: unix socket", closed, watcher.dropped().await);
}

#[tokio::test]
async fn over_stdio_by_closing_the_input() {
    let mut process = Process::start();
    process.peer.call(1, "hang").await;
    assert_eq!(process.stderr.line().await, "started");
    let closed = Instant::now();
    drop(process.peer);
    assert_eq!(process.stderr.line().await, "dropped");
    show_time("cancel: stdio, input closed", closed, Instant::now());
}

#[tokio::test]
async fn over_stdio_by_notification() {
    let mut process = Process::start();
    process.peer.call(1, "hang").await;
    assert_eq!(process.stderr.line().await, "started");
    let cancelled = Instant::now();
    process.peer.cancel(1).await;
    assert_eq!(process.stderr.line().await, "dropped");
    show_time("cancel: stdio, notification", cancelled, Instant::now());
    process.peer.call(2, "quick").await;
    assert_eq!(process.peer.receive().await["id"], 2);
}

#[tokio::test]
async fn a_cancelled_request_is_stopped_and_not_answered() {
    let (tool, mut watcher) = hanging("hang");
    let server = server().tool(tool).start().unwrap();
    let (mut peer, _serving) = connect(&server);
    peer.call(1, "hang").await;
    watcher.started().await;
    let cancelled = Instant::now();
    peer.cancel(1).await;
    show_time(
        "cancel: streams, notification",
        cancelled,
        watcher.dropped().await,
    );
    peer.request(2, "server/discover", json!({})).await;
    assert_eq!(peer.receive().await["id"], 2);
    let rest = peer.finish().await;
    assert_eq!(rest, "");
}

#[tokio::test]
async fn cancelling_one_request_leaves_the_others() {
    let (tool, mut watcher) = hanging("hang");
    let (release, released) = oneshot::channel::<()>();
    let released = std::sync::Mutex::new(Some(released));
    let wait = Tool::new("wait", move |_: NoArgs, _: Cx| {
        let released = released.lock().unwrap().take();
        async move {
            let _ = released.expect("called once").await;
            "released"
        }
    });
    let server = server().tool(tool).tool(wait.read_only()).start().unwrap();
    let (mut peer, _serving) = connect(&server);
    peer.call(1, "hang").await;
    peer.call(2, "wait").await;
    watcher.started().await;
    peer.cancel(1).await;
    watcher.dropped().await;
    release.send(()).unwrap();
    let answer = peer.receive().await;
    assert_eq!(
        (&answer["id"], &answer["result"]["content"][0]["text"]),
        (&json!(2), &json!("released"))
    );
}

#[tokio::test]
async fn cancelling_what_is_not_there_does_nothing() {
    let (tool, mut watcher) = hanging("hang");
    let server = server().tool(tool).start().unwrap();
    let (mut peer, _serving) = connect(&server);
    peer.call(1, "hang").await;
    watcher.started().await;
    for params in [
        json!({ "requestId": 7 }),
        json!({ "requestId": "1" }),
        json!({}),
    ] {
        let method = "notifications/cancelled";
        peer.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
            .await;
    }
    peer.request(2, "server/discover", json!({})).await;
    assert_eq!(peer.receive().await["id"], 2);
    assert!(watcher.is_running());
}

#[tokio::test]
async fn resources_prompts_and_completions_are_stopped_too() {
    async fn hang<T>(guards: Guards) -> T {
        let _held = guards.hold();
        std::future::pending().await
    }
    let (guards, mut watcher) = watched();
    let (read, render, suggest) = (guards.clone(), guards.clone(), guards);
    let server = server()
        .resource(Resource::new(
            "x://hang",
            "hang",
            move |_: NoArgs, _: Cx| hang::<String>(read.clone()),
        ))
        .prompt(
            Prompt::new("hang", move |_: Argument, _: Cx| {
                hang::<String>(render.clone())
            })
            .complete("a", move |_: Completing, _: Cx| {
                hang::<Vec<String>>(suggest.clone())
            }),
        )
        .start()
        .unwrap();
    let client = server.client();
    for (method, params) in [
        ("resources/read", json!({ "uri": "x://hang" })),
        ("prompts/get", json!({ "name": "hang" })),
        (
            "completion/complete",
            json!({ "ref": { "type": "ref/prompt", "name": "hang" }, "argument": { "name": "a", "value": "" } }),
        ),
    ] {
        let mut calling = client.start(method, params);
        tokio::select! {
            biased;
            event = calling.next() => panic!("{method} ended: {event:?}"),
            () = watcher.started() => {}
        }
        drop(calling);
        watcher.dropped().await;
    }
}

#[tokio::test]
async fn spawned_work_learns_of_the_cancellation() {
    let (told, mut tells) = tokio::sync::mpsc::unbounded_channel();
    // It outlives the handler's future.
    let elsewhere = Arc::new(Tasks::default());
    let tool = Tool::new("spawn", move |_: NoArgs, cx: Cx| {
        let (told, elsewhere) = (told.clone(), Arc::clone(&elsewhere));
        async move {
            let (on_thread, says) = (cx.clone(), told.clone());
            std::thread::spawn(move || {
                let _ = says.send("thread runs");
                while !on_thread.is_cancelled() {
                    std::thread::yield_now();
                }
                let _ = says.send("thread told");
            });
            elsewhere.spawn(async move {
                cx.cancelled().await;
                let _ = told.send("task told");
            });
            std::future::pending::<&'static str>().await
        }
    });
    let client = server().tool(tool.read_only()).start().unwrap().client();
    let mut calling = client.start_tool("spawn", json!({}));
    tokio::select! {
        biased;
        _ = calling.next() => panic!("it never ends"),
        word = soon(tells.recv()) => assert_eq!(word, Some("thread runs")),
    }
    drop(calling);
    let mut words = [soon(tells.recv()).await, soon(tells.recv()).await];
    words.sort_unstable();
    assert_eq!(words, [Some("task told"), Some("thread told")]);
}

#[tokio::test]
async fn an_answered_request_was_not_cancelled() {
    let kept = Arc::new(std::sync::Mutex::new(None::<Cx>));
    let keeper = Arc::clone(&kept);
    let tool = Tool::new("keep", move |_: NoArgs, cx: Cx| {
        let keeper = Arc::clone(&keeper);
        async move {
            *keeper.lock().unwrap() = Some(cx);
            "kept"
        }
    });
    let client = server().tool(tool.read_only()).start().unwrap().client();
    assert_eq!(text(&client, "keep", json!({})).await, "kept");
    let cx = kept.lock().unwrap().take().unwrap();
    assert!(!cx.is_cancelled());
}

#[tokio::test]
async fn a_shielded_step_is_completed() {
    let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let (release, released) = tokio::sync::watch::channel(false);
    let done = Arc::new(AtomicBool::new(false));
    let (finished, mut finishes) = tokio::sync::mpsc::unbounded_channel();
    let flag = Arc::clone(&done);
    let tool = Tool::new("save", move |_: NoArgs, cx: Cx| {
        let (started, finished) = (started.clone(), finished.clone());
        let (mut released, flag) = (released.clone(), Arc::clone(&flag));
        async move {
            cx.shield(async move {
                let _ = started.send(());
                let _ = released.wait_for(|released| *released).await;
                flag.store(true, Ordering::SeqCst);
                let _ = finished.send(());
            })
            .await?;
            ToolResult::Ok("saved")
        }
    });
    let server = server().tool(tool.writes()).start().unwrap();
    let (mut peer, _serving) = connect(&server);
    peer.call(1, "save").await;
    soon(starts.recv()).await.unwrap();
    peer.cancel(1).await;
    peer.request(2, "server/discover", json!({})).await;
    assert_eq!(peer.receive().await["id"], 2);
    assert!(!done.load(Ordering::SeqCst));
    release.send_replace(true);
    soon(finishes.recv()).await.unwrap();
    assert!(done.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_shielded_step_gives_its_value_and_its_panic() {
    async fn value(_: NoArgs, cx: Cx) -> ToolResult<String> {
        Ok(cx.shield(async { 7 }).await?.to_string())
    }
    async fn panics(_: NoArgs, cx: Cx) -> ToolResult<String> {
        cx.shield(async { panic!("a secret") }).await
    }
    let client = server()
        .tool(Tool::new("value", value).read_only())
        .tool(Tool::new("panics", panics).read_only())
        .start()
        .unwrap()
        .client();
    assert_eq!(text(&client, "value", json!({})).await, "7");
    let result = client.call_tool("panics", json!({})).await.unwrap();
    assert!(result.is_error);
    assert_eq!(result.content[0].as_text(), Some("the step failed"));
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Argument {
    #[expect(dead_code, reason = "there to be completed")]
    a: Option<String>,
}
