//! The loop between stdio and a socket: one thread, one `poll`. `proxy.rs` decides what is done.

use std::time::Instant;

use lmcp_wire::{Incoming, RpcError, error::INTERNAL_ERROR, framing::Frame, greeting::Welcome};
use rustix::event::{PollFlags, Timespec, poll};

use crate::{
    Ending, Way,
    attach::Miss,
    connection::Connection,
    limits::Limits,
    proxy::{Link, Proxy, Server},
    stdio::Client,
};

pub(crate) struct Driver<'a> {
    way: &'a Way,
    proxy: Proxy<'a, Connection>,
    /// The time until which messages of the server are still read, counted from when the client had everything.
    lingers_until: Option<Instant>,
    /// Messages of the server are passed on until it closes, because a request was open when the client ended.
    lingers: bool,
}

/// A server that got our greeting, and has not sent its welcome.
pub(crate) struct Greeted {
    connection: Connection,
    /// The time until which it must send its welcome.
    by: Instant,
}

impl Server for Connection {
    type Opening = Greeted;

    fn send(&mut self, line: Vec<u8>) {
        self.push(line);
    }

    fn has_room(&self, limits: &Limits) -> bool {
        self.out.len() < limits.buffer_bytes && !self.is_deaf
    }
}

impl<'a> Driver<'a> {
    pub(crate) fn new(way: &'a Way, note: &'a mut dyn FnMut(&str)) -> Self {
        Self {
            way,
            proxy: Proxy::new(note),
            lingers_until: None,
            lingers: false,
        }
    }

    pub(crate) fn run(mut self) -> Ending {
        loop {
            while self.hear_client() || self.hear_server() {}
            self.proxy.turn();
            if self.proxy.is_due() {
                self.attach();
            }
            if let Some(ending) = self.ending() {
                return ending;
            }
            self.wait();
        }
    }

    fn hear_client(&mut self) -> bool {
        let heard = self.proxy.hear_client();
        self.lingers |= self.proxy.is_told && self.proxy.over.is_none();
        heard
    }

    /// Passes one line of the server, or its end, to the relay. Returns whether there was anything.
    fn hear_server(&mut self) -> bool {
        if !self.takes_from_server() {
            return false;
        }
        let now = Instant::now();
        let proxy = &mut self.proxy;
        match &mut proxy.link {
            Link::Away(_) => return false,
            Link::Opening(greeted) => match greeted.connection.next_frame() {
                Some(frame) => self.hear_welcome(frame),
                None if greeted.connection.is_lost(now) => {
                    proxy.miss("it closed the connection without a word");
                }
                None if greeted.by <= now => {
                    proxy.miss("it does not say whether we are welcome");
                }
                None => return false,
            },
            Link::On(server, _) => match server.next_frame() {
                Some(Ok(line)) => proxy.relay.server_line(line, now),
                Some(Err(long)) => proxy.relay.server_long_line(&long.head, &long.tail, now),
                None if server.is_lost(now) => {
                    proxy.unsent = server.take_unsent();
                    proxy.lose_host();
                }
                None => return false,
            },
        }
        self.proxy.carry_out();
        true
    }

    /// Takes the first line of a server that got our greeting.
    fn hear_welcome(&mut self, frame: Frame) {
        let proxy = &mut self.proxy;
        let Ok(line) = frame else {
            return proxy.miss("it does not say whether we are welcome");
        };
        let has_greeted = proxy.link.connection().is_some_and(|it| it.out.is_empty());
        if has_greeted && serde_json::from_slice::<Welcome>(&line).is_ok() {
            let link = std::mem::replace(&mut proxy.link, Link::Away(Instant::now()));
            if let Link::Opening(greeted) = link {
                proxy.attached(greeted.connection);
                proxy.relay.server_is_host();
            }
            return;
        }
        let Ok(Incoming::Response {
            outcome: Err(error),
            ..
        }) = Incoming::parse(&line)
        else {
            return proxy.miss("it does not know what an identity is");
        };
        if error.code == INTERNAL_ERROR {
            // The server's trouble is not with us: it will admit us soon.
            proxy.back_off();
            proxy.relay.server_awaited(&*error.message);
            return proxy.notes.say_missing(&error.message, !proxy.is_told);
        }
        let words = format!("the server does not let us in: {}", error.message);
        proxy.leave(words, error);
    }

