//! [`Logged`]: a service that logs its calls. The engine of a server logs its own calls in `call.rs`, in the same form.

use std::{fmt, pin::Pin, time::Duration};

use lmcp_wire::{RpcError, method::request};
use tokio::time::Instant;

use crate::{
    caller::Caller,
    ended::Ended,
    request::Request,
    service::{Replies, Service},
};

/// A service that logs one line for every call of a tool, a prompt or a resource: what was called, how the call ended, how long it took,
/// and who called. Use it around services that pass calls on. A [`Server`](crate::Server) logs its calls itself.
#[derive(Clone, Debug)]
pub struct Logged<S>(S);

impl<S: Service> Logged<S> {
    /// Logs the calls of this service.
    pub fn new(service: S) -> Self {
        Self(service)
    }
}

impl<S: Service> Service for Logged<S> {
    fn call(&self, request: Request) -> Replies {
        let is_call = matches!(
            request.method(),
            request::TOOLS_CALL | request::PROMPTS_GET | request::RESOURCES_READ
        );
        if !is_call || !tracing::enabled!(tracing::Level::INFO) {
            return self.0.call(request);
        }
        let line = Line::of(&request, Instant::now());
        self.0.call(request).on_end(move |ended| match ended {
            Ended::Done(outcome) => line.write(outcome),
            Ended::Failed(error) => line.write(&Failed(error)),
            Ended::Dropped => line.write(&"cancelled"),
        })
    }

    fn close(&self) {
        self.0.close();
    }

    fn hang_up(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.0.hang_up()
    }

    fn ping(&self) -> Pin<Box<dyn Future<Output = Result<(), RpcError>> + Send + '_>> {
        self.0.ping()
    }

    fn is_idle(&self) -> bool {
        self.0.is_idle()
    }
}

/// A line of the log for one call.
pub(crate) struct Line {
    words: String,
    caller: String,
    began: Instant,
}

impl Line {
    pub(crate) fn of(request: &Request, began: Instant) -> Self {
        let what = request.target().unwrap_or_default();
        Self {
            words: format!("{} {}", Plain(request.method()), Plain(&what)),
            caller: Known(request.caller()).to_string(),
            began,
        }
    }

    /// Writes the line with the outcome of the call.
    pub(crate) fn write(self, outcome: &dyn fmt::Display) {
        let Self { words, caller, .. } = &self;
        let milliseconds = self.began.elapsed().as_millis();
        tracing::info!("{words}: {outcome} ({milliseconds} ms, {caller})");
    }
}

impl Line {
    /// Warns that the handler held its thread for this long.
    pub(crate) fn warn_of_blocking(self, held: Duration) {
        let (words, seconds) = (&self.words, held.as_secs_f32());
        tracing::warn!(
            "{words}: held its thread for {seconds:.1} s; run code that blocks with `Cx::blocking`"
        );
    }
}

/// An error in the form of the log.
pub(crate) struct Failed<'a>(pub(crate) &'a RpcError);

impl fmt::Display for Failed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {}: {:?}", self.0.code, self.0.message)
    }
}

/// A caller in the form that people read: `ann (admin)`.
pub(crate) struct Known<'a>(pub(crate) &'a Caller);

impl fmt::Display for Known<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let caller = self.0;
        match (caller.identity(), caller.principal(), caller.peer()) {
            (Some(identity), _, _) => {
                write!(f, "{} [{}]", Plain(&identity.label), Plain(&identity.id))?
            }
            (None, Some(name), _) => write!(f, "{}", Plain(name))?,
            (None, None, Some(process)) => write!(f, "user {}", process.uid)?,
            (None, None, None) => f.write_str("anyone")?,
        }
        if let Some(role) = caller.role() {
            write!(f, " ({})", Plain(role))?;
        }
        match caller.beneficiary() {
            Some(name) => write!(f, " for {}", Plain(name)),
            None => Ok(()),
        }
    }
}

/// A word as it is, or escaped: text of a client must not look like further lines of the log.
struct Plain<'a>(&'a str);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |letter: char| letter.is_ascii_graphic() && letter != '"';
        match !self.0.is_empty() && self.0.chars().all(is_plain) {
            true => f.write_str(self.0),
            false => fmt::Debug::fmt(self.0, f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{caller::Transport, identity::Identity, principal::Principal};

    #[test]
    fn callers_are_named_as_people_know_them() {
        let http = || Caller::new(Transport::Http);
        let admin = Principal::new("ann").role("admin");
        let child = Identity::new("7f", "bob", "clerk");
        for (caller, shown) in [
            (http(), "anyone"),
            (http().known_as("ann"), "ann"),
            (http().authenticated(admin), "ann (admin)"),
            (Caller::process(7, None), "user 7"),
            (http().identified(child), "bob [7f] (clerk)"),
            (
                http().known_as("hub").acting_for("ann b"),
                "hub for \"ann b\"",
            ),
        ] {
            assert_eq!(Known(&caller).to_string(), shown);
        }
    }

    #[test]
    fn words_that_could_be_taken_for_a_line_are_escaped() {
        for (word, shown) in [
            ("tools/call", "tools/call"),
            ("file:///a b", "\"file:///a b\""),
            ("a\nINFO b", "\"a\\nINFO b\""),
            ("", "\"\""),
        ] {
            assert_eq!(Plain(word).to_string(), shown);
        }
    }
}
