//! Messages that wait for a child (H4).

use std::{io, process::Command};

use lmcp_core::Server;
use lmcp_embed::{Host, inbox};
use serde_json::{Value, json};

use crate::{
    talker::Talker,
    visitor::{call, private_folder, request},
};

fn server() -> Server {
    Server::new("inbox", "1.0.0").tools(inbox())
}

fn read(talker: &mut Talker) -> Value {
    let uri = json!({ "uri": "inbox://mine" });
    let answer = talker.ask(&request(7, "resources/read", uri));
    let text = answer["result"]["contents"][0]["text"].as_str().unwrap();
    serde_json::from_str(text).unwrap()
}

fn take(talker: &mut Talker) -> Value {
    let answer = talker.ask(&call(8, "inbox", &json!({})));
    answer["result"]["structuredContent"].clone()
}

#[test]
fn a_message_is_told_to_its_child_and_waits_until_it_is_taken() {
    let folder = private_folder();
    let host = Host::start_in(server(), folder.path()).unwrap();
    let (ann, bob) = (
        host.child("ann", "w").unwrap(),
        host.child("bob", "w").unwrap(),
    );
    let (mut to_ann, mut to_bob) = (Talker::start(&ann), Talker::start(&bob));
    let wished = json!({ "resourceSubscriptions": ["inbox://mine"] });
    let listen = json!({ "notifications": wished });
    to_ann.say(&request(900, "subscriptions/listen", listen));
    to_ann.hear("notifications/subscriptions/acknowledged");
    let found = host.handle().find_label("ann").unwrap();
    assert_eq!(&found, ann.handle());
    assert!(host.handle().find_label("eve").is_none());
    found.deliver("one").unwrap();
    let told = to_ann.hear("notifications/resources/updated");
    assert_eq!(told["params"]["uri"], "inbox://mine");
    found.deliver("two").unwrap();
    let both = json!({ "messages": ["one", "two"] });
    // Reading does not remove messages.
    assert_eq!(read(&mut to_ann), both);
    assert_eq!(read(&mut to_ann), both);
    assert_eq!(take(&mut to_ann), both);
    let none = json!({ "messages": [] });
    assert_eq!(take(&mut to_ann), none);
    assert_eq!(read(&mut to_bob), none);
}

#[test]
fn messages_outlive_a_host_at_a_path() {
    let folder = private_folder();
    let path = folder.path().join("host.sock");
    let host = Host::start_at(server(), &path).unwrap();
    let child = host.child("ann", "worker").unwrap();
    let mut process = child.spawn(Command::new("sleep").arg("60")).unwrap();
    child.deliver("for later").unwrap();
    let old = child.detach();
    host.close();
    let closed = old.deliver("too late").unwrap_err();
    assert_eq!(closed.kind(), io::ErrorKind::NotConnected);
    let host = Host::start_at(server(), &path).unwrap();
    let child = host.handle().find_label("ann").unwrap();
    child.deliver("and this").unwrap();
    let state = host
        .move_to(folder.path().join("elsewhere/host.sock"))
        .unwrap();
    let state = serde_json::to_value(state).unwrap();
    assert_eq!(
        state["children"][0]["inbox"],
        json!(["for later", "and this"])
    );
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn an_inbox_that_nobody_empties_is_bounded() {
    let folder = private_folder();
    let host = Host::start_in(server(), folder.path()).unwrap();
    let child = host.child("ann", "worker").unwrap();
    let text = "x".repeat(60 * 1024);
    for _ in 0..4 {
        child.deliver(text.clone()).unwrap();
    }
    let full = child.deliver(text).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    assert_eq!(full.to_string(), "the inbox of `ann` is full");
}
