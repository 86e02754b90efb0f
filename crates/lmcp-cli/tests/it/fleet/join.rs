//! Hosts that connect to the hub themselves: real processes, which are killed, halted and started again.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    process::{ChildStderr, Command},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{
    Hub, Place, json_of,
    trouble::{broken, lasting, pipe},
};
use crate::support::{Running, ask, lmcp, post, refusal, start};

pub(super) const FAR: &str = "[hosts.far]\njoin = true\ntoken_file = 'far.token'\n";

/// A host that joins, and its messages.
pub(super) struct Joining {
    running: Running,
    said: BufReader<ChildStderr>,
}

impl Joining {
    pub(super) fn start(mut command: Command) -> Self {
        let mut running = Running(command.spawn().expect("the binary was built"));
        let said = running.0.stderr.take().expect("stderr is a pipe");
        Self {
            running,
            said: BufReader::new(said),
        }
    }

    /// Waits until the host writes a line with these words.
    pub(super) fn hear(&mut self, words: &str) -> String {
        let mut all = String::new();
        loop {
            let before = all.len();
            let read = self.said.read_line(&mut all).expect("it writes text");
            assert!(read > 0, "it ended before it said {words:?}: {all}");
            if all[before..].contains(words) {
                return all[before..].to_owned();
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.running.0), signal).expect("it is ours");
    }
}

impl Place {
    /// Returns the command of a host that joins and works in a folder with this name.
    pub(super) fn joining(&self, address: &str, state: &str) -> Command {
        self.write("far.token", "token-of-far", 0o600);
        fs::create_dir_all(self.0.join(state)).expect("tests may write here");
        let mut command = lmcp(&["serve", "--join", &format!("http://{address}")]);
        command
            .args(["--token-file", &self.path("far.token")])
            .env("LMCP_STATE_DIR", self.path(state))
            .current_dir(self.path(state));
        command
    }

    /// Starts a hub at this address with one host, which joins.
    fn hub_to_join(&self, address: &str) -> Hub {
        self.write("far.token", "token-of-far", 0o600);
        let config = self.write("hub.toml", FAR, 0o600);
        let mut command = lmcp(&["hub", "-v", "--http", address, "--config"]);
        command.arg(config);
        Hub::start(self, command)
    }
}

fn shell(hub: &Hub, command: &str) -> Value {
    let arguments = json!({ "host": "far", "command": command, "host_wait": 60 });
    hub.structured("remote_shell", &arguments)
}

#[test]
fn a_host_that_joins_is_called_as_any_other() {
    let place = Place::new("join-call");
    let hub = place.hub_to_join("0");
    let before = hub.look("far");
    assert_eq!(before["state"], "down", "{before}");
    let words = before["reason"].as_str().expect("it is text");
    assert!(words.contains("no host has joined"), "{words}");
    let mut far = Joining::start(place.joining(&hub.address, "state"));
    let said = far.hear("joined ");
    let expected = format!("joined http://{}/join as `far`\n", hub.address);
    assert_eq!(said, expected);
    let said = shell(&hub, "echo hi");
    let found = (&said["stdout"], &said["host"], &said["via"]);
    assert_eq!(found, (&json!("hi\n"), &json!("far"), &json!("join")));
    let now = hub.look("far");
    assert_eq!((&now["state"], &now["via"]), (&json!("up"), &json!("join")));
    // The hub notices the end of the connection, without a call.
    drop(far);
    loop {
        let listed = hub.structured("remote_list_hosts", &json!({}));
        if listed["hosts"][0]["state"] == "down" {
            break;
        }
    }
}

#[test]
fn a_host_that_joins_is_confined_as_it_was_told() {
    let place = Place::new("join-confined");
    let hub = place.hub_to_join("0");
    fs::create_dir_all(place.0.join("root")).expect("tests may write here");
    let inside = place.write("root/inside", "inside\n", 0o600);
    let outside = place.write("outside", "outside\n", 0o600);
    let mut command = place.joining(&hub.address, "state");
    command.args(["--read-only", "--root", &place.path("root")]);
    let mut far = Joining::start(command);
    far.hear("joined ");
    let read = |path: &std::path::Path| {
        let arguments = json!({ "host": "far", "path": path, "host_wait": 60 });
        hub.call("remote_read_file", &arguments)
    };
    assert!(read(&inside)["isError"].is_null());
    assert_eq!(read(&outside)["isError"], true);
    let arguments = json!({ "host": "far", "path": inside, "content": "x" });
    assert_eq!(hub.call("remote_write_file", &arguments)["isError"], true);
    let arguments = json!({ "host": "far", "command": "true" });
    assert_eq!(hub.call("remote_shell", &arguments)["isError"], true);
}

