//! The event streams of sessions. Their messages are kept for a while, so that a client whose connection broke can come back
//! for the rest.
//!
//! A stream has one reader at a time; a later reader takes over. If the reader falls behind, the calls wait; if there is no
//! reader, the oldest events are dropped. The events of a session's own stream count as memory of its caller, and where that is
//! short, the oldest are dropped, too.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use lmcp_core::{Account, Message, MessageKind, Reservation};
use lmcp_wire::RequestId;
use tokio::sync::Notify;

use crate::event::Event;

/// The name of an event: `<stream>-<number>`, and `-<request>` if the stream answers one request.
pub(crate) struct EventId {
    pub(crate) stream: u64,
    pub(crate) number: u64,
    /// The event was the last one.
    pub(crate) last: bool,
    pub(crate) answers: Answers,
}

/// The purpose of a stream, as far as the name of an event shows it.
pub(crate) enum Answers {
    /// No request: the stream is the session's own.
    Nothing,
    /// A request.
    Request(RequestId),
    /// Several requests, or one whose id is too long for a name.
    Something,
}

impl Answers {
    /// Returns the part of a name after the number of an event.
    fn suffix(&self) -> String {
        let id = match self {
            Self::Nothing => return String::new(),
            Self::Request(id) => serde_json::to_string(id).ok(),
            Self::Something => None,
        };
        let id = id.filter(|id| id.len() <= LONGEST_ID).unwrap_or_default();
        format!("-{}", URL_SAFE_NO_PAD.encode(id))
    }
}

/// Follows the number of an event that ends a stream.
const LAST: char = '!';

/// The longest id of a request in a name. Clients repeat the name in a header.
const LONGEST_ID: usize = 256;

impl EventId {
    /// Reads a name that a client repeats.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '-');
        let stream = u64::from_str_radix(parts.next()?, 16).ok()?;
        let number = parts.next()?;
        let last = number.ends_with(LAST);
        Some(Self {
            stream,
            number: number.trim_end_matches(LAST).parse().ok()?,
            last,
            answers: match parts.next() {
                None => Answers::Nothing,
                Some("") => Answers::Something,
                Some(id) => {
                    let id = URL_SAFE_NO_PAD.decode(id).ok()?;
                    Answers::Request(serde_json::from_slice(&id).ok()?)
                }
            },
        })
    }
}

/// One stream.
pub(crate) struct Stream {
    pub(crate) number: u64,
    /// The purpose of the stream.
    answers: Answers,
    /// Whether the stream begins with an event that has only a name.
    pub(crate) priming: bool,
    kept: Kept,
    /// The account that pays for the events. `None`: the call that the stream answers has paid.
    account: Option<Account>,
    log: Mutex<Log>,
    /// Notified when a reader has read or left.
    read: Notify,
}

/// The messages of a stream that are kept.
#[derive(Clone, Copy)]
pub(crate) enum Kept {
    /// The last events, up to this many bytes.
    Events(usize),
    /// All responses and nothing else, for a client that takes no events.
    Responses,
}

#[derive(Default)]
struct Log {
    events: VecDeque<Said>,
    /// The number of events that were dropped before the first of `events`.
    dropped: u64,
    bytes: usize,
    /// The memory of the events, if it is counted here.
    counted: Option<Reservation>,
    /// No more messages will come.
    ended: bool,
    /// An event was sent, so the client knows a name and can come back.
    named: bool,
    /// The time after which the reader should come back.
    pause: Option<Duration>,
    /// The number of readers so far. Only the last one reads.
    readers: u64,
    /// The number of the last event that the reader has read. `None`: there is no reader.
    position: Option<u64>,
    waker: Option<Waker>,
}

/// One message on a stream.
struct Said {
    json: Bytes,
    response: bool,
}

/// The memory that an event takes besides its text.
const EVENT_BYTES: usize = 256;

impl Said {
    fn bytes(&self) -> usize {
        self.json.len() + EVENT_BYTES
    }
}

/// The state of a stream before anybody reads it.
pub(crate) enum Opening {
    /// All messages that will ever come, and all of them responses.
    Answered(Vec<Bytes>),
    /// Messages that need a stream of events.
    Events,
}

