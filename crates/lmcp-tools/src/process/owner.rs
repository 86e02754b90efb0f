//! The caller that a confined command runs for, as the command line of its guard tells it: without its name, because every user
//! can read that line.
//!
//! A command could otherwise become another caller by connecting to a socket of its own server, or of a server with the same
//! rights: there a process without a name counts as the user of the server.

use lmcp_core::{Caller, CallerTransport};
use rustix::process::geteuid;

/// A caller, as far as sockets and guards tell callers apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The user of the server: over a unix socket, or the program that has started the server, over a pipe or in memory.
    User,
    /// All callers that are asked for no name over HTTP.
    Anyone,
    /// A caller with a name, or of another user.
    Other,
}

const USER: &str = "user";
const ANYONE: &str = "anyone";
const OTHER: &str = "other";

impl Owner {
    pub(super) fn of(caller: &Caller) -> Self {
        match &*caller.owner() {
            ANYONE if caller.transport() == CallerTransport::Http => Self::Anyone,
            ANYONE => Self::User,
            owner if owner == format!("uid:{}", geteuid()) => Self::User,
            _ => Self::Other,
        }
    }

    /// Reads the word of a guard's command line. The guards of earlier versions have none.
    pub(super) fn read(word: &[u8]) -> Self {
        match std::str::from_utf8(word) {
            Ok(USER) => Self::User,
            Ok(ANYONE) => Self::Anyone,
            Ok(_) | Err(_) => Self::Other,
        }
    }

    /// Returns the word for the command line of a guard.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::User => USER,
            Self::Anyone => ANYONE,
            Self::Other => OTHER,
        }
    }

    /// Returns whether a command of this caller may connect where it counts as the other.
    pub(super) fn may_be(self, other: Self) -> bool {
        match (self, other) {
            // Where no token is asked for, the user of the server is served anyway.
            (Self::User, Self::User | Self::Anyone) | (Self::Anyone, Self::Anyone) => true,
            (Self::User | Self::Anyone | Self::Other, _) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use lmcp_core::Principal;

    use super::*;

    #[test]
    fn only_the_user_counts_as_the_user() {
        let over = Caller::new;
        let named = |name| over(CallerTransport::Stdio).authenticated(Principal::new(name));
        for (caller, may_be_user, may_be_anyone) in [
            (over(CallerTransport::Stdio), true, true),
            (over(CallerTransport::Http), false, true),
            (named("ann"), false, false),
            (named("anyone"), false, false),
        ] {
            let read = Owner::read(Owner::of(&caller).word().as_bytes());
            assert_eq!(read.may_be(Owner::User), may_be_user, "{caller:?}");
            assert_eq!(read.may_be(Owner::Anyone), may_be_anyone, "{caller:?}");
        }
        // An earlier version did not say.
        assert!(!Owner::read(b"").may_be(Owner::Anyone));
    }
}
