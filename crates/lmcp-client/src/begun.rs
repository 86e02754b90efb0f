//! Answers that a server has begun and not ended. The bytes that were read of all of them are bounded, because there may be
//! many and a server need not end them.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use lmcp_outbound::{Incoming, Unread};

use crate::limits::BEGUN_ANSWERS;

/// The number of bytes that were read of all begun answers of one server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Begun(Arc<AtomicUsize>);

/// The share of one answer. Dropping it frees its bytes.
#[derive(Debug)]
pub(crate) struct Share {
    all: Begun,
    bytes: usize,
    /// The greatest number of bytes of one answer.
    longest: usize,
    is_crowded: bool,
}

impl Begun {
    pub(crate) fn share(&self, longest: usize) -> Share {
        Share {
            all: self.clone(),
            bytes: 0,
            longest,
            is_crowded: false,
        }
    }
}

impl Share {
    /// Sets the number of bytes that the answer holds now. `false`: there is no room for them.
    #[must_use]
    pub(crate) fn resize(&mut self, bytes: usize) -> bool {
        let all = &self.all.0;
        all.fetch_sub(self.bytes, Ordering::Relaxed);
        let others = all.fetch_add(bytes, Ordering::Relaxed);
        self.bytes = bytes;
        // Short answers always fit: the number of requests to a server is bounded.
        let fits = bytes <= SHORT || others + bytes <= BEGUN_ANSWERS * self.longest;
        self.is_crowded |= !fits;
        fits
    }

    /// Returns whether there was no room at some time.
    pub(crate) fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    /// Reads a whole body.
    pub(crate) async fn whole(&mut self, mut body: Incoming) -> Result<Bytes, Unread> {
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| Unread::Broken)?.into_data() else {
                continue;
            };
            let length = bytes.len() + data.len();
            if length > self.longest || !self.resize(length) {
                return Err(Unread::TooLong);
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes.freeze())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

const SHORT: usize = 64 << 10;
