//! Any pair of a reader and a writer that carries lines: a duplex pipe in tests, or a TCP stream.

use std::{fmt, sync::Arc};

use lmcp_wire::framing::Framer;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::watch,
    time::timeout,
};

use super::{
    connections,
    intake::{Frame, Intake},
    lines::{Closing, Connection, Farewell, Lines},
    outgoing::Outgoing,
};
use crate::{
    caller::Caller,
    endpoint::{Endpoint, Transport},
    error::Error,
    spawn::Tasks,
};

/// A transport over one reader and one writer, such as a pipe or a TCP stream. The program says who the caller is.
pub fn streams<R, W>(reader: R, writer: W, caller: Caller) -> Streams<R, W> {
    Streams {
        reader,
        writer,
        caller,
        framer: None,
        seen: None,
        farewell: None,
    }
}

/// One connection over a reader and a writer: see [`streams`].
pub struct Streams<R, W> {
    reader: R,
    writer: W,
    caller: Caller,
    /// Holds the bytes that were read already.
    framer: Option<Framer>,
    /// The record that the listener keeps of the connection.
    seen: Option<Arc<connections::Connection>>,
    /// Makes the last message when the server closes.
    farewell: Option<Farewell>,
}

impl<R, W> fmt::Debug for Streams<R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streams")
            .field("caller", &self.caller)
            .finish_non_exhaustive()
    }
}

impl<R, W> Streams<R, W> {
    /// Goes on after bytes that were read already.
    pub(super) fn after(mut self, framer: Framer) -> Self {
        self.framer = Some(framer);
        self
    }

    /// Sets the last message for when the server closes.
    pub(super) fn saying_last(mut self, farewell: Option<Farewell>) -> Self {
        self.farewell = farewell;
        self
    }

    /// Sets the connection that the listener reads to know whether this one is idle.
    pub(super) fn seen_as(mut self, connection: Arc<connections::Connection>) -> Self {
        self.seen = Some(connection);
        self
    }
}

impl<R, W> Transport for Streams<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    async fn serve(self, server: Endpoint) -> Result<(), Error> {
        let (_open, closing) = watch::channel(None);
        self.serve_until(server, closing).await;
        Ok(())
    }
}

impl<R, W> Streams<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    pub(crate) async fn serve_until(self, server: Endpoint, closing: Closing) {
        let limits = server.limits().clone();
        let account = server.budget().account(&self.caller.payer());
        let out = Arc::new(Outgoing::new(limits.outgoing_bytes, account.clone()));
        let outgoing = Arc::clone(&out);
        let (written, mut all_written) = watch::channel(());
        let writer = Tasks::default();
        writer.spawn(async move {
            write(self.writer, &outgoing).await;
            drop(written);
        });
        let framer = self.framer;
        let framer = framer.unwrap_or_else(|| Framer::new(limits.line_bytes));
        let lines = Read {
            reader: self.reader,
            intake: Intake::new(framer, account.clone(), &limits),
            ended: false,
            most_blank: limits.blank_bytes,
        };
        let drain_wait = limits.drain_wait;
        Connection::new(server, self.caller, account, limits, out)
            .seen_as(self.seen)
            .saying_last(self.farewell)
            .run(lines, closing)
            .await;
        let _ = timeout(drain_wait, all_written.changed()).await;
    }
}

async fn write(mut writer: impl AsyncWrite + Unpin, outgoing: &Outgoing) {
    let mut lines = Vec::new();
    while outgoing.take(&mut lines).await {
        if writer.write_all(&lines).await.is_err() {
            break;
        }
    }
    outgoing.abandon();
    let _ = writer.shutdown().await;
}

struct Read<R> {
    reader: R,
    intake: Intake,
    ended: bool,
    /// The most bytes of blank lines without another line in between.
    most_blank: usize,
}

impl<R: AsyncRead + Unpin + Send> Lines for Read<R> {
    fn has_more(&self) -> bool {
        self.intake.has_frame()
    }

    async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.intake.next_frame() {
                return Some(frame);
            }
            if self.ended {
                return None;
            }
            match self.intake.blank_bytes() {
                0 => {}
                blank if blank > self.most_blank => {
                    tracing::warn!("a connection that sent {blank} bytes of blank lines is closed");
                    self.ended = true;
                    return None;
                }
                // Reading blank lines is work, too: other connections get their turns in between.
                _ => tokio::task::yield_now().await,
            }
            if let Some(refused) = self.intake.make_room().await {
                return Some(refused);
            }
            // Many connections may send much at the same time, so none reads more than is counted.
            let mut reader = (&mut self.reader).take(self.intake.most());
            if !matches!(reader.read_buf(self.intake.buffer()).await, Ok(1..)) {
                self.ended = true;
                return self.intake.last_frame();
            }
        }
    }
}
