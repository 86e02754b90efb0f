//! [`Principal`]: who a caller is, by its credentials.

use serde_json::{Map, Value};

/// A caller by its credentials: its name, its role, its scopes and claims. An [`Authenticate`](crate::Authenticate) makes it.
///
/// ```
/// # use lmcp::Principal;
/// let ann = Principal::new("ann").role("admin").scopes(["files:read", "files:write"]);
/// assert_eq!(ann.role.as_deref(), Some("admin"));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Principal {
    /// The name that belongs to the credentials. Jobs, tasks, sessions and subscriptions belong to this name and the role.
    /// `None` is nobody in particular, and all of those share what is theirs.
    pub name: Option<String>,
    /// The one role that the caller acts in: tools can be for some roles only
    /// ([`Tool::only_for`](crate::Tool::only_for)).
    pub role: Option<String>,
    /// The scopes that the credentials grant, in the words of their issuer.
    pub scopes: Vec<String>,
    /// Everything else that the credentials say: the claims of a token, say.
    pub claims: Map<String, Value>,
}

impl Principal {
    /// Somebody of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: Some(name.into()),
            ..Self::default()
        }
    }

    /// Nobody in particular, who may come in all the same.
    pub fn anyone() -> Self {
        Self::default()
    }

    /// The same, in a role.
    #[must_use]
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.role = Some(role.into());
        self
    }

    /// The same, with further scopes.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// The same, with a claim instead of the one of this name that there was.
    #[must_use]
    pub fn claim(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.claims.insert(name.into(), value.into());
        self
    }
}
