//! Every bound of a client, and what happens at it. `docs/limits.md` is written from these comments.
//!
//! Sizes of buffers and marks between two bounds stay where they are used.

use std::time::Duration;

/// Messages to a server that wait to be sent, in number. From 64 on, whoever sends is told to wait.
pub(crate) const ENOUGH_LINES: usize = 64;

/// The same in bytes, also on pipes and sockets. From 1 MiB on, whoever sends is told to wait.
pub(crate) const ENOUGH_BYTES: usize = 1 << 20;

/// Messages that wait although their sender was told to wait, in number. The next request is answered with an error. On pipes
/// and sockets as many again may wait that want no answer; more of them are dropped.
pub(crate) const MOST_LINES: usize = 4096;

/// The same in bytes, over HTTP.
pub(crate) const MOST_BYTES: usize = 64 << 20;

/// The same in bytes, on pipes and sockets: a server that leaves so much does not read. Requests of at most 64 KiB have as much room
/// again.
pub(crate) const UNREAD_BYTES: usize = 16 << 20;

/// Longest line of a server on a pipe or socket, in bytes. A server that sends a longer one is left.
pub(crate) const LINE_BYTES: usize = 16 << 20;

/// What a server may write without any message in it, in bytes: lines that are no messages, or blank ones. A server that
/// writes more is left.
pub const RUBBISH_BYTES: usize = 16 << 20;

/// What a short line of rubbish counts for, in bytes: reading it takes time, too.
pub(crate) const SHORT_LINE: usize = 64;

/// How deep the arrays and objects of one message of a server may stand in each other: most parsers read 128 levels, and what
/// is passed on gets a few more. An answer that is deeper counts as an error, a question is refused, anything else is not heard.
pub(crate) const DEPTH: usize = 120;

/// Messages in one line of a server. A line with more is not heard.
pub(crate) const BATCH: usize = 4096;

/// Questions of a server that wait for an answer. The next one is answered with an error.
pub(crate) const QUESTIONS: usize = 64;

/// Longest question of a server, in bytes. A longer one is answered with an error.
pub(crate) const QUESTION_BYTES: usize = 1 << 20;

/// All questions of a server that wait for an answer, in bytes. The next one is answered with an error.
pub(crate) const QUESTIONS_BYTES: usize = 4 << 20;

/// Requests to watch resources, or to watch them no longer, that a server has not answered. The next ones wait.
pub(crate) const WISHES: usize = 64;

/// Longest answer of a server to `server/discover` or `initialize`, in bytes: it is kept for as long as the server is there. A server
/// that says more about itself is left.
pub(crate) const OPENING_BYTES: usize = 256 << 10;

/// Longest notification of a server, in bytes: progress, log messages, changes. A longer one is not heard.
pub(crate) const NOTICE_BYTES: usize = 256 << 10;

/// How long a server may be silent about `server/discover`. Then it is sent a handshake as well, as older servers want one.
pub const PROBE_WAIT: Duration = Duration::from_secs(5);

/// How long the stream for news may take to open before messages are sent all the same. Some servers say nothing before they
/// have news.
pub(crate) const STANDING_WAIT: Duration = Duration::from_millis(500);

/// How often a broken stream is asked for again without anything coming of it: more than 15 s in all. Then its call fails.
pub(crate) const STREAM_ATTEMPTS: u32 = 6;

/// The time between the first two of these attempts. It doubles each time.
pub(crate) const FIRST_RETRY: Duration = Duration::from_millis(500);

/// The longest time between two attempts.
pub(crate) const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// The least time between the end of a stream and the next request for it, whatever `retry` says. It doubles for each stream in a row
/// that brought one message at most.
pub(crate) const LEAST_REST: Duration = Duration::from_millis(100);

/// The longest of these times.
pub(crate) const LONGEST_REST: Duration = Duration::from_secs(2);

/// The longest time that a server can make its clients stay away from a stream. A longer `retry` counts as this.
pub(crate) const SERVER_RETRY: Duration = Duration::from_secs(300);

/// Longest id of an event, in bytes: it is repeated in a header. A longer one counts as none.
pub(crate) const EVENT_ID_BYTES: usize = 4 << 10;

/// How long a server may take over a message that wants no answer. Then the next one is sent all the same.
pub(crate) const TURN: Duration = Duration::from_secs(5);

/// Answers of the greatest length that are read over HTTP at once. What was read of all answers that a server has begun is at
/// most as much: 64 MiB, unless a program changed the longest message. Past it, the answer that needs more fails with `retriable`.
pub(crate) const BEGUN_ANSWERS: usize = 4;

/// How long the end of an HTTP answer may take after its message was read. Then the connection is closed.
pub(crate) const LINGER: Duration = Duration::from_secs(1);

/// What a server may say over HTTP about a message that wants no answer, in bytes. The connection is closed at more.
pub(crate) const WORDS_BYTES: usize = 64 << 10;

/// What the tasks of one connection tell it before they wait to be heard.
pub(crate) const SIGNALS: usize = 16;

/// HTTP connections that are kept for the next requests. Others are closed.
pub(crate) const IDLE_CONNECTIONS: usize = 16;

/// How long answers on their way may take once a server is known to be gone. Then their calls fail. A server that only takes no more
/// connections may answer for as long as it leaves theirs open.
pub(crate) const LAST_WAIT: Duration = Duration::from_secs(2);

#[cfg(target_os = "linux")]
/// How long a client waits for a place in the queue of a socket. Then the server counts as not there.
pub(crate) const FULL_QUEUE_WAIT: Duration = Duration::from_secs(5);

/// How long it may take to end a session over HTTP. Then the client goes without.
pub(crate) const CLOSING: Duration = Duration::from_secs(2);

/// How long the last lines to a server may take to be written. Then they are lost.
pub(crate) const FLUSHING: Duration = Duration::from_secs(1);

/// How long a server that was started here may take to end, first by itself and then after a signal. Then it is killed.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// How long the rest of its standard error is waited for, where other processes hold the pipe open.
pub(crate) const LAST_WORDS: Duration = Duration::from_millis(200);

/// Lines of its standard error that are kept for error messages: the last ones.
pub(crate) const STDERR_LINES: usize = 20;

/// What is kept of one of these lines, in bytes.
pub(crate) const STDERR_LINE_BYTES: usize = 500;

/// Messages that a client remembers because a server did not know their session. Each goes to one more session; a second 404
/// is an error. The oldest is forgotten for the next one.
pub(crate) const SECOND_SESSIONS: usize = 256;

/// Tools whose arguments are repeated in headers that a client remembers. Calls of others go without such headers.
pub(crate) const MIRRORED_TOOLS: usize = 1024;

/// Headers of one of these tools. A tool with more goes without.
pub(crate) const MIRRORED_PARAMS: usize = 64;
