//! What only shows under pressure: several threads at once, first turns that take long, clients that want it all.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use lmcp_core::{Cx, NoArgs, Resource, Tool, ToolResult};
use lmcp_wire::LoggingLevel;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::{
    support::{hanging, limits, serve, server, soon},
    visitor::{Visitor, puppet},
};

/// A tool whose first turn takes until the test lets it go on; then it waits for ever.
fn slow_to_begin() -> (Tool, mpsc::Receiver<()>, mpsc::Sender<()>, Arc<AtomicUsize>) {
    let (begun, begins) = mpsc::channel();
    let (go, goes) = mpsc::channel::<()>();
    let (goes, begun) = (Mutex::new(goes), Mutex::new(begun));
    let alive = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&alive);
    let (goes, begun) = (Arc::new(goes), Arc::new(begun));
    let tool = Tool::new("slow", move |_: NoArgs, _: Cx| {
        let (goes, begun, counts) = (Arc::clone(&goes), Arc::clone(&begun), Arc::clone(&counts));
        async move {
            struct Alive(Arc<AtomicUsize>);
            impl Drop for Alive {
                fn drop(&mut self) {
                    self.0.fetch_sub(1, Ordering::Release);
                }
            }
            counts.fetch_add(1, Ordering::Release);
            let _alive = Alive(counts);
            let _ = begun.lock().expect("nobody panics").send(());
            // On purpose: a handler that blocks its thread.
            let _ = goes.lock().expect("nobody panics").recv();
            std::future::pending::<&'static str>().await
        }
    });
    (tool.read_only(), begins, go, alive)
}

