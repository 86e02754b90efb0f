//! `lmcp proxy` as a child of a host that closes, or comes back.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use lmcp::{
    Server,
    embed::{Child, Host, whoami},
};
use serde_json::{Value, json};

use super::{Client, Place, call};
use crate::support::lmcp;

fn server() -> Server {
    Server::new("host", "1.0.0").tool(whoami())
}

/// Returns a folder that only this user can enter.
fn place(name: &str) -> Place {
    let place = Place::new(name);
    fs::set_permissions(&place.0, fs::Permissions::from_mode(0o700)).expect("it is ours");
    place
}

/// Starts a proxy as the child, with a client that has made its handshake.
fn attached(child: &Child) -> Client {
    let mut command = lmcp(&["proxy"]);
    child.prepare(&mut command);
    let client = Client::new(&mut command);
    child.bind(client.process.0.id()).expect("it runs");
    client
}

fn who(client: &mut Client, id: u64) -> Value {
    client.send(&call(id, "whoami", &json!({})));
    client.answer(id)["result"]["structuredContent"]["id"].clone()
}

fn words(client: Client) -> (Option<i32>, String) {
    let Client {
        mut process, input, ..
    } = client;
    drop(input);
    let code = process.0.wait().expect("it is our child").code();
    let mut words = String::new();
    let mut stderr = process.0.stderr.take().expect("stderr is a pipe");
    std::io::Read::read_to_string(&mut stderr, &mut words).expect("it says text");
    (code, words)
}

#[test]
fn a_client_does_not_notice_that_its_host_comes_back() {
    let place = place("back");
    let mut host = Host::start_at(server(), place.socket()).expect("it starts");
    let child = host.child("ann", "worker").expect("there is room");
    let id: Value = child.identity().id.clone().into();
    let mut client = attached(&child);
    client.open();
    assert_eq!(who(&mut client, 1), id);
    child.detach();
    for round in 2..6 {
        // When the proxy continues, it finds the call and the end of the host: it must not give the call to the old host.
        signal(&client, "-STOP");
        host.close();
        client.send(&call(round, "whoami", &json!({})));
        signal(&client, "-CONT");
        host = Host::start_at(server(), place.socket()).expect("it starts");
        let answer = client.answer(round);
        assert_eq!(answer["result"]["structuredContent"]["id"], id, "{answer}");
    }
    // The identity is taken back while the proxy does not run: the proxy must end.
    host.children()
        .iter()
        .for_each(lmcp::embed::ChildHandle::end);
    let mut ids = 9..;
    let refused = loop {
        let id = ids.next().expect("there is always another");
        client.send(&call(id, "whoami", &json!({})));
        let answer = client.answer(id);
        // The host may have taken the call just before it closed the connection.
        if answer["error"]["data"]["retriable"] != true {
            break answer;
        }
    };
    let why = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("has ended"), "{refused}");
    assert_eq!(client.end(), Some(77));
    drop(host);
    assert!(is_empty(&place.0));
}

#[test]
fn a_client_does_not_notice_that_its_host_goes_on_elsewhere() {
    let place = place("elsewhere");
    let host = Host::start_at(server(), place.socket()).expect("it starts");
    let child = host.child("ann", "worker").expect("there is room");
    let id: Value = child.identity().id.clone().into();
    // The proxy got the first socket from a variable.
    let mut client = attached(&child);
    client.open();
    assert_eq!(who(&mut client, 1), id);
    child.detach();
    let there = place.path("there.sock");
    let state = host.move_to(&there).expect("it can be written");
    client.send(&call(2, "whoami", &json!({})));
    let host = Host::setup().path(&there).resume(state);
    let host = host.start(server()).expect("it starts");
    let answer = client.answer(2);
    assert_eq!(answer["result"]["structuredContent"]["id"], id);
    let (code, words) = words(client);
    assert_eq!(code, Some(0), "{words}");
    assert!(words.contains("goes on at another socket"), "{words}");
    drop(host);
}

#[test]
fn a_host_that_closes_for_good_says_so() {
    let place = place("gone");
    let host = Host::start_in(server(), &place.0).expect("it starts");
    let child = host.child("ann", "worker").expect("there is room");
    let mut client = attached(&child);
    client.open();
    who(&mut client, 1);
    host.close();
    // The proxy ends by itself, with its input still open, and answers requests until then.
    while client.receive() != Value::Null {}
    let (code, words) = words(client);
    assert_eq!(code, Some(77), "{words}");
    assert!(words.contains("has closed its server"), "{words}");
    assert!(!words.contains("trying again"), "{words}");
    drop(child);
    assert!(is_empty(&place.0));
}

fn signal(client: &Client, name: &str) {
    let pid = client.process.0.id().to_string();
    let sent = Command::new("kill").args([name, &pid]).status();
    assert!(sent.expect("there is kill").success());
}

fn is_empty(folder: &Path) -> bool {
    let mut left = fs::read_dir(folder).expect("it is there");
    left.next().is_none()
}
