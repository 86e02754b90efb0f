//! Random events in a random order: every request is answered once, and servers get the requests in the client's order.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use lmcp_wire::error::INTERNAL_ERROR;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    limits::Limits,
    relay::{Output, Relay, tests::relay},
};

#[derive(Clone, Copy, Debug)]
enum Event {
    Call,
    /// A request that may be sent again.
    Ping,
    /// Cancels one of the open requests.
    Cancel(usize),
    Attach,
    Lose,
    /// The server begins with the error that it has no room, and closes.
    TurnAway,
    /// The server sends a line that is too long and names no request.
    Overflow,
    Miss,
    /// Answers one of the requests that the server has.
    Answer(usize),
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => Just(Event::Call),
        2 => Just(Event::Ping),
        1 => (0..8_usize).prop_map(Event::Cancel),
        3 => Just(Event::Attach),
        2 => Just(Event::Lose),
        1 => Just(Event::TurnAway),
        1 => Just(Event::Overflow),
        1 => Just(Event::Miss),
        5 => (0..8_usize).prop_map(Event::Answer),
        1 => (0..20_u64).prop_map(Event::Wait),
    ]
}

/// A client and a server that keep count.
struct World {
    relay: Relay,
    now: Instant,
    is_attached: bool,
    next: u64,
    /// The requests of the client, and how often each was answered.
    open: BTreeMap<u64, usize>,
    cancelled: BTreeSet<u64>,
    /// The requests that the server has, in the order in which they came.
    server: Vec<u64>,
    /// The last request that this server got.
    last: u64,
    has_spoken: bool,
    /// The requests that no server looked at, and the next one must get.
    unheard: BTreeSet<u64>,
    handshake: Option<Value>,
}

impl World {
    fn new() -> Self {
        let limits = Limits {
            waiting: 6,
            pending: 12,
            ..Limits::default()
        };
        let mut world = Self {
            relay: relay(limits),
            now: Instant::now(),
            is_attached: false,
            next: 1,
            open: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            server: Vec::new(),
            last: 0,
            has_spoken: false,
            unheard: BTreeSet::new(),
            handshake: None,
        };
        world.ask("initialize", &json!({ "protocolVersion": "2025-11-25" }));
        world
    }

    fn happen(&mut self, event: Event) {
        match event {
            // The client is not read while there is no room.
            Event::Call | Event::Ping | Event::Cancel(_) if !self.relay.has_room() => {}
            Event::Call => self.ask("tools/call", &json!({})),
            Event::Ping => self.ask("ping", &json!({})),
            Event::Cancel(which) => self.cancel(which),
            Event::Attach if !self.is_attached && self.relay.wants_server() => {
                (self.is_attached, self.last, self.has_spoken) = (true, 0, false);
                self.relay.server_attached(self.now);
            }
            Event::Lose if self.is_attached => {
                self.is_attached = false;
                (self.server, self.handshake) = (Vec::new(), None);
                self.relay.server_lost(self.now);
            }
            Event::TurnAway if self.is_attached && !self.has_spoken => {
                self.unheard = self.server.iter().copied().collect();
                let error = json!({ "code": INTERNAL_ERROR, "message": "no room" });
                let line = json!({ "jsonrpc": "2.0", "error": error }).to_string();
                self.relay.server_line(line.into_bytes(), self.now);
                self.happen(Event::Lose);
            }
            Event::Overflow if self.is_attached => {
                self.relay.server_long_line(b"[", b"]", self.now);
            }
            Event::Miss if !self.is_attached => self.relay.server_unreachable("not there"),
            Event::Answer(which) => self.answer(which),
            Event::Wait(seconds) => {
                self.now += Duration::from_secs(seconds);
                self.relay.time_is(self.now);
            }
            Event::Attach | Event::Lose | Event::TurnAway | Event::Overflow | Event::Miss => {}
        }
        self.collect();
    }

    fn ask(&mut self, method: &str, params: &Value) {
        let id = self.next;
        self.next += 1;
        self.open.insert(id, 0);
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.relay
            .client_line(line.to_string().into_bytes(), self.now);
        self.collect();
    }

    fn cancel(&mut self, which: usize) {
        let waits = self
            .open
            .iter()
            .filter(|(id, answers)| **answers == 0 && **id != 1);
        let ids: Vec<u64> = waits.map(|(id, _)| *id).collect();
        let Some(id) = ids.get(which).copied() else {
            return;
        };
        self.cancelled.insert(id);
        // A server does not answer a cancelled request.
        self.server.retain(|sent| *sent != id);
        let params = json!({ "requestId": id });
        let line =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        self.relay
            .client_line(line.to_string().into_bytes(), self.now);
    }

    fn answer(&mut self, which: usize) {
        let id = match self.handshake.take() {
            Some(id) => id,
            None if which < self.server.len() => json!(self.server.remove(which)),
            None => return,
        };
        self.has_spoken = true;
        let result = json!({ "protocolVersion": "2025-11-25" });
        let line = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        self.relay
            .server_line(line.to_string().into_bytes(), self.now);
    }

    fn collect(&mut self) {
        while let Some(output) = self.relay.next_output() {
            match output {
                Output::ToClient(line) => self.client_hears(&line),
                Output::ToServer(line) => self.server_hears(&line),
                Output::Detach => {
                    self.is_attached = false;
                    (self.server, self.handshake) = (Vec::new(), None);
                }
                Output::TurnedAway => panic!("nobody is turned away"),
                Output::Remark(words) => panic!("all that was said are messages: {words}"),
                Output::Done(ending) => panic!("the client is still there: {ending:?}"),
            }
        }
    }

    fn client_hears(&mut self, line: &[u8]) {
        let message: Value = serde_json::from_slice(line).unwrap();
        let Some(id) = message["id"].as_u64() else {
            return;
        };
        let answers = self.open.get_mut(&id).expect("it asked");
        *answers += 1;
        let is_turned_away = self.unheard.remove(&id);
        assert!(!is_turned_away || !message.to_string().contains("may or may not"));
        assert_eq!(*answers, 1, "answered twice: {message}");
        assert!(
            !self.cancelled.contains(&id),
            "cancelled, and answered: {message}"
        );
    }

    fn server_hears(&mut self, line: &[u8]) {
        assert!(self.is_attached);
        let message: Value = serde_json::from_slice(line).unwrap();
        assert!(
            self.handshake.is_none(),
            "before the handshake was answered: {message}"
        );
        match (&message["id"], message["id"].as_u64()) {
            (_, Some(id)) => {
                assert!(id > self.last, "{id} after {}", self.last);
                assert!(self.open[&id] == 0 && !self.cancelled.contains(&id));
                self.last = id;
                self.unheard.remove(&id);
                self.server.push(id);
            }
            (Value::String(_), _) => self.handshake = Some(message["id"].clone()),
            _ => {}
        }
    }
}

proptest! {
    #[test]
    fn every_request_is_answered_once_and_in_order(events in prop::collection::vec(event(), 1..80)) {
        let mut world = World::new();
        for event in events {
            world.happen(event);
        }
        // In the end, a server answers everything.
        world.happen(Event::Attach);
        while !world.server.is_empty() || world.handshake.is_some() {
            world.happen(Event::Answer(0));
        }
        for (id, answers) in &world.open {
            let wanted = usize::from(!world.cancelled.contains(id));
            prop_assert_eq!(*answers, wanted, "request {}", id);
        }
        prop_assert!(world.relay.is_idle());
    }
}
