//! Reads a whole body, within a limit.

use std::fmt;

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

/// The reason why there is no whole body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unread {
    /// The body has more bytes than the limit.
    TooLong,
    /// The connection ended before the body did.
    Broken,
}

/// Reads a whole body of at most this many bytes.
///
/// # Errors
/// The body is longer, or breaks off.
pub async fn whole(mut body: Incoming, limit: usize) -> Result<Bytes, Unread> {
    if body.size_hint().lower() > limit as u64 {
        return Err(Unread::TooLong);
    }
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Unread::Broken)?.into_data() else {
            continue;
        };
        if bytes.len() + data.len() > limit {
            return Err(Unread::TooLong);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.freeze())
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "the answer is too long",
            Self::Broken => "the answer broke off",
        })
    }
}

impl std::error::Error for Unread {}
