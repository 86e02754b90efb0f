//! `Authorization: Bearer …`: the token that a request carries.

use http::{HeaderMap, header};

/// The token of a request, for [`Http::identify`](crate::Http::identify). The name of the scheme may be in any case.
///
/// `None`: the request has no token, another scheme, or more than one `Authorization`. Of several, other programs on the way might read
/// another one.
///
/// ```
/// let mut headers = http::HeaderMap::new();
/// assert_eq!(lmcp::http::bearer(&headers), None);
/// headers.insert("authorization", "bearer s3cret".parse().unwrap());
/// assert_eq!(lmcp::http::bearer(&headers), Some("s3cret"));
/// ```
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut written = headers.get_all(header::AUTHORIZATION).iter();
    let (only, None) = (written.next()?, written.next()) else {
        return None;
    };
    lmcp_wire::header::bearer(only.to_str().ok()?)
}