#[test]
fn joining_goes_beside_other_transports() {
    let place = Place::new("join-beside");
    let hub = place.hub_to_join("0");
    let join = format!("http://{}/join", hub.address);
    let token = place.path("far.token");
    let mut command = lmcp(&["serve", "--http", "0", "--join", &join]);
    command.args(["--join-token-file", &token]);
    let (mut running, address, _) = start(command);
    let stderr = running.0.stderr.take().expect("stderr is a pipe");
    let mut far = Joining {
        running,
        said: BufReader::new(stderr),
    };
    far.hear("joined ");
    assert_eq!(shell(&hub, "echo one")["stdout"], "one\n");
    // The token of the hub gives no rights here: this server asks for none.
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    assert_eq!(post(&address, "", &list).0, 200);
    drop(far);
    let mut command = lmcp(&["serve", "--stdio", "--join", &join]);
    command.args(["--join-token-file", &token]);
    let mut far = Joining::start(command);
    far.hear("joined ");
    assert_eq!(shell(&hub, "echo two")["stdout"], "two\n");
    // The server ends with its input, even while it has joined a hub.
    drop(far.running.0.stdin.take());
    assert!(far.running.0.wait().expect("it was started").success());
}

#[test]
fn tokens_of_hosts_and_of_callers_are_not_good_for_each_other() {
    let place = Place::new("join-tokens");
    let ann = "[[token]]\nname = 'ann'\nsecret = 'token-of-ann'\n";
    place.write("far.token", "token-of-far", 0o600);
    let hub = place.hub(&format!("{ann}{FAR}"));
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let status = |token: &str| {
        let headers = format!("authorization: Bearer {token}\r\n");
        post(&hub.address, &headers, &list).0
    };
    assert_eq!((status("token-of-ann"), status("token-of-far")), (200, 401));
    let join = |headers: &str| {
        let head = format!("GET /join HTTP/1.1\r\n{headers}");
        ask(&hub.address, &head, "").0
    };
    let upgrade = "upgrade: lmcp-join\r\nconnection: upgrade\r\n";
    assert_eq!(join(upgrade), 401);
    for token in ["token-of-ann", "token-of-nobody", "token-of-fa"] {
        let headers = format!("{upgrade}authorization: Bearer {token}\r\n");
        assert_eq!(join(&headers), 401, "{token}");
    }
    // A request without `Upgrade` is answered with the protocol that the path speaks.
    assert_eq!(join("authorization: Bearer token-of-far\r\n"), 426);
    // A token that is valid for a host and for a caller is refused at the start.
    let both = "[[token]]\nname = 'ann'\nsecret = 'token-of-far'\n";
    let config = place.write("both.toml", &format!("{both}{FAR}"), 0o600);
    let mut command = lmcp(&["hub", "--http", "0", "--config"]);
    command.arg(config);
    let words = refusal(command);
    assert!(words.contains("also one of callers"), "{words}");
    assert!(!words.contains("token-of"), "{words}");
}

#[test]
fn a_host_with_a_wrong_token_goes_on_trying_until_it_has_the_right_one() {
    let place = Place::new("join-wrong");
    let hub = place.hub_to_join("0");
    place.write("wrong.token", "token-of-nobody", 0o600);
    let mut command = place.joining(&hub.address, "state");
    command.args(["--join-token-file", &place.path("wrong.token")]);
    let mut far = Joining::start(command);
    let said = far.hear("cannot join");
    assert!(said.contains("401: this token is not known here"), "{said}");
    assert_eq!(hub.look("far")["state"], "down");
    place.write("wrong.token", "token-of-far", 0o600);
    far.hear("joined ");
    assert_eq!(shell(&hub, "echo hi")["stdout"], "hi\n");
}

#[test]
fn a_second_host_of_the_same_name_is_refused_and_both_are_told() {
    let place = Place::new("join-second");
    let hub = place.hub_to_join("0");
    let mut first = Joining::start(place.joining(&hub.address, "first"));
    first.hear("joined ");
    let mut second = Joining::start(place.joining(&hub.address, "second"));
    let said = second.hear("cannot join");
    let words = "409: another host has joined under this name, and answers: `far`";
    assert!(said.contains(words), "{said}");
    first.hear("another host wanted to join");
    let folder = || shell(&hub, "basename $PWD")["stdout"].clone();
    assert_eq!(folder(), "first\n");
    // When the first has gone, the second gets the place at its next try.
    drop(first);
    second.hear("joined ");
    assert_eq!(folder(), "second\n");
}

