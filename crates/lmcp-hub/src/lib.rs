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
//! | `scope`, `desk` | the servers that one endpoint shows, all or a group, and where names lead there |
//! | `route` | answers lists from the catalogue, and passes all other requests to their servers |
//! | `config` | the servers in our configuration |
//! | `foreign` | the servers in the formats of clients. No I/O |
//! | `import` | reads the files of clients, and writes them as our configuration. No I/O |
//! | `names` | the names of tools and prompts; how URIs lead back. No I/O |
//! | `listing`, `items` | the lists of one server. No I/O |
//! | `catalog` | the lists that clients see, of all servers. No I/O |
//! | `rewrite` | translates names, URIs and ids there and back. No I/O |
//! | `uris`, `room` | marks URIs and ids in a text; the memory for what that adds. No I/O |
//! | `member` | one server: started, given up, stopped |
//! | `pass` | one request on its way through a server |
//! | `keep`, `ask` | the task beside every server; the hub's own requests to servers |
//! | `start`, `listed` | whether the lists of a server were read since it was last started |
//! | `lazy` | three tools instead of hundreds. No I/O |
//! | `listen` | sends changes to clients that subscribe |
//! | `store` | keeps listings and seen definitions on disk |
//! | `pins` | how a server differs from what was first seen of it. No I/O |
//! | `approvals`, `review` | the definitions that were seen; how a server differs from them |
//! | `learn` | takes a new listing into the catalogue |
//! | `status` | the state of servers |
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
mod room;
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
