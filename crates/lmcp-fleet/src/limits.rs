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

/// Requests that are on their way to one host over HTTP at once. Others wait.
pub(crate) const REQUESTS: usize = 64;

/// Replies of all hosts of one call that wait to be passed on. Past it, hosts wait.
pub(crate) const REPLIES: usize = 64;

/// Bytes of text that the hosts of one call answer together. Each has its part, and the rest of what it said is left out.
pub(crate) const TEXT_BYTES: usize = 96 << 10;

/// The same for their structured results. One that is longer than its part is left out, and says so.
pub(crate) const STRUCTURED_BYTES: usize = 512 << 10;

/// The least that a host's part is, of both, however many hosts there are.
pub(crate) const LEAST_PART: usize = 1 << 10;

/// Hosts that the description of `host` names. Of a larger fleet it names the groups alone.
pub(crate) const NAMED: usize = 32;

/// Names that an error proposes instead of one that is not known.
pub(crate) const NEAR: usize = 5;
