//! The memory that callers share, over HTTP: what does not fit is refused, its connection goes on, and all is given back.

use lmcp_core::{Cx, Limits, NoArgs, Resource, Server, Tool, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    support::{
        Connection, Post, Running, call, hanging, limits, request, serve, serve_as, server, soon,
    },
    visitor::Visitor,
};

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

async fn take(_: Load, _: Cx) -> &'static str {
    "taken"
}

async fn large(_: NoArgs, _: Cx) -> String {
    "x".repeat(200 << 10)
}

async fn ask(_: NoArgs, cx: Cx) -> ToolResult<&'static str> {
    let _: Name = cx.ask("name", "Who?").await?;
    Ok("asked")
}

fn with_tools(change: impl FnOnce(&mut Limits)) -> Server {
    server()
        .tool(Tool::new("take", take).read_only())
        .tool(Tool::new("large", large).read_only())
        .tool(Tool::new("ask", ask).read_only())
        .limits(limits(|limits| {
            limits.memory_bytes = BUDGET;
            change(limits);
        }))
}

/// A call whose body is about this long.
fn load(bytes: usize) -> Post {
    let arguments = json!({ "text": "x".repeat(bytes) });
    request(
        "tools/call",
        json!({ "name": "take", "arguments": arguments }),
    )
    .with("mcp-name", "take")
}

