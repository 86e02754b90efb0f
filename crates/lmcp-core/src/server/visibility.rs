//! The offers that a caller may see.

use std::sync::Arc;

use crate::{caller::Caller, roles::Roles, tool::CheckedTool};

/// The program's own rule: whether this caller may see the tool of this name.
pub(crate) type Rule = Arc<dyn Fn(&Caller, &str) -> bool + Send + Sync>;

/// Decides which offers one caller sees.
#[derive(Clone, Copy)]
pub(crate) struct Visibility<'a> {
    caller: &'a Caller,
    rule: Option<&'a Rule>,
}

impl<'a> Visibility<'a> {
    pub(crate) fn new(caller: &'a Caller, rule: Option<&'a Rule>) -> Self {
        Self { caller, rule }
    }

    /// Whether the caller sees the tool. A tool that is not shown cannot be called either.
    pub(crate) fn shows(&self, tool: &CheckedTool) -> bool {
        self.includes(tool.roles())
            && self
                .rule
                .is_none_or(|rule| rule(self.caller, &tool.spec.name))
    }

    /// Whether the caller sees items for these roles. The program's own rule is about tools only.
    pub(crate) fn includes(&self, roles: &Roles) -> bool {
        roles.has(self.caller.role())
    }

    /// Whether the program has no rule of its own.
    pub(crate) fn is_plain(&self) -> bool {
        self.rule.is_none()
    }
}
