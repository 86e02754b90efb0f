//! Every bound of the proxy, and why it is that.

use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Longest line either way, in bytes. 16 MiB: twice what a server of ours takes. A longer one is not passed on.
    pub(crate) line_bytes: usize,
    /// Bytes on their way to one side before nothing more is taken from the other. 64 KiB: what a pipe holds.
    pub(crate) buffer_bytes: usize,
    /// Requests without an answer. 4096: servers take far fewer. The next one is held back while answers come, and refused
    /// when none has come for as long as `hold`.
    pub(crate) pending: usize,
    /// Lines that wait for a server, in number and in bytes, before nothing more is taken from the client. 256 and 1 MiB;
    /// the last one may have any length.
    pub(crate) waiting: usize,
    pub(crate) waiting_bytes: usize,
    /// How long they wait. 30 s: a restart takes less, and most clients give up after 60.
    pub(crate) wait: Duration,
    /// Requests that are kept because they can be sent again, together, in bytes. 1 MiB. As much once more before a
    /// server has said anything.
    pub(crate) kept_bytes: usize,
    /// Resources that are watched again at the next server, in number and in bytes. As many as a server of ours lets
    /// a client watch.
    pub(crate) watched: usize,
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
