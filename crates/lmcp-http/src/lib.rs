//! Streamable HTTP for lmcp, on hyper.
//!
//! [`bind`] serves on a port of its own. [`service`] makes a `tower` service, to mount a server in an axum or hyper program.
//!
//! ```no_run
//! # async fn run(server: lmcp::Server) -> Result<(), Box<dyn std::error::Error>> {
//! let http = lmcp::http::bind("127.0.0.1:8080").await?.token("ann", std::env::var("ANNS_TOKEN")?);
//! server.serve(http).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # For people who change lmcp
//!
//! | file | task |
//! |---|---|
//! | `bind` | the server's own port: the address, and the settings of who may call there |
//! | `serve` | the connections of that port: accepting, limiting, checking whose they are, closing |
//! | `service` | one request before its body: checks of path, verb and caller |
//! | `mount` | the same as a service inside of another program |
//! | `headers` | the fields that are checked: `Host` and `Origin`, against web pages that try to reach local servers |
//! | `who`, `bearer`, `carried` | the sender: the program decides; the token; values that middleware adds |
//! | `watched` | a body that is awaited, while its connection counts as idle |
//! | `post` | one POST: reads the body, and starts the message |
//! | `answer` | an answer: one buffer, or a stream of events |
//! | `upgrade` | a connection that goes on in another protocol |
//! | `legacy`, `manage`, `session`, `stream` | older revisions: sessions, and streams that outlive a connection |
//! | `legacy_sse` | the two endpoints of 2024-11-05 |

mod answer;
mod bearer;
mod bind;
mod caller;
mod carried;
mod event;
mod headers;
mod legacy;
mod legacy_sse;
mod manage;
mod mount;
mod one_write;
mod post;
mod serve;
mod service;
mod session;
mod shared;
mod stream;
mod upgrade;
mod watched;
mod who;

pub use answer::Body;
pub use bearer::bearer;
pub use bind::{Http, bind};
/// The headers of a request, which [`Http::identify`] gets.
pub use http::HeaderMap;
/// The status that [`Http::hand_over`] refuses with.
pub use http::StatusCode;
pub use mount::{Mount, service};
pub use service::HttpService;
pub use upgrade::{Deciding, HandOver, HandedOver};
