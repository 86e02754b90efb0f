//! The events of a program's children (H3).

use std::{
    collections::BTreeMap, io::Write as _, os::unix::net::UnixStream, process::Command, thread,
};

use lmcp_core::Server;
use lmcp_embed::{Child, Ended, Event, Events, Host, whoami};
use lmcp_testkit::soon;
use serde_json::json;

use crate::visitor::{call, follow, heard, private_folder, visitor};

fn host() -> (Host, tempfile::TempDir) {
    let folder = private_folder();
    let server = Server::new("events", "1.0.0").tool(whoami());
    (Host::start_in(server, folder.path()).unwrap(), folder)
}

fn next(events: &mut Events) -> String {
    events.wait().unwrap().to_string()
}

/// Lets a child connect and end, with this exit code.
fn visit(child: &Child, code: u32) {
    let script = visitor("env", 2, &[call(1, "whoami", &json!({}))]);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("python3 \"$@\"; exit {code}"), "sh"])
        .args(script.get_args())
        .stdout(std::process::Stdio::null());
    child.watch(child.spawn(&mut shell).unwrap());
}

#[test]
fn a_thread_hears_in_order_who_comes_and_goes_and_how_it_ends() {
    let (host, _folder) = host();
    let mut events = host.events();
    let child = host.child("ann", "worker").unwrap();
    // The thread has no runtime, like the thread of a window.
    let listening = thread::spawn(move || [(); 3].map(|()| next(&mut events)));
    visit(&child, 7);
    let [attached, detached, ended] = listening.join().unwrap();
    assert_eq!(attached, "ann attached");
    assert_eq!(detached, "ann detached");
    assert_eq!(ended, "ann ended: exit status: 7");
    assert!(child.has_ended() && host.children().is_empty());
}

#[test]
fn of_many_children_at_once_every_event_comes_and_those_of_each_are_in_order() {
    const MANY: usize = 50;
    let (host, _folder) = host();
    let mut events = host.events();
    let children: Vec<_> = (0..MANY)
        .map(|number| host.child(&format!("n{number}"), "worker").unwrap())
        .collect();
    for child in &children {
        visit(child, 0);
    }
    let mut heard = BTreeMap::<String, Vec<String>>::new();
    for _ in 0..3 * MANY {
        let event = next(&mut events);
        let mut words = event.split([' ', ':']).map(ToOwned::to_owned);
        heard
            .entry(words.next().unwrap())
            .or_default()
            .extend(words.next());
    }
    assert_eq!(heard.len(), MANY);
    for (label, heard) in heard {
        assert_eq!(heard, ["attached", "detached", "ended"], "{label}");
    }
}

#[tokio::test]
async fn the_end_of_a_child_can_be_waited_for() {
    let (host, _folder) = host();
    let child = host.child("ann", "worker").unwrap();
    let mut process = child.spawn(Command::new("sleep").arg("60")).unwrap();
    assert_eq!(child.process(), Some(process.id()));
    process.kill().unwrap();
    child.watch(process);
    let ended = soon(child.ended()).await;
    let Ended::Process(Some(status)) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(9)
    );
    let other = host.child("bob", "worker").unwrap();
    let (ended, handle) = (other.ended(), other.handle().clone());
    drop(other);
    assert_eq!(soon(ended).await, Ended::TakenBack);
    assert_eq!(soon(handle.ended()).await, Ended::TakenBack);
    let last = host.child("eve", "worker").unwrap();
    let (mut events, ended) = (host.events(), last.ended());
    drop(host);
    assert_eq!(soon(ended).await, Ended::HostClosed);
    assert!(soon(events.next()).await.is_none());
}

#[test]
fn connections_of_a_child_are_known_while_they_are_open() {
    let (host, _folder) = host();
    let child = host.child("ann", "worker").unwrap();
    let mut events = host.events();
    let mut process = child.spawn(&mut visitor("env", 9, &[])).unwrap();
    assert_eq!(next(&mut events), "ann attached");
    let connections = host.children()[0].connections();
    assert_eq!(connections.len(), 1);
    assert_eq!(connections[0].process, Some(process.id()));
    let mut lines = follow(&mut process);
    assert!(lines.next().unwrap().unwrap().contains("lmcp_welcome"));
    child.end();
    assert_eq!(next(&mut events), "ann detached");
    assert_eq!(
        next(&mut events),
        "ann ended: the program has taken its identity back"
    );
    assert!(child.connections().is_empty());
    process.wait().unwrap();
    // The end of its process causes no second event.
    drop(host);
    assert!(events.wait().is_none());
}

#[test]
fn who_is_refused_is_told_with_the_true_reason() {
    let (host, _folder) = host();
    let mut events = host.events();
    let mut stream = UnixStream::connect(host.socket()).unwrap();
    stream.write_all(b"nonsense\n").unwrap();
    let event = events.wait().unwrap();
    let Event::Refused { process, why } = event else {
        panic!("{event:?}");
    };
    assert_eq!(process, Some(std::process::id()));
    assert!(why.contains("must say who calls"), "{why}");
    let child = host.child("ann", "worker").unwrap();
    let sibling = host.child("bob", "worker").unwrap();
    let mut process = child.spawn(Command::new("sleep").arg("60")).unwrap();
    let theft = || visitor(child.credentials().to_str().unwrap(), 2, &[]);
    heard(sibling.spawn(&mut theft()).unwrap());
    let why = next(&mut events);
    assert!(why.contains("belongs to another child"), "{why}");
    let ends = next(&mut events);
    assert!(ends.starts_with("bob ended"), "{ends}");
    heard(theft().spawn().unwrap());
    let why = next(&mut events);
    assert!(why.contains("has not started process"), "{why}");
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn who_does_not_take_events_hears_how_many_were_missed() {
    let (host, _folder) = host();
    let mut events = host.events();
    for number in 0..1030 {
        drop(host.child(&number.to_string(), "worker").unwrap());
    }
    let missed = events.take().unwrap();
    assert!(matches!(missed, Event::Missed(6)), "{missed:?}");
    assert_eq!(missed.to_string(), "events that were not taken in time: 6");
    let ended = events.take().unwrap().to_string();
    assert_eq!(ended, "6 ended: the program has taken its identity back");
}

#[test]
fn an_event_is_a_line_for_people_and_names_its_child() {
    let (host, _folder) = host();
    let mut events = host.events();
    let mut stream = UnixStream::connect(host.socket()).unwrap();
    stream.write_all(b"nonsense\n").unwrap();
    let refused = events.wait().unwrap();
    let own = std::process::id();
    let words = format!("a connection of process {own} was refused: ");
    assert!(refused.to_string().starts_with(&words), "{refused}");
    assert_eq!(refused.child(), None);
    let child = host.child("ann", "worker").unwrap();
    child.set_role("lead");
    let changed = events.wait().unwrap();
    assert_eq!(changed.to_string(), "ann changed from worker to lead");
    assert_eq!(changed.child(), Some(child.handle()));
    assert_eq!(
        Ended::Process(None).to_string(),
        "the exit status of its process is not known"
    );
    assert_eq!(Ended::HostClosed.to_string(), "the host has closed");
}
