//! Checks who may be at the other end of a connection that carries a secret without encryption.

use std::net::IpAddr;

use lmcp_outbound::{AudienceCheck, Guard, Lookup, Url};

/// The possible readers of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// No secret is sent, or the server proves its identity, or the program allowed any reader.
    Anybody,
    /// A server on this machine that belongs to this user or root, and is not a confined command. A port that a server has
    /// left is free for every user and every command.
    OwnServer,
}

/// The operator chooses the addresses. The owner is checked for each connection, before anything is sent.
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
