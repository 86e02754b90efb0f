//! Every bound of a fleet, and what happens at it. `docs/limits.md` is written from these comments.

use std::time::Duration;

/// Hosts of one fleet. A configuration with more is refused.
pub(crate) const HOSTS: usize = 4096;

/// Hosts that one call runs on at once. `parallel` of the call changes it.
pub(crate) const PARALLEL: usize = 16;

/// The most that `parallel` may be. A call that wants more is refused.
pub(crate) const MOST_PARALLEL: usize = 256;

/// How long a way to a host may take to open: a connection, its login, the first answer of the server there. Then the next way
/// is tried. `LMCP_HUB_SSH_TIMEOUT` changes the part of it that ssh has to connect.
pub(crate) const OPENING: Duration = Duration::from_secs(20);

/// How long ssh may take to connect.
pub(crate) const CONNECT: Duration = Duration::from_secs(10);

/// How often ssh asks whether the other side is there. After three without an answer the connection is lost.
pub(crate) const ALIVE: Duration = Duration::from_secs(5);

/// How long a host is silent during a call before it is asked whether it is there.
pub(crate) const QUIET: Duration = Duration::from_secs(15);

/// How long a host may take to say that it is there. Then the way to it counts as lost, and its call fails.
pub(crate) const PING: Duration = Duration::from_secs(10);

/// How long a host that is there may say nothing about a call. Then the call fails. `timeout` of a host changes it.
pub(crate) const SILENCE: Duration = Duration::from_secs(3600);

/// The longest time that `host_wait` of a call may wait for a host that is down. A call that wants more is refused.
pub(crate) const MOST_WAIT: Duration = Duration::from_secs(600);

/// How long such a call rests between two tries.
pub(crate) const WAIT_PAUSE: Duration = Duration::from_secs(1);

/// How often a host that is up is asked whether it is there. `LMCP_HUB_PROBE_TTL_UP` changes it.
pub(crate) const LOOK_UP: Duration = Duration::from_secs(30);

/// After how long a way that was just lost is tried again: servers are restarted.
pub(crate) const SOON: Duration = Duration::from_secs(2);

/// The same once more. Then `DOWN_MIN` counts.
pub(crate) const SOON_AGAIN: Duration = Duration::from_secs(10);

/// How long a host that stays down is left alone at first. It doubles with each failure. `LMCP_HUB_PROBE_TTL_DOWN_MIN` changes it.
pub(crate) const DOWN_MIN: Duration = Duration::from_secs(60);

/// The longest time that a host is left alone. `LMCP_HUB_PROBE_TTL_DOWN_MAX` changes it.
pub(crate) const DOWN_MAX: Duration = Duration::from_secs(900);

/// The shortest pause between two looks at a host.
pub(crate) const LEAST_PAUSE: Duration = Duration::from_millis(100);

/// How long `remote_list_hosts` waits for hosts that it is to look at now. Then it answers with what is known.
/// `LMCP_HUB_PROBE_BUDGET` changes it.
pub(crate) const LOOKING: Duration = Duration::from_secs(3);

/// Hosts that are looked at in the background at once. Others wait.
pub(crate) const PROBES: usize = 32;

/// How long a way that is not needed any more may take to close.
pub(crate) const HANG_UP: Duration = Duration::from_secs(5);

/// Requests that are on their way to one host over HTTP at once. Each caller has a share of them, and further calls of it wait.
pub(crate) const REQUESTS: usize = 64;

/// Replies of all hosts of one call that wait to be passed on. Past it, hosts wait.
pub(crate) const REPLIES: usize = 64;

/// Bytes of text that the hosts of one call answer together. Each has its part, and the rest of what it said is left out.
pub(crate) const TEXT_BYTES: usize = 96 << 10;

/// The same for their structured results. One that is longer than its part is left out, and says so.
pub(crate) const STRUCTURED_BYTES: usize = 512 << 10;

/// The least that a host's part is, of both, however many hosts there are.
pub(crate) const LEAST_PART: usize = 1 << 10;

/// Names, globs and groups in one `host`. A call with more is refused.
pub(crate) const TERMS: usize = 1024;

/// Globs among them. A call with more is refused: every one of them is compared with the names of all hosts.
pub(crate) const GLOBS: usize = 64;

/// The length of all these globs together, in bytes. A call with longer ones is refused. No call compares more letters than
/// these with the name of one host.
pub(crate) const GLOB_BYTES: usize = 1024;

