//! An MCP server elsewhere, of any revision, as a [`Service`](lmcp_core::Service) like any other.
//!
//! An [`Upstream`] is a conversation and a way to a server, on a task of its own. Many callers share it, each in its own
//! revision; features that the server's revision lacks are emulated. A [`Client`](lmcp_core::Client) is connected to an
//! upstream by [`url`], [`socket`], [`command`] or, in tests, [`in_process`].
//!
//! ```no_run
//! # async fn example() -> Result<(), lmcp::client::Error> {
//! use lmcp::Client;
//!
//! let client = Client::connect(lmcp::upstream::command("npx").args(["-y", "some-server"])).await?;
//! for tool in client.list_tools().await? {
//!     let _ = tool.name;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | file | what lives there |
//! |---|---|
//! | `target` | the servers that a client can connect to |
//! | `upstream` | the handle that callers share |
//! | `pump` | the task: opens the way, carries lines, opens it again |
//! | `state`, `slot` | the state of all calls, and the messages that wait for each caller |
//! | `call`, `held` | one call from its beginning to its end; calls that wait for their caller to come back |
//! | `callers` | the callers that have used a server, and so may be asked |
//! | `cross` | translates from the revision of a caller to that of the server, and back |
//! | `listen` | callers that want notifications |
//! | `mirrored` | the arguments that callers over HTTP repeat in headers, by tool |
//! | `per_client` | a server of its own for every client |
//! | `health` | log lines when a server is lost, and when it is there again |
//! | `limits` | every bound, and what happens at it |

mod call;
mod callers;
mod cross;
mod health;
mod held;
mod limits;
mod listen;
mod listeners;
mod mirrored;
mod news;
mod per_client;
mod ping;
mod pump;
mod slot;
mod state;
#[cfg(test)]
mod support;
mod target;
mod turns;
mod upstream;

pub use health::Health;
pub use lmcp_client::{Route, Secret};
pub use per_client::PerClient;
pub use slot::no_room_for_answer;
pub use state::AtStart;
pub use target::{
    CommandTarget, InProcessTarget, SocketTarget, UrlTarget, command, in_process, socket, url,
};
pub use upstream::{Builder, Upstream};
