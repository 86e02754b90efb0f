//! The memory that callers share: what does not fit is refused in words, and everything is given back.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use lmcp_core::{Caller, Cx, Handle, NoArgs, Resource, Server, Tool, ToolResult, streams};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{Peer, Serving, hanging, limits, server, soon};

const BUDGET: usize = 3 << 20;

#[derive(Deserialize, JsonSchema)]
struct Load {
    #[expect(dead_code, reason = "only its size matters")]
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    #[expect(dead_code, reason = "nobody answers")]
    name: String,
}

async fn hold(_: Load, _: Cx) -> String {
    std::future::pending().await
}

async fn take(_: Load, _: Cx) -> &'static str {
    "taken"
}

async fn ask(_: NoArgs, cx: Cx) -> ToolResult<&'static str> {
    let _: Name = cx.ask("name", "Who?").await?;
    Ok("asked")
}

async fn long(_: NoArgs, _: Cx) -> String {
    "x".repeat(30 << 10)
}

async fn after_a_turn(_: NoArgs, _: Cx) -> &'static str {
    tokio::task::yield_now().await;
    "done"
}

fn with_tools() -> Server {
    server()
        .tool(Tool::new("hold", hold).read_only())
        .tool(Tool::new("take", take).read_only())
        .tool(Tool::new("ask", ask).read_only())
        .tool(Tool::new("long", long).read_only())
        .tool(Tool::new("turn", after_a_turn).read_only())
        .resource(Resource::text("test://a", "a", "text"))
}

fn small() -> Handle {
    let limits = limits(|limits| limits.memory_bytes = BUDGET);
    with_tools().limits(limits).start().expect("it is right")
}

/// A connection of a user that the kernel knows by this number.
fn connect_as(uid: u32, server: &Handle) -> (Peer, Serving) {
    let (near, far) = tokio::io::duplex(64 << 10);
    let (reader, writer) = tokio::io::split(far);
    let (server, caller) = (server.clone(), Caller::process(uid, None));
    let serving =
        Serving::start(async move { server.serve(streams(reader, writer, caller)).await });
    let (reader, writer) = tokio::io::split(near);
    (Peer::new(reader, writer), serving)
}

fn load(tool: &str, bytes: usize) -> Value {
    json!({ "name": tool, "arguments": { "text": "x".repeat(bytes) } })
}

fn is_no_room(error: &Value) -> bool {
    error["code"] == -32603
        && error["data"]["limit"] == "memory_bytes"
        && error["data"]["retriable"] == true
}

