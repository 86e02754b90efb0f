//! Conversations with servers of both kinds, and with faulty servers.

use std::collections::VecDeque;

use bytes::Bytes;
use lmcp_wire::{Implementation, LoggingLevel, ProtocolVersion, error};
use serde_json::{Value, json};

use super::{Call, Conversation, Ids, Output, Profile};

/// A conversation, and its ids.
struct Client {
    conversation: Conversation,
    ids: Ids,
}

impl Client {
    fn new() -> Self {
        let ids = Ids::default();
        let profile = Profile::new(Implementation::new("test", "1"));
        let mut client = Self {
            conversation: Conversation::new(profile, ids.clone()),
            ids,
        };
        client.conversation.opened();
        client
    }

    /// Returns a client that is open with a server of this revision.
    fn open(version: ProtocolVersion) -> Self {
        let mut client = Self::new();
        client.answer_opening(version);
        client
    }

    fn answer_opening(&mut self, version: ProtocolVersion) {
        let probe = self.sent();
        assert_eq!(probe["method"], "server/discover", "{probe}");
        if !version.has_handshake() {
            let result = json!({ "supportedVersions": [version.as_str()], "capabilities": {} });
            self.says(json!({ "id": probe["id"], "result": result }));
            return self.ready();
        }
        self.says(json!({ "id": probe["id"], "error": { "code": error::METHOD_NOT_FOUND, "message": "?" } }));
        self.answer_handshake(version);
    }

    fn answer_handshake(&mut self, version: ProtocolVersion) {
        let handshake = self.sent();
        assert_eq!(handshake["method"], "initialize", "{handshake}");
        let result =
            json!({ "protocolVersion": version.as_str(), "capabilities": {}, "serverInfo": {} });
        self.says(json!({ "id": handshake["id"], "result": result }));
        assert_eq!(self.sent()["method"], "notifications/initialized");
        self.ready();
    }

    fn ready(&mut self) {
        let output = self.conversation.output();
        assert!(matches!(output, Some(Output::Ready(_))), "{output:?}");
    }

    /// Returns the next line for the server.
    fn sent(&mut self) -> Value {
        match self.conversation.output() {
            Some(Output::Send(line)) => serde_json::from_slice(&line).unwrap(),
            output => panic!("nothing is sent: {output:?}"),
        }
    }

    fn silent(&mut self) {
        let output = self.conversation.output();
        assert!(output.is_none(), "{output:?}");
    }

    fn says(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        self.conversation.line(&Bytes::from(message.to_string()));
    }

    fn call(&mut self, method: &str) -> i64 {
        let id = self.ids.next();
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method });
        self.conversation.call(Call {
            id,
            line: line.to_string().into(),
            method: method.into(),
            has_session: true,
        });
        id
    }

    fn acknowledges(&mut self, id: &Value) {
        let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
        let params = json!({ "_meta": meta, "notifications": {} });
        self.says(
            json!({ "method": "notifications/subscriptions/acknowledged", "params": params }),
        );
    }

    fn granted(&mut self) {
        let output = self.conversation.output();
        assert!(matches!(output, Some(Output::Granted)), "{output:?}");
        assert!(self.conversation.is_granted());
        self.silent();
    }

    /// Returns the result of a call.
    fn done(&mut self) -> (i64, Result<String, String>) {
        match self.conversation.output() {
            Some(Output::Done(id, result)) => {
                let result = result.map(|result| result.get().to_owned());
                (id, result.map_err(|error| error.to_string()))
            }
            output => panic!("nothing ends: {output:?}"),
        }
    }
}

#[test]
fn a_log_level_alone_wants_no_server() {
    let mut client = Client::open(ProtocolVersion::V2025_11_25);
    client.conversation.wishes().level = Some(LoggingLevel::Info);
    client.conversation.lost("it was killed");
    assert!(!client.conversation.wants_server());
    client.conversation.wishes().lists.tools = true;
    assert!(client.conversation.wants_server());
}

#[test]
fn both_kinds_of_servers_are_opened_as_they_know_it() {
    for version in ProtocolVersion::ALL {
        Client::open(version).silent();
    }
}

