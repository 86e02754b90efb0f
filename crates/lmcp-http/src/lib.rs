//! Streamable HTTP for lmcp, on hyper.
//!
//! [`bind`] serves on a port of its own; [`service`] is a plain `tower` service for somebody's axum or hyper program.
//!
//! | file | what happens there |
//! |---|---|
//! | `serve` | connections: accepting, limiting, closing |
//! | `service` | one request: which verb and path, who may |
//! | `entry` | whether a connection from this machine is served |
//! | `local_user` | which user of this machine a connection is of |
//! | `bearer` | the token that a request carries |
//! | `guard` | `Host` and `Origin`, against web pages that reach for local servers |
//! | `watched` | a body that is waited for, which makes its connection idle |
//! | `post` | one POST, from its body to its answer |
//! | `body` | an answer: one buffer, or a stream of events |
//! | `legacy`, `session`, `stream` | older revisions: sessions, and streams that outlive a connection |
//! | `pair` | the two endpoints of 2024-11-05 |

mod bearer;
mod body;
mod entry;
mod guard;
mod intake;
mod legacy;
mod local_user;
mod pair;
mod post;
mod serve;
mod service;
mod session;
mod stream;
mod watched;

pub use bearer::bearer;
pub use body::Body;
/// What [`Http::identify`] is given.
pub use http::HeaderMap;
pub use serve::{Http, bind};
pub use service::{HttpService, service};
