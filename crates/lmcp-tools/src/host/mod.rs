//! Tools about the host itself.

pub(crate) mod systeminfo;
