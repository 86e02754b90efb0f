//! The streams of sessions: how they begin and end, what goes on them, and who reads.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lmcp_core::{Cx, NoArgs, Resource, Server, Tool, ToolResult};
use lmcp_wire::LoggingLevel;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use crate::{
    support::{hanging, hanging_after, limits, serve, server, soon},
    visitor::{NEWEST, Visitor, only_connection, puppet, sessionless},
};

#[tokio::test]
async fn only_the_newest_revision_begins_a_stream_with_a_name_alone() {
    let (tool, mut watcher) = hanging_after("hang", |cx| cx.log(LoggingLevel::Error, "word"));
    let running = serve(changing().tool(tool)).await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST] {
        let visitor = Visitor::of(&running, version).await;
        let mut answer = running.connect().await;
        answer.open_stream(&visitor.call(1, "hang")).await;
        watcher.started().await;
        let mut standing = running.connect().await;
        standing.open_stream(&visitor.get()).await;
        running.ask(&visitor.call(2, "grow")).await;
        for stream in [&mut answer, &mut standing] {
            let first = stream.next_event().await.unwrap();
            assert!(!first.id.is_empty(), "{version}");
            assert_eq!(first.data.is_empty(), version == NEWEST, "{version}");
            if version == NEWEST {
                let second = stream.next_event().await.unwrap();
                assert_ne!(first.id, second.id);
                assert!(!second.data.is_empty());
            }
        }
    }
}

#[tokio::test]
async fn a_call_that_takes_long_becomes_a_stream_that_can_be_resumed() {
    let (tool, mut puppet) = puppet("work");
    let quick = limits(|limits| limits.stream_after = Duration::ZERO);
    let running = serve(server().tool(tool).limits(quick)).await;
    let visitor = Visitor::new(&running).await;
    let mut connection = running.connect().await;
    connection.open_stream(&visitor.call(1, "work")).await;
    puppet.started().await;
    let name = connection.next_event().await.unwrap();
    assert_eq!(name.data, "");
    drop(connection);
    puppet.finish().await;
    let mut again = running.connect().await;
    again.open_stream(&visitor.get_after(&name.id)).await;
    assert_eq!(
        again.rest().await[0]["result"]["content"][0]["text"],
        "done"
    );
}

#[tokio::test]
async fn a_second_stream_takes_the_place_of_the_first() {
    let running = serve(changing()).await;
    let visitor = Visitor::new(&running).await;
    let (mut first, mut second) = (running.connect().await, running.connect().await);
    first.open_stream(&visitor.get()).await;
    second.open_stream(&visitor.get()).await;
    // L36: the first ends as a stream should, so that a client does not take it for a failure.
    assert_eq!(first.rest().await, Vec::<Value>::new());
    running.ask(&visitor.call(1, "grow")).await;
    let heard = second.next_message().await.json();
    assert_eq!(heard["method"], "notifications/tools/list_changed");
}

// L35
#[tokio::test]
async fn what_changes_between_two_streams_is_told_on_the_second() {
    let one = limits(|limits| limits.connections = 1);
    let running = serve(changing().limits(one)).await;
    let mut first = running.connect().await;
    let visitor = Visitor::on(&mut first).await;
    first.ask(&visitor.subscribe("test://a")).await;
    first.open_stream(&visitor.get()).await;
    assert_eq!(first.next_event().await.unwrap().data, "");
    drop(first);
    let mut between = only_connection(&running).await;
    between.ask(&visitor.call(1, "grow")).await;
    between.ask(&visitor.call(2, "touch")).await;
    between.open_stream(&visitor.get()).await;
    let heard = [
        between.next_message().await.json(),
        between.next_message().await.json(),
    ];
    assert_eq!(heard[0]["method"], "notifications/tools/list_changed");
    assert_eq!(heard[1]["params"]["uri"], "test://a");
}

