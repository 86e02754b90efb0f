//! The hosts of `lmcp hub`: real servers over HTTP, a real sshd, and one host that is dead.

mod apart;
mod copy;
mod hostile;
mod hubs;
mod join;
mod paths;
mod push;
mod sshd;
mod trouble;
mod trust;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::{Value, json};

use crate::support::{Running, folder, lmcp, start, tool_names};
use sshd::Sshd;

/// A folder with all files of a test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let folder = folder(name);
        fs::create_dir_all(&folder).expect("tests may write here");
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a file for its owner alone, in one step.
    fn write(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let (path, draft) = (self.0.join(name), self.0.join("draft"));
        fs::write(&draft, text).expect("tests may write here");
        fs::set_permissions(&draft, fs::Permissions::from_mode(mode)).expect("it is ours");
        fs::rename(&draft, &path).expect("tests may write here");
        path
    }

    /// Starts a host behind HTTP with a token of its own, and returns its address. Its jobs are kept in this folder.
    fn host(&self, name: &str, state: &str, address: &str) -> (Running, String) {
        let token = self.write(&format!("{name}.token"), &format!("token-of-{name}"), 0o600);
        let mut command = lmcp(&["serve", "--http", address, "--token-file"]);
        command.arg(token).env("LMCP_STATE_DIR", self.path(state));
        let (running, address, _) = start(command);
        (running, address)
    }

    /// Returns the path of `lmcp` on a host behind ssh: this one keeps its jobs in this folder.
    fn far_program(&self, state: &str) -> String {
        let program = env!("CARGO_BIN_EXE_lmcp");
        let script = format!(
            "#!/bin/sh\nLMCP_STATE_DIR='{}' exec '{program}' \"$@\"\n",
            self.path(state)
        );
        self.write("far-lmcp", &script, 0o700).display().to_string()
    }

    fn hub(&self, config: &str) -> Hub {
        let config = self.write("hub.toml", config, 0o600);
        let mut command = lmcp(&["hub", "-v", "--http", "0", "--config"]);
        command.arg(config);
        Hub::start(self, command)
    }
}

/// A running hub.
struct Hub {
    running: Running,
    address: String,
}

impl Hub {
    fn start(place: &Place, mut command: Command) -> Self {
        command.env("LMCP_STATE_DIR", place.path("hub-state"));
        let (mut running, address, _) = start(command);
        let mut said = running.0.stderr.take().expect("stderr is a pipe");
        let mut log = fs::File::create(place.0.join("hub.log")).expect("tests may write here");
        std::thread::spawn(move || std::io::copy(&mut said, &mut log));
        Self { running, address }
    }

    fn calling(&self, tool: &str, arguments: &Value) -> Command {
        let at = format!("http://{}/mcp", self.address);
        let mut command = lmcp(&["call", tool, "--json", "--at", &at]);
        command.arg(arguments.to_string());
        command
    }

    /// Returns the whole result of a call.
    fn call(&self, tool: &str, arguments: &Value) -> Value {
        json_of(
            &self
                .calling(tool, arguments)
                .output()
                .expect("the binary was built"),
        )
    }

    fn structured(&self, tool: &str, arguments: &Value) -> Value {
        let result = self.call(tool, arguments);
        assert!(result["isError"].is_null(), "{tool} {arguments}: {result}");
        result["structuredContent"].clone()
    }

    /// Starts a long job on the host `far`.
    fn start_job(&self) -> Value {
        let arguments = json!({ "host": "far", "command": "sleep 1000", "host_wait": 60 });
        self.structured("remote_shell_bg", &arguments)
    }

    /// Checks that this job still runs and is the first in the host's list, and stops it.
    fn expect_running(&self, job: &Value) {
        let jobs = self.structured("remote_jobs", &json!({ "host": "far", "host_wait": 60 }));
        assert_eq!(jobs["jobs"][0]["id"], job["id"], "{jobs}");
        assert_eq!(jobs["jobs"][0]["state"], "running", "{jobs}");
        let stop = json!({ "host": "far", "id": job["id"] });
        self.structured("remote_job_stop", &stop);
    }

    /// Checks a host now, and returns its state.
    fn look(&self, host: &str) -> Value {
        let all = self.structured("remote_list_hosts", &json!({ "host": host, "force": true }));
        all["hosts"][0].clone()
    }
}

/// Returns a named token of the hub, with its limits.
fn token(name: &str, rights: &str) -> String {
    format!("[[token]]\nname = '{name}'\nsecret = 'token-of-{name}'\n{rights}")
}

fn json_of(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_str(&text).unwrap_or_else(|err| panic!("{err}: {text} {said}"))
}