impl Stream {
    /// The stream of a session, whose events count as memory of this account.
    pub(crate) fn standing(number: u64, priming: bool, most: usize, account: Account) -> Arc<Self> {
        let (answers, kept) = (Answers::Nothing, Kept::Events(most));
        Self::with(number, answers, priming, kept, Some(account))
    }

    /// The stream of an answer to these requests.
    pub(crate) fn answer<'a>(
        number: u64,
        mut requests: impl Iterator<Item = &'a RequestId>,
        priming: bool,
        kept: Kept,
    ) -> Arc<Self> {
        let answers = match (requests.next(), requests.next()) {
            (Some(id), None) => Answers::Request(id.clone()),
            _ => Answers::Something,
        };
        Self::with(number, answers, priming, kept, None)
    }

    fn with(
        number: u64,
        answers: Answers,
        priming: bool,
        kept: Kept,
        account: Option<Account>,
    ) -> Arc<Self> {
        Arc::new(Self {
            number,
            answers,
            priming,
            kept,
            account,
            log: Mutex::default(),
            read: Notify::new(),
        })
    }

    /// Waits until a reader that falls behind has caught up.
    pub(crate) async fn room(&self) {
        loop {
            let read = self.read.notified();
            if !self.is_full() {
                return;
            }
            read.await;
        }
    }

    /// Adds a message, or a pause.
    pub(crate) fn push(&self, reply: Message) {
        match reply.kind() {
            MessageKind::Pause(time) => self.pause(time),
            _ => self.push_now(reply),
        }
    }

    /// Adds a message.
    pub(crate) fn push_now(&self, reply: Message) {
        let mut log = self.lock();
        let response = reply.is_response();
        if !response && matches!(self.kept, Kept::Responses) {
            return;
        }
        let json = reply.into_json();
        let said = Said { json, response };
        log.bytes += said.bytes();
        log.events.push_back(said);
        log.trim(self.kept);
        log.count(self.account.as_ref());
        log.wake();
    }

    fn pause(&self, time: Duration) {
        if matches!(self.kept, Kept::Responses) {
            return;
        }
        let mut log = self.lock();
        log.pause = Some(time);
        log.wake();
    }

    /// Ends the stream: no more messages will come.
    pub(crate) fn end(&self) {
        let mut log = self.lock();
        log.ended = true;
        log.wake();
    }

    /// The memory that the stream takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes + size_of::<Self>() + 256
    }

    /// Whether a client knows the name of an event, or may get to know one.
    pub(crate) fn is_known(&self) -> bool {
        let log = self.lock();
        log.named || log.position.is_some()
    }

    /// Whether nobody reads the stream, and it has nothing to come back for.
    pub(crate) fn is_blank(&self) -> bool {
        let log = self.lock();
        log.position.is_none() && log.events.is_empty() && log.dropped == 0
    }

    /// Whether the stream has a reader.
    pub(crate) fn has_reader(&self) -> bool {
        self.lock().position.is_some()
    }

    /// Whether the stream has ended, and no event follows this one.
    pub(crate) fn is_over_after(&self, number: u64) -> bool {
        let log = self.lock();
        log.ended && log.end() <= number
    }

    /// Whether the reader has more unread events than may be kept.
    fn is_full(&self) -> bool {
        match self.kept {
            Kept::Events(most) => self.lock().is_full(most),
            Kept::Responses => false,
        }
    }

    fn name(&self, number: u64, last: bool) -> String {
        let last = if last {
            LAST.encode_utf8(&mut [0; 4]).to_owned()
        } else {
            String::new()
        };
        format!("{:x}-{number}{last}{}", self.number, self.answers.suffix())
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    /// The number of the last event. The first event is 1; 0 is the event that has only a name.
    fn end(&self) -> u64 {
        self.dropped + self.events.len() as u64
    }

    /// Whether the reader has more unread events than may be kept.
    fn is_full(&self, most: usize) -> bool {
        let Some(position) = self.position else {
            return false;
        };
        let unread = usize::try_from(self.end().saturating_sub(position)).unwrap_or(usize::MAX);
        let unread = self.events.iter().rev().take(unread);
        unread.map(Said::bytes).sum::<usize>() >= most
    }

    /// Drops the oldest events, but never the last one, nor those that the reader has not read.
    fn trim(&mut self, kept: Kept) {
        let Kept::Events(most) = kept else {
            return;
        };
        while self.bytes > most && self.drops_oldest() {}
    }

    /// Counts the events as memory of this account. Where it has none to spare, the oldest events are dropped.
    fn count(&mut self, account: Option<&Account>) {
        let Some(account) = account else {
            return;
        };
        let counted = self.counted.take();
        let mut counted = counted.unwrap_or_else(|| account.take(0));
        loop {
            let more = self.bytes.saturating_sub(counted.bytes());
            if counted.grow_if_spare(more) {
                break;
            }
            if !self.drops_oldest() {
                counted.join(account.take(more));
                break;
            }
        }
        counted.shrink_to(self.bytes);
        self.counted = Some(counted);
    }

    /// Drops the oldest event. `false`: it is the last one, or the reader has not read it.
    fn drops_oldest(&mut self) -> bool {
        if self.events.len() <= 1 || self.position == Some(self.dropped) {
            return false;
        }
        if let Some(event) = self.events.pop_front() {
            self.bytes -= event.bytes();
            self.dropped += 1;
        }
        true
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Reads a stream from some event on.
pub(crate) struct Reader {
    stream: Arc<Stream>,
    /// The number of this reader.
    me: u64,
    /// Whether the event that has only a name is still to be sent.
    primes: bool,
}

impl Reader {
    /// Reads from the beginning, and takes over from the present reader.
    pub(crate) fn open(stream: &Arc<Stream>) -> Self {
        Self::take_over(stream, 0, stream.priming)
    }

    /// Reads from the event after this one.
    pub(crate) fn resume(stream: &Arc<Stream>, number: u64) -> Self {
        Self::take_over(stream, number, false)
    }

    fn take_over(stream: &Arc<Stream>, number: u64, primes: bool) -> Self {
        let mut log = stream.lock();
        log.readers += 1;
        log.wake();
        log.position = Some(number.clamp(log.dropped, log.end()));
        // A reader that comes back has waited as it was told.
        if !primes {
            log.pause = None;
        }
        let me = log.readers;
        drop(log);
        stream.read.notify_waiters();
        Self {
            stream: Arc::clone(stream),
            me,
            primes,
        }
    }

    /// Returns the beginning of the stream. Plain responses are returned when all of them are there.
    pub(crate) fn poll_opening(&self, cx: &mut Context<'_>) -> Poll<Opening> {
        let mut log = self.stream.lock();
        if log.readers != self.me {
            return Poll::Ready(Opening::Answered(Vec::new()));
        }
        let unlike = log.pause.is_some() || log.events.iter().any(|event| !event.response);
        let full = matches!(self.stream.kept, Kept::Events(most) if log.is_full(most));
        if unlike || full && !log.ended {
            return Poll::Ready(Opening::Events);
        }
        if log.ended {
            let answers = log.events.iter().map(|event| event.json.clone());
            return Poll::Ready(Opening::Answered(answers.collect()));
        }
        log.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The stream that is read.
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Returns the next piece of the body; `None` at the end.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if std::mem::take(&mut self.primes) {
            self.stream.lock().named = true;
            let name = self.stream.name(0, false);
            let event = format!("id: {name}\ndata: \n\n");
            return Poll::Ready(Some(Event::Whole(event.into())));
        }
        let mut log = self.stream.lock();
        let Some(position) = log.position.filter(|_| log.readers == self.me) else {
            return Poll::Ready(None);
        };
        let index = usize::try_from(position - log.dropped).unwrap_or(usize::MAX);
        if let Some(event) = log.events.get(index) {
            let json = event.json.clone();
            let last = event.response && matches!(self.stream.answers, Answers::Request(_));
            log.position = Some(position + 1);
            log.named = true;
            drop(log);
            self.stream.read.notify_waiters();
            let name = self.stream.name(position + 1, last);
            let before = format!("id: {name}\ndata: ");
            return Poll::Ready(Some(Event::new(before.as_bytes(), json)));
        }
        if let Some(time) = log.pause.take() {
            log.readers += 1;
            log.position = None;
            let event = format!("retry: {}\n\n", time.as_millis());
            return Poll::Ready(Some(Event::Whole(event.into())));
        }
        if log.ended {
            return Poll::Ready(None);
        }
        log.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut log = self.stream.lock();
        if log.readers == self.me {
            log.position = None;
        }
        log.trim(self.stream.kept);
        log.count(self.stream.account.as_ref());
        drop(log);
        self.stream.read.notify_waiters();
    }
}
