//! Tools without a state, which a server takes one by one. The trait exists for the words of the compiler.

use std::marker::PhantomData;

use super::{Effect, Tool};

/// Implemented for tools without a state.
#[diagnostic::on_unimplemented(
    message = "a tool with a state, or a set of tools, cannot be added as a tool",
    label = "not a tool without a state",
    note = "add a tool with a state, or several, as a set: `.tools(ToolSet::new(state).tool(…))`"
)]
pub trait Alone {
    /// Returns the tool.
    #[doc(hidden)]
    fn alone(self) -> Tool;
}

impl<E: Effect> Alone for Tool<(), E> {
    fn alone(self) -> Tool {
        Tool {
            declared: self.declared,
            run: self.run,
            effect: PhantomData,
        }
    }
}