fn url(name: &str, address: &str) -> String {
    format!("[hosts.{name}]\nurl = 'http://{address}/mcp'\ntoken_file = '{name}.token'\n")
}

fn ssh(name: &str, sshd: &Sshd, program: &str) -> String {
    format!("[hosts.{name}]\n{}", ssh_keys(sshd, program))
}

fn ssh_keys(sshd: &Sshd, program: &str) -> String {
    let config = sshd.config.display();
    format!("ssh = 'far'\nssh_config = '{config}'\nlmcp = '{program}'\n")
}

const DEAD: &str = "[hosts.dead]\nurl = 'http://127.0.0.1:9/mcp'\n";

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn hosts_add_fifteen_tools_and_no_host_none() {
    let place = Place::new("fleet-tools");
    let (_one, address) = place.host("one", "one-state", "0");
    let demo = format!(
        "[servers.demo]\ncommand = '{}'\nargs = ['serve', '--demo', '--stdio']\n",
        env!("CARGO_BIN_EXE_lmcp")
    );
    let hub = place.hub(&demo);
    let count = |names: &[String]| {
        names
            .iter()
            .filter(|name| name.starts_with("remote_"))
            .count()
    };
    assert_eq!(count(&tool_names(&hub.address)), 0);
    place.write(
        "hub.toml",
        &format!("{demo}{}", url("one", &address)),
        0o600,
    );
    while count(&tool_names(&hub.address)) == 0 {}
    let names = tool_names(&hub.address);
    assert_eq!(count(&names), 15, "{names:?}");
    assert!(names.iter().any(|name| name == "demo__echo"), "{names:?}");
    let said = hub.structured(
        "remote_shell",
        &json!({ "host": "one", "command": "echo hi", "host_wait": 60 }),
    );
    assert_eq!(
        (&said["stdout"], &said["via"]),
        (&json!("hi\n"), &json!("http"))
    );
    place.write("hub.toml", &demo, 0o600);
    while count(&tool_names(&hub.address)) > 0 {}
}

#[test]
fn several_hosts_answer_at_once_and_a_dead_one_holds_up_nobody() {
    let place = Place::new("fleet-several");
    let (_one, first) = place.host("one", "one-state", "0");
    let (_two, second) = place.host("two", "two-state", "0");
    let groups = "groups = ['web']\n";
    let (one, two) = (url("one", &first), url("two", &second));
    let hub = place.hub(&format!(
        "{one}{groups}{two}{groups}read_only = true\n{DEAD}"
    ));
    for host in ["one", "two"] {
        hub.structured("remote_jobs", &json!({ "host": host, "host_wait": 60 }));
    }
    let file = place
        .write("same", "the same\n", 0o600)
        .display()
        .to_string();
    let result = hub.call(
        "remote_read_file",
        &json!({ "host": "@all", "path": file, "parallel": 3 }),
    );
    let text = result["content"][0]["text"]
        .as_str()
        .expect("it is text")
        .to_owned();
    assert!(
        text.starts_with("== one, two (2 hosts)\nthe same\n"),
        "{text}"
    );
    assert!(text.contains("== no answer: dead\ndown for "), "{text}");
    assert!(text.ends_with("== 2 of 3 hosts did it"), "{text}");
    assert!(result["isError"].is_null());
    assert_eq!(
        result["structuredContent"]["summary"],
        json!({ "failed": 1, "ok": 2 })
    );
    // A tool that may change something runs on one of the two hosts, and the answer says why it did not run on the other.
    let result = hub.call(
        "remote_shell",
        &json!({ "host": "@web", "command": "echo hi" }),
    );
    let hosts = &result["structuredContent"]["hosts"];
    assert_eq!(
        (&hosts[0]["ok"], &hosts[1]["ok"]),
        (&json!(true), &json!(false))
    );
    let words = hosts[1]["error"]["message"].as_str().expect("it is text");
    assert!(words.contains("read-only"), "{words}");
    // The log has a line for each of the two hosts.
    let log = read(&place.0.join("hub.log"));
    assert!(log.contains("remote_shell on two via no way: "), "{log}");
    // A call of the dead host alone fails with the reason, and a call of a misspelt host names the host that was meant.
    let result = hub.call(
        "remote_shell",
        &json!({ "host": "dead", "command": "true" }),
    );
    let error = &result["structuredContent"]["error"];
    assert_eq!(
        (&error["began"], &error["retriable"]),
        (&json!(false), &json!(true))
    );
    let words = error["message"].as_str().expect("it is text");
    assert!(words.contains("Connection refused"), "{words}");
    let result = hub.call("remote_shell", &json!({ "host": "tow", "command": "true" }));
    let words = result["content"][0]["text"].as_str().expect("it is text");
    assert!(words.contains("did you mean two?"), "{words}");
    let log = read(&place.0.join("hub.log"));
    assert!(log.contains("remote_shell on one via http: ok ("), "{log}");
}

