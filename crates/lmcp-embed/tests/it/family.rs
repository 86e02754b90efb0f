//! Children that make identities of their own (H9), connect from outside of their process tree (H8), or are started by
//! others (H7).

use std::{
    fs,
    io::{BufReader, Lines, Write as _},
    process::{self, ChildStdout, Command, Stdio},
};

use lmcp_core::Server;
use lmcp_embed::{Allowance, Child, Ended, Host, family, whoami};
use serde_json::{Value, json};

use crate::{
    talker::Talker,
    visitor::{call, follow, heard, private_folder, refusal, visitor},
};

fn host() -> (Host, tempfile::TempDir) {
    let folder = private_folder();
    (Host::start_in(server(), folder.path()).unwrap(), folder)
}

fn new_child(talker: &mut Talker, role: &str) -> Value {
    let arguments = json!({ "label": "sub", "role": role });
    talker.ask(&call(1, "new_child", &arguments))["result"].clone()
}

fn bind(talker: &mut Talker, id: &Value, pid: u32) -> Value {
    talker.ask(&call(2, "bind_child", &json!({ "id": id, "pid": pid })))["result"].clone()
}

#[test]
fn nobody_makes_identities_unless_it_is_allowed_to_and_none_beyond_that() {
    let (host, _folder) = host();
    let child = host.child("ann", "lead").unwrap();
    let mut ann = Talker::start(&child);
    let refused = |answer: &Value, words: &str| {
        assert_eq!(answer["isError"], true, "{answer}");
        assert!(answer.to_string().contains(words), "{answer}");
    };
    refused(
        &new_child(&mut ann, "worker"),
        "you may not make identities",
    );
    child.allow_children(Allowance::new(["worker"]).number(2));
    refused(&new_child(&mut ann, "lead"), "you may not give the role");
    let first = new_child(&mut ann, "worker")["structuredContent"].clone();
    new_child(&mut ann, "worker");
    refused(&new_child(&mut ann, "worker"), "which is all that may be");
    assert_eq!(host.children().len(), 3);
    // A child cannot bind its sub-agent to a process that it has not started, or to its own process.
    let mut other = Command::new("sleep").arg("60").spawn().unwrap();
    let own = child.process().unwrap();
    for pid in [other.id(), own, 1, u32::MAX] {
        refused(&bind(&mut ann, &first["id"], pid), "cannot be your child");
    }
    refused(
        &bind(&mut ann, &child.identity().id.clone().into(), own),
        "you have no child",
    );
    other.kill().unwrap();
    other.wait().unwrap();
    // All sub-agents end with the child that made them, and their files are removed.
    let file = first["identity_file"].as_str().unwrap();
    assert!(fs::exists(file).unwrap());
    let subs: Vec<_> = host
        .children()
        .into_iter()
        .filter(|sub| sub != child.handle())
        .collect();
    child.end();
    for sub in &subs {
        assert!(sub.has_ended());
    }
    assert!(!fs::exists(file).unwrap());
}

/// The beginning of the program of a child: it connects to the host, and can call tools.
const CONNECTED: &str = r#"
import json, os, socket, subprocess, sys
credentials = json.load(open(os.environ["LMCP_IDENTITY_FILE"]))
connection = socket.socket(socket.AF_UNIX)
connection.connect(credentials["socket"])
lines = connection.makefile("rw", encoding="utf-8", newline="\n")
def ask(message):
    print(json.dumps(message), file=lines, flush=True)
    return json.loads(lines.readline())
def call(name, arguments):
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    params = {"name": name, "arguments": arguments, "_meta": meta}
    return ask({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})["result"]
ask({"lmcp_identity": credentials["identity"]})
"#;

/// A child that asks for an identity and starts a process with it, which asks for an identity, too. Its argument is the whole program.
const PARENT: &str = r#"
me = call("whoami", {})["structuredContent"]
print(me["label"], me["role"], me.get("parent", "-"), me["id"], flush=True)
made = call("new_child", {"label": "sub-of-" + me["label"], "role": "worker"})
if made.get("isError"):
    print("refused", flush=True)
    sys.exit()
made = made["structuredContent"]
environment = {**os.environ, "LMCP_IDENTITY_FILE": made["identity_file"]}
sub = subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[1]], env=environment)
bound = call("bind_child", {"id": made["id"], "pid": sub.pid})
assert not bound.get("isError"), bound
sub.wait()
"#;

#[test]
fn a_sub_agent_is_known_below_its_parent_and_generations_are_bounded() {
    let (host, _folder) = host();
    let child = host.child("ann", "lead").unwrap();
    child.allow_children(Allowance::new(["worker"]).depth(2).number(5));
    let mut command = Command::new("python3");
    let program = [CONNECTED, PARENT].concat();
    command
        .args(["-c", &program, &program])
        .stdout(Stdio::piped());
    let heard = heard(child.spawn(&mut command).unwrap());
    let lines: Vec<Vec<&str>> = heard
        .iter()
        .map(|line| line.as_str().unwrap().split(' ').collect())
        .collect();
    let id = child.identity().id.clone();
    assert_eq!(lines[0], ["ann", "lead", "-", &id]);
    assert_eq!(lines[1][..3], ["sub-of-ann", "worker", &id]);
    assert_eq!(lines[2][..3], ["sub-of-sub-of-ann", "worker", lines[1][3]]);
    assert_eq!(lines[3], ["refused"]);
    assert_eq!(lines.len(), 4);
}

