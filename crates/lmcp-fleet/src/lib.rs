//! The tools of a host on every host of a fleet, as a [`Service`](lmcp_core::Service) like any other.
//!
//! A [`Fleet`] knows hosts and the ways to them. Each way is a service that answers as `lmcp serve` does on that host, so
//! this crate does not know how a tool works: a call of `remote_shell` becomes a call of `shell` there, and the result is
//! passed on with the names of the host and the way in it.
//!
//! | file | what lives there |
//! |---|---|
//! | `fleet` | the service: its tools, and the hosts that a call is for |
//! | `config` | the hosts in the configuration. No I/O |
//! | `registry` | the same in a file of whitespace columns. No I/O |
//! | `ssh_config` | hosts that a configuration of ssh names, proposed as ours. No I/O |
//! | `select` | the hosts that the argument `host` means. No I/O |
//! | `glob`, `near` | names that fit a glob; names that are nearly the one that was meant. No I/O |
//! | `rights` | the rights of a caller on hosts. No I/O |
//! | `tools` | a local tool becomes a remote one. No I/O |
//! | `path` | the ways to a host: by HTTP, by a connection of its own, by ssh, by a shell |
//! | `push`, `pushed` | this program, put on a host behind ssh. No I/O |
//! | [`join`] | hosts that connect to the hub themselves |
//! | [`script`] | a host without lmcp, behind a POSIX shell at the other end of a command |
//! | `host` | one host: the way that is open, UP or DOWN, one call |
//! | `hubs` | hosts that are hubs themselves |
//! | `status` | the state of a host, for people and programs |
//! | `listing` | `remote_list_hosts`: the state of all hosts |
//! | `probe` | the task beside every host: checks whether the host is up |
//! | `fan` | one call on several hosts at once |
//! | `copy` | `remote_copy`: a file or folder from one host to others |
//! | `answer` | turns the answer of a host into the answer for callers. No I/O |
//! | `summary` | the answers of several hosts, equal ones together. No I/O |
//! | `limits` | every bound, and what happens at it |

mod answer;
mod call;
mod config;
mod copy;
mod failed;
mod fan;
mod fleet;
mod glob;
mod host;
mod hubs;
mod inner;
pub mod join;
mod limits;
mod listing;
mod near;
mod path;
mod probe;
mod push;
mod pushed;
mod registry;
mod rights;
pub mod script;
mod select;
mod ssh_config;
mod status;
mod summary;
#[cfg(test)]
mod testing;
mod tools;
mod words;

pub use config::{HostConfig, Hosts, Times, Token};
pub use fleet::Fleet;
pub use pushed::{Pushed, PushedFolder};
pub use registry::read_registry;
pub use rights::{AllRights, Rights};
pub use ssh_config::propose;
pub use status::{HostState, HostStatus, STATUS};
