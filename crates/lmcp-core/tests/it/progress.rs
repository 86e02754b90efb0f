//! Progress: throttled, growing, complete at the end, and never where nobody asked for it.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use lmcp_core::{Cx, Limits, NoArgs, Tool, client::Event};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::{all, connect, limits, server, soon};

#[tokio::test(start_paused = true)]
async fn progress_is_throttled_and_its_last_value_sent() {
    async fn count(_: NoArgs, cx: Cx) -> &'static str {
        let progress = cx.progress(200);
        for number in 1..=200 {
            progress.step(format!("step {number}"));
            sleep(Duration::from_millis(1)).await;
        }
        "done"
    }
    let client = server()
        .tool(Tool::new("count", count).read_only())
        .start()
        .unwrap()
        .client();
    let mut calling = client.start_tool("count", json!({}));
    let (mut times, mut last) = (Vec::new(), None);
    loop {
        match calling.next().await.unwrap() {
            Event::Progress(progress) => {
                times.push(Instant::now());
                last = Some(progress);
            }
            Event::Done(result) => break drop(result.unwrap()),
            other => panic!("{other:?}"),
        }
    }
    let last = last.unwrap();
    assert_eq!((last.progress, last.total), (200.0, Some(200.0)));
    assert_eq!(last.message.as_deref(), Some("step 200"));
    // The very last one may come early: nothing can follow it.
    times.pop();
    let least = Limits::default().progress_interval;
    assert!(times.len() >= 2);
    assert!(
        times.windows(2).all(|pair| pair[1] - pair[0] >= least),
        "{times:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn progress_said_while_quiet_is_sent_when_its_time_comes() {
    async fn pause(_: NoArgs, cx: Cx) -> &'static str {
        let progress = cx.progress(3);
        progress.step("one");
        sleep(Duration::from_millis(1)).await;
        progress.step("two");
        sleep(Duration::from_secs(60)).await;
        "done"
    }
    let client = server()
        .tool(Tool::new("pause", pause).read_only())
        .start()
        .unwrap()
        .client();
    let (begun, mut calling) = (Instant::now(), client.start_tool("pause", json!({})));
    for (value, after) in [
        (1.0, Duration::ZERO),
        (2.0, Limits::default().progress_interval),
    ] {
        let Some(Event::Progress(progress)) = calling.next().await else {
            panic!("progress {value} is missing")
        };
        assert_eq!(progress.progress, value);
        let waited = begun.elapsed();
        assert!(
            after <= waited && waited < Duration::from_secs(1),
            "{waited:?}"
        );
    }
}

#[tokio::test]
async fn progress_only_grows() {
    async fn stumble(_: NoArgs, cx: Cx) -> &'static str {
        let (first, second) = (cx.progress(10), cx.open_progress());
        for value in [3, 1, 3, 5, 4] {
            first.set(value, "set");
            tokio::task::yield_now().await;
        }
        second.step("");
        tokio::task::yield_now().await;
        first.step("last");
        "done"
    }
    let limits = limits(|limits| limits.progress_interval = Duration::ZERO);
    let server = server()
        .tool(Tool::new("stumble", stumble).read_only())
        .limits(limits);
    let (events, _) = all(server
        .start()
        .unwrap()
        .client()
        .start_tool("stumble", json!({})))
    .await;
    let sent: Vec<_> = events
        .into_iter()
        .map(|event| match event {
            Event::Progress(progress) => (progress.progress, progress.total, progress.message),
            other => panic!("{other:?}"),
        })
        .collect();
    let words = |text: &str| Some(text.to_owned());
    assert_eq!(
        sent,
        [
            (3.0, Some(10.0), words("set")),
            (5.0, Some(10.0), words("set")),
            (6.0, None, None),
            (7.0, Some(10.0), words("last")),
        ]
    );
}

#[tokio::test]
async fn a_flood_of_progress_is_merged() {
    async fn flood(_: NoArgs, cx: Cx) -> &'static str {
        let progress = cx.progress(100_000);
        for _ in 0..100_000 {
            progress.step("");
        }
        "done"
    }
    let client = server()
        .tool(Tool::new("flood", flood).read_only())
        .start()
        .unwrap()
        .client();
    let (events, _) = all(client.start_tool("flood", json!({}))).await;
    let [Event::Progress(only)] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(only.progress, 100_000.0);
}

