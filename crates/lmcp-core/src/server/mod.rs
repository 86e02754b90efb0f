//! A server: described with [`Server`], running as a [`Handle`].

mod builder;
pub(crate) mod catalog;
mod engine;
mod handle;
pub(crate) mod sight;

pub use builder::Server;
pub(crate) use engine::Engine;
pub use handle::Handle;