    /// Looks for a server.
    fn attach(&mut self) {
        let proxy = &mut self.proxy;
        match self.way.open() {
            Ok((socket, greeting)) => {
                let mut connection = Connection::new(socket, &proxy.limits);
                match greeting {
                    Some(greeting) => {
                        connection.out.push(greeting.to_line().into_bytes());
                        let by = Instant::now() + proxy.limits.welcome_wait;
                        proxy.link = Link::Opening(Greeted { connection, by });
                    }
                    None => proxy.attached(connection),
                }
            }
            Err(Miss::Absent(err)) => proxy.miss(&err.to_string()),
            Err(Miss::Gone(err)) => {
                let error = RpcError::invalid_request(err.to_string());
                proxy.leave(err.to_string(), error);
            }
            Err(Miss::Starting) => {
                proxy.back_off();
                proxy.relay.server_awaited("it is being started");
            }
            Err(Miss::Useless(err)) => {
                proxy.back_off();
                proxy.relay.server_unreachable(err.to_string());
                // People know that the server is gone, but this reason is new.
                proxy
                    .notes
                    .say(format!("there is no server: {err}; trying again"));
            }
        }
        proxy.carry_out();
    }

    /// Returns the result, if the proxy has ended.
    fn ending(&mut self) -> Option<Ending> {
        if let Some(ending) = self.proxy.broke_off() {
            return Some(ending);
        }
        let now = Instant::now();
        let until = match self.lingers_until {
            Some(until) => until,
            None => {
                self.proxy.ended()?;
                *self.lingers_until.insert(now + self.proxy.limits.linger)
            }
        };
        let (is_late, lingers) = (until <= now, self.lingers);
        match self.proxy.link.connection() {
            Some(server) if !is_late && !server.out.is_empty() => None,
            Some(server) if !is_late && lingers => {
                server.end();
                None
            }
            _ => self.proxy.over,
        }
    }

    /// Waits until something can be read or written, or until the next deadline.
    fn wait(&mut self) {
        let timeout = self.deadline().map(|until| {
            let wait = until.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: wait.as_secs().try_into().unwrap_or(i64::MAX),
                tv_nsec: wait.subsec_nanos().into(),
            }
        });
        let reads_server = self.takes_from_server();
        let proxy = &mut self.proxy;
        let reads_client = proxy.reads_client();
        let asks_client = reads_client || !proxy.client.is_leaving();
        let mut asked = Vec::with_capacity(3);
        asked.push(proxy.client.output());
        if reads_client {
            asked.push(Client::input());
        } else if asks_client {
            asked.push(Client::hang_up());
        }
        if let Some(server) = proxy.link.connection() {
            asked.extend(server.poll(reads_server));
        }
        if poll(&mut asked, timeout.as_ref()).is_err() {
            // A signal interrupted the wait. That changes nothing.
            return;
        }
        let mut answers = asked
            .iter()
            .map(|asked| asked.revents())
            .collect::<Vec<_>>()
            .into_iter();
        drop(asked);
        let output = answers.next();
        proxy.client.on_output(output.unwrap_or(PollFlags::empty()));
        if asks_client && answers.next().is_some_and(|found| !found.is_empty()) {
            if reads_client {
                proxy.client.read();
            } else {
                proxy.client.has_hung_up = true;
            }
        }
        if let (Some(server), Some(found)) = (proxy.link.connection(), answers.next()) {
            on_server(server, found, reads_server);
        }
    }

    /// Returns the next time at which there is work without any input.
    fn deadline(&self) -> Option<Instant> {
        let link = match &self.proxy.link {
            _ if !self.takes_from_server() => None,
            Link::Away(_) => None,
            Link::Opening(greeted) => Some(greeted.by),
            Link::On(server, _) => server.deaf_until,
        };
        let times = [self.proxy.deadline(), link, self.lingers_until];
        times.into_iter().flatten().min()
    }

    /// Returns whether to read from the server: not while too much waits for the client, and not while the server asks more
    /// than it may and does not read the refusals. (A server that does not read is not enough reason: it may be writing
    /// answers.)
    fn takes_from_server(&self) -> bool {
        let proxy = &self.proxy;
        match &proxy.link {
            Link::Away(_) => false,
            // The welcome is for the proxy, and not for the client.
            Link::Opening(_) => true,
            Link::On(server, _) => {
                let is_full = server.out.len() >= proxy.limits.buffer_bytes && !server.is_deaf;
                let only_asks = is_full && proxy.relay.has_all_questions();
                proxy.client_takes() && !only_asks
            }
        }
    }
}

impl Link<Connection> {
    fn connection(&mut self) -> Option<&mut Connection> {
        match self {
            Self::Away(_) => None,
            Self::Opening(greeted) => Some(&mut greeted.connection),
            Self::On(server, _) => Some(server),
        }
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