#[test]
fn a_silent_server_gets_a_handshake_and_may_still_answer_what_came_before() {
    let mut client = Client::new();
    let probe = client.sent();
    client.conversation.probe_expired();
    client.answer_handshake(ProtocolVersion::V2024_11_05);
    let mut client = Client::new();
    assert_eq!(client.sent()["method"], probe["method"]);
    client.conversation.probe_expired();
    assert_eq!(client.sent()["method"], "initialize");
    let result = json!({ "supportedVersions": ["2026-07-28"], "capabilities": {} });
    client.says(json!({ "id": probe["id"], "result": result }));
    client.ready();
}

#[test]
fn a_revision_that_was_refused_is_tried_once_more() {
    let mut client = Client::new();
    let data = json!({ "supported": ["2026-07-28"], "requested": "2026-07-28" });
    let refusal = json!({ "code": error::UNSUPPORTED_VERSION, "message": "no", "data": data });
    let probe = client.sent();
    client.says(json!({ "id": probe["id"], "error": refusal }));
    let probe = client.sent();
    assert_eq!(probe["method"], "server/discover");
    client.says(json!({ "id": probe["id"], "error": refusal }));
    let output = client.conversation.output();
    assert!(matches!(output, Some(Output::Unfit(_))), "{output:?}");
}

#[test]
fn a_call_that_waited_for_a_handshake_that_broke_was_not_sent() {
    let mut client = Client::new();
    client.sent();
    client.conversation.probe_expired();
    let handshake = client.sent();
    let call = client.call("tools/call");
    let data = json!({ "retriable": true, "began": true, "method": "initialize" });
    let broke =
        json!({ "code": error::INTERNAL_ERROR, "message": "the connection broke", "data": data });
    client.says(json!({ "id": handshake["id"], "error": broke }));
    let Some(Output::Done(id, Err(error))) = client.conversation.output() else {
        panic!("the call does not end");
    };
    assert_eq!(id, call);
    let data = error.data.unwrap();
    assert_eq!(data["began"], false);
    assert_eq!(data["retriable"], true);
    assert_eq!(data["fault"], "transport");
}

#[test]
fn a_server_does_not_say_whether_a_call_was_sent() {
    let mut client = Client::open(ProtocolVersion::V2025_11_25);
    let mut said = |is_ours: bool| {
        let id = client.call("tools/call");
        let sent = client.sent();
        let error =
            json!({ "code": 1, "message": "no", "data": { "began": false, "retriable": true } });
        let line = json!({ "jsonrpc": "2.0", "id": sent["id"], "error": error }).to_string();
        match is_ours {
            true => client.conversation.failure(&line.into()),
            false => client.conversation.line(&line.into()),
        }
        let Some(Output::Done(done, Err(error))) = client.conversation.output() else {
            panic!("the call does not end");
        };
        assert_eq!(done, id);
        error.data.unwrap()
    };
    assert_eq!(said(false), json!({ "retriable": true }));
    assert_eq!(said(true), json!({ "began": false, "retriable": true }));
}

#[test]
fn a_lost_call_fails_where_it_may_have_begun_and_waits_where_it_changes_nothing() {
    let mut client = Client::open(ProtocolVersion::V2025_11_25);
    let (tool, list) = (client.call("tools/call"), client.call("tools/list"));
    assert_eq!(client.sent()["id"], tool);
    assert_eq!(client.sent()["id"], list);
    let unsent = client.call("tools/call");
    let line = client.sent();
    client.conversation.unsent(&line.to_string().into());
    client.conversation.lost("it was killed");
    let (id, result) = client.done();
    assert_eq!(id, tool);
    assert!(result.unwrap_err().contains("it was killed"));
    client.silent();
    client.conversation.opened();
    client.answer_handshake(ProtocolVersion::V2025_11_25);
    assert_eq!(client.sent()["id"], list);
    assert_eq!(client.sent()["id"], unsent);
}

#[test]
fn a_request_that_every_server_dies_of_is_given_up() {
    let mut client = Client::open(ProtocolVersion::V2025_11_25);
    let list = client.call("tools/list");
    for _ in 0..2 {
        assert_eq!(client.sent()["id"], list);
        client.conversation.lost("it was killed");
        client.silent();
        client.conversation.opened();
        client.answer_handshake(ProtocolVersion::V2025_11_25);
    }
    assert_eq!(client.sent()["id"], list);
    client.conversation.lost("it was killed");
    let (id, result) = client.done();
    assert_eq!(id, list);
    assert!(result.unwrap_err().contains("it was killed"));
}

