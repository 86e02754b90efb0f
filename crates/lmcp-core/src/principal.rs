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
    /// The name that belongs to the credentials. Jobs, tasks, sessions and subscriptions belong to this name and the role. Callers without
    /// a name are one caller to lmcp: they share jobs, tasks and sessions.
    pub name: Option<String>,
    /// The role that the caller acts in. [`Tool::only_for`](crate::Tool::only_for) shows a tool to some roles only.
    pub role: Option<String>,
    /// The scopes that the credentials grant, in the words of their issuer.
    pub scopes: Vec<String>,
    /// Everything else that the credentials say, such as the claims of a token.
    pub claims: Map<String, Value>,
}

impl Principal {
    /// Makes a caller of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: Some(name.into()),
            ..Self::default()
        }
    }

    /// Makes a caller without a name, who is admitted all the same.
    pub fn anyone() -> Self {
        Self::default()
    }

    /// Sets the role.
    #[must_use]
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.role = Some(role.into());
        self
    }

    /// Adds scopes.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// Sets a claim. It replaces an earlier claim of the same name.
    #[must_use]
    pub fn claim(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.claims.insert(name.into(), value.into());
        self
    }
}
