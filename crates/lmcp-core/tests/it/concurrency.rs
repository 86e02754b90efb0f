//! Requests run side by side, and what one of them does costs no other.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use lmcp_core::{Cx, NoArgs, Prompt, Resource, Tool, client::Event};
use lmcp_wire::LoggingLevel;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::support::{all, connect, hanging, server, soon};

#[tokio::test]
async fn a_slow_handler_delays_nobody() {
    let (tool, mut watcher) = hanging("hang");
    let server = server()
        .tool(tool)
        .tool(Tool::new("quick", quick).read_only())
        .start()
        .unwrap();
    let (mut peer, _serving) = connect(&server);
    peer.call(1, "hang").await;
    watcher.started().await;
    for id in 2..10 {
        peer.call(id, "quick").await;
        assert_eq!(peer.receive().await["id"], id);
    }
    assert!(watcher.is_running());
}

#[tokio::test]
async fn requests_of_one_connection_run_at_the_same_time() {
    let meeting = Arc::new(Barrier::new(10));
    let tool = Tool::new("meet", move |_: NoArgs, _: Cx| {
        let meeting = Arc::clone(&meeting);
        async move {
            meeting.wait().await;
            "met"
        }
    });
    let server = server().tool(tool.read_only()).start().unwrap();
    let (mut peer, _serving) = connect(&server);
    for id in 0..10 {
        peer.call(id, "meet").await;
    }
    let mut ids = Vec::new();
    for _ in 0..10 {
        ids.push(peer.receive().await["id"].as_i64().unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, Vec::from_iter(0..10));
}

#[tokio::test]
async fn a_panic_costs_one_answer_and_tells_nothing() {
    async fn late(_: NoArgs, _: Cx) -> String {
        tokio::task::yield_now().await;
        panic!("the password is swordfish")
    }
    fn early(_: NoArgs, _: Cx) -> std::future::Ready<String> {
        panic!("the password is swordfish")
    }
    let server = server()
        .tool(Tool::new("late", late).read_only())
        .tool(Tool::new("early", early).read_only())
        .tool(Tool::new("quick", quick).read_only())
        .resource(Resource::new("x://late", "late", late))
        .prompt(Prompt::new("late", late))
        .start()
        .unwrap();
    let (mut peer, _serving) = connect(&server);
    let mut incidents = Vec::new();
    for (id, method, params) in [
        (1, "tools/call", json!({ "name": "late" })),
        (2, "tools/call", json!({ "name": "early" })),
        (3, "resources/read", json!({ "uri": "x://late" })),
        (4, "prompts/get", json!({ "name": "late" })),
    ] {
        peer.request(id, method, params).await;
        let answer = peer.receive().await;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(id), &json!(-32603))
        );
        assert_eq!(answer["error"].get("data"), None);
        let message = answer["error"]["message"].as_str().unwrap();
        let incident = message.strip_prefix("internal error, incident ").unwrap();
        assert!(incident.len() == 16 && incident.bytes().all(|byte| byte.is_ascii_hexdigit()));
        incidents.push(incident.to_owned());
    }
    incidents.dedup();
    assert_eq!(incidents.len(), 4, "every incident has its own name");
    peer.call(5, "quick").await;
    assert_eq!(
        peer.receive().await["result"]["content"][0]["text"],
        "quick"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_large_answers_arrive_whole() {
    #[derive(Deserialize, JsonSchema)]
    struct Which {
        number: usize,
    }
    async fn large(args: Which, _: Cx) -> String {
        tokio::task::yield_now().await;
        let letter = char::from(b'a' + u8::try_from(args.number % 26).expect("26 fits"));
        letter.to_string().repeat(64 << 10)
    }
    let server = server()
        .tool(Tool::new("large", large).read_only())
        .start()
        .unwrap();
    let (mut peer, _serving) = connect(&server);
    for number in 0..200_i64 {
        let params = json!({ "name": "large", "arguments": { "number": number } });
        peer.request(number, "tools/call", params).await;
    }
    let mut seen = [false; 200];
    for _ in 0..200 {
        let answer = peer.receive().await;
        let number = usize::try_from(answer["id"].as_i64().unwrap()).unwrap();
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        let letter = b'a' + u8::try_from(number % 26).unwrap();
        assert_eq!(text.len(), 64 << 10);
        assert!(text.bytes().all(|byte| byte == letter));
        assert!(
            !std::mem::replace(&mut seen[number], true),
            "{number} came twice"
        );
    }
}

#[tokio::test]
async fn a_handler_that_speaks_from_another_thread_is_heard() {
    async fn speak(_: NoArgs, cx: Cx) -> &'static str {
        let (done, ended) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let progress = cx.progress(2);
            progress.step("one");
            cx.log(LoggingLevel::Info, "from a thread");
            let _ = done.send(());
        });
        ended.await.expect("the thread speaks");
        // Heard though this future does nothing any more.
        std::future::pending().await
    }
    let client = server()
        .tool(Tool::new("speak", speak).read_only())
        .start()
        .unwrap()
        .client();
    let mut calling = client
        .log_level(LoggingLevel::Debug)
        .start_tool("speak", json!({}));
    let mut heard =
        [soon(calling.next()).await, soon(calling.next()).await].map(|event| match event {
            Some(Event::Progress(progress)) => progress.message.unwrap_or_default(),
            Some(Event::Log(log)) => log.data.as_str().unwrap_or_default().to_owned(),
            other => panic!("{other:?}"),
        });
    heard.sort();
    assert_eq!(heard, ["from a thread", "one"]);
}

#[tokio::test]
async fn a_handler_that_keeps_the_thread_answers_in_the_end() {
    async fn busy(_: NoArgs, _: Cx) -> String {
        let sum: u64 = tokio::task::spawn_blocking(|| (0..10_000_u64).sum())
            .await
            .unwrap_or_default();
        sum.to_string()
    }
    let client = server()
        .tool(Tool::new("busy", busy).read_only())
        .start()
        .unwrap()
        .client();
    let (_, result) = all(client.start_tool("busy", json!({}))).await;
    assert_eq!(result.unwrap()["content"][0]["text"], "49995000");
}

#[tokio::test]
async fn an_id_in_flight_cannot_be_used_again() {
    let (tool, mut watcher) = hanging("hang");
    let server = server()
        .tool(tool)
        .tool(Tool::new("quick", quick).read_only())
        .start()
        .unwrap();
    let (mut peer, _serving) = connect(&server);
    peer.call(1, "hang").await;
    watcher.started().await;
    peer.call(1, "quick").await;
    let answer = peer.receive().await;
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!(1), &json!(-32600))
    );
    assert!(watcher.is_running(), "the first one is not disturbed");
}

#[tokio::test]
async fn an_id_can_be_used_again_once_it_is_answered() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let tool = Tool::new("count", move |_: NoArgs, _: Cx| {
        let count = counted.fetch_add(1, Ordering::Relaxed);
        async move { count.to_string() }
    });
    let server = server().tool(tool.writes()).start().unwrap();
    let (mut peer, _serving) = connect(&server);
    let mut texts: Vec<Value> = Vec::new();
    for _ in 0..50 {
        peer.call(1, "count").await;
        texts.push(peer.receive().await["result"]["content"][0]["text"].clone());
    }
    assert_eq!(
        texts,
        (0..50)
            .map(|count| json!(count.to_string()))
            .collect::<Vec<_>>()
    );
}

async fn quick(_: NoArgs, _: Cx) -> &'static str {
    "quick"
}
