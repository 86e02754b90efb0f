//! Every bound of a hub, and what happens at it. `docs/limits.md` is written from these comments.

use std::time::Duration;

/// How long a server may be silent while it answers a call. Then the call fails. `timeout` of a server changes it.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(300);

/// The same for a service of the program that bounds its calls itself: the hosts of a hub.
pub(crate) const MOUNTED_SILENCE: Duration = Duration::from_secs(24 * 3600);

/// How long a server may take to be there: some are downloaded first. Then its callers are told. `start_timeout` of a server
/// changes it.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(30);

/// How long nobody calls a server before it is stopped. `idle_stop` of a server changes it.
pub(crate) const IDLE_STOP: Duration = Duration::from_secs(600);

/// How long a server that failed is left alone at first. It doubles with each failure.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The longest time that a server is left alone.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How long a server that is given up may take to go.
pub(crate) const HANG_UP: Duration = Duration::from_secs(5);

/// How often a server that nobody calls is asked whether it is there, and how long it may take to say so. Then it counts as
/// gone: it is ended, and the next call starts another. A server that was silent for too long in a call is asked the same, and if
/// it is gone, it ends after the calls of others that go on there.
pub(crate) const PROBE: Duration = Duration::from_secs(15);

/// How long all lists of a server may take. Then it counts as failed.
pub(crate) const LIST_WAIT: Duration = Duration::from_secs(30);

/// How long a server may take to say that it will tell of changes. Then it is asked for its lists all the same.
pub(crate) const HEARING: Duration = Duration::from_secs(1);

/// How long after a change the lists of a server are asked for: changes come in groups.
pub(crate) const SETTLE: Duration = Duration::from_millis(20);

/// How often a server that announces change after change is asked for its lists: once in this time.
pub(crate) const RELIST: Duration = Duration::from_secs(1);

/// How long after its start a hub holds back lists for servers that it knows nothing of. Then it answers without them.
pub(crate) const FIRST_LIST: Duration = Duration::from_secs(5);

/// How long the disk may take to keep what a server offers. Then the hub goes on, and asks the server after a restart.
pub(crate) const KEEP_WAIT: Duration = Duration::from_secs(1);

/// After how long a server that was lost is listened to again.
pub(crate) const LISTEN_RETRY: Duration = Duration::from_secs(2);

/// Longest answer of a server that is read, and whose URIs are led back, between the turns of others, in bytes; the same for all lists
/// of a hub together. A longer one has a thread of its own for it.
pub(crate) const LONG_ANSWER: usize = 256 << 10;

/// URIs and ids of tasks in one answer of a server that get the name of the server in front. An answer with more is an error.
pub(crate) const MARKS: usize = 50_000;

/// Memory that counts for each client that listens, in bytes, beside what it watches.
pub(crate) const LISTENER: usize = 4 << 10;

/// Resources and tasks that one subscription may watch. One with more is refused.
pub(crate) const WATCHED: usize = 1024;

/// Pages of one list of a server that are read.
pub(crate) const LIST_PAGES: usize = 100;

/// Items of one list of a server that are kept: the first ones.
pub(crate) const LIST_ITEMS: usize = 2000;

/// Bytes of all lists of one server together that are kept. No more is read past it.
pub(crate) const LIST_BYTES: usize = 8 << 20;

/// Longest item of a list, in bytes. A longer one is left out, and `lmcp hub status` names it.
pub(crate) const ITEM_BYTES: usize = 64 << 10;

/// Characters of what one server tells models about itself: all of it is in every conversation. The rest is cut off.
pub(crate) const INSTRUCTIONS: usize = 2000;

/// Notes about what servers offer that are kept for `lmcp hub status`.
pub(crate) const NOTES: usize = 100;

/// Longest name of a tool, in bytes: some clients drop longer ones once they have put the name of the hub in front. A longer
/// one is cut, and gets a hash.
pub(crate) const NAME_BYTES: usize = 40;

/// Longest prefix of names, in bytes. A longer one is cut, and gets a hash.
pub(crate) const PREFIX_BYTES: usize = 30;

/// Words that `--lazy` looks for in one call. A call with more is told to use fewer.
pub(crate) const WORDS: usize = 32;

/// The same in bytes.
pub(crate) const WORDS_BYTES: usize = 1024;

/// Characters of what a tool is about that `--lazy` looks at: the first ones.
pub(crate) const SEARCHED: usize = 1024;

/// Tools that `--lazy` returns for some words where the call does not say how many.
pub(crate) const FOUND_USUALLY: usize = 10;

/// Tools that `--lazy` returns at most.
pub(crate) const FOUND: usize = 200;
