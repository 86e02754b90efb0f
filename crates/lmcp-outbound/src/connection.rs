//! One connection, which knows when a request has left it.

use std::{
    error::Error as _,
    fmt,
    future::poll_fn,
    io::{self, IoSlice},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Instant,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, header};
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

use tokio_rustls::rustls::{self, AlertDescription as Alert};

use crate::{
    Error,
    limits::{EARLY_PIECE_BYTES, HEAD_BYTES, IDLE, INTERIM_BYTES, REST},
    proxies::Proxy,
};

/// A connection, encrypted or not. One type, so that the HTTP behind it is compiled once.
pub type Stream = Box<dyn Duplex>;

/// A stream of bytes in both directions, which can be sent to another thread.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// One connection, which knows when a request has left it. Dropping it closes the connection, and nothing is left running.
pub struct Connection {
    sender: SendRequest<Body>,
    via: Option<Box<Via>>,
    gauge: Arc<Gauge>,
    /// The time since which no request is on its way.
    idle: Instant,
    _driver: Driver,
}

/// A proxy that passes requests on to another host. It takes whole URLs, and may want a name and a password.
pub(crate) struct Via {
    pub(crate) proxy: Proxy,
    /// The origin of the host that the requests are for.
    pub(crate) origin: String,
}

/// The reason why a request has no answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failed {
    /// Nothing of the request was written.
    Unsent(hyper::Error),
    /// The server may have received the request.
    Broken(hyper::Error),
    /// The server sends interim answers without end.
    Endless,
    /// A proxy did not pass the request on.
    Refused(Error),
}

impl Connection {
    pub(crate) async fn new(stream: Stream, via: Option<Via>) -> hyper::Result<Self> {
        let gauge = Arc::new(Gauge::default());
        let watched = Watched {
            stream,
            gauge: Arc::clone(&gauge),
        };
        let mut builder = http1::Builder::new();
        builder.max_buf_size(HEAD_BYTES);
        let (sender, connection) = builder.handshake(TokioIo::new(watched)).await?;
        let driver = Driver::new(async {
            // The task that waits for an answer gets the error.
            let _ = connection.await;
        });
        Ok(Self {
            sender,
            via: via.map(Box::new),
            gauge,
            idle: Instant::now(),
            _driver: driver,
        })
    }

    /// Sends a request, whose URI is a path, and waits for the head of the answer. `written` is run as soon as the whole
    /// request has left.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn send(
        &mut self,
        mut request: Request<Bytes>,
        written: impl Future<Output = ()>,
    ) -> Result<Response<Incoming>, Failed> {
        if let Some(via) = &self.via {
            via.redirect(&mut request)?;
        }
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
        let answer = answer.map_err(|mut err| {
            let is_unsent = err.take_message().is_some();
            Failed::new(err.into_error(), is_unsent)
        })?;
        self.gauge.has_head.store(true, Ordering::Relaxed);
        match &self.via {
            Some(via) if answer.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                Err(Failed::Refused(via.proxy.unauthorized()))
            }
            _ => Ok(answer),
        }
    }

    /// Waits until the connection can take another request. `None`: it cannot.
    pub async fn rest(mut self) -> Option<Self> {
        let ready = timeout(REST, self.sender.ready()).await;
        ready.ok()?.ok()?;
        self.idle = Instant::now();
        Some(self)
    }

    /// Whether the connection may be used once more. Servers close idle connections, and a request that meets this may be lost.
    pub fn is_usable(&self) -> bool {
        self.sender.is_ready() && self.idle.elapsed() < IDLE
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Via {
    /// Replaces the path of a request by the whole URL.
    fn redirect(&self, request: &mut Request<Bytes>) -> Result<(), Failed> {
        let whole = format!("{}{}", self.origin, request.uri());
        *request.uri_mut() = Uri::try_from(whole).map_err(|err| {
            let words = format!("the proxy `{}` cannot be asked: {err}", self.proxy);
            Failed::Refused(Error::Refused(words))
        })?;
        if let Some(authorization) = &self.proxy.authorization {
            let headers = request.headers_mut();
            headers.insert(header::PROXY_AUTHORIZATION, authorization.clone());
        }
        Ok(())
    }
}

impl Failed {
    fn new(err: hyper::Error, is_unsent: bool) -> Self {
        match complaint(&err) {
            Some(words) => Self::Refused(Error::Insecure(words)),
            None if is_endless(&err) => Self::Endless,
            None if is_unsent => Self::Unsent(err),
            None => Self::Broken(err),
        }
    }
}

/// Whether the connection was closed because of too many interim answers.
fn is_endless(err: &hyper::Error) -> bool {
    let io = err.source().and_then(|err| err.downcast_ref::<io::Error>());
    io.and_then(io::Error::get_ref)
        .is_some_and(|err| err.is::<TooMuch>())
}

/// Returns the complaint of a server about our certificate, or its absence. In TLS 1.3 the complaint comes after the handshake.
fn complaint(err: &hyper::Error) -> Option<String> {
    let io = err.source()?.downcast_ref::<io::Error>()?;
    let tls = io.get_ref()?.downcast_ref::<rustls::Error>()?;
    let is_complaint = matches!(
        tls,
        rustls::Error::AlertReceived(
            Alert::AccessDenied
                | Alert::BadCertificate
                | Alert::CertificateExpired
                | Alert::CertificateRequired
                | Alert::CertificateRevoked
                | Alert::CertificateUnknown
                | Alert::DecryptError
                | Alert::UnknownCA
                | Alert::UnsupportedCertificate
        )
    );
    is_complaint
        .then(|| format!("the server does not take our certificate, or wants one (TLS): {tls}"))
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsent(err) | Self::Broken(err) => err.fmt(f),
            Self::Endless => TooMuch.fmt(f),
            Self::Refused(err) => err.fmt(f),
        }
    }
}

