//! Hosts that die and come back, connections that break during a call, and a hub that is killed.

use std::{fs, io::Read as _, path::Path, process::Command};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{Hub, Place, Sshd, json_of, ssh, ssh_keys, url};
use crate::support::Running;

/// Makes a named pipe: its reader waits for a writer, and then for the end of the last writer.
pub(super) fn pipe(place: &Place, name: &str) -> String {
    let path = place.path(name);
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("there is mkfifo").success());
    path
}

/// Returns a command that reports its start, and holds the pipe until it has ended with all processes that it started.
pub(super) fn lasting(pipe: &str) -> String {
    format!("exec 3>{pipe}; echo x >&3; sleep 1000 & sleep 1000")
}

/// Returns the processes of this name that a process has started.
pub(super) fn children(parent: u32, name: &str) -> Vec<Pid> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")
        .expect("this is Linux")
        .filter_map(Result::ok)
    {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let Some((head, rest)) = stat.rsplit_once(") ") else {
            continue;
        };
        let is_named = head.ends_with(&format!("({name}"));
        if is_named && rest.split(' ').nth(1) == Some(&parent.to_string()) {
            let id = entry.file_name().to_str().and_then(|id| id.parse().ok());
            found.extend(id.and_then(Pid::from_raw));
        }
    }
    found
}

/// Breaks the connection to a host during a call, and returns the error of the caller.
pub(super) fn broken(
    place: &Place,
    hub: &Hub,
    host: &str,
    break_it: impl FnOnce(),
) -> serde_json::Value {
    let held = pipe(place, &format!("{host}.pipe"));
    let arguments = json!({ "host": host, "command": lasting(&held), "host_wait": 60 });
    let call = hub
        .calling("remote_shell", &arguments)
        .spawn()
        .expect("the binary was built");
    let mut reader = fs::File::open(Path::new(&held)).expect("it is a pipe");
    let mut said = [0; 2];
    reader.read_exact(&mut said).expect("the command runs");
    break_it();
    let result = json_of(&call.wait_with_output().expect("it was started"));
    // No process of the command is left: the last one that held the pipe has ended.
    reader.read_to_end(&mut Vec::new()).expect("it is a pipe");
    assert_eq!(result["isError"], true, "{result}");
    let text = result["content"][0]["text"]
        .as_str()
        .expect("it is text")
        .to_owned();
    assert!(text.contains("may or may not have taken effect"), "{text}");
    result["structuredContent"]["error"].clone()
}

#[test]
fn a_call_that_may_have_run_is_not_repeated_and_says_so() {
    let place = Place::new("fleet-broken");
    let (near, address) = place.host("near", "state", "0");
    let mut config = url("near", &address);
    let sshd = Sshd::start(&place.0);
    if let Some(sshd) = &sshd {
        let program = place.far_program("state");
        // The first call would be repeated over ssh, if that were safe.
        config.push_str(&ssh_keys(sshd, &program));
        config.push_str(&ssh("far", sshd, &program));
    }
    let hub = place.hub(&config);
    let error = broken(&place, &hub, "near", || drop(near));
    assert_eq!(error["began"], true, "{error}");
    let Some(_sshd) = sshd else {
        return;
    };
    let error = broken(&place, &hub, "far", || {
        let ssh = children(hub.running.0.id(), "ssh");
        assert!(!ssh.is_empty(), "the hub has a connection");
        for process in ssh {
            kill_process(process, Signal::KILL).expect("it is ours");
        }
    });
    assert_eq!(error["began"], true, "{error}");
    // The next call finds an open way.
    let said = hub.structured(
        "remote_shell",
        &json!({ "host": "far", "command": "echo hi", "host_wait": 60 }),
    );
    assert_eq!(said["stdout"], "hi\n");
}

#[test]
fn ssh_takes_over_from_http_and_gives_back() {
    let place = Place::new("fleet-over");
    let Some(sshd) = Sshd::start(&place.0) else {
        return;
    };
    let (near, address) = place.host("both", "state", "0");
    let program = place.far_program("state");
    let hub = place.hub(&format!(
        "{}{}",
        url("both", &address),
        ssh_keys(&sshd, &program)
    ));
    let via = || {
        let said = hub.structured(
            "remote_shell",
            &json!({ "host": "both", "command": "echo hi", "host_wait": 60 }),
        );
        said["via"].as_str().expect("it is text").to_owned()
    };
    assert_eq!(via(), "http");
    drop(near);
    assert_eq!(via(), "ssh");
    assert_eq!(children(hub.running.0.id(), "ssh").len(), 1);
    let status = hub.look("both");
    assert_eq!(
        (&status["state"], &status["via"]),
        (&json!("up"), &json!("ssh"))
    );
    let words = status["reason"].as_str().expect("it is text");
    assert!(words.contains("Connection refused"), "{words}");
    let (_near, _) = place.host("both", "state", &address);
    while hub.look("both")["via"] != "http" {}
    assert_eq!(via(), "http");
    while !children(hub.running.0.id(), "ssh").is_empty() {}
}

#[test]
fn jobs_outlive_a_hub_that_is_killed_and_its_connections_do_not() {
    let place = Place::new("fleet-killed");
    let Some(sshd) = Sshd::start(&place.0) else {
        return;
    };
    let config = ssh("far", &sshd, &place.far_program("state"));
    let mut hub = place.hub(&config);
    let job = hub.start_job();
    let held = pipe(&place, "pipe");
    let call = hub.calling(
        "remote_shell",
        &json!({ "host": "far", "command": lasting(&held) }),
    );
    let call = Running({ call }.spawn().expect("the binary was built"));
    let mut reader = fs::File::open(&held).expect("it is a pipe");
    reader.read_exact(&mut [0; 2]).expect("the command runs");
    hub.running.0.kill().expect("it is ours");
    // The command of the call has ended, and so has the server that ran it on the host.
    reader.read_to_end(&mut Vec::new()).expect("it is a pipe");
    drop(call);
    let hub = place.hub(&config);
    hub.expect_running(&job);
}
