//! All limits of a server, each with its default and the reason for it.
//!
//! Everything that a peer can make grow has one of these limits. A peer that meets a limit gets an error that names it.

use std::time::Duration;

use crate::{system::most_open_files, transport::connections::CONNECTION_BYTES};

/// A message of more bytes than this is read beside the thread that all callers share. 32 KiB take some microseconds, or seven
/// milliseconds where they are thousands of arguments that do not fit.
pub(crate) const LONG_MESSAGE: usize = 32 << 10;

/// Long messages that are read at once; others wait their turn. 2: reading them must not take every processor.
pub(crate) const LONG_AT_ONCE: usize = 2;

/// The time for which the requests of one caller may use the shared thread until other callers had their turns. 2 ms: hundreds of
/// ordinary requests.
pub(crate) const TURN_TIME: Duration = Duration::from_millis(2);

/// Whether reading a message of this size takes long, so that [`Endpoint::read_long`](crate::Endpoint::read_long) should read it.
pub fn is_long(message: &[u8]) -> bool {
    message.len() > LONG_MESSAGE
}

/// The limits of one server. Start from [`Limits::default`] and change what you must.
///
/// ```
/// # use lmcp::{Limits, Server};
/// use std::time::Duration;
///
/// let mut limits = Limits::default();
/// limits.deadline = Duration::from_secs(60);
/// let server = Server::new("quick", "1.0.0").limits(limits);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The memory that all callers of the server may occupy together, in bytes: messages being read, arguments of running
    /// calls, answers nobody has read, pages being fetched, subscriptions, buffers of connections. 64 MiB. A caller alone
    /// gets two thirds of it, several share it evenly, and some is always left for the next. What does not fit waits for
    /// [`Limits::admission_wait`] and is then refused with an error that says that it may be tried again. An eighth is
    /// kept for what is not counted. The server itself takes a few megabytes besides.
    pub memory_bytes: usize,
    /// Longest line on stdio and unix sockets, in bytes. 8 MiB: a file of some size fits, a flood does not. A longer
    /// line is skipped as it arrives, and answered with an error.
    pub line_bytes: usize,
    /// Blank lines on a unix socket without any message between them, in bytes. 1 MiB: some programs end every message with two
    /// line ends. Past it the connection is closed.
    pub blank_bytes: usize,
    /// Largest HTTP body, in bytes; as for lines. A larger one is refused with 413.
    pub body_bytes: usize,
    /// HTTP request line and headers together, in bytes. 16 KiB, as in other servers: each connection may hold a buffer of
    /// that size. A request with more gets the status 431. Smaller values than 8192 count as 8192.
    pub header_bytes: usize,
    /// Connections at once, per listener. 1024, and at most a third of the files that the process may have open. At the limit, a new
    /// connection replaces the one that has been idle longest; connections of callers without a name go first. If no
    /// connection is idle, the new one is refused with `retriable` (503 over HTTP). Over HTTP, a caller with a name has at most two
    /// thirds of the connections. Each connection counts as 32 KiB of [`Limits::memory_bytes`], and all of them together take at most
    /// twice the memory that is free. The first 64 connections are always admitted.
    pub connections: usize,
    /// Requests in flight on one stdio or unix connection. 256: more than any client runs, few enough to stay small. One that
    /// is not answered at once reserves 64 KiB of [`Limits::memory_bytes`].
    pub requests_in_flight: usize,
    /// How long a request waits for a place among those in flight before it is refused. 250 ms: a burst of quick calls
    /// never meets it, and a connection whose every place is taken by slow ones answers soon.
    pub admission_wait: Duration,
    /// Messages waiting on one reply stream. 64: progress is merged long before; log messages beyond it are dropped
    /// and counted.
    pub queue: usize,
    /// Answers that wait to be written on one stdio or unix connection, in bytes. 64 KiB: what a pipe holds. Past it, calls wait until
    /// the client reads, and the server reads no more requests. One message may be larger.
    pub outgoing_bytes: usize,
    /// Items on one page of a list. 1000: most clients never ask for a second page.
    pub list_page: usize,
    /// How long one request may take. 10 minutes: longer work belongs in a task.
    pub deadline: Duration,
    /// Time between two progress notifications of one request. 25 ms: smooth to an eye, cheap to a model.
    pub progress_interval: Duration,
    /// Silence on an HTTP stream before a comment is sent. 15 s: proxies give up at 30 to 60 s.
    pub keep_alive: Duration,
    /// How long a client may take to send its HTTP headers. 10 s: they are one packet.
    pub header_wait: Duration,
    /// How long an `Authenticate` may take to decide who calls. 10 s: it may ask another machine, once. Then the caller is told to
    /// try again (503 over HTTP).
    pub auth_wait: Duration,
    /// How long a client may take to send its HTTP body. 30 s: 8 MiB over a slow line.
    pub body_wait: Duration,
    /// How long answers in flight may still take when the lines of a connection end. 30 ms: quick ones arrive, and a
    /// client that waits for our exit does not notice. HTTP uses [`Limits::shutdown_wait`], stdio [`Limits::input_wait`].
    pub drain_wait: Duration,
    /// How long answers in flight may still take on stdio when the input ends. 1 s: whoever pipes requests into a server gets the answers
    /// to them, and clients wait twice as long for our exit before they send a signal, which ends everything at once.
    pub input_wait: Duration,
    /// How long a server on stdio waits for a client that does not read its last answers, after the input has ended. 1 s without any
    /// progress: a slow client gets everything, and a client that is gone does not keep the server alive.
    pub stall_wait: Duration,
    /// How long HTTP connections may still take when a server closes. 5 s: less than what service managers grant.
    pub shutdown_wait: Duration,
    /// Steps that run on threads for code that blocks ([`Cx::blocking`](crate::Cx::blocking)), at once. 12. Further steps wait. One caller
    /// alone gets two thirds of them. A caller that runs none gets one although all are taken, up to four times this number, so a runtime
    /// needs so many threads for blocking code.
    pub blocking_steps: usize,
    /// Rounds of questions one request may ask. 16: a form, not an interview.
    pub ask_rounds: u32,
    /// How long a question may stay unanswered. 30 minutes: people have lunch. It does not count as the request's time.
    pub ask_wait: Duration,
    /// How long a client may take to say which folders it works in, when a call first needs to know. 2 s: no person is asked.
    /// Then the call goes on without the folders.
    pub roots_wait: Duration,
    /// Questions that wait for an answer, of all sessions. 1024, shared between callers as the memory is. A question past
    /// the limit fails. A call that waits for an answer does not count as a running call.
    pub questions: usize,
    /// Largest sealed state a client is asked to carry, in bytes. 64 KiB: it travels in both directions.
    pub state_bytes: usize,
    /// Subscriptions at once, open streams of sessions among them. 16,384: each costs a few hundred bytes.
    pub listeners: usize,
    /// Resources one subscription may watch. 1024.
    pub watched: usize,
    /// The URIs that one session watches, together, in bytes. 64 KiB.
    pub watched_bytes: usize,
    /// HTTP sessions in which something goes on: a call, an open stream, a log level, a subscription, folders that the client
    /// named. 16,384. All others cost nothing and are not counted. Past it, what has been idle longest is forgotten.
    pub sessions: usize,
    /// How long the server remembers the log level, the subscriptions and the folders of an HTTP session that sends nothing. 1 hour. The
    /// session itself never ends by waiting.
    pub session_wait: Duration,
    /// Sessions that clients ended, and that the server remembers as ended. 16,384: the latest ones. No client comes back for others.
    pub ended_sessions: usize,
    /// Calls that run for all HTTP sessions together. 4096, shared between callers as the memory is; each reserves 64 KiB of
    /// [`Limits::memory_bytes`], so that with the usual memory there are fewer. They outlive their
    /// connections, which have a limit of their own. A call that ends in its first turn needs no place, and neither does
    /// one that waits for an answer to a question.
    pub session_calls: usize,
    /// Events of one stream that are kept for a client whose connection broke, in bytes: 256 for each, and its text. 64 KiB, but always
    /// the last event. The stream of a session keeps fewer where its caller holds half of its share of [`Limits::memory_bytes`].
    pub replay_bytes: usize,
    /// The same for all streams that have ended, and streams of sessions that nobody reads, together. 4 MiB. Past it, the caller that
    /// has most of them loses its oldest.
    pub replay_total_bytes: usize,
    /// How long a client may come back for the rest of a stream that has ended, or for the stream of its session. 2 minutes.
    pub replay_wait: Duration,
    /// How soon a call over HTTP that still runs is answered with a stream, which the client can come back to if it
    /// breaks. 1 s. Only 2025-11-25 has such streams; in other revisions [`Limits::keep_alive`] decides.
    pub stream_after: Duration,
    /// Tasks kept at once. 1000. Past it, a call that could become a task stays a call, and a tool that runs only as a task is
    /// refused.
    pub tasks: usize,
    /// How long a task can be asked for. 1 hour from its creation; a running one is kept until it ends, and for half of this time
    /// afterwards at least.
    pub task_wait: Duration,
    /// How often a client should ask for a task. 1 s.
    pub task_poll: Duration,
}

