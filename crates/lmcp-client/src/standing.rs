//! Messages that a server of the older revisions sends by itself: on a stream that is opened again whenever it ends, or on
//! the stream of HTTP+SSE.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use tokio::{sync::mpsc, time::timeout};

use crate::{
    Event,
    answer::{self, Said},
    error::Error,
    limits::{STANDING_WAIT, STREAM_ATTEMPTS},
    pair::Pair,
    post::{Outcome, Signal, away},
    server::Server,
    stream::{Next, Opened, Reader},
};

pub(crate) struct Standing {
    pub(crate) key: u64,
    pub(crate) server: Arc<Server>,
    /// The session, and its revision.
    pub(crate) headers: HeaderMap,
    pub(crate) signals: mpsc::Sender<Signal>,
}

impl Standing {
    pub(crate) async fn run(self) {
        let outcome = self.listen().await;
        let _ = self.signals.send(Signal::Done(self.key, outcome)).await;
    }

    async fn listen(&self) -> Outcome {
        let mut reader = Reader::new(self.server.message_bytes);
        let mut opened = self.first(&mut reader).await;
        let (mut was_open, mut failures) = (false, 0);
        loop {
            match opened {
                Ok(Opened::Stream(mut body, _connection)) => {
                    (was_open, failures) = (true, 0);
                    loop {
                        match reader.next(&mut body).await {
                            Next::Message(message) => pass(&self.signals, message).await,
                            Next::Ended => break,
                            // The same event would come again.
                            Next::TooLong => return Outcome::Over(None),
                        }
                    }
                }
                Ok(Opened::Status(StatusCode::NOT_FOUND)) if was_open => {
                    let name = self.server.name();
                    let why = format!("`{name}` does not know the session any more");
                    return Outcome::Lost { why, unsent: None };
                }
                Ok(Opened::Status(status)) if was_open && denies(status) => {
                    return Outcome::Refused(self.denied(status));
                }
                // There is no such stream: 405, or another answer of a server that does not know GET here.
                Ok(Opened::Status(status)) if !status.is_server_error() => {
                    return Outcome::Over(None);
                }
                Ok(Opened::Status(_) | Opened::Broken)
                    if was_open && failures >= STREAM_ATTEMPTS =>
                {
                    let why = format!("`{}` does not go on with its stream", self.server.name());
                    return Outcome::Lost { why, unsent: None };
                }
                Ok(Opened::Status(_) | Opened::Broken) => failures += 1,
                Err(err) => return away(&err, None),
            }
            opened = reader.open_again(&self.server, &self.headers).await;
        }
    }

    /// Makes the event for a server that wants another token since the stream was open.
    fn denied(&self, status: StatusCode) -> Event {
        let why = format!("`{}` answered {status} to its stream", self.server.name());
        match status {
            StatusCode::UNAUTHORIZED => Event::Unauthorized(why),
            _ => Event::Refused(why),
        }
    }

    /// Opens the stream for the first time. Messages after the handshake wait a moment for it: some servers send the
    /// questions of a call on this stream, and drop a question if there is no stream.
    async fn first(&self, reader: &mut Reader) -> Result<Opened, Error> {
        let mut opening = std::pin::pin!(reader.open(&self.server, &self.headers));
        let opened = timeout(STANDING_WAIT, opening.as_mut()).await;
        let _ = self.signals.send(Signal::Clear(self.key)).await;
        match opened {
            Ok(opened) => opened,
            Err(_) => opening.await,
        }
    }
}

/// Returns whether the server does not let this client in.
fn denies(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// HTTP+SSE: passes on the messages of the server until the stream ends.
pub(crate) async fn read_pair(
    mut pair: Pair,
    key: u64,
    server: Arc<Server>,
    signals: mpsc::Sender<Signal>,
) {
    let why = loop {
        match pair.reader.next(&mut pair.body).await {
            Next::Message(message) => pass(&signals, message).await,
            Next::Ended => break "closed its stream",
            Next::TooLong => {
                let _ = signals.send(Signal::TooLong).await;
                break "said more at once than is read";
            }
        }
    };
    let why = format!("`{}` {why}", server.name());
    let lost = Outcome::Lost { why, unsent: None };
    let _ = signals.send(Signal::Done(key, lost)).await;
}

/// Passes on the messages of a stream that no request opened. Some servers send answers here, and not on the stream of the
/// request.
pub(crate) async fn pass(signals: &mpsc::Sender<Signal>, message: Bytes) {
    let line = answer::one_line(&message);
    for message in answer::messages(&line) {
        let signal = match answer::read(&message) {
            Some(Said::Own) => Signal::Line(message),
            Some(Said::Answer(Some(id))) => Signal::Elsewhere(id, message),
            Some(Said::Answer(None)) | None => continue,
        };
        let _ = signals.send(signal).await;
    }
}
