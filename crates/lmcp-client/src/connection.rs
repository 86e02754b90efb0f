//! One connection, which knows when a request has left it.
//!
//! Dropping it closes it, and nothing is left running.

use std::{
    io::{self, IoSlice},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Notify,
    task::JoinSet,
    time::timeout,
};

/// A connection, encrypted or not. One type, so that the HTTP behind it is compiled once.
pub(crate) type Stream = Box<dyn Duplex>;

pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

pub(crate) struct Connection {
    sender: SendRequest<Body>,
    gauge: Arc<Gauge>,
    /// Since when nothing is on its way.
    idle: Instant,
    /// Moves the bytes.
    _driver: JoinSet<()>,
}

/// Why a request has no answer.
pub(crate) enum Failed {
    /// Nothing of it was written.
    Unsent(hyper::Error),
    /// The server may have it.
    Broken,
}

impl Connection {
    pub(crate) async fn new(stream: Stream) -> hyper::Result<Self> {
        let gauge = Arc::new(Gauge::default());
        let watched = Watched {
            stream,
            gauge: Arc::clone(&gauge),
        };
        let mut builder = http1::Builder::new();
        builder.max_buf_size(BUFFER_BYTES);
        let (sender, connection) = builder.handshake(TokioIo::new(watched)).await?;
        let mut driver = JoinSet::new();
        driver.spawn(async {
            // Why it ended is told to whoever waits for an answer.
            let _ = connection.await;
        });
        Ok(Self {
            sender,
            gauge,
            idle: Instant::now(),
            _driver: driver,
        })
    }

    /// Sends a request. `written` is run as soon as all of it has left.
    pub(crate) async fn send(
        &mut self,
        request: Request<Bytes>,
        written: impl Future<Output = ()>,
    ) -> Result<Response<Incoming>, Failed> {
        let gauge = Arc::clone(&self.gauge);
        gauge.reset();
        let request = request.map(|bytes| Body {
            bytes: Some(bytes),
            gauge: Arc::clone(&gauge),
        });
        let answer = self.sender.try_send_request(request);
        let tell = async {
            gauge.written.notified().await;
            written.await;
        };
        let mut answer = pin!(answer);
        let answer = tokio::select! {
            biased;
            answer = &mut answer => answer,
            () = tell => answer.await,
        };
        answer.map_err(|mut err| match err.take_message() {
            Some(_) => Failed::Unsent(err.into_error()),
            None => Failed::Broken,
        })
    }

    /// Waits until it can take another request. `None`: it cannot.
    pub(crate) async fn rest(mut self) -> Option<Self> {
        let ready = timeout(REST, self.sender.ready()).await;
        ready.ok()?.ok()?;
        self.idle = Instant::now();
        Some(self)
    }

    /// May it be used once more? Servers close what is idle, and a request that meets that may be lost.
    pub(crate) fn is_usable(&self) -> bool {
        self.sender.is_ready() && self.idle.elapsed() < IDLE
    }
}

/// Tells when the body of a request has left.
#[derive(Default)]
struct Gauge {
    /// It was handed over, and lies in some buffer.
    taken: AtomicBool,
    written: Notify,
}

impl Gauge {
    /// Forgets the request before: its answer may have come first.
    fn reset(&self) {
        self.taken.store(false, Ordering::Relaxed);
        let mut stale = pin!(self.written.notified());
        stale.as_mut().enable();
    }
}

/// The body of a request: one piece, or nothing.
struct Body {
    bytes: Option<Bytes>,
    gauge: Arc<Gauge>,
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let bytes = self.bytes.take();
        self.gauge.taken.store(true, Ordering::Relaxed);
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.as_ref().is_none_or(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, Bytes::len) as u64)
    }
}

/// A stream that tells when everything has been written: it is flushed then, and only then.
struct Watched {
    stream: Stream,
    gauge: Arc<Gauge>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        if self.gauge.taken.swap(false, Ordering::Relaxed) {
            self.gauge.written.notify_one();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Status line and headers of an answer, and what is read ahead of its body.
const BUFFER_BYTES: usize = 64 << 10;

/// How long a connection is kept for the next request. Common servers close theirs after 5 s.
const IDLE: Duration = Duration::from_secs(3);

/// How long the end of an answer may take.
const REST: Duration = Duration::from_secs(1);