#[test]
fn a_registry_in_columns_is_read_as_it_is() {
    let place = Place::new("fleet-registry");
    let (_one, address) = place.host("one", "one-state", "0");
    let text = format!(
        "# name ssh url token\none - http://{address}/mcp token-of-one\ndead - http://127.0.0.1:9/mcp -\n"
    );
    let registry = place.write("backends.conf", &text, 0o600);
    let mut command = lmcp(&["hub", "--http", "0"]);
    command.env("LMCP_HUB_BACKENDS", registry);
    let hub = Hub::start(&place, command);
    let said = hub.structured(
        "remote_shell",
        &json!({ "host": "one", "command": "echo hi", "host_wait": 60 }),
    );
    assert_eq!(said["stdout"], "hi\n");
    let at = format!("http://{}/mcp", hub.address);
    let status = lmcp(&["hub", "status", "--json", "--at", &at]).output();
    let status = json_of(&status.expect("the binary was built"));
    let hosts = status["hosts"]
        .as_array()
        .expect("hosts are in the status")
        .clone();
    let states: Vec<_> = hosts
        .iter()
        .map(|host| (&host["host"], &host["state"]))
        .collect();
    assert_eq!(
        states,
        [
            (&json!("dead"), &json!("down")),
            (&json!("one"), &json!("up"))
        ]
    );
}

#[test]
fn hosts_of_ssh_are_proposed() {
    let place = Place::new("fleet-proposed");
    let config = place.write("config", "Host web db\nHost *.example\n", 0o600);
    let mut command = lmcp(&["hub", "hosts", "--from-ssh-config"]);
    let output = command.arg(config).output().expect("the binary was built");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        said,
        "[hosts.web]\nssh = \"web\"\n\n[hosts.db]\nssh = \"db\"\n\n"
    );
}

#[test]
fn a_token_reaches_the_hosts_and_tools_that_it_is_for() {
    let place = Place::new("fleet-rights");
    let (_one, first) = place.host("one", "one-state", "0");
    let (_two, second) = place.host("two", "two-state", "0");
    let tokens = [
        token("all", ""),
        token("ann", "on_hosts = { hosts = ['two'], read_only = true }\n"),
    ];
    let hub = place.hub(&format!(
        "{}{}{}",
        tokens.concat(),
        url("one", &first),
        url("two", &second)
    ));
    let call = |who: &str, tool: &str, arguments: &Value| {
        let mut command = hub.calling(tool, arguments);
        command.env("LMCP_TOKEN", format!("token-of-{who}"));
        json_of(&command.output().expect("the binary was built"))
    };
    let wanted = json!({ "host": "@all", "host_wait": 60 });
    let hosts = |who| {
        let said = call(who, "remote_jobs", &wanted);
        let hosts = said["structuredContent"]["hosts"]
            .as_array()
            .expect("it is a list")
            .clone();
        hosts
            .iter()
            .map(|host| host["host"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(hosts("all"), ["one", "two"]);
    assert_eq!(hosts("ann"), ["two"]);
    let listed = call("ann", "remote_list_hosts", &json!({}));
    assert_eq!(
        listed["structuredContent"]["hosts"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    for (arguments, words) in [
        (
            json!({ "host": "two", "command": "true" }),
            "only tools that change nothing",
        ),
        (
            json!({ "host": "one", "command": "true" }),
            "only tools that change nothing",
        ),
    ] {
        let refused = call("ann", "remote_shell", &arguments);
        let text = refused["content"][0]["text"].as_str().expect("it is text");
        assert!(text.contains(words), "{text}");
    }
    // Descriptions name no host, because all callers see the same descriptions.
    let at = format!("http://{}/mcp", hub.address);
    let mut command = lmcp(&["tools", "--json", "--at", &at]);
    let described = command.env("LMCP_TOKEN", "token-of-ann").output();
    let described = json_of(&described.expect("the binary was built")).to_string();
    assert!(described.contains("remote_list_hosts names them"));
    assert!(!described.contains("hosts: one"), "{described}");
    let unknown = call("ann", "remote_jobs", &json!({ "host": "one" }));
    let text = unknown["content"][0]["text"].as_str().expect("it is text");
    assert!(text.contains("there is no host `one`"), "{text}");
}