impl std::error::Error for Failed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unsent(err) | Self::Broken(err) => err.source(),
            Self::Endless | Self::Refused(_) => None,
        }
    }
}

/// More bytes than allowed came before the head of an answer.
#[derive(Debug)]
struct TooMuch;

impl fmt::Display for TooMuch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = INTERIM_BYTES >> 10;
        write!(
            f,
            "more than {most} KiB of interim answers came, and no other"
        )
    }
}

impl std::error::Error for TooMuch {}

/// Moves the bytes in a task of its own. Dropping this closes the connection at once, and not when that task next has its turn.
struct Driver {
    work: Shared,
    _task: JoinSet<()>,
}

/// The work of the task. `None` once it has ended.
type Shared = Arc<Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>>;

impl Driver {
    fn new(work: impl Future<Output = ()> + Send + 'static) -> Self {
        let work: Shared = Arc::new(Mutex::new(Some(Box::pin(work))));
        let shared = Arc::clone(&work);
        let mut task = JoinSet::new();
        task.spawn(poll_fn(move |cx| {
            let mut work = shared.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(work) = &mut *work {
                ready!(work.as_mut().poll(cx));
            }
            *work = None;
            Poll::Ready(())
        }));
        Self { work, _task: task }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        *work = None;
    }
}

/// Notes when the body of a request has left, and counts the bytes before the head of its answer.
#[derive(Default)]
struct Gauge {
    /// The body was handed over, and is in some buffer.
    taken: AtomicBool,
    written: Notify,
    /// The sender of the request has the head of its answer.
    has_head: AtomicBool,
    /// The number of bytes that came before the head.
    interim: AtomicUsize,
}

impl Gauge {
    /// Forgets the last request, whose answer may have come before its body had left.
    fn reset(&self) {
        self.taken.store(false, Ordering::Relaxed);
        self.has_head.store(false, Ordering::Relaxed);
        self.interim.store(0, Ordering::Relaxed);
        let mut stale = pin!(self.written.notified());
        stale.as_mut().enable();
    }

    /// Counts bytes that came before the head.
    fn count(&self, bytes: usize) -> io::Result<()> {
        let before = self.interim.fetch_add(bytes, Ordering::Relaxed);
        match before + bytes > INTERIM_BYTES {
            true => Err(io::Error::other(TooMuch)),
            false => Ok(()),
        }
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

/// A stream that notes when everything has been written: hyper flushes it then, and only then. Before the head of an answer is
/// known, it reads a bounded number of bytes, because hyper does not count interim answers, and reads them in small pieces,
/// because hyper's buffer grows each time that it is filled.
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
        if self.gauge.has_head.load(Ordering::Relaxed) {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let most = buffer.remaining().min(EARLY_PIECE_BYTES);
        let mut piece = ReadBuf::new(buffer.initialize_unfilled_to(most));
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut piece))?;
        let read = piece.filled().len();
        buffer.advance(read);
        Poll::Ready(self.gauge.count(read))
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Without this, interim answers that are sent in one go would be held in buffers of 64 KiB and more for each request.
    #[tokio::test]
    async fn before_the_head_is_known_little_is_read_at_once() {
        let (near, mut far) = tokio::io::duplex(64 << 10);
        far.write_all(&[7; 64 << 10]).await.unwrap();
        let gauge = Arc::new(Gauge::default());
        let mut watched = Watched {
            stream: Box::new(near),
            gauge: Arc::clone(&gauge),
        };
        let mut buffer = vec![0; 64 << 10];
        assert_eq!(watched.read(&mut buffer).await.unwrap(), EARLY_PIECE_BYTES);
        gauge.has_head.store(true, Ordering::Relaxed);
        assert!(watched.read(&mut buffer).await.unwrap() > EARLY_PIECE_BYTES);
    }
}
