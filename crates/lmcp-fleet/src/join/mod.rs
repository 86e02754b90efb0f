//! Hosts that nobody can reach: each of them connects to the hub, and the hub calls the host over that connection.
//!
//! The host asks for `/join` and shows a token that is good for one name and for nothing else. The hub agrees (`101`), and from
//! then on both speak MCP, one message a line: the hub is the client and the host is the server, as it is on stdio.
//!
//! | file | what lives there |
//! |---|---|
//! | `seat` | at the hub: the place of one name, which only one host has at a time |
//! | `dial` | at the host: connects, serves, and connects again |
//! | `pulse` | at both: an empty line now and then, so that both notice a dead connection |

mod dial;
mod pulse;
mod seat;

use lmcp_core::{Layered, Payload, Replies, Service};

pub use dial::{Joining, join};
pub(crate) use seat::Seat;
pub use seat::{Admission, Refusal};

/// The path at which a hub accepts hosts, over HTTP.
pub const PATH: &str = "/join";

/// The name of the protocol on the connection, in `Upgrade`.
pub const PROTOCOL: &str = "lmcp-join";

/// The header in which the hub tells a host its name.
pub const NAME: &str = "lmcp-host";

/// The request by which a hub tells a host that another host wanted to join under its name.
const RIVAL: &str = "lmcp/join/rival";

/// Returns the same service for the connection to a hub: calls `tell` when another host wanted to join under the same name.
pub fn listening(
    service: impl Service,
    tell: impl Fn(&str) + Send + Sync + 'static,
) -> impl Service {
    Layered::new(service).layer(move |request, next| match request.method() {
        RIVAL => {
            tell("another host wanted to join the hub under the name of this one, and was refused");
            Replies::done(Payload::Acknowledged)
        }
        _ => next.call(request),
    })
}
