//! What a server never looked at, and one that turns us away. A URL tells what it did not take; of a socket it is what was never written.

use std::time::Instant;

use lmcp_wire::{Envelope, RequestId, RpcError};

use super::{
    Relay,
    calls::{Call, Held},
    message::batch,
};

impl Relay {
    /// The server that was attached is gone, and never looked at these lines: the next one may.
    pub(crate) fn server_lost_without(&mut self, unsent: Vec<Vec<u8>>, now: Instant) {
        // A client that has gone is not kept waiting.
        if self.client_ended {
            return self.server_lost(now);
        }
        let (mut again, mut others) = (Vec::new(), Vec::new());
        for line in unsent {
            let ids = requests(&line);
            if ids.is_empty() {
                others.push(line);
                continue;
            }
            let calls = self.reclaim(&ids, now);
            // What the proxy said by itself, it says again by itself.
            if !calls.is_empty() {
                let until = calls.iter().filter_map(|call| call.until).min();
                again.push(Held { line, calls, until });
            }
        }
        self.server_lost(now);
        for held in again {
            self.waiting.push(held);
        }
        // Whether these still mean anything, what they are about decides.
        for line in others {
            self.client_line(line, now);
        }
    }

    /// The server that was attached wants nothing from us, and will not.
    pub(crate) fn server_turned_away(&mut self, error: RpcError) {
        self.part();
        let calls = Vec::from(self.sent.take_all());
        self.fail(&calls, |_| error.clone());
        self.server_refused(error);
    }

    /// Takes requests back from a server. They wait for others no longer than if each had been lost.
    fn reclaim(&mut self, ids: &[RequestId], now: Instant) -> Vec<Call> {
        let until = now + self.limits.wait;
        let calls = ids.iter().filter_map(|id| self.sent.remove(id));
        let calls = calls.map(|mut call| {
            call.kept = None;
            call.until.get_or_insert(until);
            call
        });
        calls.collect()
    }
}

/// The requests in a line.
fn requests(line: &[u8]) -> Vec<RequestId> {
    let id = |message: &[u8]| match Envelope::read(message) {
        Envelope::Request { id, .. } => Some(id),
        Envelope::Notification { .. }
        | Envelope::Response { .. }
        | Envelope::Hollow { .. }
        | Envelope::Nameless
        | Envelope::Unreadable => None,
    };
    match batch(line) {
        Some(messages) => messages
            .into_iter()
            .filter_map(|message| id(message.get().as_bytes()))
            .collect(),
        None => id(line).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Output, *};
    use crate::limits::Limits;

    const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{}}}"#;
    const AGREED: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{}}}"#;
    const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    const CALL: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}"#;
    const NEXT: &str = r#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{}}"#;

    /// A relay with a server that took the handshake, and all lines that it sends.
    fn open(now: Instant) -> Relay {
        let mut relay = Relay::new(Limits::default());
        relay.server_attached(now);
        relay.client_line(INITIALIZE.into(), now);
        relay.server_line(AGREED.into(), now);
        relay.client_line(INITIALIZED.into(), now);
        sent(&mut relay);
        relay
    }

    /// The next server takes the handshake, too. What is sent then.
    fn open_again(relay: &mut Relay, now: Instant) -> Vec<String> {
        relay.server_attached(now);
        let handshake = sent(relay).concat();
        let id = handshake
            .split('"')
            .find(|part| part.starts_with("lmcp-proxy-"));
        let agreed = AGREED.replace("\"id\":0", &format!("\"id\":\"{}\"", id.unwrap()));
        relay.server_line(agreed.into(), now);
        sent(relay)
    }

    fn sent(relay: &mut Relay) -> Vec<String> {
        let lines = std::iter::from_fn(|| relay.next_output());
        let lines = lines.map(|output| match output {
            Output::ToClient(line) => format!("client {}", String::from_utf8_lossy(&line)),
            Output::ToServer(line) => format!("server {}", String::from_utf8_lossy(&line)),
            other => format!("{other:?}"),
        });
        lines.collect()
    }

    #[test]
    fn what_no_server_looked_at_goes_to_the_next_one_and_the_rest_is_lost() {
        let now = Instant::now();
        let mut relay = open(now);
        relay.client_line(CALL.into(), now);
        relay.client_line(NEXT.into(), now);
        sent(&mut relay);
        relay.server_lost_without(vec![NEXT.into(), INITIALIZED.into()], now);
        let told = sent(&mut relay);
        assert!(
            matches!(&*told, [lost] if lost.contains("\"id\":7") && lost.contains("retriable")),
            "{told:?}"
        );
        relay.server_attached(now);
        let handshake = sent(&mut relay);
        let [handshake] = &*handshake else {
            panic!("{handshake:?}")
        };
        assert!(handshake.contains("lmcp-proxy-"), "{handshake}");
        // Nor did the next one look at anything: what the proxy said itself is not said twice.
        let own = handshake.trim_start_matches("server ").as_bytes().to_vec();
        relay.server_lost_without(vec![own], now);
        let sent = open_again(&mut relay, now);
        let said = sent
            .iter()
            .filter(|line| line.contains("notifications/initialized"));
        assert_eq!(said.count(), 1, "{sent:?}");
        assert_eq!(sent.last().unwrap(), &format!("server {NEXT}"));
    }

    #[test]
    fn a_request_that_no_server_ever_looks_at_is_answered_in_time() {
        let mut now = Instant::now();
        let wait = Limits::default().wait;
        let mut relay = open(now);
        relay.client_line(CALL.into(), now);
        sent(&mut relay);
        for _ in 0..3 {
            relay.server_lost_without(vec![CALL.into()], now);
            relay.time_is(now);
            let again = open_again(&mut relay, now);
            assert_eq!(again.last().unwrap(), &format!("server {CALL}"));
            now += wait / 3;
        }
        relay.server_lost_without(vec![CALL.into()], now);
        relay.time_is(now);
        let told = sent(&mut relay);
        assert!(
            matches!(&*told, [late] if late.contains("\"id\":7") && late.contains("retriable")),
            "{told:?}"
        );
    }

    #[test]
    fn whoever_is_turned_away_is_told_why() {
        let now = Instant::now();
        let mut relay = open(now);
        relay.client_line(CALL.into(), now);
        sent(&mut relay);
        relay.server_turned_away(RpcError::internal("no token"));
        relay.client_line(NEXT.into(), now);
        let told = sent(&mut relay);
        let fits = |line: &String, id: &str| line.contains(id) && line.contains("no token");
        assert!(
            matches!(&*told, [first, next] if fits(first, "\"id\":7") && fits(next, "\"id\":8")),
            "{told:?}"
        );
    }
}
