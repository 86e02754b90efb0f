//! The tools of a host on every host of a fleet, as a [`Service`](lmcp_core::Service) like any other.
//!
//! A [`Fleet`] knows hosts and the ways to them. Each way is a service that answers as `lmcp serve` does on that host, so
//! nothing here knows how a tool works: a call of `remote_shell` becomes a call of `shell` there, and what comes back is
//! relayed with the host and the way in it.
//!
//! | file | what lives there |
//! |---|---|
//! | `fleet` | the service: its tools, and which hosts a call is for |
//! | `config` | what the configuration says of hosts. No I/O |
//! | `registry` | the same in a file of whitespace columns. No I/O |
//! | `ssh_config` | hosts that a configuration of ssh names, proposed as ours. No I/O |
//! | `select` | which hosts the argument `host` means. No I/O |
//! | `rights` | what a caller may do on hosts. No I/O |
//! | `tools` | a local tool becomes a remote one. No I/O |
//! | `path` | the ways to a host: by HTTP, by a connection of its own, by ssh, by a shell |
//! | `push` | this program, put on a host behind ssh. No I/O |
//! | [`join`] | hosts that connect to the hub themselves |
//! | [`script`] | a host without lmcp, behind a POSIX shell at the other end of a command |
//! | `host` | one host: which way is open, UP or DOWN, one call |
//! | `hubs` | hosts that are hubs themselves |
//! | `status` | how a host is, for people and programs |
//! | `listing` | `remote_list_hosts`: how all of them are |
//! | `probe` | the task beside every host: is it there? |
//! | `fan` | one call on several hosts at once |
//! | `copy` | `remote_copy`: a file or folder from one host to others |
//! | `answer` | what a host answered, as callers get it. No I/O |
//! | `summary` | the answers of several hosts, equal ones together. No I/O |
//! | `limits` | every bound, and what happens at it |

mod answer;
mod config;
mod copy;
mod fan;
mod fleet;
mod host;
mod hubs;
pub mod join;
mod limits;
mod listing;
mod path;
mod probe;
mod push;
mod registry;
mod rights;
pub mod script;
mod select;
mod ssh_config;
mod status;
mod summary;
mod tools;
mod words;

pub use config::{HostConfig, Hosts, Times, Token};
pub use fleet::Fleet;
pub use push::{Pushed, PushedFolder};
pub use registry::read_registry;
pub use rights::{AllRights, Rights};
pub use ssh_config::propose;
pub use status::{HostState, HostStatus, STATUS};
