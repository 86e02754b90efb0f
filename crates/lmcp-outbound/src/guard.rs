//! The addresses that may be connected to. The caller makes the rules, and this crate always asks for them.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use crate::Url;

/// Decides which addresses may be connected to.
pub trait Guard: Sync {
    /// Checks whether this address of the URL's host may be connected to. If one address is refused, all are: an attack uses a
    /// name that leads both inside and outside.
    ///
    /// # Errors
    /// The reason, in words for people.
    fn check(&self, url: &Url, address: IpAddr) -> Result<(), String>;

    /// Returns a check of each connection to the URL's host. It runs before anything is sent, and not for connections to a
    /// proxy. If it refuses one address of the host, the next address is tried.
    fn audience(&self) -> Option<AudienceCheck> {
        None
    }

    /// Returns what must be known here about a name before a proxy, which looks it up itself, is asked for it.
    fn before_proxy(&self, url: &Url) -> Lookup;
}

/// A function that refuses a connection by its two addresses, ours first, with words for people. It may block for a moment, so
/// it runs on its own thread.
pub type AudienceCheck = fn(SocketAddr, SocketAddr) -> io::Result<()>;

/// Whether a name is looked up here although a proxy will do that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lookup {
    /// The name is not looked up.
    Skip,
    /// The name is looked up, and its addresses are checked. A name that is not found here is left to the proxy.
    Try,
    /// The name is looked up, and its addresses are checked. A name that is not found here is refused.
    Must,
}

/// Allows every address: for programs that connect only where an operator tells them.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "it is a word and holds nothing")]
pub struct Anywhere;

impl Guard for Anywhere {
    fn check(&self, _: &Url, _: IpAddr) -> Result<(), String> {
        Ok(())
    }

    fn before_proxy(&self, _: &Url) -> Lookup {
        Lookup::Skip
    }
}
