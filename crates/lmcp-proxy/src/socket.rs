//! The loop between stdio and a socket: one thread, one `poll`. What is said is the relay's business, when and how much is
//! ours.

use std::time::{Duration, Instant};

use lmcp_wire::{Incoming, RpcError, error::INTERNAL_ERROR, framing::Frame, greeting::Welcome};
use rustix::event::{PollFlags, Timespec, poll};

use crate::{
    Ending, Way,
    attach::Miss,
    connection::Connection,
    limits::Limits,
    notes::Notes,
    relay::{Output, Relay},
    stdio::Client,
};

pub(crate) struct Driver<'a> {
    way: &'a Way,
    notes: Notes<'a>,
    limits: Limits,
    relay: Relay,
    client: Client,
    /// The relay knows that the client has ended.
    is_told: bool,
    link: Link,
    /// How many servers in a row were of no use.
    failures: usize,
    over: Option<Over>,
}

enum Link {
    /// Look for a server, not before this time.
    Away(Instant),
    On(Connection),
}

/// How it ends, once everything has been written.
struct Over {
    ending: Ending,
    /// What the server says until it closes is passed on, too.
    lingers: bool,
    /// When the server is, counted from when the client had everything.
    lingers_until: Option<Instant>,
}

impl<'a> Driver<'a> {
    pub(crate) fn new(way: &'a Way, note: &'a mut dyn FnMut(&str)) -> Self {
        let limits = Limits::default();
        Self {
            way,
            notes: Notes::new(note),
            relay: Relay::new(limits.clone()),
            client: Client::new(&limits),
            is_told: false,
            link: Link::Away(Instant::now()),
            failures: 0,
            over: None,
            limits,
        }
    }

    pub(crate) fn run(mut self) -> Ending {
        loop {
            while self.hear_client() || self.hear_server() {}
            self.relay.time_is(Instant::now());
            self.carry_out();
            self.attach();
            let is_over = self.over.is_some();
            self.client.watch_reader(is_over, self.limits.stall);
            if let Some(ending) = self.ending() {
                return ending;
            }
            self.wait();
        }
    }

