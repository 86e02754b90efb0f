//! The engine of lmcp: servers, clients, and the transports that carry lines. Programs depend on the crate `lmcp`, which re-exports
//! everything here.
//!
//! This is the path of a request, in the order of the files, for people who change lmcp:
//!
//! | file | task |
//! |---|---|
//! | [`transport`] | turns lines into messages, and answers into lines |
//! | `caller`, `identity`, `peer`, [`workplace`] | the process at the other end, and the folder where it works |
//! | `authenticate`, `principal`, `extensions` | the credentials of the caller; values that travel with a request |
//! | `era` | turns a message into a valid [`Request`] of its revision, and replies into messages of this revision |
//! | `mirror` | checks headers that repeat parts of a request |
//! | [`session`] | the agreements of a handshake in older revisions, and the state after it |
//! | `endpoint`, `premises` | a service with everything that transports need: transports start a request, and get [`Messages`] |
//! | [`service`], `reply`, `outcome` | **the seam**: a request goes in, [`Replies`] come out, free of revisions |
//! | `logged` | a line in the log for every call |
//! | `layer`, `dispatch` | functions around every request; the way from the method to the function that answers |
//! | `call` | one running handler: deadline, panic fence, exactly one response |
//! | [`tool`], [`resource`], [`prompt`], [`completion`] | the items that programs write, and their machinery |
//! | `cx`, [`ask`], `asking`, `seal`, [`roots`], `folders`, `outbox` | messages and questions of a handler before it is done |
//! | `present` | the part of a result that each client is shown |
//! | `subscribe`, `task` | answers that outlive the request |
//! | [`limits`], `budget`, [`error`] | every bound; the bytes that callers share; every failure |

#![cfg_attr(
    windows,
    expect(
        dead_code,
        reason = "some of what unix sockets need is used by nobody else"
    )
)]

pub mod ask;
mod asking;
mod authenticate;
mod beneficiary;
mod budget;
mod call;
mod caller;
pub mod client;
mod clock;
pub mod completion;
mod cx;
mod deadlines;
mod dispatch;
mod ended;
mod endpoint;
mod era;
pub mod error;
mod extensions;
mod face;
mod fit;
mod folders;
mod handler;
mod headers;
mod identity;
mod layer;
pub mod limits;
mod logged;
mod message;
mod mirror;
mod outbox;
mod outcome;
mod owned;
mod paging;
mod peer;
mod premises;
mod present;
mod principal;
pub mod prompt;
mod random;
mod reply;
mod request;
pub mod resource;
mod roles;
pub mod roots;
mod schema;
mod seal;
mod secret;
mod server;
pub mod service;
mod serving;
pub mod session;
mod set;
mod span;
mod spawn;
mod speaking;
mod state;
mod steps;
mod strings;
mod subscribe;
#[cfg_attr(unix, path = "system/unix.rs")]
#[cfg_attr(windows, path = "system/windows.rs")]
mod system;
mod task;
mod throttle;
pub mod tool;
pub mod transport;
mod turns;
mod watch;
mod weight;
pub mod workplace;

pub use authenticate::{Authenticate, Authenticating, Authenticator, Challenge};
pub use budget::{Account, Budget, NoRoom, Reservation};
#[doc(hidden)]
pub use budget::{CALL_BYTES, expect_share, try_later};
pub use bytes;
pub use caller::{Caller, Transport as CallerTransport};
pub use client::Client;
pub use completion::Completing;
pub use cx::{Cx, Progress};
pub use deadlines::{Deadline, Deadlines};
pub use ended::Ended;
pub use endpoint::{Endpoint, Messages, Transport};
#[doc(hidden)]
pub use era::own_request;
pub use era::{admit, handshake, is_handshake};
pub use error::{Error, ToolError, ToolResult};
pub use handler::{Handler, WithArgs, WithState};
pub use headers::{HeaderValue, Headers};
pub use identity::Identity;
pub use layer::{Layered, Next};
pub use limits::{Limits, is_long};
pub use logged::Logged;
pub use message::{Message, MessageKind};
pub use outcome::{Discovery, Outcome, Page, Payload};
pub use owned::{Owned, OwnerKey, Starts};
pub use peer::Process;
pub use premises::Terms;
pub use present::Presentation;
pub use principal::Principal;
pub use prompt::Prompt;
pub use reply::{Notice, ProgressReport, Reply};
pub use request::Request;
pub use resource::Resource;
#[doc(hidden)]
pub use secret::Tokens;
pub use secret::equal as equal_secrets;
pub use server::{Handle, Server};
pub use service::{Replies, Service};
pub use session::Session;
pub use set::ToolSet;
#[doc(hidden)]
pub use spawn::Tasks;
pub use speaking::Say;
pub use subscribe::{Audience, Telling};
#[doc(hidden)]
pub use throttle::Throttle;
pub use tool::{Json, JsonText, NoArgs, Tool, debug_handler};
#[cfg(unix)]
pub use transport::unix;
pub use transport::{exchange, stdio, streams};
#[doc(hidden)]
pub use weight::weigh as weigh_json;
pub use workplace::Workplace;
