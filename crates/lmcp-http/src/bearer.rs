//! `Authorization: Bearer …`: the token that a request carries, and the tokens that a program knows.

use http::{HeaderMap, header};
use lmcp_core::equal_secrets;

/// Tokens, each with the name of its holder.
#[derive(Default)]
pub(crate) struct Tokens(Vec<(String, String)>);

impl Tokens {
    pub(crate) fn add(&mut self, name: String, token: String) {
        self.0.push((name, token));
    }

    /// The name that belongs to the token of a request. All tokens are compared, so that the time does not tell which one it was.
    pub(crate) fn holder(&self, headers: &HeaderMap) -> Option<&str> {
        let shown = bearer(headers).filter(|token| !token.is_empty())?;
        let mut holder = None;
        for (name, token) in &self.0 {
            if equal_secrets(token.as_bytes(), shown.as_bytes()) {
                holder = Some(name.as_str());
            }
        }
        holder
    }
}

/// The token of a request, for [`Http::identify`](crate::Http::identify). The scheme's name may be in any case.
///
/// `None` where there is no token, another scheme, or more than one `Authorization`, of which others might read another.
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