#[test]
fn a_host_that_hangs_does_not_keep_its_place_and_its_call_may_have_begun() {
    let place = Place::new("join-hangs");
    let hub = place.hub_to_join("0");
    let mut first = Joining::start(place.joining(&hub.address, "first"));
    first.hear("joined ");
    let held = pipe(&place, "pipe");
    let arguments = json!({ "host": "far", "command": lasting(&held), "host_wait": 60 });
    let call = hub.calling("remote_shell", &arguments).spawn();
    let call = call.expect("the binary was built");
    let mut reader = fs::File::open(&held).expect("it is a pipe");
    reader.read_exact(&mut [0; 2]).expect("the command runs");
    first.signal(Signal::STOP);
    let mut second = Joining::start(place.joining(&hub.address, "second"));
    second.hear("joined ");
    let result = json_of(&call.wait_with_output().expect("it was started"));
    let error = &result["structuredContent"]["error"];
    assert_eq!(error["began"], true, "{result}");
    let words = error["message"].as_str().expect("it is text");
    assert!(
        words.contains("joined again on another connection"),
        "{words}"
    );
    assert_eq!(shell(&hub, "echo hi")["stdout"], "hi\n");
    // The first notices the loss when it continues, and its command ends with the connection of the call.
    first.signal(Signal::CONT);
    first.hear("is lost; joining again");
    reader.read_to_end(&mut Vec::new()).expect("it is a pipe");
    first.hear("409");
}

#[test]
fn a_host_that_is_killed_comes_back_with_its_jobs() {
    let place = Place::new("join-killed");
    let hub = place.hub_to_join("0");
    let mut far = Joining::start(place.joining(&hub.address, "state"));
    far.hear("joined ");
    let job = hub.start_job();
    let error = broken(&place, &hub, "far", || drop(far));
    assert_eq!(error["began"], true, "{error}");
    let mut far = Joining::start(place.joining(&hub.address, "state"));
    far.hear("joined ");
    hub.expect_running(&job);
}

#[test]
fn a_hub_that_is_killed_gets_its_hosts_back() {
    let place = Place::new("join-hub-killed");
    let mut hub = place.hub_to_join("0");
    let mut far = Joining::start(place.joining(&hub.address, "state"));
    far.hear("joined ");
    let job = hub.start_job();
    let held = pipe(&place, "pipe");
    let arguments = json!({ "host": "far", "command": lasting(&held) });
    let call = Running(
        hub.calling("remote_shell", &arguments)
            .spawn()
            .expect("the binary was built"),
    );
    let mut reader = fs::File::open(&held).expect("it is a pipe");
    reader.read_exact(&mut [0; 2]).expect("the command runs");
    hub.running.0.kill().expect("it is ours");
    far.hear("is lost; joining again");
    // The command was ended, because nobody waits for it any more.
    reader.read_to_end(&mut Vec::new()).expect("it is a pipe");
    drop(call);
    let address = hub.address.clone();
    drop(hub);
    far.hear("cannot join");
    let hub = place.hub_to_join(&address);
    far.hear("joined ");
    hub.expect_running(&job);
}

#[test]
fn what_cannot_join_is_told_at_the_start() {
    let place = Place::new("join-start");
    place.write("far.token", "token-of-far", 0o600);
    let token = place.path("far.token");
    let hub = place.write("hub.toml", FAR, 0o600).display().to_string();
    let socket = place.path("hub.sock");
    for (arguments, words) in [
        (
            &["serve", "--join", "https://hub.example"][..],
            "needs the token",
        ),
        (
            &["serve", "--join", "hub.example", "--token-file", &token],
            "not a whole address",
        ),
        (
            &["serve", "--join", "http://10.0.0.1", "--token-file", &token],
            "unprotected; use `https`",
        ),
        (
            &["hub", "--config", &hub, "--unix", &socket],
            "joins over HTTP",
        ),
        (
            &["hub", "--config", &hub, "--join", "https://hub.example"],
            "--join is for the tools of this machine",
        ),
    ] {
        let said = refusal(lmcp(arguments));
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}