    /// Gives the relay one line of the client, or the news of its end. Was there anything?
    fn hear_client(&mut self) -> bool {
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
                // It is not kept waiting: there is a server now, or is being started, or there is none.
                if let Link::Away(due) = &mut self.link {
                    *due = Instant::now();
                }
            }
            None => return false,
        }
        self.carry_out();
        true
    }

    /// Gives the relay one line of the server, or the news of its end. Was there anything?
    fn hear_server(&mut self) -> bool {
        let takes = self.takes_from_server();
        let Link::On(server) = &mut self.link else {
            return false;
        };
        if !takes {
            return false;
        }
        match server.next_frame() {
            Some(frame) if server.welcome_by.is_some() => self.hear_welcome(frame),
            Some(Ok(line)) => self.relay.server_line(line, Instant::now()),
            Some(Err(long)) => self
                .relay
                .server_long_line(&long.head, &long.tail, Instant::now()),
            None if server.has_ended => self.lose(),
            None if server
                .deaf_until
                .is_some_and(|until| until <= Instant::now()) =>
            {
                self.lose()
            }
            None if server.welcome_by.is_some_and(|by| by <= Instant::now()) => {
                self.miss("it does not say whether we are welcome");
            }
            None => return false,
        }
        self.carry_out();
        true
    }

    /// The first line of a server that was told who we are.
    fn hear_welcome(&mut self, frame: Frame) {
        let (Ok(line), Link::On(server)) = (frame, &mut self.link) else {
            return self.miss("it does not say whether we are welcome");
        };
        if serde_json::from_slice::<Welcome>(&line).is_ok() {
            server.welcome_by = None;
            return self.relay.server_attached(Instant::now());
        }
        let Ok(Incoming::Response {
            outcome: Err(error),
            ..
        }) = Incoming::parse(&line)
        else {
            return self.miss("it does not know what an identity is");
        };
        if error.code == INTERNAL_ERROR {
            // Its trouble is not with us.
            return self.wait_for_server(&error.message);
        }
        self.notes
            .say(format!("the server does not let us in: {}", error.message));
        self.leave(error);
    }

    /// There is no server for us, and never will be: one that does not let us in now never will.
    fn leave(&mut self, error: RpcError) {
        self.link = Link::Away(Instant::now());
        self.relay.server_refused(error);
        self.finish(Ending::Refused);
    }

    /// There was a server, and it is gone.
    fn lose(&mut self) {
        if matches!(&self.link, Link::On(server) if server.welcome_by.is_some()) {
            return self.miss("it closed the connection without a word");
        }
        self.back_off();
        self.relay.server_lost(Instant::now());
        if self.over.is_none() {
            let hope = if self.is_told { "" } else { ", trying again" };
            self.notes.say(format!("the server went away{hope}"));
        }
    }

    /// There was no server where one should be, or none that would do.
    fn miss(&mut self, why: &str) {
        self.back_off();
        self.relay.server_unreachable(why);
        self.notes.say_missing(why, !self.is_told);
    }

    /// There is one that will do soon.
    fn wait_for_server(&mut self, why: &str) {
        self.back_off();
        self.relay.server_awaited(why);
        self.notes.say_missing(why, !self.is_told);
    }

    fn back_off(&mut self) {
        let now = Instant::now();
        // A server that lasted was of use; one that takes handshakes and dies of them is not.
        let was_of_use = self.relay.was_of_use();
        if matches!(&self.link, Link::On(server) if was_of_use || now - server.since >= self.limits.lasting)
        {
            self.failures = 0;
        }
        self.link = Link::Away(now + back_off(self.failures));
        self.failures += 1;
    }

    /// Does what the relay wants done.
    fn carry_out(&mut self) {
        while let Some(output) = self.relay.next_output() {
            match (output, &mut self.link) {
                (Output::ToClient(line), _) => self.client.out.push(line),
                (Output::ToServer(line), Link::On(server)) if !server.is_deaf => {
                    server.out.push(line);
                }
                (Output::ToServer(_), _) => {}
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
                    self.finish(Ending::Refused);
                }
                (Output::Done(ending), _) => self.finish(ending),
            }
        }
        if self.relay.is_served() {
            self.notes.all_is_well();
        }
    }

    /// Looks for a server, if it is time to.
    fn attach(&mut self) {
        let now = Instant::now();
        let is_due = matches!(self.link, Link::Away(due) if due <= now);
        if !is_due || !self.wants_server() {
            return;
        }
        match self.way.open() {
            Ok((socket, greeting)) => {
                let mut server = Connection::new(socket, now, &self.limits);
                if let Some(greeting) = &greeting {
                    server.out.push(greeting.to_line().into_bytes());
                    server.welcome_by = Some(now + self.limits.welcome_wait);
                }
                self.link = Link::On(server);
                if greeting.is_none() {
                    self.relay.server_attached(now);
                }
            }
            Err(Miss::Absent(err)) => self.miss(&err.to_string()),
            Err(Miss::Gone(err)) => {
                self.notes.say(err.to_string());
                self.leave(RpcError::invalid_request(err.to_string()));
            }
            Err(Miss::Starting) => {
                self.back_off();
                self.relay.server_awaited("it is being started");
            }
            Err(Miss::Useless(err)) => {
                self.back_off();
                self.relay.server_unreachable(err.to_string());
                // It is no news that it is gone, but this is.
                self.notes
                    .say(format!("there is no server: {err}; trying again"));
            }
        }
        self.carry_out();
    }

    fn finish(&mut self, ending: Ending) {
        self.over.get_or_insert(Over {
            ending,
            // Where nothing was open when the client let go, nothing is to be waited for.
            lingers: self.is_told,
            lingers_until: None,
        });
    }

    /// How it ended, if it has.
    fn ending(&mut self) -> Option<Ending> {
        let (now, is_flushed) = (Instant::now(), self.client.out.is_empty());
        if self.client.is_gone {
            let is_idle = self.relay.is_idle() && is_flushed;
            return Some(if is_idle {
                Ending::Done
            } else {
                Ending::Unanswered
            });
        }
        if self.client.has_stalled() {
            return Some(Ending::Unanswered);
        }
        let over = self.over.as_mut()?;
        let ending = over.ending;
        if over.lingers_until.is_none() {
            let is_asking = ending == Ending::Refused && self.client.has_more();
            if !is_flushed || is_asking {
                return None;
            }
            over.lingers_until = Some(now + self.limits.linger);
        }
        let is_late = over.lingers_until.is_some_and(|until| until <= now);
        match &mut self.link {
            Link::On(server) if !is_late && !server.out.is_empty() => None,
            Link::On(server) if !is_late && over.lingers => {
                server.end();
                None
            }
            Link::On(_) | Link::Away(_) => Some(ending),
        }
    }

    /// Waits until something can be read or written, or it is time for something.
    fn wait(&mut self) {
        let timeout = self.deadline().map(|until| {
            let wait = until.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: wait.as_secs().try_into().unwrap_or(i64::MAX),
                tv_nsec: wait.subsec_nanos().into(),
            }
        });
        let reads_client = !self.client.has_ended && self.takes_from_client();
        let asks_client = reads_client || !self.client.is_leaving();
        let reads_server = self.takes_from_server();
        let mut asked = Vec::with_capacity(3);
        asked.push(self.client.output());
        if reads_client {
            asked.push(Client::input());
        } else if asks_client {
            asked.push(Client::hang_up());
        }
        if let Link::On(server) = &self.link {
            asked.extend(server.poll(reads_server));
        }
        if poll(&mut asked, timeout.as_ref()).is_err() {
            // A signal came between, which changes nothing.
            return;
        }
        let mut answers = asked
            .iter()
            .map(|asked| asked.revents())
            .collect::<Vec<_>>()
            .into_iter();
        drop(asked);
        let output = answers.next();
        self.client.on_output(output.unwrap_or(PollFlags::empty()));
        if asks_client && answers.next().is_some_and(|found| !found.is_empty()) {
            if reads_client {
                self.client.read();
            } else {
                self.client.has_hung_up = true;
            }
        }
        if let (Link::On(server), Some(found)) = (&mut self.link, answers.next()) {
            on_server(server, found, reads_server);
        }
    }

    /// When there is something to do although nothing comes.
    fn deadline(&self) -> Option<Instant> {
        let link = match &self.link {
            Link::Away(due) if self.wants_server() => Some(*due),
            Link::Away(_) => None,
            Link::On(_) if !self.takes_from_server() => None,
            Link::On(server) => server.welcome_by.into_iter().chain(server.deaf_until).min(),
        };
        let over = self.over.as_ref().and_then(|over| over.lingers_until);
        [self.relay.deadline(), link, over, self.client.stalls_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// Not while the client does not take what there is for it: it would not hear the next one, either.
    fn wants_server(&self) -> bool {
        self.over.is_none() && self.relay.wants_server() && self.client_takes()
    }

    /// Not while either side does not take what there is for it, or what waits for a server is enough.
    fn takes_from_client(&self) -> bool {
        let server_takes = match &self.link {
            Link::On(server) => server.out.len() < self.limits.buffer_bytes && !server.is_deaf,
            Link::Away(_) => true,
        };
        // The rest of what a client wrote is no more than a pipe holds, and behind it stands its end.
        let takes_rest = self.client.is_leaving() && !self.relay.is_crowded();
        let has_room = self.relay.has_room() || takes_rest;
        server_takes && has_room && self.client_takes()
    }

    /// Not while the client does not take what there is for it. Nor while the server asks more than it may and does not
    /// read what is said to that. (That it does not read is no reason by itself: it may be writing answers just now.)
    fn takes_from_server(&self) -> bool {
        let Link::On(server) = &self.link else {
            return false;
        };
        // Whether we are welcome is for us, and not for the client.
        let is_ours = server.welcome_by.is_some();
        let is_deaf = server.out.len() >= self.limits.buffer_bytes && !server.is_deaf;
        let only_asks = is_deaf && self.relay.has_all_questions();
        is_ours || self.client_takes() && !only_asks
    }

    fn client_takes(&self) -> bool {
        self.client.out.len() < self.limits.buffer_bytes
    }
}

fn on_server(server: &mut Connection, found: PollFlags, reads: bool) {
    if found.contains(PollFlags::OUT) {
        server.write();
    }
    let readable = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
    if reads && found.intersects(readable) {
        server.read();
    }
}

/// How long to wait before the next try.
pub(crate) fn back_off(failures: usize) -> Duration {
    let wait = BACK_OFF_MS.get(failures);
    Duration::from_millis(*wait.unwrap_or(&LONGEST_BACK_OFF_MS))
}

/// For the first tries; then it is tried at this pace for ever.
const BACK_OFF_MS: [u64; 7] = [0, 10, 20, 50, 100, 200, 500];
const LONGEST_BACK_OFF_MS: u64 = 1000;