/// Waits until nothing is reserved but so much.
async fn given_back_to(running: &Running, bytes: usize) {
    soon(async {
        while running.budget.used() > bytes {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_default()
}

/// Sends bodies that stop before their end, each from a connection of its own, until one is refused: the others hold what
/// they sent.
async fn fill(running: &Running, post: &Post) -> Vec<Connection> {
    let mut halves = Vec::new();
    loop {
        let before = running.budget.used();
        let mut half = running.connect().await;
        half.write(post.head(running.address).as_bytes()).await;
        let body = post.body().as_bytes();
        half.write(&body[..body.len() - 10]).await;
        let is_held = async {
            while running.budget.used() < before + body.len() - 10 {
                tokio::task::yield_now().await;
            }
        };
        // One that is refused is never held: the server has waited for room long before this.
        let patience = std::time::Duration::from_secs(5);
        if tokio::time::timeout(patience, is_held).await.is_err() {
            return halves;
        }
        halves.push(half);
    }
}

// D5
#[tokio::test]
async fn a_body_that_does_not_fit_is_refused_and_its_connection_goes_on() {
    let running = serve(with_tools(|_| {})).await;
    let halves = fill(&running, &load(300 << 10)).await;
    assert!((3..9).contains(&halves.len()), "{}", halves.len());
    let mut late = running.connect().await;
    let refused = late.ask(&load(300 << 10)).await;
    assert_eq!(refused.head.status, 503);
    assert_eq!(refused.head.get("retry-after"), Some("1"));
    let error = &refused.json()["error"];
    assert_eq!(error["code"], -32603);
    assert_eq!(error["data"]["limit"], "memory_bytes");
    assert_eq!(error["data"]["retriable"], true);
    assert!(running.budget.used() <= BUDGET);
    let small = late.ask(&load(10)).await;
    assert_eq!(text(&small.json()), "taken", "the connection goes on");
    drop((halves, late));
    given_back_to(&running, 0).await;
}

// D5
#[tokio::test]
async fn somebody_who_announces_much_and_sends_little_holds_little() {
    let running = serve(with_tools(|_| {})).await;
    let mut silent = Vec::new();
    for _ in 0..16 {
        let mut connection = running.connect().await;
        let head = load(1 << 20).head(running.address);
        connection.write(head.as_bytes()).await;
        silent.push(connection);
    }
    let answer = running.ask(&load(500 << 10)).await;
    assert_eq!(text(&answer.json()), "taken");
}

// D5
#[tokio::test]
async fn what_can_never_fit_is_too_large() {
    let running = serve(with_tools(|limits| limits.memory_bytes = 1 << 20)).await;
    let refused = running.ask(&load(900 << 10)).await;
    assert_eq!(refused.head.status, 413);
    assert_eq!(refused.json()["error"]["data"]["retriable"], false);
}

// D5
#[tokio::test]
async fn one_token_that_takes_its_share_leaves_room_for_the_next() {
    let who = |http: lmcp_http::Http| {
        http.identify(|headers| {
            let name = headers.get("x-user").and_then(|name| name.to_str().ok());
            Ok(name.map(ToOwned::to_owned))
        })
    };
    let running = serve_as(with_tools(|_| {}), who).await;
    let _halves = fill(&running, &load(300 << 10).with("x-user", "ann")).await;
    let refused = running.ask(&load(300 << 10).with("x-user", "ann")).await;
    assert_eq!(refused.head.status, 503);
    let answer = running.ask(&load(200 << 10).with("x-user", "bob")).await;
    assert_eq!(text(&answer.json()), "taken");
}

// D5
#[tokio::test]
async fn answers_that_nobody_reads_are_counted_until_they_are_gone() {
    // More than the sockets take in themselves.
    const HUGE: usize = 24 << 20;
    let huge = Tool::new("huge", |_: NoArgs, _: Cx| async { "x".repeat(HUGE) });
    let room = with_tools(|limits| limits.memory_bytes = 128 << 20).tool(huge.read_only());
    let running = serve(room).await;
    let mut unread = running.connect().await;
    unread.send(&call("huge")).await;
    soon(async {
        while running.budget.used() < HUGE {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(unread);
    given_back_to(&running, 0).await;
}

// D46: both were copied, and the copy was nobody's.
#[tokio::test]
async fn answers_to_a_batch_and_single_events_are_counted_until_they_are_gone() {
    const HUGE: usize = 24 << 20;
    let huge = Tool::new("huge", |_: NoArgs, _: Cx| async { "x".repeat(HUGE) });
    let room = with_tools(|limits| limits.memory_bytes = 256 << 20).tool(huge.read_only());
    let running = serve(room).await;
    let visitor = Visitor::of(&running, "2025-03-26").await;
    let message =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "huge" } });
    let batch = visitor.send(&json!([message]));
    for (post, takes) in [
        (batch, "application/json"),
        (call("huge"), "text/event-stream"),
    ] {
        let mut unread = running.connect().await;
        unread
            .send(&post.without("accept").with("accept", takes))
            .await;
        unread.readable().await;
        for _ in 0..20 {
            assert_eq!(running.ask(&call("large")).await.head.status, 200);
        }
        let used = running.budget.used();
        assert!(used >= HUGE, "{takes}: {used}");
        drop(unread);
        given_back_to(&running, 0).await;
    }
}

// D4
#[tokio::test]
async fn questions_that_wait_refuse_nobody_else_a_call() {
    let running = serve(with_tools(|limits| {
        limits.session_calls = 3;
        limits.questions = 30;
    }))
    .await;
    let mut asked = Vec::new();
    for _ in 0..10 {
        let visitor = Visitor::new(&running).await;
        let mut connection = running.connect().await;
        connection.send(&visitor.call(1, "ask")).await;
        connection.head().await;
        let question = connection.next_message().await;
        assert_eq!(question.json()["method"], "elicitation/create");
        asked.push(connection);
    }
    let visitor = Visitor::new(&running).await;
    let answer = running.ask(&visitor.call(1, "large")).await.json();
    assert_eq!(text(&answer).len(), 200 << 10);
}

// D4
#[tokio::test]
async fn a_call_that_ends_in_its_first_turn_needs_no_place() {
    let (hang, mut watcher) = hanging("hang");
    let one = with_tools(|limits| limits.session_calls = 1).tool(hang);
    let running = serve(one).await;
    let visitor = Visitor::new(&running).await;
    let mut connection = running.connect().await;
    connection.send(&visitor.call(1, "hang")).await;
    watcher.started().await;
    let answer = running.ask(&visitor.call(2, "large")).await.json();
    assert_eq!(text(&answer).len(), 200 << 10);
    let refused = running.ask(&visitor.call(3, "hang")).await.json();
    assert_eq!(refused["error"]["data"]["limit"], "session_calls");
}

// D18
#[tokio::test]
async fn a_session_whose_stream_said_nothing_leaves_nothing_when_it_closes() {
    let running = serve(with_tools(|_| {})).await;
    for version in ["2025-11-25", "2025-06-18"] {
        let mut streams = Vec::new();
        for _ in 0..20 {
            let visitor = Visitor::of(&running, version).await;
            let mut connection = running.connect().await;
            connection.open_stream(&visitor.get()).await;
            streams.push(connection);
        }
        assert!(running.budget.used() >= 20 * 2048, "they are counted");
        drop(streams);
        given_back_to(&running, 0).await;
    }
}

/// The resource that [`watched`] has. Its name is long, so that few events take much memory.
fn uri() -> String {
    format!("test://{}", "a".repeat(1000))
}

/// A server that says that its resource has changed when its tool is called.
fn watched(change: impl FnOnce(&mut Limits)) -> Server {
    let touch = Tool::new("touch", |_: NoArgs, cx: Cx| async move {
        cx.server().resource_updated(&uri());
        "touched"
    });
    let resource = Resource::text(uri(), "a", "text");
    with_tools(change).tool(touch.writes()).resource(resource)
}

/// Sessions that watch the resource and read their streams.
async fn watchers(running: &Running, count: usize) -> Vec<(Visitor, Connection)> {
    let mut watchers = Vec::new();
    for _ in 0..count {
        let visitor = Visitor::of(running, "2025-06-18").await;
        let answer = running.ask(&visitor.subscribe(&uri())).await.json();
        assert_eq!(answer["result"], json!({}));
        let mut stream = running.connect().await;
        stream.open_stream(&visitor.get()).await;
        watchers.push((visitor, stream));
    }
    watchers
}

/// Changes the resource, and waits until each stream has told so. Returns the last event of each.
async fn touch(running: &Running, watchers: &mut [(Visitor, Connection)]) -> Vec<String> {
    let answer = running.ask(&call("touch")).await.json();
    assert_eq!(text(&answer), "touched");
    let mut events = Vec::new();
    for (_, stream) in watchers {
        let event = stream.next_message().await;
        assert_eq!(event.json()["params"]["uri"], uri());
        events.push(event.id);
    }
    events
}

// D62
#[tokio::test]
async fn streams_of_sessions_that_broke_off_are_kept_within_their_bound() {
    const SESSIONS: usize = 20;
    const TOTAL: usize = 40 << 10;
    let small = |limits: &mut Limits| limits.replay_total_bytes = TOTAL;
    let running = serve(watched(small)).await;
    let mut all = watchers(&running, SESSIONS).await;
    let before = running.budget.used();
    let first = touch(&running, &mut all).await;
    for _ in 0..10 {
        touch(&running, &mut all).await;
    }
    let kept = running.budget.used() - before;
    assert!(kept > SESSIONS * 10 * 1000, "{kept} bytes are counted");
    let visitors: Vec<_> = all.into_iter().map(|(visitor, _)| visitor).collect();
    // The sessions stay, with what they watch.
    given_back_to(&running, SESSIONS * (2048 + 4096) + TOTAL).await;
    let (mut told, mut forgotten) = (0, 0);
    let mut again = Vec::new();
    for (visitor, event) in visitors.into_iter().zip(first) {
        let mut stream = running.connect().await;
        stream.open_stream(&visitor.get_after(&event)).await;
        again.push((visitor, stream));
    }
    running.ask(&call("touch")).await;
    for (_, stream) in &mut again {
        // The stream goes on where it broke off, or is a new one, whose first event is the first of all.
        let event = stream.next_message().await;
        let number = event.id.split('-').nth(1).unwrap().to_owned();
        match &*number {
            "2" => told += 1,
            "1" => forgotten += 1,
            _ => panic!("a strange event: {event:?}"),
        }
    }
    assert!(told > 0 && forgotten > 0, "{told} and {forgotten}");
}

// D62
#[tokio::test]
async fn events_for_clients_that_may_come_back_leave_room_for_calls() {
    let wait = Tool::new("wait", |_: NoArgs, _: Cx| async {
        tokio::task::yield_now().await;
        "waited"
    });
    let small = |limits: &mut Limits| limits.replay_bytes = 1 << 20;
    let running = serve(watched(small).tool(wait.writes())).await;
    let mut all = watchers(&running, 40).await;
    let mut most = 0;
    for _ in 0..50 {
        touch(&running, &mut all).await;
        most = most.max(running.budget.used());
    }
    assert!(most > BUDGET / 4, "{most} bytes are kept");
    let answer = running.ask(&all[0].0.call(1, "wait")).await.json();
    assert_eq!(text(&answer), "waited", "{answer}");
}

// D62
#[tokio::test]
async fn streams_of_one_caller_push_out_none_of_another() {
    let small = |limits: &mut Limits| limits.replay_total_bytes = 40 << 10;
    let running = serve_as(watched(small), |http| {
        http.identify(|headers| {
            let name = headers.get("x-user").and_then(|name| name.to_str().ok());
            Ok(name.map(ToOwned::to_owned))
        })
    })
    .await;
    let mut streams = Vec::new();
    for user in ["ann"].into_iter().chain(["bob"; 20]) {
        let visitor = Visitor::as_user(&running, user).await;
        let subscribe = visitor.subscribe(&uri()).with("x-user", user);
        running.ask(&subscribe).await;
        let mut stream = running.connect().await;
        stream
            .open_stream(&visitor.get().with("x-user", user))
            .await;
        streams.push((visitor, stream));
    }
    let first = touch(&running, &mut streams).await;
    for _ in 0..10 {
        touch(&running, &mut streams).await;
    }
    let bob = streams.split_off(1);
    drop(bob);
    let visitors = streams.pop().map(|(visitor, _)| visitor);
    let accounts = ["principal:ann", "principal:bob"].map(|name| running.budget.account(name));
    soon(async {
        while accounts.iter().map(lmcp_core::Account::used).sum::<usize>() > (40 << 10) + 21 * 4096
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut again = running.connect().await;
    let ann = visitors.unwrap();
    again
        .open_stream(&ann.get_after(&first[0]).with("x-user", "ann"))
        .await;
    let event = again.next_message().await;
    assert_eq!(event.json()["params"]["uri"], uri());
}

// Eight megabytes took up to 90 ms of the thread that all callers share.
#[test]
fn a_long_body_is_read_beside_the_thread_that_all_callers_share() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (free, taken) = std::sync::mpsc::channel::<()>();
    runtime.block_on(async {
        tokio::task::spawn_blocking(move || taken.recv());
        let running = serve(with_tools(|limits| limits.memory_bytes = 64 << 20)).await;
        let visitor = Visitor::of(&running, "2025-03-26").await;
        let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping", "params": { "x": "y".repeat(1 << 20) } });
        let messages = [ping.clone(), json!([ping])];
        let mut long = Vec::new();
        for message in &messages {
            let mut connection = running.connect().await;
            connection.send(&visitor.send(message)).await;
            long.push(connection);
        }
        for _ in 0..20 {
            let short = running.ask(&visitor.call(1, "large")).await;
            assert_eq!(short.head.status, 200);
        }
        for connection in &mut long {
            tokio::select! {
                biased;
                () = connection.readable() => panic!("it was read by the thread of all"),
                () = tokio::task::yield_now() => {}
            }
        }
        free.send(()).unwrap();
        for mut connection in long {
            assert_eq!(connection.head().await.status, 200);
        }
    });
}
