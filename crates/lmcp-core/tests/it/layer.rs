//! Layers: functions around every request.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll},
};

use lmcp_core::{
    Caller, CallerTransport, Cx, NoArgs, Outcome, Replies, Reply, Server, Tool, service::Source,
};
use lmcp_wire::{ProtocolVersion, RpcError};
use serde::Deserialize;
use serde_json::{json, value::to_raw_value};

use crate::support::{connect, server, soon, text, watched};

#[tokio::test]
async fn the_first_layer_is_the_outermost() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let (first, second) = (Arc::clone(&order), Arc::clone(&order));
    let client = hello(server())
        .layer(move |request, next| {
            first.lock().unwrap().push("first in");
            let replies = next.call(request);
            first.lock().unwrap().push("first out");
            replies
        })
        .layer(move |request, next| {
            second.lock().unwrap().push("second in");
            let replies = next.call(request);
            second.lock().unwrap().push("second out");
            replies
        })
        .start()
        .unwrap()
        .client();
    assert_eq!(text(&client, "hello", json!({})).await, "hello");
    let order = order.lock().unwrap().clone();
    assert_eq!(order, ["first in", "second in", "second out", "first out"]);
}

#[tokio::test]
async fn a_layer_sees_the_request_on_every_transport() {
    #[derive(Deserialize)]
    struct Params {
        name: String,
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = Arc::clone(&seen);
    let server = hello(server())
        .layer(move |request, next| {
            assert_eq!(request.version(), ProtocolVersion::V2026_07_28);
            let name = request.params::<Params>().map(|params| params.name);
            let name = name.unwrap_or_else(|error| format!("({})", error.code));
            let transport = request.caller().transport();
            sees.lock().unwrap().push(format!(
                "{} {} {name} {transport:?}",
                request.id(),
                request.method()
            ));
            next.call(request)
        })
        .start()
        .unwrap();
    let caller = Caller::new(CallerTransport::Stdio);
    text(&server.client().caller(caller), "hello", json!({})).await;
    let (mut peer, _serving) = connect(&server);
    peer.call(7, "hello").await;
    peer.receive().await;
    peer.request(8, "tools/list", json!({})).await;
    peer.receive().await;
    let seen = seen.lock().unwrap().clone();
    assert_eq!(
        seen,
        [
            "1 tools/call hello Stdio",
            "7 tools/call hello Memory",
            "8 tools/list (-32602) Memory",
        ]
    );
}

#[tokio::test]
async fn a_layer_may_refuse() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let tool = Tool::new("count", move |_: NoArgs, _: Cx| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { "counted" }
    });
    let server = server()
        .tool(tool.writes())
        .layer(|request, next| {
            if request.caller().principal() == Some("ann") {
                return next.call(request);
            }
            Replies::error(RpcError::new(403, "only for ann"))
        })
        .start()
        .unwrap();
    let known = |name: &str| {
        let caller = Caller::new(CallerTransport::Memory).known_as(name);
        server.client().caller(caller)
    };
    let error = known("eve")
        .call_tool("count", json!({}))
        .await
        .unwrap_err();
    assert_eq!((error.code, &*error.message), (403, "only for ann"));
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    assert_eq!(text(&known("ann"), "count", json!({})).await, "counted");
}

#[tokio::test]
async fn a_layer_may_take_its_time() {
    let server = hello(server())
        .layer(|request, next| {
            let refused = request.caller().principal().is_none();
            let refusal = Replies::error(RpcError::new(401, "who are you?"));
            // Nothing of it runs before it is polled.
            let replies = next.call(request);
            Replies::later(async move {
                tokio::task::yield_now().await;
                if refused { refusal } else { replies }
            })
        })
        .start()
        .unwrap();
    let error = server
        .client()
        .call_tool("hello", json!({}))
        .await
        .unwrap_err();
    assert_eq!(error.code, 401);
    let caller = Caller::new(CallerTransport::Memory).known_as("ann");
    assert_eq!(
        text(&server.client().caller(caller), "hello", json!({})).await,
        "hello"
    );
}

#[tokio::test]
async fn a_layer_that_waits_stops_with_its_request() {
    let (guards, mut watcher) = watched();
    let server = hello(server())
        .layer(move |request, next| {
            if request.method() != "tools/call" {
                return next.call(request);
            }
            let held = guards.hold();
            Replies::later(async move {
                let _held = held;
                std::future::pending().await
            })
        })
        .start()
        .unwrap();
    let (mut peer, _serving) = connect(&server);
    peer.call(1, "hello").await;
    watcher.started().await;
    peer.request(2, "tools/list", json!({})).await;
    assert_eq!(peer.receive().await["id"], 2, "others do not wait for it");
    peer.cancel(1).await;
    watcher.dropped().await;
    assert_eq!(peer.finish().await, "");
}

#[tokio::test]
async fn a_layer_may_look_at_every_reply() {
    struct Counting(Replies, Arc<AtomicU32>);
    impl Source for Counting {
        fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<Reply>> {
            let reply = self.0.poll_next(cx);
            if let Poll::Ready(Some(reply)) = &reply {
                let weight = match reply {
                    Reply::Progress(_) => 1,
                    _ => 100,
                };
                self.1.fetch_add(weight, Ordering::Relaxed);
            }
            reply
        }
    }
    async fn speak(_: NoArgs, cx: Cx) -> &'static str {
        cx.progress(2).step("one");
        "done"
    }
    let count = Arc::new(AtomicU32::new(0));
    let counts = Arc::clone(&count);
    let client = server()
        .tool(Tool::new("speak", speak).read_only())
        .layer(move |request, next| {
            Replies::from_source(Counting(next.call(request), Arc::clone(&counts)))
        })
        .start()
        .unwrap()
        .client();
    assert_eq!(text(&client, "speak", json!({})).await, "done");
    assert_eq!(count.load(Ordering::Relaxed), 101);
}

#[tokio::test]
async fn a_layer_may_answer_itself() {
    let server = server()
        .layer(|_request, _next| {
            let mine = to_raw_value(&json!({ "mine": true })).unwrap();
            Replies::done(Outcome::from(mine))
        })
        .start()
        .unwrap();
    let result = soon(server.client().request("any/thing", json!({})))
        .await
        .unwrap();
    assert_eq!(result["mine"], true);
}

fn hello(server: Server) -> Server {
    async fn hello(_: NoArgs, _: Cx) -> &'static str {
        "hello"
    }
    server.tool(Tool::new("hello", hello).read_only())
}
