//! The loop between stdio and a URL: one thread, which also moves the bytes of every connection. What is said is the
//! relay's business, when and how much is ours.
//!
//! Stdin and stdout are asked before they are used, as in `socket.rs`; a thread tells when to ask again.

use std::{
    io,
    pin::Pin,
    time::{Duration, Instant},
};

use lmcp_client::{Endpoint, Error, Event};
use lmcp_wire::RpcError;
use rustix::event::PollFlags;
use serde_json::json;
use tokio::{
    task::yield_now,
    time::{sleep_until, timeout},
};

use crate::{
    Ending,
    limits::Limits,
    lines::Frame,
    relay::{Output, Relay},
    socket::back_off,
    stdio::{Client, takes_notes},
    watch::{ALIVE, INPUT, OUTPUT, Watch},
};

pub(crate) struct Driver<'a> {
    endpoint: &'a Endpoint,
    note: &'a mut dyn FnMut(&str),
    /// What people were told last. Empty: all is well.
    noted: String,
    limits: Limits,
    relay: Relay,
    client: Client,
    /// The relay knows that the client has ended.
    is_told: bool,
    link: Link,
    /// What a server that is about to be lost never looked at.
    unsent: Vec<Vec<u8>>,
    /// How many servers in a row were of no use.
    failures: usize,
    over: Option<Over>,
}

enum Link {
    /// Look for a server, not before this time.
    Away(Instant),
    Opening(Opening),
    On(Box<lmcp_client::Link>, Instant),
}

type Opened = Result<Box<lmcp_client::Link>, Error>;
type Opening = Pin<Box<dyn Future<Output = Opened>>>;

/// How it ends, once everything has been written, and when a client that reads nothing is given up.
struct Over {
    ending: Ending,
    stalls_at: Instant,
}

enum News {
    Opened(Opened),
    Event(Event),
}

impl<'a> Driver<'a> {
    pub(crate) fn new(endpoint: &'a Endpoint, note: &'a mut dyn FnMut(&str)) -> Self {
        let limits = Limits::default();
        Self {
            endpoint,
            note,
            noted: String::new(),
            relay: Relay::new(limits.clone()),
            client: Client::new(&limits),
            is_told: false,
            link: Link::Away(Instant::now()),
            unsent: Vec::new(),
            failures: 0,
            over: None,
            limits,
        }
    }

    pub(crate) async fn run(mut self) -> io::Result<Ending> {
        let watch = Watch::new()?;
        loop {
            self.on_output(self.client.output_now());
            if self.reads_client() && self.client.has_more() {
                self.client.read();
            }
            while self.hear_client() {}
            self.relay.time_is(Instant::now());
            self.carry_out();
            self.attach();
            if let Some(ending) = self.ending() {
                self.part().await;
                return Ok(ending);
            }
            self.wait(&watch).await;
        }
    }

    /// Waits until there is something to do.
    async fn wait(&mut self, watch: &Watch) {
        let reads_client = self.reads_client();
        let has_more = reads_client && self.client.has_more() || self.client.can_write();
        let mut wanted = ALIVE;
        if reads_client {
            wanted |= INPUT;
        }
        if !self.client.out.is_empty() {
            wanted |= OUTPUT;
        }
        let takes = self.client.out.len() < self.limits.buffer_bytes;
        let deadline = self.deadline();
        let until = tokio::time::Instant::from_std(deadline.unwrap_or_else(Instant::now));
        tokio::select! {
            biased;
            news = self.link.news(), if takes => self.hear(news),
            // The connections have their turn first.
            () = yield_now(), if has_more => {}
            () = watch.changed(wanted), if !has_more => {}
            () = sleep_until(until), if deadline.is_some() => {}
        }
    }

