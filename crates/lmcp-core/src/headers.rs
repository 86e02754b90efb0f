//! The header fields of a request, as far as a caller needs them.

use std::any::{Any, TypeId};

/// Header fields, for transports that have them. Names are given in lower case.
pub trait Headers: Send + Sync {
    /// The value of a field, if there is exactly one and it is text.
    fn get(&self, name: &str) -> HeaderValue<'_>;

    /// The value of this type that came with the headers. Middleware before the transport puts it there.
    fn extension(&self, of: TypeId) -> Option<&(dyn Any + Send + Sync)> {
        let _ = of;
        None
    }
}

/// The result of a look-up of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderValue<'a> {
    /// No such field.
    Absent,
    /// One field, of text.
    Text(&'a str),
    /// Several fields, or one that is not text.
    Malformed,
}

/// The headers of transports that have none.
pub(crate) struct NoHeaders;

impl Headers for NoHeaders {
    fn get(&self, _: &str) -> HeaderValue<'_> {
        HeaderValue::Absent
    }
}
