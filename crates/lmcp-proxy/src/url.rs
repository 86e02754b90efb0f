//! The loop between stdio and a URL: one thread, which also moves the bytes of every connection. What is said is the
//! relay's business, when and how much is ours.
//!
//! Stdin and stdout are asked before they are used, as in `socket.rs`; a thread tells when to ask again.

use std::{io, pin::Pin, time::Instant};

use lmcp_client::{Endpoint, Error, Event};
use lmcp_wire::RpcError;
use serde_json::json;
use tokio::{
    task::yield_now,
    time::{sleep_until, timeout},
};

use crate::{
    Ending,
    limits::{GOOD_BYE, LOOK, Limits},
    notes::Notes,
    relay::{Output, Relay},
    socket::back_off,
    stdio::Client,
    watch::{ALIVE, INPUT, OUTPUT, Watch},
};

pub(crate) struct Driver<'a> {
    endpoint: &'a Endpoint,
    notes: Notes<'a>,
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
    /// How it ends, once everything has been written.
    over: Option<Ending>,
}

enum Link {
    /// Look for a server, not before this time.
    Away(Instant),
    Opening(Opening),
    On(Box<lmcp_client::Link>, Instant),
}

type Opened = Result<Box<lmcp_client::Link>, Error>;
type Opening = Pin<Box<dyn Future<Output = Opened>>>;

enum News {
    Opened(Opened),
    Event(Event),
}

impl<'a> Driver<'a> {
    pub(crate) fn new(endpoint: &'a Endpoint, note: &'a mut dyn FnMut(&str)) -> Self {
        let limits = Limits::default();
        Self {
            endpoint,
            notes: Notes::new(note),
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
            let output = self.client.output_now();
            self.client.on_output(output);
            if !self.reads_client() {
                self.client.look_for_writer();
            } else if self.client.has_more() {
                self.client.read();
            }
            while self.hear_client() {}
            self.relay.time_is(Instant::now());
            self.carry_out();
            self.attach();
            let is_over = self.over.is_some();
            self.client.watch_reader(is_over, self.limits.stall);
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
        match self.client.next_frame() {
            Some(Ok(line)) => self.relay.client_line(line, Instant::now()),
            Some(Err(long)) => self.relay.client_long_line(&long.head, &long.tail),
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
        self.notes.say(why.to_owned());
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
            self.notes.say(format!("the server went away: {why}{hope}"));
        }
    }

    /// There is no server where one should be.
    fn miss(&mut self, why: &str) {
        self.back_off();
        self.relay.server_unreachable(why);
        self.notes.say_missing(why, !self.is_told);
    }

    fn back_off(&mut self) {
        let now = Instant::now();
        // A server that lasted was of use; one that takes handshakes and forgets them is not.
        let was_of_use = self.relay.was_of_use();
        if matches!(self.link, Link::On(_, since) if was_of_use || now - since >= self.limits.lasting)
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
                (Output::ToServer(line), Link::On(link, _)) => link.send(line),
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
        // A client that has gone is not kept waiting: there is a server now, or there is none.
        let is_due = matches!(self.link, Link::Away(due) if due <= now || self.is_told);
        if is_due && self.over.is_none() && self.relay.wants_server() {
            let endpoint = self.endpoint.clone();
            self.link = Link::Opening(Box::pin(async move { endpoint.open().await.map(Box::new) }));
        }
    }

    fn finish(&mut self, ending: Ending) {
        self.over.get_or_insert(ending);
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
        if self.client.has_stalled() {
            return Some(Ending::Unanswered);
        }
        let ending = self.over?;
        let is_asking = ending == Ending::Refused && self.client.has_more();
        (is_flushed && !is_asking).then_some(ending)
    }

    /// Says good-bye, but nobody waits long for that.
    async fn part(self) {
        if let Link::On(link, _) = self.link {
            let _ = timeout(GOOD_BYE, link.close()).await;
        }
    }

    /// When there is something to do although nothing comes.
    fn deadline(&self) -> Option<Instant> {
        // Nobody tells when a client that is not read hangs up.
        let is_held = !self.reads_client() && !self.client.is_leaving();
        let look = is_held.then(|| Instant::now() + LOOK);
        let link = match &self.link {
            Link::Away(due) if self.over.is_none() && self.relay.wants_server() => Some(*due),
            Link::Away(_) | Link::Opening(_) | Link::On(..) => None,
        };
        [self.relay.deadline(), link, self.client.stalls_at, look]
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
        // The rest of what a client wrote is no more than a pipe holds, and behind it stands its end.
        let takes_rest = self.client.is_leaving() && !self.relay.is_crowded();
        let has_room = self.relay.has_room() || takes_rest;
        server_takes && has_room && self.client.out.len() < self.limits.buffer_bytes
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