// L35
#[tokio::test]
async fn what_changes_before_the_first_stream_is_told_on_it() {
    let running = serve(changing()).await;
    let mut connection = running.connect().await;
    for _ in 0..200 {
        // However soon after the handshake that is.
        let visitor = Visitor::on(&mut connection).await;
        connection.ask(&visitor.call(1, "grow")).await;
        let mut first = running.connect().await;
        first.open_stream(&visitor.get()).await;
        let heard = first.next_message().await.json();
        assert_eq!(heard["method"], "notifications/tools/list_changed");
    }
}

// L35: what was written to a connection that was gone already is told again to who says what came last.
#[tokio::test]
async fn what_a_broken_stream_swallowed_is_told_again() {
    let running = serve(changing()).await;
    let visitor = Visitor::new(&running).await;
    let mut first = running.connect().await;
    first.open_stream(&visitor.get()).await;
    let name = first.next_event().await.unwrap();
    drop(first);
    running.ask(&visitor.call(1, "grow")).await;
    let mut second = running.connect().await;
    second.open_stream(&visitor.get_after(&name.id)).await;
    let heard = second.next_message().await.json();
    assert_eq!(heard["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn silence_is_broken_by_comments() {
    let (tool, mut watcher) = hanging("hang");
    let short = limits(|limits| {
        limits.keep_alive = Duration::from_millis(10);
        limits.stream_after = Duration::ZERO;
    });
    let running = serve(server().tool(tool).limits(short)).await;
    for version in ["2025-03-26", NEWEST] {
        let visitor = Visitor::of(&running, version).await;
        for post in [visitor.call(1, "hang"), visitor.get()] {
            let mut stream = running.connect().await;
            stream.open_stream(&post).await;
            let mut comments = 0;
            while comments < 3 {
                let said = stream.event().await.unwrap();
                comments += usize::from(said.starts_with(':'));
            }
        }
    }
    assert!(watcher.is_running());
}

// L22
#[tokio::test]
async fn a_handler_whose_stream_nobody_reads_waits() {
    let said = Arc::new(AtomicUsize::new(0));
    let go = Arc::new(Notify::new());
    let (counts, begin) = (Arc::clone(&said), Arc::clone(&go));
    let tool = Tool::new("flood", move |_: NoArgs, cx: Cx| {
        let (counts, begin) = (Arc::clone(&counts), Arc::clone(&begin));
        async move {
            cx.log(LoggingLevel::Error, "a stream, please");
            begin.notified().await;
            let text = "x".repeat(1 << 20);
            for _ in 0..200 {
                cx.log(LoggingLevel::Error, &text);
                counts.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
            "done"
        }
    });
    let running = serve(server().tool(tool.read_only())).await;
    let visitor = Visitor::new(&running).await;
    let mut unread = running.connect().await;
    unread.open_stream(&visitor.call(1, "flood")).await;
    go.notify_one();
    // Enough turns for the flood to fill what the system buffers.
    let mut other = running.connect().await;
    for id in 0..200 {
        other.ask(&visitor.call(id + 10, "quick")).await;
    }
    let said = said.load(Ordering::Relaxed);
    assert!(said < 64, "{said} MiB are buffered");
}

/// A client that does not read must not hold a handler for ever.
#[tokio::test]
async fn a_deadline_holds_though_nobody_reads() {
    let (started, mut starts) = mpsc::unbounded_channel();
    let (dropped, mut drops) = mpsc::unbounded_channel::<()>();
    let tool = Tool::new("flood", move |_: NoArgs, cx: Cx| {
        let (started, dropped) = (started.clone(), dropped.clone());
        async move {
            let _held = Said(dropped);
            let _ = started.send(());
            let text = "x".repeat(1 << 20);
            loop {
                cx.log(LoggingLevel::Error, &text);
                tokio::task::yield_now().await;
            }
            #[expect(unreachable_code, reason = "a handler has a result")]
            "never"
        }
    });
    let short = Duration::from_millis(200);
    let running = serve(server().tool(tool.read_only().deadline(short))).await;
    let visitor = Visitor::new(&running).await;
    let mut unread = running.connect().await;
    unread.send(&visitor.call(1, "flood")).await;
    soon(starts.recv()).await.unwrap();
    soon(drops.recv()).await.unwrap();
}

// L16: who gives others their turn between two words must not take them all.
#[tokio::test]
async fn a_handler_that_never_stops_talking_delays_nobody() {
    let stop = Arc::new(AtomicUsize::new(0));
    let stopped = Arc::clone(&stop);
    let (started, mut starts) = mpsc::unbounded_channel();
    let tool = Tool::new("talk", move |_: NoArgs, cx: Cx| {
        let (stopped, started) = (Arc::clone(&stopped), started.clone());
        async move {
            let _ = started.send(());
            for _ in 0..100_000 {
                cx.log(LoggingLevel::Error, "word");
                tokio::task::yield_now().await;
                if stopped.load(Ordering::Relaxed) > 0 {
                    return "stopped";
                }
            }
            "nobody could stop it"
        }
    });
    let running = serve(server().tool(tool.read_only())).await;
    let visitor = Visitor::new(&running).await;
    let mut talking = running.connect().await;
    talking.send(&visitor.call(1, "talk")).await;
    soon(starts.recv()).await;
    let ping = running.ask(&visitor.request(2, "ping", json!({}))).await;
    assert_eq!(ping.json()["result"], json!({}));
    stop.store(1, Ordering::Relaxed);
    talking.head().await;
    let rest = talking.rest().await;
    assert_eq!(
        rest.last().unwrap()["result"]["content"][0]["text"],
        "stopped"
    );
}

// L22
#[tokio::test]
async fn messages_that_are_dropped_are_counted() {
    let burst = Tool::new("burst", |_: NoArgs, cx: Cx| async move {
        for number in 0..200 {
            cx.log(
                LoggingLevel::Error,
                format!("{number} {}", "x".repeat(4000)),
            );
        }
        tokio::task::yield_now().await;
        "done"
    });
    let running = serve(server().tool(burst.read_only())).await;
    let visitor = Visitor::new(&running).await;
    let mut connection = running.connect().await;
    connection.open_stream(&visitor.call(1, "burst")).await;
    let mut rest = connection.rest().await;
    assert_eq!(rest.pop().unwrap()["result"]["content"][0]["text"], "done");
    let words = |said: &Value| {
        said["params"]["data"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let dropped: usize = rest
        .iter()
        .filter_map(|said| {
            words(said)
                .split_once(" log messages were dropped")?
                .0
                .parse::<usize>()
                .ok()
        })
        .sum();
    let heard = rest
        .iter()
        .filter(|said| words(said).contains("xxx"))
        .count();
    assert_eq!(
        heard + dropped,
        200,
        "{heard} were heard and {dropped} counted as dropped"
    );
}

#[tokio::test]
async fn a_cancelled_call_is_stopped_and_gets_no_answer() {
    let (quiet, mut silent) = hanging("quiet");
    let (loud, mut spoken) = hanging_after("loud", |cx| cx.log(LoggingLevel::Error, "word"));
    let running = serve(server().tool(quiet).tool(loud)).await;
    let visitor = Visitor::new(&running).await;

    let mut connection = running.connect().await;
    connection.send(&visitor.call(1, "quiet")).await;
    silent.started().await;
    assert_eq!(running.ask(&visitor.cancel(1)).await.head.status, 202);
    silent.dropped().await;
    let head = connection.head().await;
    assert_eq!((head.status, &*connection.body(&head).await), (202, ""));

    connection.open_stream(&visitor.call(2, "loud")).await;
    spoken.started().await;
    connection.next_message().await;
    running.ask(&visitor.cancel(2)).await;
    spoken.dropped().await;
    assert_eq!(connection.rest().await, Vec::<Value>::new());
    // The id and the connection can be used again.
    let answer = connection.ask(&visitor.call(2, "quick")).await;
    assert_eq!(answer.json()["result"]["content"][0]["text"], "quick");
}

#[tokio::test]
async fn who_is_to_come_back_is_told_when_and_finds_the_rest() {
    let (tool, mut puppet) = puppet("work");
    let running = serve(server().tool(tool)).await;
    let visitor = Visitor::new(&running).await;
    let mut connection = running.connect().await;
    connection.send(&visitor.call(1, "work")).await;
    puppet.started().await;
    puppet.log("before").await;
    puppet
        .act(|cx| cx.retry_after(Duration::from_millis(1500)))
        .await;
    let head = connection.head().await;
    assert_eq!(head.get("content-type"), Some("text/event-stream"));
    assert_eq!(connection.next_event().await.unwrap().data, "");
    let before = connection.next_event().await.unwrap();
    assert_eq!(before.json()["params"]["data"], "before");
    let pause = connection.next_event().await.unwrap();
    assert_eq!((pause.retry.as_deref(), &*pause.data), (Some("1500"), ""));
    assert!(
        connection.next_event().await.is_none(),
        "the stream is closed"
    );
    puppet.log("after").await;
    puppet.finish().await;
    connection.open_stream(&visitor.get_after(&before.id)).await;
    let rest = connection.rest().await;
    assert_eq!(rest[0]["params"]["data"], "after");
    assert_eq!(rest[1]["result"]["content"][0]["text"], "done");
    assert_eq!(rest.len(), 2);
}

#[tokio::test]
async fn who_cannot_come_back_is_not_told_to() {
    let later = Tool::new("later", |_: NoArgs, cx: Cx| async move {
        cx.retry_after(Duration::from_secs(1));
        tokio::task::yield_now().await;
        "done"
    });
    let running = serve(server().tool(later.read_only())).await;
    let old = Visitor::of(&running, "2025-06-18").await;
    let new = Visitor::new(&running).await;
    for post in [
        old.call(1, "later"),
        new.call(1, "later").with("accept", "application/json"),
        crate::support::call("later"),
        sessionless("tools/call", json!({ "name": "later" })),
    ] {
        let answer = running.ask(&post).await;
        let kind = answer.head.get("content-type");
        assert_eq!(kind, Some("application/json"), "{}", answer.body);
        assert_eq!(answer.json()["result"]["content"][0]["text"], "done");
    }
}

#[tokio::test]
async fn when_the_server_stops_open_calls_are_answered_and_streams_end() {
    let (tool, mut puppet) = puppet("work");
    let mut running = serve(server().tool(tool)).await;
    let visitor = Visitor::new(&running).await;
    let (mut standing, mut calling) = (running.connect().await, running.connect().await);
    standing.open_stream(&visitor.get()).await;
    calling.send(&visitor.call(1, "work")).await;
    puppet.started().await;
    running.stop();
    assert_eq!(standing.rest().await, Vec::<Value>::new());
    puppet.log("nearly").await;
    puppet.finish().await;
    calling.head().await;
    let rest = calling.rest().await;
    assert_eq!(rest.last().unwrap()["result"]["content"][0]["text"], "done");
    running.ended().await.unwrap();
}

/// Says when it is dropped.
struct Said(mpsc::UnboundedSender<()>);

impl Drop for Said {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// Tools that change what the server has to tell.
fn changing() -> Server {
    let grow = Tool::new("grow", |_: NoArgs, cx: Cx| async move {
        let new = Tool::new("new", |_: NoArgs, _: Cx| async { "new" });
        cx.server().remove_tool("new");
        cx.server().add_tool(new.read_only())?;
        ToolResult::Ok("grown")
    });
    let shrink = Tool::new("shrink", |_: NoArgs, cx: Cx| async move {
        cx.server().remove_tool("new");
        "shrunk"
    });
    let touch = Tool::new("touch", |_: NoArgs, cx: Cx| async move {
        cx.server().resource_updated("test://a");
        "touched"
    });
    server()
        .tool(grow.writes())
        .tool(shrink.writes())
        .tool(touch.writes())
        .resource(Resource::text("test://a", "a", "text"))
}
