//! The error of a schema that breaks a rule. The author of a tool reads it, not the model.

use std::fmt;

/// A rule that a schema breaks, and the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError {
    pointer: String,
    rule: String,
}

impl SchemaError {
    pub(crate) fn new(pointer: impl Into<String>, rule: impl Into<String>) -> Self {
        Self {
            pointer: pointer.into(),
            rule: rule.into(),
        }
    }

    /// The JSON pointer of the place; empty for the root.
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// The rule, with the value that breaks it.
    pub fn rule(&self) -> &str {
        &self.rule
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pointer.as_str() {
            "" => write!(f, "at the root: {}", self.rule),
            pointer => write!(f, "at `{pointer}`: {}", self.rule),
        }
    }
}

impl std::error::Error for SchemaError {}
