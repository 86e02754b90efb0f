//! What a server of the older revisions says by itself: on a stream that is opened again whenever it ends, or on the one of HTTP+SSE.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use tokio::{sync::mpsc, time::timeout};

use crate::{
    answer::{self, Said},
    error::Error,
    limits::STANDING_WAIT,
    pair::Pair,
    post::{Outcome, Signal},
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
        let mut was_open = false;
        loop {
            match opened {
                Ok(Opened::Stream(mut body, _connection)) => {
                    was_open = true;
                    loop {
                        match reader.next(&mut body).await {
                            Next::Message(message) => pass(&self.signals, message).await,
                            Next::Ended => break,
                            // It would only come again.
                            Next::TooLong => return Outcome::Over(None),
                        }
                    }
                }
                Ok(Opened::Status(StatusCode::NOT_FOUND)) if was_open => {
                    let name = self.server.name();
                    let why = format!("`{name}` does not know the session any more");
                    return Outcome::Lost { why, unsent: None };
                }
                // There is no such stream: 405, or whatever a server says that does not know the verb here.
                Ok(Opened::Status(status)) if !status.is_server_error() => {
                    return Outcome::Over(None);
                }
                Ok(Opened::Status(_) | Opened::Broken) => {}
                Err(err) => {
                    let why = err.to_string();
                    return Outcome::Lost { why, unsent: None };
                }
            }
            opened = reader.open_again(&self.server, &self.headers).await;
        }
    }

    /// Opens it for the first time. What follows the handshake waits for this, for a moment: some servers ask on this
    /// stream what belongs to a call, and drop the question where there is none.
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

/// HTTP+SSE: passes on what the server says, until it says nothing more.
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

/// Passes on what is said on a stream that no request opened. Answers should come where they were asked for, and do not
/// always.
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
