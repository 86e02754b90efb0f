//! What a user of `lmcp-http` can rely on and a transcript cannot show: who may, in which form answers come, what
//! closing a connection does, and every bound.

mod answers;
mod apart;
mod asking;
mod bearer;
mod cancel;
mod connections;
mod folders;
mod foreign;
mod guard;
mod legacy_sse;
mod limits;
mod memory;
mod mirror;
mod mount;
mod pressure;
mod raw;
mod regressions;
mod resume;
mod routes;
mod session_limits;
mod sessions;
mod shutdown;
mod streams;
mod support;
mod turns;
mod upgrade;
mod visitor;
mod who;
