//! A connection with a pulse: each side writes an empty line now and then, between two messages, and a side that hears
//! nothing for long treats the connection as lost. Readers of messages skip empty lines.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::oneshot,
    time::{Instant, Sleep, sleep_until},
};

use crate::limits::{BEAT, MISSED_BEATS};

/// Ends a connection, and says why. Dropping the sender does not end the connection.
pub(crate) type Cut = oneshot::Sender<&'static str>;

/// A connection with a pulse. The owner must read all the time, because reading keeps the pulse.
pub(crate) struct Pulse<S, E = ()> {
    stream: S,
    /// The time of the next empty line.
    beat: Pin<Box<Sleep>>,
    /// The time of the next check whether anything was received.
    silence: Pin<Box<Sleep>>,
    heard: Instant,
    /// `None` when nobody can end the connection any more.
    cut: Option<oneshot::Receiver<&'static str>>,
    /// The last byte that was written ends a line.
    is_between: bool,
    /// The writer waits for room.
    is_full: bool,
    /// Dropped together with the connection.
    _end: E,
}

impl<S, E> Pulse<S, E> {
    pub(crate) fn new(stream: S, end: E) -> (Self, Cut) {
        let (cut, ending) = oneshot::channel();
        let now = Instant::now();
        let pulse = Self {
            stream,
            beat: Box::pin(sleep_until(now + BEAT)),
            silence: Box::pin(sleep_until(now + BEAT * MISSED_BEATS)),
            heard: now,
            cut: Some(ending),
            is_between: true,
            is_full: false,
            _end: end,
        };
        (pulse, cut)
    }

    /// Returns why the connection was ended, if it was.
    fn poll_cut(&mut self, cx: &mut Context<'_>) -> Option<&'static str> {
        let ending = self.cut.as_mut()?;
        let Poll::Ready(ended) = Pin::new(ending).poll(cx) else {
            return None;
        };
        self.cut = None;
        ended.ok()
    }

    /// Ready when nothing has been received for too long.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.silence.as_mut().poll(cx));
            let until = self.heard + BEAT * MISSED_BEATS;
            if until <= Instant::now() {
                return Poll::Ready(());
            }
            self.silence.as_mut().reset(until);
        }
    }
}

impl<S: AsyncWrite + Unpin, E> Pulse<S, E> {
    /// Writes an empty line when it is due. If other bytes wait to be written, they serve as the pulse.
    fn keep_beating(&mut self, cx: &mut Context<'_>) {
        while self.beat.as_mut().poll(cx).is_ready() {
            self.beat.as_mut().reset(Instant::now() + BEAT);
            if self.is_between && !self.is_full {
                // If the connection takes no byte now, the other side receives nothing and notices that.
                let _ = Pin::new(&mut self.stream).poll_write(cx, b"\n");
                let _ = Pin::new(&mut self.stream).poll_flush(cx);
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, E: Unpin> AsyncRead for Pulse<S, E> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Some(why) = this.poll_cut(cx) {
            return Poll::Ready(Err(io::Error::other(why)));
        }
        this.keep_beating(cx);
        if let Poll::Ready(read) = Pin::new(&mut this.stream).poll_read(cx, buffer) {
            this.heard = Instant::now();
            return Poll::Ready(read);
        }
        ready!(this.poll_silence(cx));
        let seconds = (BEAT * MISSED_BEATS).as_secs();
        let words = format!("nothing was heard for {seconds} s");
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, words)))
    }
}

impl<S: AsyncWrite + Unpin, E: Unpin> AsyncWrite for Pulse<S, E> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.is_full = written.is_pending();
        if let Poll::Ready(Ok(count @ 1..)) = written {
            self.is_between = bytes.get(count - 1) == Some(&b'\n');
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn both_sides_beat_and_neither_is_lost() {
        let (one, other) = duplex(64);
        let ((mut one, _cut), (mut other, _other)) = (Pulse::new(one, ()), Pulse::new(other, ()));
        let listening = lmcp_core::Tasks::default();
        listening.spawn(async move {
            let mut heard = Vec::new();
            let _ = other.read_to_end(&mut heard).await;
        });
        let mut heard = [0; 100];
        one.read_exact(&mut heard).await.unwrap();
        assert_eq!(heard, [b'\n'; 100]);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_noticed_and_a_message_is_not_torn() {
        let (one, mut other) = duplex(64);
        let (mut one, _cut) = Pulse::new(one, ());
        one.write_all(b"half").await.unwrap();
        let began = Instant::now();
        let err = one.read_u8().await.unwrap_err();
        assert_eq!(err.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), BEAT * MISSED_BEATS);
        drop(one);
        let mut said = String::new();
        other.read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "half");
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_when_somebody_says_so() {
        let (one, _other) = duplex(64);
        let (mut one, cut) = Pulse::new(one, ());
        cut.send("enough").unwrap();
        assert_eq!(one.read_u8().await.unwrap_err().to_string(), "enough");
    }
}