/// A place that is freed under the lock it needs would hold this for ever.
#[test]
fn a_runtime_can_close_in_the_middle_of_a_first_turn() {
    let (tool, begins, go, _) = slow_to_begin();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let running = runtime.block_on(async {
        let running = serve(server().tool(tool)).await;
        let visitor = Visitor::new(&running).await;
        let mut connection = running.connect().await;
        connection.send(&visitor.call(1, "slow")).await;
        (running, connection)
    });
    begins.recv_timeout(Duration::from_secs(30)).unwrap();
    let (closed, closes) = mpsc::channel();
    std::thread::spawn(move || {
        drop(running);
        drop(runtime);
        let _ = closed.send(());
    });
    go.send(()).unwrap();
    closes
        .recv_timeout(Duration::from_secs(30))
        .expect("it closes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_session_that_ends_in_the_middle_of_a_first_turn_ends_the_call() {
    let (tool, begins, go, alive) = slow_to_begin();
    let running = serve(server().tool(tool)).await;
    let visitor = Visitor::new(&running).await;
    let (mut connection, mut other) = (running.connect().await, running.connect().await);
    // It is there already: who accepts may have to wait behind a handler that blocks its thread. So may the network,
    // unless another thread has something to do.
    assert_eq!(other.ask(&visitor.call(2, "quick")).await.head.status, 200);
    let mut busy = tokio::task::JoinSet::new();
    busy.spawn(async {
        loop {
            tokio::task::yield_now().await;
        }
    });
    connection.send(&visitor.call(1, "slow")).await;
    tokio::task::block_in_place(|| begins.recv_timeout(Duration::from_secs(30)).unwrap());
    assert_eq!(other.ask(&visitor.delete()).await.head.status, 204);
    go.send(()).unwrap();
    connection.head().await;
    soon(async {
        while alive.load(Ordering::Acquire) > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// A refusal must be the whole truth: what has begun is not to be tried again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_call_that_has_begun_is_not_refused_because_other_sessions_came_meanwhile() {
    let (begun, begins) = mpsc::channel();
    let (go, goes) = mpsc::channel::<()>();
    let goes = Arc::new(Mutex::new(goes));
    let slow = Tool::new("slow", move |_: NoArgs, _: Cx| {
        let (begun, goes) = (begun.clone(), Arc::clone(&goes));
        async move {
            let _ = begun.send(());
            // On purpose: a handler that blocks its thread.
            let _ = goes.lock().expect("nobody panics").recv();
            tokio::task::yield_now().await;
            "done"
        }
    });
    let (hang, mut watcher) = hanging("hang");
    let one = limits(|limits| limits.sessions = 1);
    let running = serve(server().tool(slow.writes()).tool(hang).limits(one)).await;
    let (ann, bob) = (Visitor::new(&running).await, Visitor::new(&running).await);
    let (mut first, mut second) = (running.connect().await, running.connect().await);
    // They are there already, and another thread looks after the network: see above.
    for (connection, visitor) in [(&mut first, &ann), (&mut second, &bob)] {
        let answer = connection.ask(&visitor.call(0, "quick")).await;
        assert_eq!(answer.head.status, 200);
    }
    let mut busy = tokio::task::JoinSet::new();
    busy.spawn(async {
        loop {
            tokio::task::yield_now().await;
        }
    });
    first.send(&ann.call(1, "slow")).await;
    tokio::task::block_in_place(|| begins.recv_timeout(Duration::from_secs(30)).unwrap());
    second.send(&bob.call(1, "hang")).await;
    watcher.started().await;
    go.send(()).unwrap();
    let head = first.head().await;
    let answer = first.body(&head).await;
    assert!(answer.contains("done"), "{answer}");
}

/// A handler that falls back when a question fails must not do so because the user cancelled.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cancelled_question_does_not_wake_who_asked() {
    #[derive(Deserialize, JsonSchema)]
    struct Name {
        #[expect(dead_code, reason = "nobody answers")]
        name: String,
    }
    let woken = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&woken);
    let tool = Tool::new("ask", move |_: NoArgs, cx: Cx| {
        let counts = Arc::clone(&counts);
        async move {
            let answer: ToolResult<Name> = cx.ask("name", "Who?").await;
            counts.fetch_add(1, Ordering::Relaxed);
            answer.map(|_| "answered")
        }
    });
    let running = serve(server().tool(tool.read_only())).await;
    let visitor = Visitor::new(&running).await;
    for id in 0..300 {
        let mut connection = running.connect().await;
        connection.open_stream(&visitor.call(id, "ask")).await;
        let asked = connection.next_message().await.json();
        assert_eq!(asked["method"], "elicitation/create");
        running.ask(&visitor.cancel(id)).await;
        let rest = connection.rest().await;
        let told: Vec<_> = rest.iter().map(|said| &said["method"]).collect();
        assert_eq!(told, ["notifications/cancelled"]);
    }
    assert_eq!(woken.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn of_a_batch_only_what_cannot_be_taken_is_refused() {
    let (tool, mut watcher) = hanging("hang");
    let running = serve(server().tool(tool)).await;
    let visitor = Visitor::of(&running, "2025-03-26").await;
    let mut connection = running.connect().await;
    connection.send(&visitor.call(1, "hang")).await;
    watcher.started().await;
    let call = |id: i64| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "quick" } });
    let ping = |id: i64| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
    let batch = json!([call(1), ping(1), call(2), ping(3)]);
    let answers = running.ask(&visitor.send(&batch)).await.json();
    let of = |id: i64, member: &str| {
        let answers = answers.as_array().unwrap().iter();
        answers
            .filter(|answer| answer["id"] == id && answer.get(member).is_some())
            .count()
    };
    assert_eq!(
        (of(1, "error"), of(2, "result"), of(3, "result")),
        (2, 1, 1),
        "{answers}"
    );
    // And what ran can still be stopped.
    running.ask(&visitor.cancel(1)).await;
    watcher.dropped().await;
}

/// What others may come back for is theirs.
#[tokio::test]
async fn a_session_makes_room_among_its_own_streams() {
    let (tool, mut puppet) = puppet("work");
    let loud = Tool::new("loud", |_: NoArgs, cx: Cx| async move {
        cx.log(LoggingLevel::Error, "x".repeat(10_000));
        tokio::task::yield_now().await;
        "loud"
    });
    let small = limits(|limits| limits.replay_total_bytes = 30_000);
    let running = serve(server().tool(tool).tool(loud.read_only()).limits(small)).await;
    let (ann, bob) = (Visitor::new(&running).await, Visitor::new(&running).await);
    let mut connection = running.connect().await;
    connection.send(&ann.call(1, "work")).await;
    puppet.started().await;
    puppet.log("first").await;
    connection.head().await;
    let event = connection.next_message().await;
    drop(connection);
    puppet.finish().await;
    for id in 0..10 {
        let mut connection = running.connect().await;
        connection.open_stream(&bob.call(id, "loud")).await;
        assert_eq!(connection.rest().await.len(), 2);
    }
    let mut again = running.connect().await;
    again.open_stream(&ann.get_after(&event.id)).await;
    let rest = again.rest().await;
    assert_eq!(rest[0]["result"]["content"][0]["text"], "done", "{rest:?}");
}