/// Hosts among which `host` is looked for on the thread that all callers share. In a larger fleet this is done beside it.
pub(crate) const SMALL_FLEET: usize = 128;

/// The length of one name, glob or group in `host`, in bytes. A call with a longer one is refused.
pub(crate) const TERM_BYTES: usize = 512;

/// Hosts that the description of `host` names. Of a larger fleet it names the groups alone.
pub(crate) const NAMED: usize = 32;

/// Letters of the reason why a host is down. The rest of what it said is left out.
pub(crate) const REASON_LETTERS: usize = 1024;

/// Bytes of the words with which a host refuses a call. The rest is left out.
pub(crate) const REFUSAL_BYTES: usize = 16 << 10;

/// Hubs that a call may come through before it is refused.
pub(crate) const HUBS: usize = 8;

/// Names that an error proposes instead of one that is not known.
pub(crate) const NEAR: usize = 5;

/// How often both ends of the connection of a host that joined write an empty line.
pub(crate) const BEAT: Duration = Duration::from_secs(15);

/// Empty lines that may be missed. A connection on which nothing was heard for so many beats is lost, and the host joins again.
pub(crate) const MISSED_BEATS: u32 = 3;

/// How long a host that has joined may take to answer when another wants to join under its name. Then the other takes its place.
pub(crate) const PRESENT: Duration = Duration::from_secs(5);

/// How long a host that wants to join waits for the decision about another of the same name. Then it is told to try again.
pub(crate) const NEWCOMER: Duration = Duration::from_secs(10);

/// How long a host may take to connect to the hub that it joins, with the hub's decision. Then it tries again.
pub(crate) const JOIN_WAIT: Duration = Duration::from_secs(20);

/// How long a host rests at first before it joins again. It doubles with each failure, and is never quite the same.
pub(crate) const JOIN_PAUSE: Duration = Duration::from_secs(1);

/// The longest time that a host rests before it joins again.
pub(crate) const LONGEST_JOIN_PAUSE: Duration = Duration::from_secs(60);

/// How long a connection to a hub has to last for the next pause to be a short one again.
pub(crate) const JOIN_LASTING: Duration = Duration::from_secs(30);

/// Hosts that one call copies to at once. `parallel` of the call changes it.
pub(crate) const COPY_PARALLEL: usize = 4;

/// What a copy to one host holds in memory, in bytes: a part that is read and a part that is written, each also as a message. It
/// counts as memory of the caller, and a copy for which there is none waits.
pub(crate) const COPY_BYTES: usize = 6 << 20;

/// How often one step of a copy is made anew when the connection breaks in it. Then the copy fails, and the same call goes on
/// from there.
pub(crate) const COPY_TRIES: usize = 5;

/// How long a copy that has begun waits for a host whose connection has broken. `host_wait` of the call can make it longer.
pub(crate) const COPY_WAIT: Duration = Duration::from_secs(60);

/// How often a copy says how far it is.
pub(crate) const COPY_WORD: Duration = Duration::from_millis(500);

/// What a folder that is copied may have to say of itself over a shell, in bytes: the names of some twenty thousand files. A
/// larger one is refused.
pub(crate) const COPY_LISTING_BYTES: usize = 4 << 20;

/// Values in an answer of a host, counted by its commas and brackets. One with more is left out, and its call is an error.
pub(crate) const ANSWER_PARTS: usize = 200_000;

/// Parts in what a host writes over a shell as the answer to one call: files, jobs, entries of folders. Further ones are not looked
/// at.
pub(crate) const SHELL_PARTS: usize = 100_000;

/// Jobs, and files of one call, that a host may tell of over a shell. Further ones are not looked at.
pub(crate) const TOLD: usize = 4096;

/// The longest `host`, and the longest of other arguments that are for the hub itself, in bytes of JSON. A call with a longer one is
/// refused.
pub(crate) const OWN_ARGUMENT_BYTES: usize = 256 << 10;

/// What is read of the file with the token for a host, in bytes.
pub(crate) const TOKEN_BYTES: u64 = 64 << 10;

/// Calls that go to a host at once over ssh, or to one that joined: fewer than it takes in from one connection. Each caller has a
/// share of them, one alone two thirds. Further calls of a caller wait.
pub(crate) const CALLS: usize = 240;

/// Connections to one host over a shell at once. Each does one call at a time, and one is for the question whether the host is
/// there. Each caller has a share of the others, and further calls of it wait.
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