/// A child whose sub-agent connects with the credentials of its parent before it is bound. Its argument is the sub-agent's program.
const HASTY_PARENT: &str = r#"
made = call("new_child", {"label": "sub", "role": "worker"})["structuredContent"]
sub = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE, text=True)
print(sub.stdout.readline().strip(), flush=True)
bound = call("bind_child", {"id": made["id"], "pid": sub.pid})
assert not bound.get("isError"), bound
print(sub.stdout.readline().strip(), flush=True)
print(call("whoami", {})["structuredContent"]["label"], flush=True)
"#;

/// Says who it is, waits for its connection to end, and says so.
const HASTY: &str = r#"
print(call("whoami", {})["structuredContent"]["label"], flush=True)
while lines.readline():
    pass
print("cut off", flush=True)
"#;

#[test]
fn a_process_that_becomes_a_sub_agent_loses_the_connections_that_it_opened_as_its_parent() {
    let (host, _folder) = host();
    let child = host.child("ann", "lead").unwrap();
    child.allow_children(Allowance::new(["worker"]));
    let mut command = Command::new("python3");
    command
        .args([
            "-c",
            &[CONNECTED, HASTY_PARENT].concat(),
            &[CONNECTED, HASTY].concat(),
        ])
        .stdout(Stdio::piped());
    let said = heard(child.spawn(&mut command).unwrap());
    assert_eq!(said, ["ann", "cut off", "ann"]);
}