/// Who has the answer and comes back all the same must not be told that it was lost.
#[tokio::test]
async fn an_answer_that_arrived_is_not_lost() {
    let (tool, mut puppet) = puppet("work");
    let running = serve(server().tool(tool).key([7; 32])).await;
    let visitor = Visitor::new(&running).await;
    let mut connection = running.connect().await;
    connection.send(&visitor.call(1, "work")).await;
    puppet.started().await;
    puppet.log("first").await;
    connection.head().await;
    connection.next_message().await;
    puppet.finish().await;
    let last = connection.next_message().await;
    assert_eq!(last.json()["id"], 1);
    let after = serve(server().key([7; 32])).await;
    for running in [&running, &after] {
        let answer = running.ask(&visitor.get_after(&last.id)).await;
        assert_eq!(answer.head.status, 204);
    }
}

#[tokio::test]
async fn who_does_not_read_keeps_no_place_past_the_deadline() {
    let flood = Tool::new("flood", |_: NoArgs, cx: Cx| async move {
        let text = "x".repeat(1 << 20);
        loop {
            cx.log(LoggingLevel::Error, &text);
            tokio::task::yield_now().await;
        }
        #[expect(unreachable_code, reason = "a handler has a result")]
        "never"
    });
    let flood = flood.read_only().deadline(Duration::from_millis(200));
    let running = serve(server().tool(flood)).await;
    let visitor = Visitor::new(&running).await;
    let mut unread = running.connect().await;
    unread.send(&visitor.call(1, "flood")).await;
    // Its id is free as soon as its time is over, though its stream still waits for a reader.
    soon(async {
        loop {
            let answer = running.ask(&visitor.call(1, "quick")).await.json();
            if answer["result"]["content"][0]["text"] == "quick" {
                return;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn calls_that_run_are_bounded_by_their_memory_too() {
    let (tool, mut watcher) = hanging("hang");
    let few = limits(|limits| limits.memory_bytes = 1 << 20);
    let running = serve(server().tool(tool).limits(few)).await;
    let visitor = Visitor::new(&running).await;
    let mut connections = Vec::new();
    // A call takes 16 KiB besides its message.
    let refused = loop {
        let mut connection = running.connect().await;
        let id = i64::try_from(connections.len()).unwrap();
        connection.send(&visitor.call(id, "hang")).await;
        tokio::select! {
            head = connection.head() => {
                let body = connection.body(&head).await;
                break serde_json::from_str::<serde_json::Value>(&body).unwrap();
            }
            () = watcher.started() => connections.push(connection),
        }
        assert!(connections.len() < 60, "the memory is bounded");
    };
    assert_eq!(
        refused["error"]["data"],
        json!({ "limit": "memory_bytes", "value": 1 << 20, "retriable": true })
    );
    running.ask(&visitor.cancel(0)).await;
    watcher.dropped().await;
}

#[tokio::test]
async fn what_a_session_watches_is_bounded_by_its_size_too() {
    let few = limits(|limits| limits.watched_bytes = 20);
    let server = server().resource(Resource::text("test://a", "a", "text"));
    let running = serve(server.limits(few)).await;
    let visitor = Visitor::new(&running).await;
    let watched = running.ask(&visitor.subscribe("test://a")).await.json();
    assert_eq!(watched["result"], json!({}));
    let refused = running
        .ask(&visitor.subscribe("test://a/long/one/"))
        .await
        .json();
    assert_eq!(
        refused["error"]["data"],
        json!({ "limit": "watched_bytes", "value": 20 })
    );
}

#[tokio::test]
async fn keep_alive_can_be_never() {
    let (tool, mut puppet) = puppet("work");
    let never = limits(|limits| limits.keep_alive = Duration::MAX);
    let running = serve(server().tool(tool).limits(never)).await;
    let visitor = Visitor::new(&running).await;
    let mut connection = running.connect().await;
    connection.send(&visitor.call(1, "work")).await;
    puppet.started().await;
    puppet.log("word").await;
    connection.head().await;
    connection.next_message().await;
    puppet.finish().await;
    assert_eq!(connection.rest().await.len(), 1);
}
