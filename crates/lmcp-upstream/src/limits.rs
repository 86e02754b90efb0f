//! Every bound of a server elsewhere, and what happens at it. `docs/limits.md` is written from these comments.

use std::time::Duration;

/// Calls that wait for answers of one server. The next one fails with `retriable`.
pub(crate) const CALLS: usize = 4096;

/// How long a request of more than 64 KiB waits until its copy for the server fits the share of its caller. Then it fails with
/// `retriable`, and was not sent.
pub(crate) const ARGUMENTS_WAIT: Duration = Duration::from_secs(10);

/// Calls that wait for their callers to answer a question; callers share the places out as they do memory. The next one that would
/// ask fails with `retriable`.
pub(crate) const HELD_CALLS: usize = 256;

/// How long such a call waits. Then it is forgotten.
pub(crate) const HELD_WAIT: Duration = Duration::from_secs(600);

/// How long a question that is passed on may stay unanswered. Then the client is told that it need not answer, and the server
/// that nobody did.
pub(crate) const ASK_WAIT: Duration = Duration::from_secs(30 * 60);

/// Progress and log messages that wait for one caller. Past it, the oldest is dropped.
pub(crate) const NOTICES: usize = 64;

/// The same in bytes.
pub(crate) const NOTICES_BYTES: usize = 1 << 20;

/// The same for all callers of one server, in bytes. Past it, the oldest of the caller is dropped, and what still finds no
/// room is not passed on.
pub(crate) const ALL_NOTICES_BYTES: usize = 16 << 20;

/// Longest `_meta` in the notice of a server that a resource or a list has changed, in bytes. A longer one is left out, as is all else but
/// the URI.
pub(crate) const NEWS_META: usize = 1024;

/// How often a server may ask before it answers one request. Then the request fails.
pub(crate) const ROUNDS: usize = 32;

/// Pages of a list of tools that are read to learn which headers a call needs.
pub(crate) const TOOL_PAGES: usize = 100;

/// Resources, and tasks, that one listener may watch. It is told nothing about others.
pub(crate) const WATCHED: usize = 1024;

/// Watched resources of a session that are remembered because they changed while no stream of the session was open. The next stream
/// is told of them; more are not remembered.
pub(crate) const MISSED: usize = 32;

/// How long a server may take to confirm what it will tell of. Then the listener goes on without.
pub(crate) const GRANT_WAIT: Duration = Duration::from_secs(5);

/// How long the end of a subscription is held back. If its server is lost meanwhile, the next one takes the subscription over.
pub(crate) const END_WAIT: Duration = Duration::from_secs(1);

/// How long a server with sessions may be silent about a `ping`. Then it is asked for a list as well, as some pass over requests that
/// they do not know.
pub(crate) const PING_SILENCE: Duration = Duration::from_secs(5);

/// How long the server of a single client may take to answer. Then it is ended, and the next call of the client starts another.
pub(crate) const PING_WAIT: Duration = Duration::from_secs(10);

/// Servers at once, where each client has one of its own; callers share the places out as they do memory. Past its share, a
/// caller loses its own server that is idle longest; where none is idle, the call fails with `retriable`. Where all places are
/// taken, an idle server of the caller that has most makes room for one that has none.
pub(crate) const SERVERS_PER_CLIENT: usize = 64;

/// How long nobody calls a server of that kind before it is ended.
pub(crate) const SERVER_IDLE: Duration = Duration::from_secs(10 * 60);

/// How long a server may take to answer how it is to be spoken with: some are downloaded first. Then it is left, and its
/// callers are told. A longer `start_timeout` of a hub ends here.
pub(crate) const OPENING_WAIT: Duration = Duration::from_secs(5 * 60);

/// How long a server that was there, and is gone, is looked for. Then its callers are told.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A connection that lasts less counts as a failure: the next one is tried after a pause.
pub(crate) const LASTING: Duration = Duration::from_secs(1);

/// The pause after the first failure. It doubles each time.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(25);

/// The longest pause between two tries.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(2);
