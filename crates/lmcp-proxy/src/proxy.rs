//! The work of a proxy that does not depend on how it waits: moves lines between the client, the relay and the server, looks
//! for the next server, and decides when to end. `socket.rs` and `url.rs` read, write and wait for a server.

use std::time::{Duration, Instant};

use lmcp_wire::{RpcError, greeting::Then};
use serde_json::json;

use crate::{
    Ending,
    limits::Limits,
    notes::Notes,
    relay::{Output, Relay},
    stdio::Client,
};

/// A server that has admitted us.
pub(crate) trait Server {
    /// A server that still has to admit us.
    type Opening;

    fn send(&mut self, line: Vec<u8>);

    /// Returns whether the server takes more lines.
    fn has_room(&self, limits: &Limits) -> bool;
}

pub(crate) enum Link<S: Server> {
    /// No server. Look for one at this time, and not earlier.
    Away(Instant),
    Opening(S::Opening),
    /// The server is there, since this time.
    On(S, Instant),
}

pub(crate) struct Proxy<'a, S: Server> {
    pub(crate) limits: Limits,
    pub(crate) notes: Notes<'a>,
    pub(crate) relay: Relay,
    pub(crate) client: Client,
    pub(crate) link: Link<S>,
    /// Lines that a server did not look at before it was lost.
    pub(crate) unsent: Vec<Vec<u8>>,
    /// The relay knows that the client has ended.
    pub(crate) is_told: bool,
    /// The result of the proxy, when everything has been written.
    pub(crate) over: Option<Ending>,
    /// The number of useless servers in a row.
    failures: usize,
}

impl<'a, S: Server> Proxy<'a, S> {
    pub(crate) fn new(note: &'a mut dyn FnMut(&str)) -> Self {
        let limits = Limits::default();
        Self {
            notes: Notes::new(note),
            relay: Relay::new(limits.clone()),
            client: Client::new(&limits),
            link: Link::Away(Instant::now()),
            unsent: Vec::new(),
            is_told: false,
            over: None,
            failures: 0,
            limits,
        }
    }

    /// Passes one line of the client, or the end of its input, to the relay. Returns whether there was anything.
    pub(crate) fn hear_client(&mut self) -> bool {
        if self.is_told || !self.takes_from_client() {
            return false;
        }
        match self.client.next_frame() {
            Some(Ok(line)) => self.relay.client_line(line, Instant::now()),
            Some(Err(long)) => self.relay.client_long_line(&long.head, &long.tail),
            None if self.client.has_ended => {
                self.relay.client_eof();
                self.carry_out();
                self.is_told = true;
                // The client is not kept waiting: a server is looked for at once.
                if let Link::Away(due) = &mut self.link {
                    *due = Instant::now();
                }
            }
            None => return false,
        }
        self.carry_out();
        true
    }

    /// Does the work that is due by now.
    pub(crate) fn turn(&mut self) {
        self.relay.time_is(Instant::now());
        self.carry_out();
        let is_over = self.over.is_some();
        self.client.watch_reader(is_over, self.limits.stall);
    }

    /// Notes that the server has admitted us.
    pub(crate) fn attached(&mut self, server: S) {
        let now = Instant::now();
        self.link = Link::On(server, now);
        self.relay.server_attached(now);
    }

    /// Notes that no server will admit us. A server that refuses us now refuses us for ever.
    pub(crate) fn leave(&mut self, words: String, error: RpcError) {
        self.notes.say(words);
        self.link = Link::Away(Instant::now());
        self.relay.server_turned_away(error);
        self.over.get_or_insert(Ending::Refused);
    }

    /// Ends for a reason that another try does not change.
    pub(crate) fn leave_for_good(&mut self, words: String) {
        let error = RpcError::internal(words.clone()).with_data(json!({ "retriable": false }));
        self.leave(words, error);
    }

    /// Notes that the server was lost. `words` say so.
    pub(crate) fn lose(&mut self, words: &str) {
        self.back_off();
        let unsent = std::mem::take(&mut self.unsent);
        self.relay.server_lost_without(unsent, Instant::now());
        if self.over.is_none() {
            let hope = if self.is_told { "" } else { "; trying again" };
            self.notes.say(format!("{words}{hope}"));
        }
    }

    /// Notes that a server on a socket was lost. A host has said before whether another one comes.
    pub(crate) fn lose_host(&mut self) {
        match self.relay.goodbye() {
            Some(Then::Gone) => {
                let error = RpcError::invalid_request(HOST_CLOSED);
                self.relay.server_lost_without(Vec::new(), Instant::now());
                self.leave(HOST_CLOSED.to_owned(), error);
            }
            Some(Then::Wait) => self.lose("the program that runs the server starts anew"),
            // The credentials name the new socket, and are read again.
            Some(Then::Elsewhere) => self.lose("the server goes on at another socket"),
            _ => self.lose("the server went away"),
        }
    }

    /// Notes that there was no server, or no useful one.
    pub(crate) fn miss(&mut self, why: &str) {
        self.back_off();
        self.relay.server_unreachable(why);
        self.notes.say_missing(why, !self.is_told);
    }

