//! Hosts of a fleet, each reached by whatever way there is.
//!
//! | module | what lives there |
//! |---|---|
//! | [`script`] | a host without lmcp, behind a POSIX shell at the other end of a command |

mod limits;
pub mod script;
