//! Every bound of connections to other machines, and what happens at it. `docs/limits.md` is written from these comments.
//!
//! How long a whole request may take is said by whoever makes it.

use std::time::Duration;

/// Longest URL, in bytes, as in most servers. A longer one is refused.
pub(crate) const URL_BYTES: usize = 8192;

/// Addresses of one host that are tried: the first ones.
pub(crate) const ADDRESSES: usize = 8;

/// How long one address may take where there are others. Then the next one is tried.
pub(crate) const ATTEMPT: Duration = Duration::from_secs(3);

/// Status line and headers of an answer, and what is read ahead of its body, in bytes. An answer with more fails.
pub(crate) const HEAD_BYTES: usize = 64 << 10;

/// What a server may send before the head of its answer is known, in bytes: interim answers such as `100 Continue`, and what is
/// read ahead. A request that gets more of it fails.
pub(crate) const INTERIM_BYTES: usize = 256 << 10;

/// The most that is read at once before the head of an answer is known, in bytes. More waits for the next turn: the buffer for it
/// does not grow.
pub(crate) const EARLY_PIECE_BYTES: usize = 4 << 10;

/// The status line and headers of a proxy that is to open a tunnel, in bytes. Proxies say little there.
pub(crate) const PROXY_HEAD_BYTES: usize = 16 << 10;

/// What is read of the answer of a server that does not go on in another protocol, in bytes. A longer answer is not shown.
pub(crate) const DECLINED_BYTES: usize = 16 << 10;

/// How long a connection is kept for the next request. Common servers close theirs after 5 s.
pub(crate) const IDLE: Duration = Duration::from_secs(3);

/// How long the end of an answer may take before its connection is closed.
pub(crate) const REST: Duration = Duration::from_secs(1);
