//! An MCP server inside a program: a private socket, and an identity for every child process.
//!
//! A program starts a [`Host`], asks it for a [`Child`] for every process it starts, and its tools know who calls:
//! [`Cx::caller`](lmcp_core::Cx::caller) has an [`Identity`]. Children that speak MCP over stdio reach it through
//! `lmcp proxy`.
//!
//! | file | what lives there |
//! |---|---|
//! | `host` | [`Host`]: the thread, the socket, the end |
//! | `socket_dir` | which folder, which name, and what the dead left behind |
//! | `child`, `folder` | [`Child`]: one process, and the file it comes in with |
//! | `children`, `ancestry`, `peer_process`, `stat` | who is let in |
//! | `register`, `above`, `lock` | who is whose child, for those that were told nothing |
//! | `view` | what a process above was started with, and whether it looks at the same register |
//! | `random` | names and tokens that nobody guesses |
//! | `whoami` | a tool for callers that want to know |

mod above;
mod ancestry;
mod child;
mod children;
mod folder;
mod host;
mod lock;
mod peer_process;
mod random;
mod register;
mod socket_dir;
mod stat;
mod view;
mod whoami;

pub use above::{Above, above};
pub use child::{Child, IDENTITY_FILE, SOCKET};
pub use host::Host;
pub use lmcp_core::Identity;
pub use whoami::whoami;
