//! Servers that stop and start while their client stays connected.

use std::{
    collections::BTreeSet,
    io::Write as _,
    net::Shutdown,
    os::unix::net::UnixListener,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{Client, Place, Server, call, initialize, modern, serve, text};

#[test]
fn a_client_may_come_before_its_server() {
    let place = Place::new("early");
    let mut client = Client::of(&place.socket());
    client.send(&initialize());
    client.send(&call(1, "echo", &json!({ "text": "hi" })));
    let _server = serve(&place.socket());
    assert_eq!(client.answer(0)["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(text(&client.answer(1)), "hi");
    assert_eq!(client.end(), Some(0));
}

#[test]
fn a_call_that_was_lost_is_told_so_and_the_next_one_works() {
    let place = Place::new("lost");
    let server = serve(&place.socket());
    let mut client = Client::of(&place.socket());
    client.open();
    client.send(&call(1, "wait", &json!({ "seconds": 300 })));
    client.send(&call(2, "echo", &json!({ "text": "first" })));
    assert_eq!(text(&client.answer(2)), "first");
    drop(server);
    let lost = client.answer(1);
    assert_eq!(
        lost["error"]["data"],
        json!({ "retriable": true, "method": "tools/call" })
    );
    client.send(&call(3, "echo", &json!({ "text": "second" })));
    let _server = serve(&place.socket());
    let mut heard = Vec::new();
    let answer = loop {
        let message = client.receive();
        match message["method"].as_str() {
            Some(method) => heard.push(method.to_owned()),
            None => break message,
        }
    };
    assert_eq!(text(&answer), "second");
    assert!(
        heard.contains(&"notifications/tools/list_changed".to_owned()),
        "{heard:?}"
    );
    assert_eq!(client.end(), Some(0));
}

#[test]
fn a_subscription_outlives_its_server_however_that_ends() {
    let place = Place::new("listen");
    let mut server = serve(&place.socket());
    let mut client = Client::of(&place.socket());
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    client.send(&modern(1, "subscriptions/listen", filter));
    assert_eq!(
        client.receive()["method"],
        "notifications/subscriptions/acknowledged"
    );
    for signal in [Signal::TERM, Signal::KILL] {
        kill_process(Pid::from_child(&server.0), signal).unwrap();
        server.0.wait().unwrap();
        server = serve(&place.socket());
        let heard = client.receive();
        assert_eq!(
            heard["method"], "notifications/tools/list_changed",
            "{heard}"
        );
        let id = &heard["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        assert_eq!(*id, 1);
    }
    assert_eq!(client.end(), Some(0));
}

#[test]
fn killed_again_and_again_under_load_every_call_is_answered_once() {
    for (name, handshake) in [("load-l", true), ("load-m", false)] {
        let place = Place::new(name);
        let first = serve(&place.socket());
        let mut client = Client::of(&place.socket());
        if handshake {
            client.open();
        }
        let mut load = Load::new(client, handshake);
        thread::scope(|scope| {
            let killing = scope.spawn(|| {
                let mut server = first;
                for _ in 0..10 {
                    drop(server);
                    server = serve(&place.socket());
                }
                server
            });
            while !killing.is_finished() {
                load.go_on();
            }
            let _server = killing.join().unwrap();
            load.finish();
        });
    }
}

/// Makes calls, eight at a time.
struct Load {
    client: Client,
    handshake: bool,
    open: BTreeSet<u64>,
    next: u64,
}

impl Load {
    fn new(client: Client, handshake: bool) -> Self {
        Self {
            client,
            handshake,
            open: BTreeSet::new(),
            next: 1,
        }
    }

    fn go_on(&mut self) {
        while self.open.len() < 8 {
            let (id, arguments) = (self.next, json!({ "text": "x" }));
            self.client.send(&if self.handshake {
                call(id, "echo", &arguments)
            } else {
                modern(
                    id,
                    "tools/call",
                    json!({ "name": "echo", "arguments": arguments }),
                )
            });
            self.open.insert(id);
            self.next += 1;
        }
        self.hear();
    }

    fn finish(mut self) {
        while !self.open.is_empty() {
            self.hear();
        }
        let last = json!({ "name": "echo", "arguments": { "text": "last" } });
        let last = if self.handshake {
            call(self.next, "echo", &last["arguments"])
        } else {
            modern(self.next, "tools/call", last)
        };
        self.client.send(&last);
        assert_eq!(text(&self.client.answer(self.next)), "last");
        assert_eq!(self.client.end(), Some(0));
    }

    /// Reads an answer. It must belong to one call that has no answer yet, and be right, or an error that says to try again.
    fn hear(&mut self) {
        let message = self.client.receive();
        assert_ne!(message, Value::Null, "the proxy has gone");
        if message.get("method").is_some() {
            return;
        }
        let id = message["id"].as_u64().expect("our ids are numbers");
        assert!(self.open.remove(&id), "nobody asked: {message}");
        let is_lost = message["error"]["data"]["retriable"] == true;
        assert!(is_lost || text(&message) == "x", "{message}");
    }
}

#[test]
fn a_server_that_dies_in_the_middle_of_a_line_leaves_no_half_of_it() {
    let place = Place::new("half");
    let listener = UnixListener::bind(place.socket()).unwrap();
    let mut client = Client::of(&place.socket());
    client.send(&modern(1, "tools/call", json!({ "name": "a" })));
    let mut server = Server::accept(&listener);
    server.receive();
    let torn = br#"{"jsonrpc":"2.0","id":1,"result":{"content":["#;
    server.lines.get_mut().write_all(torn).unwrap();
    drop(server);
    assert_eq!(client.receive()["error"]["data"]["retriable"], true);
}

#[test]
fn what_a_server_said_before_it_died_is_not_lost() {
    let place = Place::new("words");
    let listener = UnixListener::bind(place.socket()).unwrap();
    let mut client = Client::of(&place.socket());
    client.send(&modern(1, "tools/call", json!({ "name": "a" })));
    client.send(&modern(2, "tools/call", json!({ "name": "b" })));
    let mut server = Server::accept(&listener);
    server.receive();
    server.send(&json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
    // The second request is never read, so the connection breaks, and does not end normally.
    drop(server);
    assert_eq!(client.receive()["result"], json!({}));
    assert_eq!(client.receive()["error"]["data"]["retriable"], true);
}

#[test]
fn a_socket_with_a_long_path_is_reached() {
    let place = Place::new("long");
    let folder = place.path(&"x".repeat(120));
    std::fs::create_dir(&folder).unwrap();
    let socket = folder.join("s");
    let mut client = Client::of(&socket);
    client.send(&modern(1, "tools/list", json!({})));
    // The socket is made in another folder and moved, because its long path cannot be bound.
    let listener = UnixListener::bind(place.socket()).unwrap();
    std::fs::rename(place.socket(), &socket).unwrap();
    let mut server = Server::accept(&listener);
    assert_eq!(server.receive()["id"], 1);
}

#[test]
fn a_server_that_does_not_listen_any_more_is_left_when_it_has_said_all() {
    let place = Place::new("ears");
    let listener = UnixListener::bind(place.socket()).unwrap();
    let mut client = Client::of(&place.socket());
    client.send(&modern(1, "tools/call", json!({ "name": "a" })));
    client.send(&modern(2, "tools/call", json!({ "name": "b" })));
    let mut first = Server::accept(&listener);
    assert_eq!(
        (first.receive()["id"].clone(), &first.receive()["id"]),
        (json!(1), &json!(2))
    );
    first.lines.get_ref().shutdown(Shutdown::Read).unwrap();
    client.send(&modern(3, "tools/call", json!({ "name": "c" })));
    // The server still sends messages, and they are read.
    first.send(&json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
    assert_eq!(client.receive()["result"], json!({}));
    let mut next = Server::accept(&listener);
    let lost = client.receive();
    assert_eq!(
        (&lost["id"], &lost["error"]["data"]["retriable"]),
        (&json!(2), &json!(true))
    );
    client.send(&modern(4, "tools/call", json!({ "name": "d" })));
    // The third line was never written to the first server.
    for id in [3, 4] {
        assert_eq!(next.receive()["id"], id);
    }
}

#[test]
fn a_server_that_dies_of_every_handshake_is_not_asked_all_the_time() {
    let place = Place::new("loop");
    let listener = UnixListener::bind(place.socket()).unwrap();
    let mut client = Client::of(&place.socket());
    client.send(&initialize());
    let begun = Instant::now();
    for _ in 0..8 {
        let mut server = Server::accept(&listener);
        let id = &server.receive()["id"];
        let tools = json!({ "tools": { "listChanged": true } });
        let result = json!({ "protocolVersion": "2025-11-25", "capabilities": tools });
        server.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }
    assert!(
        begun.elapsed() >= Duration::from_millis(500),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_call_that_a_full_server_did_not_take_is_taken_by_the_next() {
    let place = Place::new("full");
    let listener = UnixListener::bind(place.socket()).unwrap();
    let mut client = Client::of(&place.socket());
    client.send(&modern(1, "tools/call", json!({ "name": "a" })));
    client.input = None;
    let mut full = Server::accept(&listener);
    assert_eq!(full.receive()["id"], 1);
    let error = json!({ "code": -32603, "message": "1 connections are open" });
    full.send(&json!({ "jsonrpc": "2.0", "error": error }));
    drop(full);
    let mut server = Server::accept(&listener);
    assert_eq!(server.receive()["id"], 1);
    server.send(&json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
    assert_eq!(client.receive()["result"], json!({}));
    drop(server);
    assert_eq!(client.end(), Some(0));
}
