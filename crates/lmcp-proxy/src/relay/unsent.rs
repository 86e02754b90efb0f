//! Lines that a server never looked at, and a server that turns us away. A URL reports lines that it did not take; on a
//! socket, they are the lines that were never written.

use std::time::Instant;

use lmcp_wire::{Envelope, RequestId, RpcError};

use super::{
    Relay,
    calls::{Call, Held},
    message::batch,
};

impl Relay {
    /// Notes that the attached server is gone, and did not look at these lines: the next one may get them.
    pub(crate) fn server_lost_without(&mut self, unsent: Vec<Vec<u8>>, now: Instant) {
        // A client that has gone is not kept waiting.
        if self.client_ended {
            return self.server_lost(now);
        }
        // Each line goes to the next server once, whatever this one said before it was lost.
        self.unheard.forget(&unsent);
        let (mut again, mut others) = (Vec::new(), Vec::new());
        for line in unsent {
            let ids = requests(&line);
            if ids.is_empty() {
                others.push(line);
                continue;
            }
            let calls = self.reclaim(&ids, now);
            // Lines of the proxy itself are made again for the next server.
            if !calls.is_empty() {
                let until = calls.iter().filter_map(|call| call.until).min();
                again.push(Held { line, calls, until });
            }
        }
        self.server_lost(now);
        for held in again {
            self.waiting.push(held);
        }
        // These lines are decided again, because their requests may be gone.
        for line in others {
            self.client_line(line, now);
        }
    }

    /// Notes that the attached server refuses us for good.
    pub(crate) fn server_turned_away(&mut self, error: RpcError) {
        self.part();
        let calls = Vec::from(self.sent.take_all());
        self.fail(&calls, |_| error.clone());
        self.server_refused(error);
    }

    /// Takes requests back from a server. Each of them waits for other servers as long as after a loss.
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

/// Returns the ids of the requests in a line.
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

    /// Returns a relay with a server that took the handshake. All lines for the server are taken out.
    fn open(now: Instant) -> Relay {
        let mut relay = Relay::new(Limits::default());
        relay.server_attached(now);
        relay.client_line(INITIALIZE.into(), now);
        relay.server_line(AGREED.into(), now);
        relay.client_line(INITIALIZED.into(), now);
        sent(&mut relay);
        relay
    }

    /// Lets the next server take the handshake. Returns the lines that are sent then.
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
        // The next server did not look at anything either: lines of the proxy itself are not sent twice.
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
    fn what_was_never_written_to_a_busy_server_goes_to_the_next_one_once() {
        const BUSY: &str =
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"busy"}}"#;
        const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/mine"}"#;
        let now = Instant::now();
        for unsent in [
            vec![format!("[{CALL},{NOTE}]")],
            vec![CALL.into(), NOTE.into()],
        ] {
            let mut relay = Relay::new(Limits::default());
            relay.server_attached(now);
            // The client does not wait for the answer to the handshake.
            relay.client_line(INITIALIZE.into(), now);
            for line in &unsent {
                relay.client_line(line.clone().into_bytes(), now);
            }
            sent(&mut relay);
            relay.server_line(BUSY.into(), now);
            let lines = unsent.iter().map(|line| line.clone().into_bytes());
            relay.server_lost_without(lines.collect(), now);
            relay.server_attached(now);
            let sent = sent(&mut relay);
            assert_eq!(sent.concat().matches(CALL).count(), 1, "{sent:?}");
            assert_eq!(sent.concat().matches(NOTE).count(), 1, "{sent:?}");
        }
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
