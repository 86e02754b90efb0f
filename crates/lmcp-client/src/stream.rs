//! Reads events one at a time, and resumes a stream that broke.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt as _;
use lmcp_outbound::{Connection, Failed, Incoming};
use lmcp_wire::header as wire;
use tokio::time::sleep;

use crate::{
    begun::Share,
    error::Error,
    events::Events,
    limits::{FIRST_RETRY, LEAST_REST, LONGEST_REST, LONGEST_RETRY, STREAM_ATTEMPTS},
    server::Server,
};

/// Reads the messages of a stream.
pub(crate) struct Reader {
    events: Events,
    ready: VecDeque<Vec<u8>>,
    is_too_long: bool,
    /// `None`: no other answer is read at the same time.
    share: Option<Share>,
    /// How often in a row a resumed stream brought nothing.
    failures: u32,
    /// The number of messages on the current stream.
    heard: usize,
    /// How many streams in a row brought at most one message.
    short: u32,
}

/// The next thing on a stream.
pub(crate) enum Next {
    Message(Bytes),
    /// The stream has ended or broken off: they look the same.
    Ended,
    TooLong,
}

/// The result of a GET.
pub(crate) enum Opened {
    Stream(Incoming, Connection),
    Status(StatusCode),
    Broken,
}

impl Reader {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            events: Events::new(limit),
            ready: VecDeque::new(),
            is_too_long: false,
            share: None,
            failures: 0,
            heard: 0,
            short: 0,
        }
    }

    /// Does the same, where other answers are read at the same time.
    pub(crate) fn sharing(limit: usize, share: Share) -> Self {
        Self {
            share: Some(share),
            ..Self::new(limit)
        }
    }

    /// Returns whether there was no room for its bytes.
    pub(crate) fn is_crowded(&self) -> bool {
        self.share.as_ref().is_some_and(Share::is_crowded)
    }

    pub(crate) async fn next(&mut self, body: &mut Incoming) -> Next {
        loop {
            if let Some(message) = self.ready.pop_front() {
                self.failures = 0;
                self.heard = self.heard.saturating_add(1);
                return Next::Message(message.into());
            }
            if self.is_too_long {
                return Next::TooLong;
            }
            if !self.read(body).await {
                return Next::Ended;
            }
        }
    }

    /// Returns the address for messages, if the server names it first: HTTP+SSE.
    pub(crate) async fn endpoint(&mut self, body: &mut Incoming) -> Option<&[u8]> {
        while self.events.endpoint().is_none() {
            if self.is_too_long || !self.ready.is_empty() || !self.read(body).await {
                return None;
            }
        }
        self.events.endpoint()
    }

    /// Reads one more piece. `false`: there is none.
    async fn read(&mut self, body: &mut Incoming) -> bool {
        let Some(Ok(frame)) = body.frame().await else {
            return false;
        };
        if let Ok(data) = frame.into_data() {
            let mut messages = Vec::new();
            self.is_too_long = self.events.read(&data, &mut messages).is_err();
            if let Some(share) = &mut self.share {
                self.is_too_long |= !share.resize(self.events.unfinished());
            }
            self.ready.extend(messages);
        }
        true
    }

    /// Returns whether the stream can be resumed.
    pub(crate) fn can_resume(&self) -> bool {
        self.events.last_id().is_some()
    }

    /// Returns whether there were enough tries.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.failures >= STREAM_ATTEMPTS
    }

    /// Opens a stream that continues this one, after the time that the server asked for.
    pub(crate) async fn open_again(
        &mut self,
        server: &Server,
        headers: &HeaderMap,
    ) -> Result<Opened, Error> {
        let wait = self.events.retry().unwrap_or(Duration::ZERO);
        sleep(wait.max(backoff(self.failures)).max(self.rest())).await;
        self.failures += 1;
        self.open(server, headers).await
    }

    /// Returns how long a stream that has ended is left alone, whatever its server says. Otherwise a server that ends each
    /// stream after one message would be asked hundreds of times a second.
    fn rest(&mut self) -> Duration {
        self.short = match std::mem::take(&mut self.heard) {
            0 | 1 => self.short.saturating_add(1),
            _ => 0,
        };
        let doubled = 2_u32.saturating_pow(self.short.saturating_sub(1));
        LEAST_REST.saturating_mul(doubled).min(LONGEST_REST)
    }

    /// Opens a stream.
    pub(crate) async fn open(
        &mut self,
        server: &Server,
        headers: &HeaderMap,
    ) -> Result<Opened, Error> {
        self.events.begin_again();
        let mut headers = headers.clone();
        let last = self.events.last_id().map(HeaderValue::from_bytes);
        if let Some(Ok(last)) = last {
            headers.insert(wire::LAST_EVENT_ID, last);
        }
        let mut connection = server.connect().await?;
        let request = server.request(Method::GET, &headers, Bytes::new());
        let response = match connection.send(request, std::future::pending()).await {
            Ok(response) => response,
            Err(Failed::Refused(err)) => return Err(Error::from(err)),
            Err(_) => return Ok(Opened::Broken),
        };
        let is_stream = is_events(response.headers());
        Ok(match response.status() {
            StatusCode::OK if is_stream => Opened::Stream(response.into_body(), connection),
            // The response is not a stream.
            StatusCode::OK => Opened::Status(StatusCode::METHOD_NOT_ALLOWED),
            status => Opened::Status(status),
        })
    }
}

pub(crate) fn is_events(headers: &HeaderMap) -> bool {
    kind(headers).eq_ignore_ascii_case("text/event-stream")
}

/// Returns the type of a body, without its parameters.
pub(crate) fn kind(headers: &HeaderMap) -> &str {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim()
}

/// Returns how long to wait after so many failures. Zero after none.
pub(crate) fn backoff(failures: u32) -> Duration {
    match failures {
        0 => Duration::ZERO,
        _ => (FIRST_RETRY.saturating_mul(2_u32.saturating_pow(failures - 1))).min(LONGEST_RETRY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_message_are_asked_for_ever_more_rarely() {
        let mut reader = Reader::new(1024);
        let mut rest = |heard| {
            reader.heard = heard;
            reader.rest().as_millis()
        };
        assert_eq!([1, 1, 1, 0].map(&mut rest), [100, 200, 400, 800]);
        assert_eq!([1; 9].map(&mut rest).last(), Some(&2000));
        assert_eq!([2, 1].map(&mut rest), [100, 100]);
    }
}