    /// Sets the time of the next search for a server, later after each failure.
    pub(crate) fn back_off(&mut self) {
        let now = Instant::now();
        // A server that lasted was useful. A server that accepts handshakes and dies of them is not.
        let lasting = self.limits.lasting;
        if matches!(self.link, Link::On(_, since) if self.relay.was_of_use() || now - since >= lasting)
        {
            self.failures = 0;
        }
        self.link = Link::Away(now + pause(self.failures));
        self.failures += 1;
    }

    /// Carries out what the relay wants.
    pub(crate) fn carry_out(&mut self) {
        while let Some(output) = self.relay.next_output() {
            match (output, &mut self.link) {
                (Output::ToClient(line), _) => self.client.out.push(line),
                (Output::ToServer(line), Link::On(server, _)) => server.send(line),
                (Output::ToServer(_), Link::Away(_) | Link::Opening(_)) => {}
                (Output::Remark(words), _) => self.notes.remark(words),
                (Output::Detach, _) => {
                    self.back_off();
                    self.notes
                        .say(format!("{}; trying again", self.relay.trouble()));
                }
                (Output::TurnedAway, link) => {
                    *link = Link::Away(Instant::now());
                    let why = self.relay.trouble();
                    self.notes
                        .say(format!("the server does not let us in: {why}"));
                    self.over.get_or_insert(Ending::Refused);
                }
                (Output::Done(ending), _) => {
                    self.over.get_or_insert(ending);
                }
            }
        }
        if self.relay.is_served() {
            self.notes.all_is_well();
        }
    }

    /// Returns whether to look for a server now.
    pub(crate) fn is_due(&self) -> bool {
        matches!(self.link, Link::Away(due) if due <= Instant::now()) && self.wants_server()
    }

    /// Returns the result, if the client does not read any more.
    pub(crate) fn broke_off(&self) -> Option<Ending> {
        let has_all = self.relay.is_idle() && self.client.out.is_empty();
        match (self.client.is_gone, has_all) {
            (true, true) => Some(Ending::Done),
            (true, false) => Some(Ending::Unanswered),
            (false, _) => self.client.has_stalled().then_some(Ending::Unanswered),
        }
    }

    /// Returns the result, if the client has everything.
    pub(crate) fn ended(&self) -> Option<Ending> {
        let ending = self.over?;
        let is_asking = ending == Ending::Refused && self.client.has_more();
        (self.client.out.is_empty() && !is_asking).then_some(ending)
    }

    /// Returns the next time at which there is work without any input.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let link = match &self.link {
            Link::Away(due) if self.wants_server() => Some(*due),
            Link::Away(_) | Link::Opening(_) | Link::On(..) => None,
        };
        let times = [self.relay.deadline(), link, self.client.stalls_at];
        times.into_iter().flatten().min()
    }

    pub(crate) fn reads_client(&self) -> bool {
        !self.client.has_ended && self.takes_from_client()
    }

    /// Returns whether the client takes more lines: false while too much waits for it.
    pub(crate) fn client_takes(&self) -> bool {
        self.client.out.len() < self.limits.buffer_bytes
    }

    /// Returns whether to look for a server: not while too much waits for the client, because it would not read the next
    /// server's lines either.
    fn wants_server(&self) -> bool {
        self.over.is_none() && self.relay.wants_server() && self.client_takes()
    }

    /// Returns whether to read from the client: not while too much waits for either side, or for a server.
    fn takes_from_client(&self) -> bool {
        let server_takes = match &self.link {
            Link::On(server, _) => server.has_room(&self.limits),
            Link::Away(_) | Link::Opening(_) => true,
        };
        // After a client has closed its end, the rest of its input is no more than a pipe holds, and then its end follows.
        let takes_rest = self.client.is_leaving() && !self.relay.is_crowded();
        let has_room = self.relay.has_room() || takes_rest;
        server_takes && has_room && self.client_takes()
    }
}

/// The note when a host closes that does not come back.
const HOST_CLOSED: &str = "the program that gave this process its identity has closed its server";

/// Returns how long to wait before the next try.
fn pause(failures: usize) -> Duration {
    let wait = BACK_OFF_MS.get(failures);
    Duration::from_millis(*wait.unwrap_or(&LONGEST_BACK_OFF_MS))
}

/// The pauses after the first failures; after that, the longest pause is used for ever.
const BACK_OFF_MS: [u64; 7] = [0, 10, 20, 50, 100, 200, 500];
const LONGEST_BACK_OFF_MS: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    struct Anything;

    impl Server for Anything {
        type Opening = ();

        fn send(&mut self, _: Vec<u8>) {}

        fn has_room(&self, _: &Limits) -> bool {
            true
        }
    }

    #[test]
    fn servers_that_never_open_are_looked_for_ever_more_seldom_whatever_the_last_one_did() {
        let mut note = |_: &str| {};
        let mut proxy = Proxy::new(&mut note);
        proxy.attached(Anything);
        let now = Instant::now();
        for id in 0..20 {
            let call = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#);
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
            proxy.relay.client_line(call.into(), now);
            proxy.relay.server_line(answer.into(), now);
        }
        assert!(proxy.relay.was_of_use());
        proxy.lose("the server went away");
        assert_eq!(proxy.failures, 1);
        for failures in 2..10 {
            proxy.link = Link::Opening(());
            proxy.miss("it closed the connection without a word");
            assert_eq!(proxy.failures, failures);
        }
        proxy.attached(Anything);
        proxy.lose("the server went away");
        assert_eq!(proxy.failures, 10, "it has answered nothing");
    }
}
