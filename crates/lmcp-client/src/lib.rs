//! Connections to MCP servers, as streams of lines. Programs use `lmcp::Client` (feature `client` of the crate `lmcp`), which stands on
//! this crate.
//!
//! A [`Route`] leads to a URL, a unix socket or a process, and opens a [`Channel`]. A [`conversation`] decides what is sent on the channel,
//! and does no I/O itself. Most of this crate is the client side of Streamable HTTP, in all its revisions:
//!
//! A [`Link`] takes the messages of a client, one a line, and hands out the messages of the server in the same form. Sessions, headers,
//! and streams that break and are resumed stay inside of the link. A link makes no handshake: it watches the handshake that passes
//! through. When the server is gone, the link reports that, and a new link must be opened.
//!
//! ```no_run
//! # async fn example() -> Result<(), lmcp_client::Error> {
//! use lmcp_client::{Endpoint, Event, Settings};
//!
//! let endpoint = Endpoint::new(Settings::new("http://127.0.0.1:8080/mcp"))?;
//! let mut link = endpoint.open().await?;
//! link.send(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.to_vec());
//! if let Event::Line(answer) = link.next().await {
//!     assert!(answer.starts_with(b"{"));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | file | what lives there |
//! |---|---|
//! | [`conversation`] | opening, ids, pending calls, questions, and the messages that the next server gets again |
//! | `route` | sockets and processes; one type for all ways |
//! | `settings`, `server`, `endpoint` | the address of the server, and the headers of every request |
//! | `audience` | checks who may be at the other end of a connection without encryption |
//! | `link`, `doing` | decides what is sent and when, and which events are reported |
//! | `post`, `begun` | one message of the client and its response; answers that have not ended |
//! | `upgrade` | a connection that goes on in another protocol |
//! | `pair` | HTTP+SSE, the transport of 2024-11-05 |
//! | `verdict`, `second` | an HTTP response that is not an answer; messages whose session was not known |
//! | `standing`, `stream`, `events` | messages that the server sends by itself; streams of events, and how they are resumed |
//! | `message`, `answer`, `mirror` | reads the necessary parts of a message, and makes the headers that repeat parts of it |
//! | `failures` | the errors that replace a missing answer |
//! | `limits` | every bound, and what happens at it |

mod answer;
mod audience;
mod begun;
pub mod conversation;
mod doing;
mod endpoint;
mod error;
mod events;
mod failures;
#[doc(hidden)]
pub mod fuzz;
mod limits;
mod link;
mod message;
mod mirror;
mod pair;
mod post;
mod route;
mod second;
mod server;
mod settings;
mod standing;
mod stream;
mod upgrade;
mod verdict;

pub use endpoint::Endpoint;
pub use error::Error;
/// The type of [`Settings::headers`].
pub use http::HeaderMap;
pub use link::{Event, Link};
/// Settings of connections: [`Settings::outbound`].
pub use lmcp_outbound as outbound;
pub use route::{Channel, Command, Given, Route};
pub use settings::{Secret, Settings};
