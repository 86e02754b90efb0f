//! What a user of `lmcp-http` can rely on and a transcript cannot show: who may, in which form answers come, what
//! closing a connection does, and every bound.

mod answers;
mod cancel;
mod guard;
mod limits;
mod mirror;
mod mount;
mod regressions;
mod routes;
mod shutdown;
mod support;
