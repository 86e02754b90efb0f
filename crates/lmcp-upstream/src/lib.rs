//! An MCP server elsewhere, of any revision, as a [`Service`](lmcp_core::Service) like any other.
//!
//! An [`Upstream`] is a conversation and a way to a server, on a task of its own. Many callers share it, each in its own
//! revision; what the server's revision lacks is made up for on the way. A [`Client`](lmcp_core::Client) is connected to
//! one by [`url`], [`socket`], [`command`] or, in tests, [`in_process`].
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
//! | `target` | what a client connects to |
//! | `upstream` | the handle that callers share |
//! | `pump` | the task: opens the way, carries lines, opens it again |
//! | `state`, `slot` | what goes on, and what waits for each caller |
//! | `call`, `held` | one call from its beginning to its end; calls that wait for their caller to come back |
//! | `callers` | who has made use of a server, and so who may be asked |
//! | `cross` | from the revision of a caller to that of the server, and back |
//! | `listen` | who wants to hear of what |
//! | `mirrored` | which arguments of which tools callers over HTTP repeat in headers |
//! | `per_client` | a server of its own for every client |
//! | `health` | lines of the log when a server is lost, and when it is there again |
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
mod per_client;
mod pump;
mod slot;
mod state;
mod target;
mod turns;
mod upstream;

pub use health::Health;
pub use lmcp_client::{Route, Secret};
pub use per_client::PerClient;
pub use state::AtStart;
pub use target::{
    CommandTarget, InProcessTarget, SocketTarget, UrlTarget, command, in_process, socket, url,
};
pub use upstream::{Builder, Upstream};
