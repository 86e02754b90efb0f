//! `Authorization: Bearer …`: the token that a request carries. Whether it is a good one, the program says.

use http::{HeaderMap, header};

/// The token of a request, for [`Http::identify`](crate::Http::identify). The scheme's name may be in any case.
///
/// `None` where there is no token, another scheme, or more than one `Authorization`, of which others might read another.
///
/// ```
/// let mut headers = http::HeaderMap::new();
/// assert_eq!(lmcp_http::bearer(&headers), None);
/// headers.insert("authorization", "bearer s3cret".parse().unwrap());
/// assert_eq!(lmcp_http::bearer(&headers), Some("s3cret"));
/// ```
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut written = headers.get_all(header::AUTHORIZATION).iter();
    let (only, None) = (written.next()?, written.next()) else {
        return None;
    };
    lmcp_wire::header::bearer(only.to_str().ok()?)
}
