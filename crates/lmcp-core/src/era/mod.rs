//! Which revision a message is written in, and what an answer in that revision looks like.
//!
//! The only place of the workspace that compares versions. Requests come in by `admit`, and past it a
//! [`Request`](crate::Request) *is* valid; what a service replies goes out by `encode`. Between the two nobody calls here.
//! Both are written for the newest revision. Each family of older ones is a folder that says what it does otherwise, with an arm
//! in the two.

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

/// What a request says of itself, beside what it wants.
struct Admitted {
    version: ProtocolVersion,
    progress_token: Option<ProgressToken>,
    log_level: Option<LoggingLevel>,
    /// A fault in `_meta`, reported only if no check of what is wanted fails.
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