/// Waits until nothing is reserved any more.
async fn all_given_back(server: &Handle) {
    soon(async {
        while server.budget().used() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_change_something_and_finds_no_memory_has_not_begun() {
    let begun = Arc::new(AtomicU32::new(0));
    let counts = Arc::clone(&begun);
    let write = Tool::new("write", move |_: NoArgs, _: Cx| {
        counts.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<&'static str>()
    });
    let limits = limits(|limits| limits.memory_bytes = BUDGET);
    let server = server().tool(write.writes()).limits(limits);
    let server = server.start().expect("it is right");
    let all = server.budget().account("somebody else").take(BUDGET);
    let (mut peer, _serving) = connect_as(1001, &server);
    peer.call(1, "write").await;
    let answer = peer.receive().await;
    assert!(is_no_room(&answer["error"]), "{answer}");
    assert_eq!(
        begun.load(Ordering::SeqCst),
        0,
        "a refused call did something"
    );
    drop(all);
}

// D5
#[tokio::test(start_paused = true)]
async fn calls_that_do_not_fit_are_refused_and_their_connection_goes_on() {
    let server = small();
    let (mut peer, serving) = connect_as(1, &server);
    for id in 1..=8 {
        peer.request(id, "tools/call", load("hold", 512 << 10))
            .await;
    }
    // A message takes its size twice, raw and read: two of these fit into two thirds of the budget.
    // They are read two at a time, so sometimes only one finds room.
    for _ in 0..6 {
        let answer = peer.receive().await;
        assert!(is_no_room(&answer["error"]), "{answer}");
    }
    assert!(server.budget().used() <= BUDGET);
    peer.call(9, "turn").await;
    let mut answer = peer.receive().await;
    if answer["id"] != 9 {
        assert!(is_no_room(&answer["error"]), "{answer}");
        answer = peer.receive().await;
    }
    assert_eq!(answer["id"], 9);
    peer.finish().await;
    drop(serving);
    all_given_back(&server).await;
}

// D5
#[tokio::test(start_paused = true)]
async fn one_caller_who_takes_its_share_leaves_room_for_the_next() {
    let server = small();
    let (mut greedy, _serving) = connect_as(1, &server);
    for id in 1..=4 {
        greedy
            .request(id, "tools/call", load("hold", 512 << 10))
            .await;
    }
    for _ in 0..2 {
        assert!(is_no_room(&greedy.receive().await["error"]));
    }
    let (mut other, _serving) = connect_as(2, &server);
    other
        .request(1, "tools/call", load("take", 256 << 10))
        .await;
    let answer = other.receive().await;
    assert_eq!(answer["result"]["content"][0]["text"], "taken", "{answer}");
}

// D5
#[tokio::test(start_paused = true)]
async fn lines_that_never_end_are_let_go_of_when_memory_is_short() {
    let server = small();
    let mut peers = Vec::new();
    for _ in 0..8 {
        let (mut peer, serving) = connect_as(1, &server);
        peer.write(&vec![b' '; 900 << 10]).await;
        peers.push((peer, serving));
    }
    let (mut last, _serving) = peers.pop().unwrap();
    let answer = last.receive().await;
    assert!(is_no_room(&answer["error"]), "{answer}");
    assert!(server.budget().used() <= BUDGET);
    last.write(b"\n").await;
    last.call(1, "turn").await;
    assert_eq!(
        last.receive().await["id"],
        1,
        "the rest of the line is skipped"
    );
}

// D5
#[tokio::test(start_paused = true)]
async fn json_that_would_grow_beyond_the_budget_is_never_read() {
    let server = small();
    let (mut peer, _serving) = connect_as(1, &server);
    let lists = vec![json!([1]); 100_000];
    peer.request(
        1,
        "tools/call",
        json!({ "name": "take", "arguments": { "text": lists } }),
    )
    .await;
    let answer = peer.receive().await;
    assert_eq!(answer["id"], 1);
    assert_eq!(answer["error"]["data"]["limit"], "memory_bytes", "{answer}");
    assert_eq!(answer["error"]["data"]["retriable"], false, "it never fits");
}

// D5
#[tokio::test(start_paused = true)]
async fn subscriptions_are_counted() {
    let server = small();
    let long = |at: i64| format!("test://a/{at}{}/", "x".repeat(8_000));
    let mut refused = 0;
    let mut peers = Vec::new();
    for _ in 0..60 {
        let (mut peer, serving) = connect_as(1, &server);
        peer.shake_hands("2025-11-25").await;
        for at in 1..8 {
            peer.ask(at, "resources/subscribe", json!({ "uri": long(at) }))
                .await;
            let answer = peer.receive().await;
            refused += usize::from(is_no_room(&answer["error"]));
        }
        peers.push((peer, serving));
    }
    assert!((70..420).contains(&refused), "{refused}");
    assert!(server.budget().used() <= BUDGET);
    drop(peers);
    all_given_back(&server).await;
}

// D4
#[tokio::test(start_paused = true)]
async fn questions_that_wait_take_no_place_among_running_calls() {
    let limits = limits(|limits| {
        limits.requests_in_flight = 3;
        limits.questions = 5;
    });
    let server = with_tools().limits(limits).start().unwrap();
    let (mut peer, _serving) = connect_as(1, &server);
    peer.shake_hands("2025-11-25").await;
    for id in 1..=3 {
        peer.ask_tool(id, "ask").await;
        assert_eq!(peer.receive().await["method"], "elicitation/create");
    }
    peer.ask_tool(4, "turn").await;
    assert_eq!(peer.receive().await["result"]["content"][0]["text"], "done");
    peer.ask_tool(5, "ask").await;
    let answer = peer.receive().await;
    assert_eq!(answer["error"]["data"]["retriable"], true, "{answer}");
}

// D4
#[tokio::test(start_paused = true)]
async fn one_caller_cannot_take_all_places_for_questions() {
    let limits = limits(|limits| limits.questions = 6);
    let server = with_tools().limits(limits).start().unwrap();
    let (mut greedy, _first) = connect_as(1, &server);
    greedy.shake_hands("2025-11-25").await;
    let mut refused = Value::Null;
    for id in 1..=6 {
        greedy.ask_tool(id, "ask").await;
        let said = greedy.receive().await;
        if said["method"] != "elicitation/create" {
            refused = said;
        }
    }
    assert_eq!(refused["error"]["data"]["limit"], "questions", "{refused}");
    let (mut other, _second) = connect_as(2, &server);
    other.shake_hands("2025-11-25").await;
    other.ask_tool(1, "ask").await;
    assert_eq!(other.receive().await["method"], "elicitation/create");
}

// D8
#[tokio::test(start_paused = true)]
async fn what_ended_calls_held_is_given_back() {
    let server = small();
    let (hanging, mut watcher) = hanging("hangs");
    server.add_tool(hanging).unwrap();
    let client = server.client();
    for _ in 0..20 {
        let done = client
            .call_tool("take", json!({ "text": "x".repeat(400 << 10) }))
            .await;
        assert!(done.is_ok(), "{done:?}");
    }
    let (mut peer, serving) = connect_as(1, &server);
    peer.call(1, "hangs").await;
    watcher.started().await;
    peer.cancel(1).await;
    watcher.dropped().await;
    drop((peer, serving));
    all_given_back(&server).await;
}

// Errors that repeat what a peer said were answers of any size that nobody counted.
#[tokio::test(start_paused = true)]
async fn an_error_repeats_only_the_beginning_of_what_was_sent() {
    let server = small();
    let (mut peer, _serving) = connect_as(1, &server);
    let long = "\u{1}".repeat(100_000);
    for (method, params) in [
        ("resources/read", json!({ "uri": format!("test://{long}") })),
        ("tools/call", json!({ "name": long })),
        ("prompts/get", json!({ "name": long })),
        ("no/such", json!({ "name": long })),
        (&*long, json!({})),
    ] {
        peer.request(1, method, params).await;
        let answer = peer.receive().await;
        assert!(answer["error"]["code"].is_i64());
        assert!(answer.to_string().len() < 8192, "{method:.20}");
    }
}

// Answers that wait in a connection's buffer were not counted.
#[tokio::test(start_paused = true)]
async fn a_caller_that_reads_nothing_is_answered_no_more_when_it_holds_its_share() {
    let server = small();
    let mut peers = Vec::new();
    for _ in 0..200 {
        let (mut peer, serving) = connect_as(1, &server);
        for id in 0..20 {
            peer.request(id, "tools/call", json!({ "name": "long" }))
                .await;
        }
        peers.push((peer, serving));
        tokio::task::yield_now().await;
    }
    // Let the clock run, so that whoever waits for room has waited.
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let held = server.budget().used();
    assert!(held < BUDGET + BUDGET / 2, "{held}");
    let (mut other, _serving) = connect_as(2, &server);
    other.call(1, "turn").await;
    assert_eq!(other.receive().await["id"], 1);
}

/// A batch of requests, as 2025-03-26 has them.
fn batch(calls: impl Iterator<Item = (&'static str, Value)>) -> Value {
    calls
        .zip(1..)
        .map(|((method, params), id)| {
            json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
        })
        .collect()
}

fn call(tool: &str) -> (&'static str, Value) {
    ("tools/call", json!({ "name": tool }))
}

// The line that the answers to a batch become was not counted, and a batch of many took twice the share of its caller.
#[tokio::test(start_paused = true)]
async fn a_batch_whose_answers_do_not_fit_is_told_so_in_it() {
    let server = small();
    let (mut peer, serving) = connect_as(1, &server);
    peer.shake_hands("2025-03-26").await;
    peer.send(&batch((0..200).map(|_| call("long")))).await;
    let answers = peer.receive().await;
    let answers = answers.as_array().expect("one line for all");
    assert_eq!(answers.len(), 200);
    let refused = answers
        .iter()
        .filter(|answer| is_no_room(&answer["error"]))
        .count();
    let given: Vec<_> = answers
        .iter()
        .filter(|answer| answer["error"].is_null())
        .collect();
    assert_eq!(given.len() + refused, 200);
    let length: usize = given.iter().map(|answer| answer.to_string().len()).sum();
    // Each is in memory twice while the line is written.
    assert!((BUDGET / 4..BUDGET / 2).contains(&length), "{length}");
    peer.finish().await;
    drop(serving);
    all_given_back(&server).await;
}

// Small answers are counted nowhere else: batches that waited for one slow call each held any number of them.
#[tokio::test(start_paused = true)]
async fn small_answers_that_wait_for_the_rest_of_their_batch_are_counted() {
    let server = small();
    let (mut peer, serving) = connect_as(1, &server);
    peer.shake_hands("2025-03-26").await;
    let hold = ("tools/call", load("hold", 1));
    let calls = [hold]
        .into_iter()
        .chain((0..200).map(|_| call(&"x".repeat(400))));
    peer.send(&batch(calls)).await;
    soon(async {
        while server.budget().used() < 200 * 2 * 400 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop((peer, serving));
    all_given_back(&server).await;
}

// D45: calls that ended together each held an answer that was too small to be counted.
#[tokio::test(start_paused = true)]
async fn small_answers_that_wait_for_a_reader_are_counted() {
    let go = Arc::new(tokio::sync::Semaphore::new(0));
    let waits = Arc::clone(&go);
    let tool = Tool::new("wait", move |_: NoArgs, _: Cx| {
        let waits = Arc::clone(&waits);
        async move {
            let _ = waits.acquire().await;
            "x".repeat(3_000)
        }
    });
    let roomy = limits(|limits| limits.memory_bytes = 64 << 20);
    let server = with_tools().tool(tool.read_only()).limits(roomy);
    let server = server.start().expect("it is right");
    let (mut peer, serving) = connect_as(1, &server);
    for id in 0..250 {
        peer.call(id, "wait").await;
    }
    peer.call(250, "turn").await;
    assert_eq!(peer.receive().await["id"], 250);
    go.add_permits(1_000);
    // One answer is read: all calls have had their turn.
    assert!(peer.receive().await["id"].is_i64());
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    let used = server.budget().used();
    // Not those in the pipe, which holds 64 KiB, and in the buffer of the peer.
    assert!(used > 200 * 3_000, "{used} bytes of 250 answers");
    drop((peer, serving));
    all_given_back(&server).await;
}

// Answers to batches that are there at once did not wait for a reader: any number of batches was taken in.
#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_no_answers_to_batches_is_not_read_from() {
    let server = small();
    let (mut peer, _serving) = connect_as(1, &server);
    peer.shake_hands("2025-03-26").await;
    let pings = batch((0..200).map(|_| ("ping", json!({}))));
    let flood = async {
        for _ in 0..1_000 {
            peer.send(&pings).await;
        }
    };
    let taken = tokio::time::timeout(std::time::Duration::from_secs(60), flood).await;
    assert!(taken.is_err(), "1,000 batches were taken in");
}

/// Where one thread runs everything, and its one thread for what blocks is taken.
fn with_the_thread_beside_taken(test: impl AsyncFnOnce(std::sync::mpsc::Sender<()>)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .expect("a runtime can be made");
    let (free, taken) = std::sync::mpsc::channel();
    runtime.block_on(async {
        tokio::task::spawn_blocking(move || taken.recv());
        test(free).await;
    });
}

// Eight megabytes took up to 90 ms of the thread that all callers share.
#[test]
fn a_long_message_is_read_beside_the_thread_that_all_callers_share() {
    with_the_thread_beside_taken(async |free| {
        let server = with_tools().start().expect("it is right");
        let (mut long, _one) = connect_as(1, &server);
        let (mut short, _other) = connect_as(2, &server);
        long.request(1, "tools/call", load("take", 1 << 20)).await;
        for id in 2..20 {
            short.request(id, "tools/call", load("take", 10)).await;
            assert_eq!(short.receive().await["id"], id);
        }
        let mut answer = std::pin::pin!(long.receive());
        tokio::select! {
            biased;
            early = answer.as_mut() => panic!("it was read by the thread of all: {early}"),
            () = tokio::task::yield_now() => {}
        }
        free.send(()).unwrap();
        assert_eq!(answer.await["id"], 1);
    });
}
