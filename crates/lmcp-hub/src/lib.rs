//! Many MCP servers behind one endpoint, as a [`Service`](lmcp_core::Service) like any other.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use lmcp::Endpoint;
//! use lmcp::hub::{Hub, from_json};
//!
//! let hub = Hub::new("my-hub", "1.0.0");
//! hub.set(&from_json(r#"{ "mcpServers": { "all": { "command": "npx", "args": ["-y", "some-server"] } } }"#)?)?;
//! Endpoint::new(hub).serve(lmcp::stdio()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! | file | what lives there |
//! |---|---|
//! | `hub` | the service |
//! | `inner` | its servers, what is known of them, and what clients see of that |
//! | `servers` | which servers and groups there are, and how each is made |
//! | `scope`, `desk` | what one endpoint shows: all servers, or those of a group; where names lead there |
//! | `route` | lists come from the catalogue, all else goes to the server it is for |
//! | `config` | what our configuration says of servers |
//! | `foreign` | what those of clients say. No I/O |
//! | `import` | the same out of the files of clients, and written as ours. No I/O |
//! | `names` | what tools and prompts are called; how URIs lead back. No I/O |
//! | `listing`, `items` | what one server offers. No I/O |
//! | `catalog` | what clients see of what all servers offer. No I/O |
//! | `rewrite` | names, URIs and ids on their way there and back. No I/O |
//! | `member` | one server: started, given up, stopped |
//! | `pass` | one request on its way through a server |
//! | `keep`, `ask` | the task beside every server; what the hub asks servers for itself |
//! | `start`, `listed` | whether the lists of a server were read since it was last started |
//! | `lazy` | three tools in the place of hundreds. No I/O |
//! | `listen` | what clients are told outside of any call |
//! | `store` | what servers offer and what was seen of it, kept on disk |
//! | `pins` | how a server differs from what was first seen of it. No I/O |
//! | `approvals`, `review` | who has seen what; how a server differs from that |
//! | `learn` | what a server offers on its way into the catalogue |
//! | `status` | how servers are |
//! | `limits` | every bound, and what happens at it |

mod approvals;
mod ask;
mod catalog;
mod config;
mod desk;
mod foreign;
mod hub;
mod import;
mod inner;
mod items;
mod keep;
mod lazy;
mod learn;
mod limits;
mod listed;
mod listen;
mod listing;
mod member;
mod names;
mod pass;
mod pins;
mod review;
mod rewrite;
mod route;
mod scope;
mod servers;
mod start;
mod status;
mod store;
mod uris;

pub use approvals::Approvals;
pub use config::{Isolate, Reach, ServerConfig, Servers};
pub use foreign::{from_json, is_json};
pub use hub::{Group, Hub};
pub use import::{add, import, to_toml};
pub use lmcp_wire::jsonc;
pub use pins::{Change, PartChange};
pub use scope::Groups;
pub use status::{STATUS, ServerState, ServerStatus, ToolChange};
