//! Who may be at the other end of a connection that carries a secret without encryption.

use std::net::IpAddr;

use lmcp_outbound::{AudienceCheck, Guard, Lookup, Url};

/// Who may read what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Nothing secret is sent, or the server proves who it is, or the program said that it does not matter.
    Anybody,
    /// A server on this machine, of this user or root, and not of a confined command. A port that a server has left is free
    /// for every user, and for every command.
    OwnServer,
}

/// Addresses are the operator's business; who is there is asked of each connection, before anything is sent.
impl Guard for Audience {
    fn check(&self, _: &Url, _: IpAddr) -> Result<(), String> {
        Ok(())
    }

    fn before_proxy(&self, _: &Url) -> Lookup {
        Lookup::Skip
    }

    fn audience(&self) -> Option<AudienceCheck> {
        match self {
            Self::Anybody => None,
            Self::OwnServer => Some(lmcp_private::expect_own_server),
        }
    }
}
