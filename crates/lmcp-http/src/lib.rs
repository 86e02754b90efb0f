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
//! # For those who change lmcp
//!
//! | file | what happens there |
//! |---|---|
//! | `bind` | a port of our own: where it listens, and who may call there |
//! | `serve` | its connections: accepting, limiting, knowing whose they are, closing |
//! | `service` | one request before its body: which verb and path, who may |
//! | `mount` | the same as a service inside of another program |
//! | `headers` | the fields that it is judged by: `Host` and `Origin`, against web pages that reach for local servers |
//! | `who`, `bearer`, `carried` | who sends it: the program is asked; its token; what middleware adds |
//! | `watched` | a body that is waited for, which makes its connection idle |
//! | `post` | one POST: its body is read, its message started |
//! | `answer` | an answer: one buffer, or a stream of events |
//! | `upgrade` | a connection that goes on in another protocol |
//! | `legacy`, `manage`, `session`, `stream` | older revisions: sessions, and streams that outlive a connection |
//! | `legacy_sse` | the two endpoints of 2024-11-05 |

mod answer;
mod bearer;
mod bind;
mod carried;
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