    fn hear(&mut self, news: News) {
        let now = Instant::now();
        match news {
            News::Opened(Ok(link)) => {
                self.link = Link::On(link, now);
                self.relay.server_attached(now);
            }
            News::Opened(Err(Error::Refused(why))) | News::Event(Event::Refused(why)) => {
                self.leave(&why);
            }
            News::Opened(Err(err)) => self.miss(&err.to_string()),
            News::Event(Event::Line(line)) => self.relay.server_line(line.into(), now),
            News::Event(Event::Unsent(line)) => self.unsent.push(line.into()),
            News::Event(Event::Lost(why)) => self.lose(&why),
            News::Event(_) => {}
        }
        self.carry_out();
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
                self.is_told = true;
            }
            None => return false,
        }
        self.carry_out();
        true
    }

    /// A server that does not want us now never will.
    fn leave(&mut self, why: &str) {
        self.say(why.to_owned());
        self.link = Link::Away(Instant::now());
        let error = RpcError::internal(why.to_owned()).with_data(json!({ "retriable": false }));
        self.relay.server_turned_away(error);
        self.finish(Ending::Refused);
    }

    /// There was a server, and it is gone.
    fn lose(&mut self, why: &str) {
        self.back_off();
        let unsent = std::mem::take(&mut self.unsent);
        self.relay.server_lost_without(unsent, Instant::now());
        if self.over.is_none() {
            let hope = if self.is_told { "" } else { "; trying again" };
            self.say(format!("the server went away: {why}{hope}"));
        }
    }

    /// There is no server where one should be.
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
        let now = Instant::now();
        // A server that lasted was of use; one that takes handshakes and forgets them is not.
        let was_of_use = self.relay.was_of_use();
        if matches!(self.link, Link::On(_, since) if was_of_use || now - since >= LASTING) {
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
                (Output::ToServer(line), Link::On(link, _)) => link.send(line),
                (Output::ToServer(_), Link::Away(_) | Link::Opening(_)) => {}
                (Output::Detach, _) => {
                    self.back_off();
                    self.say(format!("{}; trying again", self.relay.trouble()));
                }
                (Output::Done(ending), _) => self.finish(ending),
            }
        }
        if self.relay.is_served() && !self.noted.is_empty() {
            self.say("the server is back".to_owned());
            self.noted.clear();
        }
    }

    /// Looks for a server, if it is time to.
    fn attach(&mut self) {
        let now = Instant::now();
        // A client that has gone is not kept waiting: there is a server now, or there is none.
        let is_due = matches!(self.link, Link::Away(due) if due <= now || self.is_told);
        if is_due && self.over.is_none() && self.relay.wants_server() {
            let endpoint = self.endpoint.clone();
            self.link = Link::Opening(Box::pin(async move { endpoint.open().await.map(Box::new) }));
        }
    }

    fn finish(&mut self, ending: Ending) {
        self.over.get_or_insert(Over {
            ending,
            stalls_at: Instant::now() + self.limits.stall,
        });
    }

    /// How it ended, if it has.
    fn ending(&self) -> Option<Ending> {
        let is_flushed = self.client.out.is_empty();
        if self.client.is_gone {
            let is_idle = self.relay.is_idle() && is_flushed;
            return Some(if is_idle {
                Ending::Done
            } else {
                Ending::Unanswered
            });
        }
        let over = self.over.as_ref()?;
        let is_asking = over.ending == Ending::Refused && self.client.has_more();
        if is_flushed && !is_asking {
            return Some(over.ending);
        }
        (over.stalls_at <= Instant::now()).then_some(Ending::Unanswered)
    }

    /// Says good-bye, but nobody waits long for that.
    async fn part(self) {
        if let Link::On(link, _) = self.link {
            let _ = timeout(GOOD_BYE, link.close()).await;
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
        let over = self.over.as_ref().map(|over| over.stalls_at);
        let link = match &self.link {
            Link::Away(due) if over.is_none() && self.relay.wants_server() => Some(*due),
            Link::Away(_) | Link::Opening(_) | Link::On(..) => None,
        };
        [self.relay.deadline(), link, over]
            .into_iter()
            .flatten()
            .min()
    }

    fn reads_client(&self) -> bool {
        !self.client.has_ended && self.takes_from_client()
    }

    /// Not while either side does not take what there is for it.
    fn takes_from_client(&self) -> bool {
        let server_takes = match &self.link {
            Link::On(link, _) => link.has_room(),
            Link::Away(_) | Link::Opening(_) => true,
        };
        server_takes && self.relay.has_room() && self.client.out.len() < self.limits.buffer_bytes
    }

    fn say(&mut self, words: String) {
        if words != self.noted && takes_notes() {
            (self.note)(&words);
        }
        self.noted = words;
    }
}

impl Link {
    /// What happens there. Nothing, while there is no server.
    async fn news(&mut self) -> News {
        match self {
            Self::Away(_) => std::future::pending().await,
            Self::Opening(opening) => News::Opened(opening.await),
            Self::On(link, _) => News::Event(link.next().await),
        }
    }
}

/// How long a server must last to be one that was worth looking for.
const LASTING: Duration = Duration::from_secs(1);

/// How long the end of a session may take once the client has gone.
const GOOD_BYE: Duration = Duration::from_millis(80);