#[test]
fn answers_to_nothing_and_second_answers_are_passed_over() {
    let mut client = Client::open(ProtocolVersion::V2025_11_25);
    let id = client.call("tools/call");
    client.sent();
    client.says(json!({ "id": 4711, "result": {} }));
    client.says(json!({ "id": "no number", "result": {} }));
    client
        .conversation
        .line(&Bytes::from_static(b"starting up ..."));
    client.conversation.line(&Bytes::from_static(b"[1,{}]"));
    client.silent();
    client.says(json!({ "id": id, "result": { "first": true } }));
    client.says(json!({ "id": id, "result": { "second": true } }));
    assert_eq!(client.done(), (id, Ok(r#"{"first":true}"#.to_owned())));
    client.silent();
}

#[test]
fn questions_get_numbers_of_ours_and_are_answered_once() {
    let mut client = Client::open(ProtocolVersion::V2025_11_25);
    client.says(json!({ "id": "q", "method": "roots/list" }));
    client.says(json!({ "id": "p", "method": "ping" }));
    client.says(json!({ "id": "x", "method": "x/y" }));
    let Some(Output::Asked(question, method, _)) = client.conversation.output() else {
        panic!("it is asked");
    };
    assert_eq!(&*method, "roots/list");
    assert_eq!(
        client.sent(),
        json!({ "jsonrpc": "2.0", "id": "p", "result": {} })
    );
    assert_eq!(client.sent()["error"]["code"], error::METHOD_NOT_FOUND);
    let roots = serde_json::value::to_raw_value(&json!({ "roots": [] })).unwrap();
    client.conversation.answer(question, Ok(&roots));
    client.conversation.answer(question, Ok(&roots));
    assert_eq!(client.sent()["id"], "q");
    client.silent();
    client.says(json!({ "id": "r", "method": "roots/list" }));
    client.conversation.output();
    client.says(json!({ "method": "notifications/cancelled", "params": { "requestId": "r" } }));
    let output = client.conversation.output();
    assert!(matches!(output, Some(Output::TakenBack(_))), "{output:?}");
}

#[test]
fn wishes_are_said_again_to_the_next_server() {
    let mut client = Client::open(ProtocolVersion::V2026_07_28);
    client.conversation.wishes().lists.tools = true;
    let listen = client.sent();
    assert_eq!(listen["method"], "subscriptions/listen");
    assert_eq!(
        listen["params"]["notifications"],
        json!({ "toolsListChanged": true })
    );
    client.conversation.lost("it went");
    client.conversation.opened();
    client.answer_opening(ProtocolVersion::V2026_07_28);
    assert_eq!(client.sent()["method"], "subscriptions/listen");
    let meta = json!({ "io.modelcontextprotocol/subscriptionId": 1, "x/y": 1 });
    client
        .says(json!({ "method": "notifications/tools/list_changed", "params": { "_meta": meta } }));
    match client.conversation.output() {
        Some(Output::Heard(method, params)) => {
            assert_eq!(&*method, "notifications/tools/list_changed");
            assert_eq!(params.get(), r#"{"_meta":{"x/y":1}}"#);
        }
        output => panic!("{output:?}"),
    }
}

#[test]
fn a_wish_is_granted_when_the_server_says_so() {
    let mut client = Client::open(ProtocolVersion::V2026_07_28);
    assert!(client.conversation.is_granted());
    client.conversation.wishes().lists.tools = true;
    let first = client.sent();
    assert!(!client.conversation.is_granted());
    client.acknowledges(&first["id"]);
    client.granted();
    // The first stream stays open until the next one has begun.
    client.conversation.wishes().lists.prompts = true;
    let second = client.sent();
    assert_eq!(second["method"], "subscriptions/listen");
    client.silent();
    client.acknowledges(&first["id"]);
    client.silent();
    client.acknowledges(&second["id"]);
    let cancelled = client.sent();
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], first["id"]);
    client.granted();
    // A refusal answers the wish, too.
    client.conversation.wishes().lists.resources = true;
    let third = client.sent();
    client.says(json!({ "id": third["id"], "error": { "code": 1, "message": "no" } }));
    // The stream for the wishes before goes on.
    let output = client.conversation.output();
    assert!(
        matches!(output, Some(Output::WishesRefused(_))),
        "{output:?}"
    );
    client.granted();
    client.silent();
    client.says(json!({ "id": second["id"], "result": {} }));
    let output = client.conversation.output();
    assert!(
        matches!(output, Some(Output::ListeningEnded(Ok(())))),
        "{output:?}"
    );
}

/// Once, each wish sent all wishes again: a caller that watched many resources, and came and went, delayed all callers.
#[test]
fn wishes_that_come_together_are_told_as_one_and_those_taken_back_not_at_all() {
    let mut client = Client::open(ProtocolVersion::V2026_07_28);
    for number in 0..1000 {
        client
            .conversation
            .wishes()
            .watched
            .insert(&format!("x://{number}"));
    }
    assert!(!client.conversation.is_granted());
    let listen = client.sent();
    let watched = &listen["params"]["notifications"]["resourceSubscriptions"];
    assert_eq!(watched.as_array().map(Vec::len), Some(1000));
    client.acknowledges(&listen["id"]);
    client.granted();
    client.conversation.wishes().watched.insert("x://y");
    client.conversation.wishes().watched.remove("x://y");
    assert!(client.conversation.is_granted());
    client.silent();
}

/// Returns a client of a server that has sessions, and resources that can be watched.
fn with_sessions() -> Client {
    let mut client = Client::new();
    let probe = client.sent();
    client.says(
        json!({ "id": probe["id"], "error": { "code": error::METHOD_NOT_FOUND, "message": "?" } }),
    );
    let handshake = client.sent();
    let offered = json!({ "resources": { "subscribe": true } });
    let result = json!({ "protocolVersion": "2025-11-25", "capabilities": offered });
    client.says(json!({ "id": handshake["id"], "result": result }));
    client.sent();
    client.ready();
    client
}

#[test]
fn a_resource_is_watched_once_a_server_with_sessions_has_answered() {
    let mut client = with_sessions();
    client.conversation.wishes().watched.insert("x://y");
    let watch = client.sent();
    assert_eq!(watch["method"], "resources/subscribe");
    assert!(!client.conversation.is_granted());
    client.says(json!({ "id": watch["id"], "result": {} }));
    client.granted();
}

#[test]
fn a_server_is_asked_to_watch_a_few_resources_at_a_time() {
    let mut client = with_sessions();
    for number in 0..1000 {
        let uri = format!("x://{number:04}");
        client.conversation.wishes().watched.insert(&uri);
    }
    let mut asked: VecDeque<_> = (0..64).map(|_| client.sent()).collect();
    client.silent();
    // Subscriptions that were not sent yet, and are not wished for any more, are never sent.
    for number in 500..1000 {
        let uri = format!("x://{number:04}");
        client.conversation.wishes().watched.remove(&uri);
    }
    let mut count = asked.len();
    while let Some(one) = asked.pop_front() {
        assert_eq!(one["method"], "resources/subscribe");
        assert!(!client.conversation.is_granted());
        client.says(json!({ "id": one["id"], "result": {} }));
        if count < 500 {
            asked.push_back(client.sent());
            count += 1;
        }
    }
    client.granted();
}

/// Once, the call waited until its timeout.
#[test]
fn an_answer_that_cannot_be_read_fails_its_call_at_once() {
    for rest in [
        r#""result":{"x":"?"}"#,
        r#""id":7,"result":{}"#,
        r#""result":{},"error":{"code":1,"message":""}"#,
        r#""result":{},"result":{}"#,
    ] {
        let mut client = Client::open(ProtocolVersion::V2025_11_25);
        let id = client.call("tools/call");
        client.sent();
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},{rest}}}"#).into_bytes();
        let is_text = |byte| if byte == b'?' { 0xff } else { byte };
        let line: Vec<u8> = line.into_iter().map(is_text).collect();
        client.conversation.line(&line.into());
        let (done, result) = client.done();
        assert_eq!(done, id, "{rest}");
        let words = result.unwrap_err();
        assert!(words.contains("cannot be read"), "{rest}: {words}");
    }
    let mut client = Client::open(ProtocolVersion::V2025_11_25);
    let id = client.call("tools/call");
    client.sent();
    for line in [
        format!(r#"{{"jsonrpc":"2.0","id":{id},"id":{id},"method":"x"}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":{},"id":1,"result":1}}"#, id + 1),
        format!(r#"{{"id":{id},"result":{{"#),
    ] {
        client.conversation.line(&line.into());
        client.silent();
    }
}

#[test]
fn long_questions_are_refused_and_long_notifications_are_not_heard() {
    let mut client = Client::open(ProtocolVersion::V2025_11_25);
    let ask = |id: usize, bytes: usize| {
        let params = json!({ "message": "m".repeat(bytes), "requestedSchema": {} });
        json!({ "id": id, "method": "elicitation/create", "params": params })
    };
    client.says(ask(1, 2_000_000));
    assert_eq!(client.sent()["error"]["code"], error::INTERNAL_ERROR);
    for id in 2..6 {
        client.says(ask(id, 1_000_000));
        let output = client.conversation.output();
        assert!(matches!(output, Some(Output::Asked(..))), "{output:?}");
    }
    client.says(ask(6, 1_000_000));
    assert!(
        client.sent()["error"]["message"]
            .to_string()
            .contains("wait")
    );
    let refused = lmcp_wire::RpcError::internal("no");
    client.conversation.answer(1, Err(&refused));
    assert_eq!(client.sent()["id"], 2);
    client.says(ask(7, 1_000_000));
    assert!(matches!(
        client.conversation.output(),
        Some(Output::Asked(..))
    ));
    let long = json!({ "level": "error", "data": "m".repeat(300_000) });
    client.says(json!({ "method": "notifications/message", "params": long }));
    client.silent();
}

/// Makes the capabilities of a server that logs, with this many bytes of small values that no client knows.
fn much(bytes: usize) -> Value {
    let many: Vec<_> = (0..bytes / 8).map(|_| json!({ "a": 0 })).collect();
    json!({ "logging": {}, "resources": { "subscribe": true }, "experimental": { "a": many }, "extensions": { "b": {} } })
}

#[test]
fn a_server_that_says_too_much_of_itself_is_left_in_words() {
    for (method, is_old) in [("server/discover", false), ("initialize", true)] {
        let mut client = Client::new();
        client.call("tools/call");
        let mut asked = client.sent();
        if is_old {
            client.says(json!({ "id": asked["id"], "error": { "code": error::METHOD_NOT_FOUND, "message": "?" } }));
            asked = client.sent();
        }
        assert_eq!(asked["method"], method);
        client.says(json!({ "id": asked["id"], "result": {
            "supportedVersions": ["2026-07-28"], "protocolVersion": "2025-11-25", "capabilities": much(300_000),
        }}));
        let Some(Output::Done(_, Err(error))) = client.conversation.output() else {
            panic!("whoever waits is told");
        };
        let words = format!("its answer to `{method}` has 30");
        assert!(error.message.contains(&words), "{error}");
        assert!(error.message.contains("at most 262144 are read"), "{error}");
        let output = client.conversation.output();
        assert!(matches!(output, Some(Output::Unfit(_))), "{output:?}");
        assert!(!client.conversation.is_open());
    }
}

#[test]
fn of_what_a_server_says_of_itself_only_what_is_used_is_read() {
    let mut client = Client::new();
    let asked = client.sent();
    client.says(json!({ "id": asked["id"], "result": {
        "supportedVersions": ["2026-07-28"], "capabilities": much(200_000),
    }}));
    let Some(Output::Ready(peer)) = client.conversation.output() else {
        panic!("it opens");
    };
    let offered = &peer.capabilities;
    assert!(offered.logging.is_some() && offered.tools.is_none());
    assert_eq!(offered.resources.and_then(|it| it.subscribe), Some(true));
    assert!(offered.experimental.is_none() && offered.extensions.is_none());
    assert!(peer.result.get().contains("experimental"));
}
