//! Tools on files, all of them within the roots.

mod atomic;
mod charset;
mod draft;
pub(crate) mod edit;
mod escape;
mod exchange;
mod hash;
pub(crate) mod history;
mod hold;
mod kind;
pub(crate) mod list;
pub(crate) mod locks;
mod notebook;
pub(crate) mod read;
pub(crate) mod search;
mod target;
mod text;
pub(crate) mod write;
