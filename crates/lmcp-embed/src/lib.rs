//! An MCP server inside a program: a private socket, and an identity for every child process.
//!
//! A program starts a [`Host`], asks it for a [`Child`] for every process it starts, and its tools know who calls:
//! [`Cx::caller`](lmcp_core::Cx::caller) has an [`Identity`]. Children that speak MCP over stdio reach it through
//! `lmcp proxy`.
//!
//! ```no_run
//! use lmcp::{Server, embed::{Host, whoami}};
//!
//! let host = Host::start(Server::new("my-program", "1.0.0").tool(whoami()))?;
//! let child = host.child("ann", "worker")?;
//! child.spawn(&mut std::process::Command::new("some-agent"))?.wait()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Handlers run in a tokio runtime with timers, so `tokio::spawn` and `tokio::time::sleep` work in them. Tasks that are
//! spawned there end with the host.
//!
//! | you want to | see |
//! |---|---|
//! | start a host, and end it | [`Host::start`], [`Host::setup`], [`Host::finish`] |
//! | start a child, or take a process that runs | [`Host::child`], [`Child::spawn`], [`Child::env`] with [`Child::bind`] |
//! | know who calls | [`ChildOf::calling_child`], [`ChildHandle::label`], [`ChildHandle::role`] |
//! | show what happens | [`Host::events`], [`Event`], [`Host::children`] |
//! | end children in order | [`Host::end_children`], [`Host::all_ended`], [`ChildHandle::signal`] |
//! | write to a child | [`inbox`], [`ChildHandle::deliver`], [`ChildHandle::notify`] |
//! | let a child make children | [`family`], [`ChildHandle::allow_children`] |
//! | go on after a restart | [`Host::start_at`], [`Host::exec_with`], [`ChildHandle::store`], [`ChildHandle::keep`] |
//!
//! # For those who change lmcp
//!
//! | file | what lives there |
//! |---|---|
//! | `host`, `setup` | [`Host`]: the thread, the socket, the end; how it starts |
//! | `handle` | [`HostHandle`]: the host, for its own tools |
//! | `socket_dir` | the folder and the name of a socket, and the removal of files that dead hosts left |
//! | `child`, `belongings`, `folder` | [`Child`]: one process, its entries in the register, and the file with its credentials |
//! | `state` | [`State`]: the state of children for the next host |
//! | `member`, `event` | [`ChildHandle`]: the state of a child; [`Event`]: the events of a child |
//! | `children`, `ancestry`, `peer_process`, `stat` | decide which processes are admitted |
//! | `ending` | signals to the processes of children, and their orderly end |
//! | `reaping` | the end of processes, and whether the host or the program waits for them |
//! | `register`, `above`, `lock` | find the host of a process that has no variables |
//! | `view` | the variables of a process above, and whether it uses the same register |
//! | `descriptors` | open files that outlive `exec` |
//! | `reach` | notifications of a host to one child, and its role |
//! | `inbox` | messages of the program that wait for a child |
//! | `family` | identities that children make for their own |
//! | `wiring` | variables and commands for a child that the program starts in its own way |
//! | `random` | names and tokens that cannot be guessed |
//! | `whoami` | a tool that tells callers their identity |

mod above;
mod ancestry;
mod belongings;
mod child;
mod children;
mod descriptors;
mod ending;
mod event;
mod family;
mod folder;
mod handle;
mod host;
mod inbox;
mod links;
mod lock;
mod member;
mod peer_process;
mod random;
mod reach;
mod reaping;
mod register;
mod setup;
mod socket_dir;
mod stat;
mod state;
mod view;
mod whoami;
mod wiring;

pub use above::{Above, above};
pub use child::{Child, IDENTITY_FILE, SOCKET};
pub use ending::Waiting;
pub use event::{Event, Events};
pub use family::{Allowance, family};
pub use handle::HostHandle;
pub use host::Host;
pub use inbox::inbox;
pub use lmcp_core::Identity;
pub use member::{ChildHandle, ChildOf, Connection, Ended};
pub use rustix::process::Signal;
pub use setup::Setup;
pub use state::State;
pub use whoami::whoami;
pub use wiring::McpEntry;
