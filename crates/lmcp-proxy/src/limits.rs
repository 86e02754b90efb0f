//! Every bound of the proxy, why it is that, and what happens at it. `docs/limits.md` is written from these comments.

use std::time::Duration;

/// What is read of an identity file, in bytes: more than any credentials take. A longer one is refused.
pub(crate) const IDENTITY_BYTES: usize = 16 << 10;

/// Messages in one line (2025-03-26). A line with more is taken for one that makes no sense.
pub(crate) const BATCH: usize = 4096;

/// Characters of the name of a method that are kept: more than any of the protocol has.
pub(crate) const METHOD_CHARACTERS: usize = 64;

/// Messages that end one subscription: an answer and a notification, at most. Others are not passed on.
pub(crate) const ENDS: usize = 4;

/// Characters that are kept of the reason that a server gives for a refusal.
pub(crate) const REASON_CHARACTERS: usize = 300;

/// The time between two remarks on standard error, so that nobody can fill a disk with them. Those between are counted.
pub(crate) const NOTE_PAUSE: Duration = Duration::from_secs(10);

/// How often a client that is held back is looked at: it may have gone.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// How long the end of a session may take once the client has gone.
pub(crate) const GOOD_BYE: Duration = Duration::from_millis(80);

#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Longest line either way, in bytes. 16 MiB: twice what a server of ours takes. A longer one is not passed on.
    pub(crate) line_bytes: usize,
    /// Bytes on their way to one side before nothing more is taken from the other. 64 KiB: what a pipe holds.
    pub(crate) buffer_bytes: usize,
    /// Requests without an answer. 4096: servers take far fewer. The next one is held back while answers come, and refused
    /// when none has come for as long as `hold`.
    pub(crate) pending: usize,
    /// Lines that wait for a server before nothing more is taken from the client, in number. 256.
    pub(crate) waiting: usize,
    /// The same in bytes. 1 MiB; the last line may have any length.
    pub(crate) waiting_bytes: usize,
    /// How long they wait. 30 s: a restart takes less, and most clients give up after 60.
    pub(crate) wait: Duration,
    /// Requests that are kept because they can be sent again, together, in bytes. 1 MiB. As much once more before a
    /// server has said anything.
    pub(crate) kept_bytes: usize,
    /// Resources that are watched again at the next server, in number. As many as a server of ours lets a client watch.
    pub(crate) watched: usize,
    /// The same in bytes of their URIs.
    pub(crate) watched_bytes: usize,
    /// Questions of a server without an answer. 1024.
    pub(crate) questions: usize,
    /// How long the next server may take to answer the handshake. 10 s, then it is left.
    pub(crate) handshake_wait: Duration,
    /// How long it may take to let us in. 20 s: it may have to wait, up to 10 s, to hear which process we are.
    pub(crate) welcome_wait: Duration,
    /// How long the end of a subscription is held back: if its server goes too, the next one goes on with it. 1 s.
    pub(crate) hold: Duration,
    /// How long the client is not told again that everything may have changed. 1 s.
    pub(crate) news: Duration,
    /// How long a server must last for the next one to be looked for at once. 1 s.
    pub(crate) lasting: Duration,
    /// How long the rest of what a server says may take after the last answer, or when it listens no more. 1 s.
    pub(crate) linger: Duration,
    /// How long a client may take to read anything at all of what is left, once it has said its last word. 10 s.
    pub(crate) stall: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line_bytes: 16 << 20,
            buffer_bytes: 64 << 10,
            pending: 4096,
            waiting: 256,
            waiting_bytes: 1 << 20,
            wait: Duration::from_secs(30),
            kept_bytes: 1 << 20,
            watched: 1024,
            watched_bytes: 64 << 10,
            questions: 1024,
            handshake_wait: Duration::from_secs(10),
            welcome_wait: Duration::from_secs(20),
            hold: Duration::from_secs(1),
            news: Duration::from_secs(1),
            lasting: Duration::from_secs(1),
            linger: Duration::from_secs(1),
            stall: Duration::from_secs(10),
        }
    }
}

/// How long a proxy waits for a place in the queue of a socket, before it does other things and tries again.
pub(crate) const FULL_QUEUE_WAIT: Duration = Duration::from_secs(1);