#[tokio::test]
async fn without_a_token_nothing_is_sent() {
    let server = server().tool(steps()).start().unwrap();
    let (mut peer, _serving) = connect(&server);
    peer.call(1, "steps").await;
    assert_eq!(peer.receive().await["id"], 1);
    assert_eq!(peer.finish().await, "");
}

#[tokio::test]
async fn the_token_comes_back_as_it_was() {
    let server = server().tool(steps()).start().unwrap();
    let (mut peer, _serving) = connect(&server);
    for (id, token) in [(1, json!("tök")), (2, json!(-7))] {
        let params = json!({ "name": "steps", "_meta": { "progressToken": token } });
        peer.request(id, "tools/call", params).await;
        let mut last = None;
        let answer = loop {
            let message = peer.receive().await;
            if message["method"] != "notifications/progress" {
                break message;
            }
            assert_eq!(message["params"]["progressToken"], token);
            last = message["params"]["progress"].as_f64();
        };
        assert_eq!((&answer["id"], last), (&json!(id), Some(3.0)));
    }
}

#[tokio::test]
async fn nothing_follows_the_response() {
    let kept = Arc::new(Mutex::new(None::<Cx>));
    let keeper = Arc::clone(&kept);
    let tool = Tool::new("keep", move |_: NoArgs, cx: Cx| {
        *keeper.lock().unwrap() = Some(cx);
        async { "kept" }
    });
    let server = server().tool(tool.read_only()).start().unwrap();
    let (mut peer, _serving) = connect(&server);
    let meta = json!({ "progressToken": 1, "io.modelcontextprotocol/logLevel": "debug" });
    peer.request(1, "tools/call", json!({ "name": "keep", "_meta": meta }))
        .await;
    assert_eq!(peer.receive().await["id"], 1);
    let cx = kept.lock().unwrap().take().unwrap();
    cx.progress(2).step("too late");
    cx.log(lmcp_wire::LoggingLevel::Error, "too late");
    peer.request(2, "server/discover", json!({})).await;
    assert_eq!(peer.receive().await["id"], 2);
    assert_eq!(peer.finish().await, "");
}

#[tokio::test]
async fn log_messages_come_from_the_level_that_was_asked_for() {
    use lmcp_wire::LoggingLevel::{Debug, Emergency, Info, Warning};
    async fn log(_: NoArgs, cx: Cx) -> &'static str {
        for level in [Debug, Info, Warning, Emergency] {
            cx.log(level, json!({ "at": level }));
        }
        "done"
    }
    let server = server()
        .tool(Tool::new("log", log).read_only())
        .start()
        .unwrap();
    for (least, expected) in [
        (None, vec![]),
        (Some(Debug), vec!["debug", "info", "warning", "emergency"]),
        (Some(Warning), vec!["warning", "emergency"]),
        (Some(Emergency), vec!["emergency"]),
    ] {
        let client = least.map_or(server.client(), |level| server.client().log_level(level));
        let (events, _) = all(client.start_tool("log", json!({}))).await;
        let levels: Vec<Value> = events
            .into_iter()
            .map(|event| match event {
                Event::Log(log) => log.data["at"].clone(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(levels, expected);
    }
}

#[tokio::test]
async fn what_is_said_at_once_comes_before_the_end() {
    let client = server().tool(steps()).start().unwrap().client();
    let mut calling = client.start_tool("steps", json!({}));
    let Some(Event::Progress(progress)) = soon(calling.next()).await else {
        panic!("progress is missing")
    };
    assert_eq!(progress.progress, 3.0);
    assert!(matches!(
        soon(calling.next()).await,
        Some(Event::Done(Ok(_)))
    ));
    assert_eq!(soon(calling.next()).await, None);
}

fn steps() -> Tool {
    async fn steps(_: NoArgs, cx: Cx) -> &'static str {
        let progress = cx.progress(3);
        for word in ["a", "b", "c"] {
            progress.step(word);
        }
        "done"
    }
    Tool::new("steps", steps).read_only()
}
