//! Which addresses may be connected to. The rules are the caller's; that they are asked is ours.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use crate::Url;

/// Says which addresses may be connected to.
pub trait Guard: Sync {
    /// May this address of the URL's host be connected to? One that may not refuses them all: a name that leads both in
    /// and out is what an attack looks like.
    ///
    /// # Errors
    /// Why not, for people.
    fn check(&self, url: &Url, address: IpAddr) -> Result<(), String>;

    /// What tells whether anything may be sent on a connection to the URL's host. It is asked before anything is, and not of
    /// a connection to a proxy. Where it refuses one address of the host, the next is tried.
    fn audience(&self) -> Option<AudienceCheck> {
        None
    }

    /// What must be known here about a name before a proxy, which looks it up itself, is asked for it.
    fn before_proxy(&self, url: &Url) -> Lookup;
}

/// Refuses a connection by its two addresses, ours first, with words for people. It may take a moment, so it has a thread.
pub type AudienceCheck = fn(SocketAddr, SocketAddr) -> io::Result<()>;

/// Whether a name is looked up here although a proxy will do that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lookup {
    /// It is not.
    Skip,
    /// It is, and its addresses are checked. A name that is not found here is left to the proxy.
    Try,
    /// It is, and its addresses are checked. A name that is not found here is refused.
    Must,
}

/// Lets everything pass: for whoever goes only where an operator says.
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
