//! [`Identity`]: somebody whom the server knows in person.

use serde_json::{Map, Value};

/// A caller that whoever runs the server knows in person: a process it started, say.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// Tells it from all others.
    pub id: String,
    /// What people call it.
    pub label: String,
    /// What it may do: tools can be for some roles only.
    pub role: String,
    /// The caller that it was started for.
    pub parent: Option<String>,
    /// What else the program says of it. It is told so itself, in its welcome.
    pub fields: Map<String, Value>,
}

impl Identity {
    /// Somebody without a parent.
    pub fn new(id: impl Into<String>, label: impl Into<String>, role: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            label: label.into(),
            role: role.into(),
            parent: None,
            fields: Map::new(),
        }
    }

    /// The same, with something more to say of it.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.fields.insert(name.into(), value.into());
        self
    }

    /// The same, started for another.
    #[must_use]
    pub fn below(mut self, parent: impl Into<String>) -> Self {
        self.parent = Some(parent.into());
        self
    }
}
