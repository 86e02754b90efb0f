//! What a caller may know of.

use std::sync::Arc;

use crate::{caller::Caller, roles::Roles, tool::CheckedTool};

/// A rule of the program's own: may this caller know of the tool of this name?
pub(crate) type Rule = Arc<dyn Fn(&Caller, &str) -> bool + Send + Sync>;

/// What one caller sees.
#[derive(Clone, Copy)]
pub(crate) struct Visibility<'a> {
    caller: &'a Caller,
    rule: Option<&'a Rule>,
}

impl<'a> Visibility<'a> {
    pub(crate) fn new(caller: &'a Caller, rule: Option<&'a Rule>) -> Self {
        Self { caller, rule }
    }

    /// What is not shown cannot be called either.
    pub(crate) fn shows(&self, tool: &CheckedTool) -> bool {
        self.includes(tool.roles())
            && self
                .rule
                .is_none_or(|rule| rule(self.caller, &tool.spec.name))
    }

    /// Is what is for these roles for this caller? The program's own rule is about tools alone.
    pub(crate) fn includes(&self, roles: &Roles) -> bool {
        roles.has(self.caller.role())
    }

    /// Does no rule of the program's own decide?
    pub(crate) fn is_plain(&self) -> bool {
        self.rule.is_none()
    }
}
