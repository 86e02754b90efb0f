//! Every bound of a fleet, and what happens at it. `docs/limits.md` is written from these comments.

use std::time::Duration;

/// Connections to one host over a shell at once. Each does one call at a time; further calls wait for one of them.
pub(crate) const LINKS: usize = 16;

/// Connections to one host over a shell that are kept while nothing goes on. Further ones are closed after their call.
pub(crate) const IDLE_LINKS: usize = 4;

/// How long a connection over a shell may take to be opened. Then the call fails.
pub(crate) const OPEN_TIME: Duration = Duration::from_secs(30);

/// How long a host may take over what a shell does at once, such as reading a file. Then the call fails, and its connection is
/// closed.
pub(crate) const CALL_TIME: Duration = Duration::from_secs(60);

/// How long the program that connects may take to end once its input is closed. Then it is killed.
pub(crate) const CLOSE_TIME: Duration = Duration::from_secs(10);

/// What a host may write as the answer to one call over a shell, in bytes. A connection on which it writes more is closed.
pub(crate) const REPLY_BYTES: usize = 96 << 20;

/// What a host may write before the first word that is for us, such as a message of the day, in bytes. A connection on which
/// it writes more is closed.
pub(crate) const NOISE_BYTES: usize = 1 << 20;

/// What is kept of the complaints of the program that connects, in bytes: the last of them.
pub(crate) const COMPLAINT_BYTES: usize = 2048;

/// The largest file that is read whole over a shell, in bytes. Of a larger one, parts are read by bytes.
pub(crate) const FILE_BYTES: u64 = 16 << 20;

/// The largest file that is edited or compared over a shell, in bytes. A larger one is refused.
pub(crate) const EDIT_BYTES: u64 = 16 << 20;

/// A part of a larger file that is read at once over a shell, in bytes.
pub(crate) const PIECE_BYTES: u64 = 1 << 20;

/// What `list_dir` may bring over a shell, in bytes: the names and sizes of some ten thousand files. A larger folder is refused.
pub(crate) const LISTING_BYTES: usize = 2 << 20;

/// What `search_files` may bring over a shell, in bytes: files in which the pattern may occur. A wider search is refused.
pub(crate) const SEARCH_BYTES: usize = 32 << 20;

/// The largest file that is searched over a shell, in bytes. Larger ones are passed over.
pub(crate) const SEARCHED_FILE_BYTES: u64 = 4 << 20;

/// What `job_output` searches at once over a shell, in bytes. A longer output is searched in parts, by `offset`.
pub(crate) const SEARCHED_OUTPUT_BYTES: u64 = 16 << 20;

/// The longest a command over a shell may ask for. Longer work is a job.
pub(crate) const LONGEST_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// From asking a command over a shell to end to ending it.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// How often the output of a job over a shell is looked at while somebody waits for a pattern in it.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(300);

/// Jobs that have ended and are kept on a host behind a shell. Of more, the oldest are forgotten when the next one starts.
pub(crate) const JOBS_KEPT: usize = 64;

/// For how many days they are kept.
pub(crate) const DAYS_KEPT: u32 = 7;
