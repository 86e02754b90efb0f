//! The loop between stdio and a socket: one thread, one `poll`. What is said is the relay's business, when and how much is
//! ours.

use std::time::{Duration, Instant};

use lmcp_wire::{Incoming, RpcError, error::INTERNAL_ERROR, greeting::Welcome};
use rustix::event::{PollFlags, Timespec, poll};

use crate::{
    Ending, Way,
    attach::Miss,
    connection::Connection,
    limits::Limits,
    lines::Frame,
    relay::{Output, Relay},
    stdio::{Client, takes_notes},
};

pub(crate) struct Driver<'a> {
    way: &'a Way,
    note: &'a mut dyn FnMut(&str),
    /// What people were told last. Empty: all is well.
    noted: String,
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
    /// When a client that reads nothing is given up.
    stalls_at: Instant,
    /// When the server is, counted from when the client had everything.
    lingers_until: Option<Instant>,
}

impl<'a> Driver<'a> {
    pub(crate) fn new(way: &'a Way, note: &'a mut dyn FnMut(&str)) -> Self {
        let limits = Limits::default();
        Self {
            way,
            note,
            noted: String::new(),
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
        let mut frame = self.client.lines.next_frame();
        if frame.is_none() && self.client.has_ended {
            frame = self.client.lines.last_frame();
        }
        match frame {
            Some(Frame::Line(line)) => self.relay.client_line(line, Instant::now()),
            Some(Frame::TooLong { head, tail }) => self.relay.client_long_line(&head, &tail),
            None if self.client.has_ended => {
                self.relay.client_eof();
                self.carry_out();
                self.is_told = true;
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
            Some(Frame::Line(line)) => self.relay.server_line(line, Instant::now()),
            Some(Frame::TooLong { head, tail }) => self.relay.server_long_line(&head, &tail),
            None if server.has_ended => self.lose(),
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
        let (Frame::Line(line), Link::On(server)) = (frame, &mut self.link) else {
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
            return self.miss(&error.message);
        }
        self.leave(error);
    }

    /// A server that does not want us now never will.
    fn leave(&mut self, error: RpcError) {
        self.say(format!("the server does not let us in: {}", error.message));
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
            self.say(format!("the server went away{hope}"));
        }
    }

    /// There was no server where one should be, or none that would do.
    fn miss(&mut self, why: &str) {
        self.back_off();
        self.relay.server_unreachable(why);
        // Where people know that it is gone, they need not hear that it is not back yet.
        if self.noted.is_empty() {
            let hope = if self.is_told { "" } else { "; trying again" };
            self.say(format!("there is no server: {why}{hope}"));
        }
    }

    fn back_off(&mut self) {
        let wait = BACK_OFF_MS
            .get(self.failures)
            .unwrap_or(&LONGEST_BACK_OFF_MS);
        self.failures += 1;
        self.link = Link::Away(Instant::now() + Duration::from_millis(*wait));
    }

    /// Does what the relay wants done.
    fn carry_out(&mut self) {
        while let Some(output) = self.relay.next_output() {
            match (output, &mut self.link) {
                (Output::ToClient(line), _) => self.client.out.push(line),
                (Output::ToServer(line), Link::On(server)) => server.out.push(line),
                (Output::ToServer(_), Link::Away(_)) => {}
                (Output::Detach, _) => {
                    self.back_off();
                    self.say(format!("{}; trying again", self.relay.trouble()));
                }
                (Output::Done(ending), _) => self.finish(ending),
            }
        }
        if self.relay.is_served() {
            self.failures = 0;
            if !self.noted.is_empty() {
                self.say("the server is back".to_owned());
                self.noted.clear();
            }
        }
    }

    /// Looks for a server, if it is time to.
    fn attach(&mut self) {
        let now = Instant::now();
        // A client that has gone is not kept waiting: there is a server now, or there is none.
        let is_due = matches!(self.link, Link::Away(due) if due <= now || self.is_told);
        if !is_due || self.over.is_some() || !self.relay.wants_server() {
            return;
        }
        match self.way.open() {
            Ok((socket, greeting)) => {
                let mut server = Connection::new(socket, &self.limits);
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
            Err(Miss::Starting) => {
                self.back_off();
                self.relay.server_unreachable("it is being started");
            }
            Err(Miss::Useless(err)) => {
                // It is no news that it is gone, but this is.
                self.noted.clear();
                self.miss(&err.to_string());
            }
        }
        self.carry_out();
    }

    fn finish(&mut self, ending: Ending) {
        self.over.get_or_insert(Over {
            ending,
            // Where nothing was open when the client let go, nothing is to be waited for.
            lingers: self.is_told,
            stalls_at: Instant::now() + self.limits.stall,
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
        let over = self.over.as_mut()?;
        let ending = over.ending;
        if over.lingers_until.is_none() {
            let is_asking = ending == Ending::Refused && self.client.has_more();
            if !is_flushed || is_asking {
                return (over.stalls_at <= now).then_some(Ending::Unanswered);
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
        let reads_server = self.takes_from_server();
        let mut asked = Vec::with_capacity(3);
        asked.push(self.client.output());
        if reads_client {
            asked.push(Client::input());
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
        self.on_output(answers.next().unwrap_or(PollFlags::empty()));
        if reads_client && answers.next().is_some_and(|found| !found.is_empty()) {
            self.client.read();
        }
        if let (Link::On(server), Some(found)) = (&mut self.link, answers.next()) {
            on_server(server, found, reads_server);
        }
    }

    fn on_output(&mut self, found: PollFlags) {
        let broken = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        if found.intersects(broken) {
            self.client.is_gone = true;
        } else if found.contains(PollFlags::OUT) {
            self.client.write();
            if let Some(over) = &mut self.over {
                over.stalls_at = Instant::now() + self.limits.stall;
            }
        }
    }

    /// When there is something to do although nothing comes.
    fn deadline(&self) -> Option<Instant> {
        let over = self.over.as_ref();
        let link = match &self.link {
            Link::Away(due) if over.is_none() && self.relay.wants_server() => Some(*due),
            Link::Away(_) => None,
            Link::On(server) => server.welcome_by,
        };
        let over = over.map(|over| over.lingers_until.unwrap_or(over.stalls_at));
        [self.relay.deadline(), link, over]
            .into_iter()
            .flatten()
            .min()
    }

    /// Not while either side does not take what there is for it.
    fn takes_from_client(&self) -> bool {
        let most = self.limits.buffer_bytes;
        let server_takes = match &self.link {
            Link::On(server) => server.out.len() < most && !server.is_deaf,
            Link::Away(_) => true,
        };
        server_takes && self.client.out.len() < most
    }

    fn takes_from_server(&self) -> bool {
        self.client.out.len() < self.limits.buffer_bytes
    }

    fn say(&mut self, words: String) {
        if words != self.noted && takes_notes() {
            (self.note)(&words);
        }
        self.noted = words;
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

/// How long to wait before the next try; then it is tried at this pace for ever.
const BACK_OFF_MS: [u64; 7] = [0, 10, 20, 50, 100, 200, 500];
const LONGEST_BACK_OFF_MS: u64 = 1000;
