//! Callers take turns on the thread that serves all of them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use lmcp_core::{Cx, NoArgs, Tool};

use crate::support::{call, serve_as, server};

const CONNECTIONS: usize = 200;
const CALLS_ON_EACH: usize = 20;

#[tokio::test]
async fn a_new_caller_is_served_between_the_calls_of_a_busy_one() {
    let done = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&done);
    let work = move |_: NoArgs, _: Cx| {
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(1) {
            std::hint::spin_loop();
        }
        counts.fetch_add(1, Ordering::Relaxed);
        async { "done" }
    };
    let work = Tool::new("work", work).about("Works.").read_only();
    let tokens = |http: lmcp_http::Http| http.token("ann", "a").token("bob", "b");
    let running = serve_as(server().tool(work), tokens).await;

    let calls = call("work").with("authorization", "Bearer a");
    let mut busy = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut connection = running.connect().await;
        // The listener needs a turn to accept the connection.
        connection
            .send(&call("quick").with("authorization", "Bearer a"))
            .await;
        let head = connection.head().await;
        connection.body(&head).await;
        busy.push(connection);
    }
    for connection in &mut busy {
        for _ in 0..CALLS_ON_EACH {
            connection.send(&calls).await;
        }
    }
    while done.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }

    let before = done.load(Ordering::Relaxed);
    let mut bob = running.connect().await;
    let answer = bob
        .ask(&call("quick").with("authorization", "Bearer b"))
        .await;
    assert_eq!(answer.head.status, 200);
    let meanwhile = done.load(Ordering::Relaxed) - before;
    let most = CONNECTIONS / 5;
    assert!(
        meanwhile < most,
        "{meanwhile} calls of the other caller came first"
    );
}
