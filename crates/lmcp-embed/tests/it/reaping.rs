//! Processes that have ended: which of them the host waits for, and what the next host tells of them.

use std::{path::Path, process::Child as Process};

use lmcp_embed::{Ended, Event, Host};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::{
    restart::{Phoenix, asleep, server},
    visitor::private_folder,
};

/// Kills a process, and waits until it is a zombie.
fn kill_unreaped(process: u32) {
    let pid = pid(process);
    kill_process(pid, Signal::KILL).unwrap();
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(pid), options).unwrap();
}

fn pid(process: u32) -> Pid {
    Pid::from_raw(process.try_into().unwrap()).unwrap()
}

fn exists(process: u32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}

/// Starts a host, a detached child and its process, and closes the host.
fn leave_child(path: &Path, then: impl FnOnce(&lmcp_embed::Child, Process)) {
    let host = Host::start_at(server(), path).unwrap();
    let child = host.child("ann", "worker").unwrap();
    let process = asleep(&child);
    then(&child, process);
    child.detach();
    host.close();
}

/// Starts the next host, which lists no child, and returns the signal that it says its child has ended by.
fn signal_of_ended(path: &Path) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt as _;

    let host = Host::start_at(server(), path).unwrap();
    assert!(host.children().is_empty());
    match host.events().wait().unwrap() {
        Event::Ended(child, Ended::Process(status)) => {
            assert_eq!(child.identity().label, "ann");
            status?.signal()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_zombie_is_told_as_ended_and_left_to_the_program_that_started_it() {
    let folder = private_folder();
    let path = folder.path().join("host.sock");
    let mut process = None;
    leave_child(&path, |_, started| process = Some(started));
    let mut process = process.unwrap();
    kill_unreaped(process.id());
    assert_eq!(signal_of_ended(&path), Some(9));
    // The program can still wait for its process.
    assert!(process.wait().is_ok());
}

#[test]
fn a_zombie_that_a_host_was_to_wait_for_is_reaped_by_the_next_one() {
    let folder = private_folder();
    let path = folder.path().join("host.sock");
    let mut process = 0;
    leave_child(&path, |child, started| {
        process = started.id();
        child.watch(started);
    });
    kill_unreaped(process);
    assert_eq!(signal_of_ended(&path), Some(9));
    assert!(!exists(process));
}

#[test]
fn a_program_that_became_another_twice_leaves_no_zombies() {
    let folder = private_folder();
    let path = folder.path().join("host.sock");
    let mut program = Phoenix::start(&path);
    program.hear("ready with 0");
    program.say("start ann echo pid $$; exec sleep 60");
    let line = program.hear("pid ");
    let process: u32 = line["pid ".len()..].parse().unwrap();
    for _ in 0..2 {
        program.say("exec");
        program.hear("ready with 1");
    }
    kill_process(pid(process), Signal::KILL).unwrap();
    let ended = program.hear("ann ended");
    assert_eq!(ended, "ann ended: signal: 9 (SIGKILL)");
    assert!(!exists(process));
}
