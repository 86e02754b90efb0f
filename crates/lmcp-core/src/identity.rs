//! [`Identity`]: a caller that the program knows in person.

use serde_json::{Map, Value};

/// A caller that the program knows in person, such as a process that it started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// The id of the caller, which no other caller has.
    pub id: String,
    /// The name of the caller, for people.
    pub label: String,
    /// The role of the caller: tools can be for some roles only.
    pub role: String,
    /// The caller that it was started for.
    pub parent: Option<String>,
    /// Further facts about the caller. lmcp tells the caller itself, in its welcome.
    pub fields: Map<String, Value>,
}

impl Identity {
    /// Makes an identity without a parent.
    pub fn new(id: impl Into<String>, label: impl Into<String>, role: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            label: label.into(),
            role: role.into(),
            parent: None,
            fields: Map::new(),
        }
    }

    /// Adds a fact about the caller.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.fields.insert(name.into(), value.into());
        self
    }

    /// Sets the caller that this one was started for.
    #[must_use]
    pub fn below(mut self, parent: impl Into<String>) -> Self {
        self.parent = Some(parent.into());
        self
    }
}
