//! Finds the revision of a message, and writes answers in that revision.
//!
//! No other module of the workspace compares versions. Requests come in through `admit`, and past it a
//! [`Request`](crate::Request) *is* valid; the replies of a service go out through `encode`. No code in between calls this
//! module. Both are written for the newest revision. Each family of older revisions is a folder that holds the differences,
//! with a `match` arm in the two.

mod admit;
mod encode;
mod forms;
mod legacy;
mod members;
pub(crate) mod versions;

pub(crate) use admit::no_way_in;
pub use admit::{admit, handshake, is_handshake, own_request};
pub(crate) use encode::Encoder;
pub(crate) use forms::FORMS;

use lmcp_wire::{LoggingLevel, ProgressToken, ProtocolVersion, RpcError, limits::LONGEST_NAME};
use serde_json::value::RawValue;

/// The members of `_meta` that lmcp reads when a request is admitted.
struct Admitted {
    version: ProtocolVersion,
    progress_token: Option<ProgressToken>,
    log_level: Option<LoggingLevel>,
    /// A fault in `_meta`. It is reported only if all other checks of the request succeed.
    flaw: Option<Box<RpcError>>,
}

fn optional<T: serde::de::DeserializeOwned>(
    raw: Option<&RawValue>,
    key: &str,
    expected: &str,
) -> Result<Option<T>, RpcError> {
    let Some(raw) = raw else { return Ok(None) };
    let wrong = || RpcError::invalid_params(format!("`_meta[\"{key}\"]` must be {expected}"));
    if raw.get().len() > LONGEST_NAME {
        return Err(wrong());
    }
    serde_json::from_str(raw.get())
        .map(Some)
        .map_err(|_| wrong())
}
