//! The comparison of secrets, and tokens that stand for names.

use std::fmt;

use crate::{
    authenticate::{Authenticate, Challenge},
    caller::Caller,
    error::Error,
    principal::Principal,
};

/// Compares two secrets. The time that this takes does not show where they differ, only whether they are equally long.
///
/// ```
/// assert!(lmcp::equal_secrets(b"s3cret", b"s3cret"));
/// assert!(!lmcp::equal_secrets(b"s3cret", b"guess"));
/// ```
pub fn equal(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len()
        && left
            .iter()
            .zip(right)
            .fold(0, |differs, (left, right)| differs | (left ^ right))
            == 0
}

/// Tokens, each with the name of its holder.
#[doc(hidden)]
#[derive(Default)]
pub struct Tokens(Vec<(String, String)>);

impl Tokens {
    /// Adds a token.
    pub fn add(&mut self, name: String, token: String) {
        self.0.push((name, token));
    }

    /// Checks that each token admits its holder.
    ///
    /// # Errors
    /// A token is empty.
    pub fn expect_usable(&self) -> Result<(), Error> {
        match self.0.iter().find(|(_, token)| token.is_empty()) {
            Some((holder, _)) => Err(Error::config(format!(
                "the token of `{holder}` is empty, so it would admit nobody"
            ))),
            None => Ok(()),
        }
    }

    /// The name that belongs to a token. All tokens are compared, so the time does not show which one matched.
    pub fn holder(&self, shown: &str) -> Option<&str> {
        if shown.is_empty() {
            return None;
        }
        let mut holder = None;
        for (name, token) in &self.0 {
            if equal(token.as_bytes(), shown.as_bytes()) {
                holder = Some(name.as_str());
            }
        }
        holder
    }
}

impl Authenticate for Tokens {
    async fn authenticate(&self, caller: &Caller) -> Result<Principal, Challenge> {
        let holder = caller.bearer().and_then(|token| self.holder(token));
        holder.map(Principal::new).ok_or_else(|| {
            Challenge::new("a token is needed: send it first, as {\"lmcp_identity\": TOKEN}")
        })
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens")
    }
}