#[test]
fn a_process_that_a_daemon_started_is_let_in_where_the_program_says_so() {
    let (host, _folder) = host();
    let child = host.child("ann", "worker").unwrap();
    let mut process = child.spawn(Command::new("sleep").arg("60")).unwrap();
    let who = [call(1, "whoami", &json!({}))];
    // Like a process below a multiplexer: it has the child's credentials, but does not run below the child.
    let elsewhere = || visitor(child.credentials().to_str().unwrap(), 2, &who);
    let why = refusal(elsewhere().spawn().unwrap());
    assert!(why.contains("has not started process"), "{why}");
    child.admit_adopted();
    let answers = heard(elsewhere().spawn().unwrap());
    assert_eq!(answers[1]["result"]["structuredContent"]["label"], "ann");
    // A process below another child still belongs to that child.
    let sibling = host.child("bob", "worker").unwrap();
    let why = refusal(sibling.spawn(&mut elsewhere()).unwrap());
    assert!(why.contains("belongs to another child"), "{why}");
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn a_program_can_start_a_child_in_a_way_of_its_own() {
    let (host, _folder) = host();
    let child = host.child("ann", "worker").unwrap();
    // As a library for terminals does: it gets variables, and returns a process number.
    let mut command = Command::new("setsid");
    command
        .arg("--wait")
        .arg("python3")
        .args(visitor("env", 2, &[call(1, "whoami", &json!({}))]).get_args());
    command.envs(child.env()).stdout(Stdio::piped());
    let process = command.spawn().unwrap();
    child.bind(process.id()).unwrap();
    let answers = heard(process);
    assert_eq!(answers[1]["result"]["structuredContent"]["label"], "ann");
    let other = host.child("bob", "worker").unwrap();
    let entry = serde_json::to_value(other.mcp_entry("/usr/bin/lmcp")).unwrap();
    let file = other.credentials().to_str().unwrap();
    let expected = json!({
        "command": "/usr/bin/lmcp",
        "args": ["proxy", "--identity-file", file],
        "env": { "LMCP_IDENTITY_FILE": file },
    });
    assert_eq!(entry, expected);
    let token: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    assert!(
        !entry
            .to_string()
            .contains(token["identity"].as_str().unwrap())
    );
    let mut command = other.command("true");
    assert!(other.spawn(&mut command).unwrap().wait().unwrap().success());
}

#[test]
fn a_running_process_is_adopted() {
    let (host, _folder) = host();
    let mut running = Command::new("sleep").arg("60").spawn().unwrap();
    let child = host.child("ann", "worker").unwrap();
    child.bind(running.id()).unwrap();
    assert_eq!(child.process(), Some(running.id()));
    running.kill().unwrap();
    child.watch(running);
    let ended = child.ended();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let ended = runtime.block_on(lmcp_testkit::soon(ended));
    assert!(matches!(ended, Ended::Process(Some(_))), "{ended:?}");
}

/// A child that makes the given number of sub-agents, each of which runs the given command.
const NURSE: &str = r#"
number, role, does = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
subs = []
for _ in range(number):
    made = call("new_child", {"label": "sub", "role": role})["structuredContent"]
    environment = {**os.environ, "SUB": made["identity_file"], "PARENT": os.environ["LMCP_IDENTITY_FILE"]}
    subs.append(subprocess.Popen(does, env=environment))
    bound = call("bind_child", {"id": made["id"], "pid": subs[-1].pid})
    assert not bound.get("isError"), bound
print("ready", flush=True)
lines.close()
connection.close()
for sub in subs:
    sub.wait()
"#;

/// The process, and its output.
struct Nurse {
    process: process::Child,
    heard: Lines<BufReader<ChildStdout>>,
}

impl Nurse {
    fn start(child: &Child, number: usize, does: &[&str]) -> Self {
        let mut command = Command::new("python3");
        command
            .args([
                "-c",
                &[CONNECTED, NURSE].concat(),
                &number.to_string(),
                "worker",
            ])
            .args(does)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = child.spawn(&mut command).unwrap();
        let mut heard = follow(&mut process);
        assert_eq!(heard.next().unwrap().unwrap(), "ready");
        Self { process, heard }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// The command of its sub-agents: it ends when the program that waits for them has ended.
const WAIT: &[&str] = &["cat"];

fn server() -> Server {
    let server = Server::new("family", "1.0.0");
    server.tool(whoami()).tools(family())
}

fn parent(host: &Host) -> Child {
    let child = host.child("ann", "lead").unwrap();
    child.allow_children(Allowance::new(["worker"]));
    child
}

fn labels(host: &Host) -> Vec<String> {
    let children = host.children();
    children
        .iter()
        .map(|child| child.identity().label.clone())
        .collect()
}

#[test]
fn sub_agents_end_with_a_parent_that_ends_while_there_is_no_host() {
    let folder = private_folder();
    let path = folder.path().join("host.sock");
    let host = Host::start_at(server(), &path).unwrap();
    let child = parent(&host);
    // With eight sub-agents, some are found before their parent, and some after it.
    let mut nurse = Nurse::start(&child, 8, WAIT);
    child.detach();
    host.close();
    let host = Host::start_at(server(), &path).unwrap();
    assert_eq!(host.children().len(), 9);
    host.close();
    nurse.kill();
    let host = Host::start_at(server(), &path).unwrap();
    assert_eq!(labels(&host), [""; 0]);
    host.close();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn sub_agents_are_left_to_another_host_only_with_their_parent() {
    let folder = private_folder();
    let path = folder.path().join("host.sock");
    let host = Host::start_at(server(), &path).unwrap();
    let child = parent(&host);
    let mut nurse = Nurse::start(&child, 1, WAIT);
    host.close();
    drop(child);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    nurse.kill();
    let host = Host::start_at(server(), &path).unwrap();
    let child = parent(&host);
    let mut nurse = Nurse::start(&child, 1, WAIT);
    let there = folder.path().join("there.sock");
    let state = host.move_to(&there).unwrap();
    let host = Host::setup().path(&there).resume(state);
    assert_eq!(labels(&host.start(server()).unwrap()), [""; 0]);
    drop(child);
    nurse.kill();
}

#[test]
fn a_process_whose_identity_was_taken_back_is_not_its_parent() {
    let (host, _folder) = host();
    let child = parent(&host);
    let visitor = visitor("env", 1, &[]);
    let visitor = visitor.get_args().map(|word| word.to_str().unwrap());
    let does = [
        "sh",
        "-c",
        "read go; export LMCP_IDENTITY_FILE=$PARENT; python3 \"$@\"",
        "sh",
    ];
    let does: Vec<&str> = does.into_iter().chain(visitor).collect();
    let mut nurse = Nurse::start(&child, 1, &does);
    let mut children = host.children().into_iter();
    children.find(|sub| sub != child.handle()).unwrap().end();
    writeln!(nurse.process.stdin.as_mut().unwrap(), "go").unwrap();
    let answer: Value = serde_json::from_str(&nurse.heard.next().unwrap().unwrap()).unwrap();
    let why = answer["error"]["message"].as_str();
    assert!(
        why.is_some_and(|why| why.contains("belongs to another child")),
        "{answer}"
    );
    nurse.kill();
}

#[test]
fn a_child_with_another_role_makes_no_identities_until_it_is_allowed_again() {
    let (host, _folder) = host();
    let child = host.child("ann", "lead").unwrap();
    let mut ann = Talker::start(&child);
    child.allow_children(Allowance::new(["lead", "worker"]));
    assert_ne!(new_child(&mut ann, "lead")["isError"], true);
    child.set_role("worker");
    for role in ["lead", "worker"] {
        assert_eq!(new_child(&mut ann, role)["isError"], true);
    }
    child.allow_children(Allowance::new(["worker"]));
    assert_ne!(new_child(&mut ann, "worker")["isError"], true);
}
