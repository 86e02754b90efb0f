//! The bounds of a connection of lines: long lines, many requests, peers that do not read.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lmcp_core::{Cx, Limits, NoArgs, Server, Tool};
use lmcp_wire::LoggingLevel;
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};

use crate::support::{connect, hanging, limits, request, server, soon};

#[tokio::test]
async fn a_line_may_be_as_long_as_the_limit_and_no_longer() {
    let server = quick(limits(|limits| limits.line_bytes = 1000))
        .start()
        .unwrap();
    let (mut peer, _serving) = connect(&server);
    let line = request(1, "tools/call", json!({ "name": "quick" })).to_string();
    peer.write(format!("{line:<1000}\n").as_bytes()).await;
    assert_eq!(peer.receive().await["id"], 1);
    peer.write(format!("{line:<1001}\n").as_bytes()).await;
    let answer = peer.receive().await;
    assert_eq!(answer.get("id"), None);
    assert_eq!(answer["error"]["code"], -32600);
    assert_eq!(
        answer["error"]["data"],
        json!({ "limit": "line_bytes", "value": 1000 })
    );
    peer.call(2, "quick").await;
    assert_eq!(peer.receive().await["id"], 2, "the connection lives");
}

#[tokio::test]
async fn a_long_line_is_told_once_and_before_it_ends() {
    let server = quick(limits(|limits| limits.line_bytes = 1000))
        .start()
        .unwrap();
    let (mut peer, _serving) = connect(&server);
    for _ in 0..5 {
        peer.write(&[b'x'; 700]).await;
    }
    assert_eq!(peer.receive().await["error"]["data"]["limit"], "line_bytes");
    peer.write(&[b'x'; 700]).await;
    peer.write(b"\n").await;
    peer.call(1, "quick").await;
    assert_eq!(peer.receive().await["id"], 1);
}

#[tokio::test]
async fn a_long_line_leaves_other_requests_alone() {
    let (tool, mut watcher) = hanging("hang");
    let server = quick(limits(|limits| limits.line_bytes = 1000))
        .tool(tool)
        .start()
        .unwrap();
    let (mut peer, _serving) = connect(&server);
    peer.call(1, "hang").await;
    watcher.started().await;
    peer.write(&[b'x'; 5000]).await;
    peer.write(b"\n").await;
    peer.receive().await;
    assert!(watcher.is_running());
}

#[tokio::test(start_paused = true)]
async fn a_request_past_those_in_flight_is_refused_after_a_wait() {
    let (tool, mut watcher) = hanging("hang");
    let server = slow(limits(|limits| limits.requests_in_flight = 2))
        .tool(tool)
        .start()
        .unwrap();
    let (mut peer, _serving) = connect(&server);
    peer.call(1, "hang").await;
    peer.call(2, "hang").await;
    watcher.started().await;
    watcher.started().await;
    let asked = Instant::now();
    peer.call(3, "slow").await;
    let answer = peer.receive().await;
    assert_eq!(answer["id"], 3);
    assert_eq!(answer["error"]["code"], -32603);
    assert_eq!(
        answer["error"]["data"],
        json!({ "limit": "requests_in_flight", "value": 2, "retriable": true })
    );
    assert!(asked.elapsed() >= Limits::default().admission_wait);

    // What needs no handler needs no place.
    peer.request(4, "tools/list", json!({})).await;
    assert_eq!(peer.receive().await["result"]["resultType"], "complete");

    peer.cancel(1).await;
    watcher.dropped().await;
    peer.call(5, "slow").await;
    let answer = peer.receive().await;
    assert_eq!(answer["result"]["content"][0]["text"], "slow", "{answer}");
}

