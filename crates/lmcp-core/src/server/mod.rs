//! A server: described with [`Server`], running as a [`Handle`].

mod builder;
pub(crate) mod catalog;
mod engine;
mod forms;
mod handle;
pub(crate) mod list;
pub(crate) mod visibility;

pub use builder::Server;
pub(crate) use engine::Engine;
pub(crate) use forms::Forms;
pub use handle::Handle;
