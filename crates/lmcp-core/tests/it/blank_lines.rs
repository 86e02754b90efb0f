//! Blank lines: a few between messages are nothing, and floods of them are work as any other, up to a bound.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use lmcp_core::{Caller, CallerTransport, streams};
use serde_json::json;
use tokio::io::{AsyncRead, ReadBuf};

use crate::support::{Serving, connect, limits, server, soon};

/// Blank lines that are always there, so many reads of them; then the end.
struct Flood {
    left: usize,
    reads: Arc<AtomicUsize>,
}

impl AsyncRead for Flood {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.left > 0 {
            self.left -= 1;
            self.reads.fetch_add(1, Ordering::Relaxed);
            let lines = b" \n".repeat(buffer.remaining() / 2);
            buffer.put_slice(&lines);
        }
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn blank_lines_take_turns_with_everybody_else() {
    let limits = limits(|limits| limits.blank_bytes = usize::MAX);
    let server = server().limits(limits).start().expect("it is right");
    let reads = Arc::new(AtomicUsize::new(0));
    let flood = Flood {
        left: 1000,
        reads: Arc::clone(&reads),
    };
    let caller = Caller::new(CallerTransport::Memory);
    let mut serving = Serving::start(async move {
        let streams = streams(flood, tokio::io::sink(), caller);
        server.serve(streams).await
    });
    for turns in 1..20 {
        tokio::task::yield_now().await;
        let read = reads.load(Ordering::Relaxed);
        assert!(read <= 2 * turns, "{read} reads in {turns} turns");
    }
    soon(serving.ended()).await.expect("it ends with the flood");
}

#[tokio::test]
async fn a_flood_of_blank_lines_ends_the_connection_and_a_few_do_not() {
    let limits = limits(|limits| limits.blank_bytes = 10_000);
    let server = server().limits(limits).start().expect("it is right");
    let (mut peer, mut serving) = connect(&server);
    for id in 0..10 {
        peer.write(&b" \r\n".repeat(3000)).await;
        peer.request(id, "server/discover", json!({})).await;
        assert_eq!(peer.receive().await["id"], id);
    }
    peer.write(&b"\n".repeat(20_000)).await;
    assert_eq!(peer.next().await, None);
    soon(serving.ended()).await.expect("the rest goes on");
}