#[tokio::test(start_paused = true)]
async fn while_every_place_is_taken_the_next_requests_need_not_wait() {
    let (tool, mut watcher) = hanging("hang");
    let server = slow(limits(|limits| limits.requests_in_flight = 1))
        .tool(tool)
        .start()
        .unwrap();
    let (mut peer, _serving) = connect(&server);
    peer.call(1, "hang").await;
    watcher.started().await;
    peer.call(2, "slow").await;
    peer.receive().await;
    let asked = Instant::now();
    for id in 3..100 {
        peer.call(id, "slow").await;
        let answer = peer.receive().await;
        assert_eq!(answer["error"]["data"]["limit"], "requests_in_flight");
    }
    assert_eq!(asked.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_takes_the_place_that_becomes_free() {
    let release = Arc::new(Notify::new());
    let released = Arc::clone(&release);
    let wait = Tool::new("wait", move |_: NoArgs, _: Cx| {
        let released = Arc::clone(&released);
        async move {
            released.notified().await;
            "released"
        }
    });
    let server = slow(limits(|limits| limits.requests_in_flight = 1))
        .tool(wait.read_only())
        .start()
        .unwrap();
    let (mut peer, _serving) = connect(&server);
    peer.call(1, "wait").await;
    peer.call(2, "slow").await;
    // Half of the wait passes before the first one ends.
    tokio::time::sleep(Limits::default().admission_wait / 2).await;
    release.notify_one();
    assert_eq!(peer.receive().await["id"], 1);
    let answer = peer.receive().await;
    assert_eq!(answer["result"]["content"][0]["text"], "slow", "{answer}");
}

#[tokio::test]
async fn a_burst_of_quick_requests_meets_no_limit() {
    let server = quick(limits(|limits| limits.requests_in_flight = 2))
        .start()
        .unwrap();
    let (mut peer, _serving) = connect(&server);
    let burst: String = (0..200)
        .map(|id| {
            format!(
                "{}\n",
                request(id, "tools/call", json!({ "name": "quick" }))
            )
        })
        .collect();
    peer.write(burst.as_bytes()).await;
    for _ in 0..200 {
        let answer = peer.receive().await;
        assert_eq!(answer["result"]["content"][0]["text"], "quick", "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_reads_late_still_gets_one_answer_each() {
    let gate = Arc::new(Semaphore::new(0));
    let passed = Arc::clone(&gate);
    let large = Tool::new("large", move |_: NoArgs, _: Cx| {
        let passed = Arc::clone(&passed);
        async move {
            drop(passed.acquire().await);
            "x".repeat(10_000)
        }
    });
    let server = server().tool(large.read_only()).start().unwrap();
    let (peer, _serving) = connect(&server);
    let (mut reader, mut writer) = peer.split();
    let sending = lmcp_core::Tasks::default();
    sending.spawn(async move {
        for id in 0..1000 {
            writer
                .request(id, "tools/call", json!({ "name": "large" }))
                .await;
        }
        // Kept open until the test ends.
        std::future::pending::<()>().await
    });
    // Time stands still unless everything waits: by then all places are taken.
    tokio::time::sleep(Duration::from_secs(1)).await;
    gate.add_permits(1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut ids = BTreeSet::new();
    for _ in 0..1000 {
        let answer = reader.receive().await;
        assert!(
            ids.insert(answer["id"].as_i64()),
            "{} came twice",
            answer["id"]
        );
    }
    assert_eq!(ids.len(), 1000);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_nobody_reads_waits() {
    let said = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&said);
    let tool = Tool::new("flood", move |_: NoArgs, cx: Cx| {
        let counts = Arc::clone(&counts);
        async move {
            for number in 0..20_000 {
                cx.log(LoggingLevel::Info, format!("{number:01000}"));
                counts.store(number, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
            "done"
        }
    });
    let server = server().tool(tool.read_only()).start().unwrap();
    let (mut peer, _serving) = connect(&server);
    let meta = json!({ "io.modelcontextprotocol/logLevel": "debug" });
    peer.request(1, "tools/call", json!({ "name": "flood", "_meta": meta }))
        .await;
    // Time stands still unless everything waits.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(said.load(Ordering::Relaxed) < 1000, "{said:?}");
    for number in 0..20_000 {
        let message = peer.receive().await;
        assert_eq!(message["params"]["data"], format!("{number:01000}"));
    }
    assert_eq!(peer.receive().await["id"], 1);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn memory_stays_flat_under_a_line_of_200_megabytes() {
    let output = crate::stdio::probe().arg("flood").output();
    let output = soon(output).await.unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["answer"]["error"]["data"]["limit"], "line_bytes");
    assert_eq!(told["next"]["id"], 1, "the connection lives");
    let grown = told["grown"].as_u64().unwrap();
    crate::support::show("memory: growth under a line of 200 MB", grown, "kB");
    assert!(grown < 40 << 10, "{grown} kB");
}

/// A server with a tool that does not answer in its first turn.
fn slow(limits: Limits) -> Server {
    let tool = Tool::new("slow", |_: NoArgs, _: Cx| async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        "slow"
    });
    server().tool(tool.read_only()).limits(limits)
}

fn quick(limits: Limits) -> Server {
    let tool = Tool::new("quick", |_: NoArgs, _: Cx| async { "quick" });
    server().tool(tool.read_only()).limits(limits)
}