impl Limits {
    /// How many connections a listener of this process takes: [`Limits::connections`], but at most a third of the files that
    /// the process may have open. A second listener takes another third; the rest is for what handlers open.
    pub fn connections_here(&self) -> usize {
        let third = most_open_files().map_or(usize::MAX, |files| files / 3);
        self.connections.min(third).max(1)
    }

    /// The memory that all connections of a listener count as, in bytes.
    pub fn bytes_of_connections(&self) -> usize {
        self.connections.saturating_mul(CONNECTION_BYTES)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            line_bytes: 8 << 20,
            blank_bytes: 1 << 20,
            body_bytes: 8 << 20,
            header_bytes: 16 << 10,
            connections: 1024,
            requests_in_flight: 256,
            admission_wait: Duration::from_millis(250),
            queue: 64,
            outgoing_bytes: 64 << 10,
            list_page: 1000,
            deadline: Duration::from_secs(600),
            progress_interval: Duration::from_millis(25),
            keep_alive: Duration::from_secs(15),
            header_wait: Duration::from_secs(10),
            auth_wait: Duration::from_secs(10),
            body_wait: Duration::from_secs(30),
            drain_wait: Duration::from_millis(30),
            input_wait: Duration::from_secs(1),
            stall_wait: Duration::from_secs(1),
            shutdown_wait: Duration::from_secs(5),
            blocking_steps: 12,
            ask_rounds: 16,
            ask_wait: Duration::from_secs(1800),
            roots_wait: Duration::from_secs(2),
            questions: 1024,
            state_bytes: 64 << 10,
            listeners: 16_384,
            watched: 1024,
            watched_bytes: 64 << 10,
            sessions: 16_384,
            session_wait: Duration::from_secs(3600),
            ended_sessions: 16_384,
            session_calls: 4096,
            replay_bytes: 64 << 10,
            replay_total_bytes: 4 << 20,
            replay_wait: Duration::from_secs(120),
            stream_after: Duration::from_secs(1),
            tasks: 1000,
            task_wait: Duration::from_secs(3600),
            task_poll: Duration::from_secs(1),
        }
    }
}
