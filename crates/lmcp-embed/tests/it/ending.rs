//! Signals to the processes of children, and the end of all of them.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    os::unix::process::CommandExt as _,
    process::{Child as Process, ChildStdout, Command, Stdio},
    time::Duration,
};

use lmcp_core::Server;
use lmcp_embed::{Child, Events, Host, Signal};
use lmcp_testkit::soon;

use crate::visitor::private_folder;

/// More time than any test takes: it only passes if something never ends.
const LONG: Duration = Duration::from_secs(600);

fn host() -> (Host, tempfile::TempDir) {
    let folder = private_folder();
    let server = Server::new("ending", "1.0.0");
    (Host::start_in(server, folder.path()).unwrap(), folder)
}

/// Starts a script in a group of its own, and waits until it says that it is ready.
fn start(child: &Child, script: &str) -> (Process, BufReader<ChildStdout>) {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).process_group(0);
    let mut process = child.spawn(shell.stdout(Stdio::piped())).unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    (process, output)
}

fn lines(events: &mut Events) -> Vec<String> {
    let events = std::iter::from_fn(|| events.take());
    events.map(|event| event.to_string()).collect()
}

/// A shell and a process that it started, which ignore the signals that ask for an end.
const STUBBORN: &str = "trap '' TERM HUP; sleep 600 & echo ready; wait";

#[test]
fn a_signal_reaches_the_process_until_it_has_ended() {
    let (host, _folder) = host();
    let mut events = host.events();
    let child = host.child("ann", "worker").unwrap();
    assert!(child.signal(Signal::TERM).is_err());
    let (process, _output) = start(&child, "echo ready; exec sleep 600");
    child.watch(process);
    child.signal(Signal::TERM).unwrap();
    let ended = events.wait().unwrap().to_string();
    assert_eq!(ended, "ann ended: signal: 15 (SIGTERM)");
    assert!(child.signal(Signal::TERM).is_err());
}

#[test]
fn children_that_end_when_they_are_asked_are_not_killed() {
    let (host, _folder) = host();
    let mut events = host.events();
    let (asked, stopped) = (
        host.child("asked", "w").unwrap(),
        host.child("stopped", "w"),
    );
    let (stopped, unstarted) = (stopped.unwrap(), host.child("unstarted", "w").unwrap());
    let (process, _output) = start(&asked, "trap 'exit 5' TERM; echo ready; sleep 600 & wait");
    asked.watch(process);
    let (mut waited, _output) = start(&stopped, "echo ready; exec sleep 600");
    stopped.signal(Signal::STOP).unwrap();
    assert_eq!(host.end_children(LONG).wait(), 0);
    let mut heard = lines(&mut events);
    heard.sort();
    assert_eq!(heard[0], "asked ended: exit status: 5");
    assert!(heard[1].starts_with("stopped ended: "), "{heard:?}");
    assert_eq!(heard.len(), 2);
    assert_eq!(host.children(), [unstarted.handle().clone()]);
    waited.wait().unwrap();
}

#[test]
fn a_child_that_does_not_end_in_time_is_killed_with_its_group() {
    let (host, _folder) = host();
    let mut events = host.events();
    let child = host.child("ann", "worker").unwrap();
    let (process, mut output) = start(&child, STUBBORN);
    child.watch(process);
    assert_eq!(host.end_children(Duration::ZERO).wait(), 1);
    assert_eq!(lines(&mut events), ["ann ended: signal: 9 (SIGKILL)"]);
    // The output ends when the process that the shell started has ended, too.
    output.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn of_a_process_that_the_program_waits_for_the_group_is_spared() {
    let (host, _folder) = host();
    let child = host.child("ann", "worker").unwrap();
    let script = "trap '' TERM; sleep 600 & echo $!; wait";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).process_group(0);
    let mut process = child.spawn(shell.stdout(Stdio::piped())).unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut below = String::new();
    output.read_line(&mut below).unwrap();
    assert_eq!(host.end_children(Duration::ZERO).wait(), 1);
    let status = process.wait().unwrap();
    assert_eq!(status.to_string(), "signal: 9 (SIGKILL)");
    let below = below.trim().parse().unwrap();
    let below = rustix::process::Pid::from_raw(below).unwrap();
    rustix::process::kill_process(below, Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_child_with_a_terminal_is_hung_up() {
    let (host, _folder) = host();
    let mut events = host.events();
    let child = host.child("ann", "worker").unwrap();
    let (terminal, inside) = pty_process::blocking::open().unwrap();
    let script = "trap 'exit 5' HUP; trap 'exit 6' TERM; echo ready; sleep 600 & wait";
    let shell = pty_process::blocking::Command::new("sh").args(["-c", script]);
    let process = shell.envs(child.env()).spawn(inside).unwrap();
    child.bind_watched(process).unwrap();
    let mut ready = String::new();
    BufReader::new(&terminal).read_line(&mut ready).unwrap();
    assert_eq!(soon(host.end_children(LONG)).await, 0);
    assert_eq!(lines(&mut events), ["ann ended: exit status: 5"]);
}

#[tokio::test]
async fn a_host_tells_when_the_last_child_has_ended_and_no_event_is_lost() {
    const MANY: usize = 300;
    let (host, _folder) = host();
    soon(host.all_ended()).await;
    let mut events = host.events();
    let name = |number: usize| host.child(&number.to_string(), "worker").unwrap();
    let children: Vec<_> = (0..MANY).map(name).collect();
    let all = host.all_ended();
    let dropping = std::thread::spawn(move || drop(children));
    soon(all).await;
    assert_eq!(lines(&mut events).len(), MANY);
    dropping.join().unwrap();
    let _late = host.child("late", "worker").unwrap();
    let (all, handle) = (host.all_ended(), host.handle());
    drop(host);
    soon(all).await;
    soon(handle.all_ended()).await;
    assert_eq!(soon(handle.end_children(LONG)).await, 0);
}

#[test]
fn a_process_that_cannot_be_bound_is_killed() {
    let (host, _folder) = host();
    let child = host.child("ann", "worker").unwrap();
    let sleeper = || Command::new("sleep").arg("600").spawn().unwrap();
    child.bind_watched(sleeper()).unwrap();
    let second = sleeper();
    let number = second.id();
    assert!(child.bind_watched(second).is_err());
    assert!(!std::path::Path::new(&format!("/proc/{number}")).exists());
    assert_eq!(host.end_children(LONG).wait(), 0);
}
