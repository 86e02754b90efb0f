//! Hosts that go and come while their children stay (H2, H10).

use std::{
    fs,
    io::{BufReader, Lines, Write as _},
    path::{Path, PathBuf},
    process::{Child as Process, ChildStdin, ChildStdout, Command, Stdio},
};

use lmcp_core::Server;
use lmcp_embed::{Child, ChildHandle, Event, Host, State, whoami};
use serde_json::Value;

use crate::visitor::{follow, heard, private_folder, visitor};

fn server() -> Server {
    Server::new("restart", "1.0.0").tool(whoami())
}

fn faithful() -> Command {
    let mut command = Command::new("python3");
    command
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/faithful.py"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
}

/// The next answer to `whoami`, past all else.
fn id(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    loop {
        let line = lines.next().unwrap().unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        if let Some(id) = line["result"]["structuredContent"]["id"].as_str() {
            return id.to_owned();
        }
    }
}

/// What is in the folder of the host.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn asleep(child: &Child) -> Process {
    child.spawn(Command::new("sleep").arg("60")).unwrap()
}

fn kill(mut process: Process) {
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn a_child_that_is_detached_is_known_to_the_next_host() {
    let folder = private_folder();
    let path = folder.path().join("host.sock");
    let host = Host::start_at(server(), &path).unwrap();
    let child = host.child("ann", "worker").unwrap();
    child.set_field("pane", 3);
    child.store(&["a", "b"]).unwrap();
    let mut process = child.spawn(&mut faithful()).unwrap();
    let mut lines = follow(&mut process);
    let known = id(&mut lines);
    assert_eq!(known, child.identity().id);
    child.detach();
    host.close();
    for _ in 0..3 {
        host_is_replaced(&path, &mut lines, &known);
    }
    // Without a host it waits. Its end is known all the same.
    let host = Host::start_at(server(), &path).unwrap();
    let mut events = host.events();
    kill(process);
    loop {
        match events.wait().unwrap() {
            Event::Ended(child, _) => break assert_eq!(child.identity().id, known),
            Event::Attached(..) | Event::Detached(..) => {}
            other => panic!("{other:?}"),
        }
    }
    drop(host);
    assert_eq!(names(folder.path()), [""; 0]);
}

fn host_is_replaced(path: &Path, lines: &mut Lines<BufReader<ChildStdout>>, known: &str) {
    let host = Host::start_at(server(), path).unwrap();
    let children = host.children();
    assert_eq!(children.len(), 1);
    let identity = children[0].identity();
    assert_eq!(
        (identity.id.as_str(), identity.role.as_str()),
        (known, "worker")
    );
    assert_eq!(identity.fields["pane"], 3);
    assert_eq!(children[0].stored::<Vec<String>>().unwrap(), ["a", "b"]);
    assert_eq!(id(lines), known);
}

#[test]
fn one_path_has_one_host() {
    let folder = private_folder();
    let path = folder.path().join("host.sock");
    let host = Host::start_at(server(), &path).unwrap();
    let refused = Host::start_at(server(), &path).unwrap_err().to_string();
    assert!(refused.contains("another host listens"), "{refused}");
    drop(host);
    for unfit in ["host.lock", "a.child", ".."] {
        assert!(Host::start_at(server(), folder.path().join(unfit)).is_err());
    }
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn who_died_while_there_was_no_host_is_told_as_ended() {
    let folder = private_folder();
    let path = folder.path().join("host.sock");
    let host = Host::start_at(server(), &path).unwrap();
    let (dies, lives) = (
        host.child("dies", "w").unwrap(),
        host.child("lives", "w").unwrap(),
    );
    let processes = (asleep(&dies), asleep(&lives));
    let credentials = dies.credentials().to_owned();
    dies.detach();
    lives.detach();
    host.close();
    kill(processes.0);
    assert!(credentials.exists());
    let host = Host::start_at(server(), &path).unwrap();
    let event = host.events().wait().unwrap();
    assert!(
        matches!(&event, Event::Ended(child, _) if child.identity().label == "dies"),
        "{event:?}"
    );
    assert!(!credentials.exists());
    let labels: Vec<_> = host.children().iter().map(label).collect();
    assert_eq!(labels, ["lives"]);
    kill(processes.1);
}

fn label(child: &ChildHandle) -> String {
    child.identity().label.clone()
}

#[test]
fn a_state_holds_no_token_and_is_resumed_once() {
    let folder = private_folder();
    let path = folder.path().join("host.sock");
    let host = Host::start_at(server(), &path).unwrap();
    let child = host.child("ann", "worker").unwrap();
    let process = asleep(&child);
    let credentials: Value =
        serde_json::from_slice(&fs::read(child.credentials()).unwrap()).unwrap();
    let token = credentials["identity"].as_str().unwrap().to_owned();
    assert_eq!(
        (&credentials["returns"], &credentials["host_lock"]),
        (&true.into(), &Value::Null)
    );
    let state = serde_json::to_string(&host.export()).unwrap();
    let record = fs::read_to_string(child.folder().join("child.json")).unwrap();
    assert!(!state.contains(&token) && !record.contains(&token));
    child.detach();
    host.close();
    let state: State = serde_json::from_str(&state).unwrap();
    let host = Host::setup()
        .path(&path)
        .resume(state.clone())
        .start(server())
        .unwrap();
    assert_eq!(host.children().len(), 1);
    host.close();
    // Of another path it is nobody's.
    let other = Host::setup().path(folder.path().join("other.sock"));
    assert!(
        other
            .resume(state)
            .start(server())
            .unwrap()
            .children()
            .is_empty()
    );
    kill(process);
}

#[test]
fn a_host_that_cannot_start_takes_nothing_from_the_children_of_the_one_before() {
    let folder = private_folder();
    let path = folder.path().join("host.sock");
    let host = Host::start_at(server(), &path).unwrap();
    let child = host.child("ann", "worker").unwrap();
    let process = asleep(&child);
    let credentials = child.credentials().to_owned();
    child.detach();
    host.close();
    // Two tools of one name.
    assert!(Host::start_at(server().tool(whoami()), &path).is_err());
    assert!(credentials.exists());
    assert_eq!(Host::start_at(server(), &path).unwrap().children().len(), 1);
    kill(process);
}

#[test]
fn a_child_that_is_not_detached_ends_with_its_owner_and_leaves_nothing() {
    let folder = private_folder();
    let path = folder.path().join("host.sock");
    let host = Host::start_at(server(), &path).unwrap();
    let child = host.child("ann", "worker").unwrap();
    let process = asleep(&child);
    drop(child);
    host.close();
    assert_eq!(names(folder.path()), [""; 0]);
    kill(process);
}

/// A host below a folder, and a child of it that is connected.
fn host_with_visitor(folder: &Path) -> (Host, Child, Process) {
    let host = Host::start_at(server(), folder.join("host.sock")).expect("the host works");
    let mut events = host.events();
    let child = host.child("ann", "worker").expect("the host works");
    let process = child
        .spawn(&mut visitor("env", 9, &[]))
        .expect("the host works");
    events.wait().expect("the host works");
    (host, child, process)
}

#[test]
fn a_host_that_closes_says_whether_to_wait() {
    for (is_detached, then) in [(true, "wait"), (false, "gone")] {
        let folder = private_folder();
        let (host, child, process) = host_with_visitor(folder.path());
        let owner = if is_detached {
            child.detach();
            None
        } else {
            Some(child)
        };
        host.close();
        let heard = heard(process);
        let last = heard.last().unwrap();
        assert_eq!(last["method"], "notifications/lmcp/goodbye");
        assert_eq!(last["params"]["then"], then);
        drop(owner);
    }
}

#[test]
fn children_are_sent_to_a_host_elsewhere_and_stay_there() {
    let folder = private_folder();
    let (old, new) = (
        folder.path().join("old.sock"),
        folder.path().join("new/host.sock"),
    );
    let host = Host::start_at(server(), &old).unwrap();
    let child = host.child("ann", "worker").unwrap();
    let mut process = child.spawn(&mut faithful()).unwrap();
    let mut lines = follow(&mut process);
    let known = id(&mut lines);
    child.detach();
    let state = host.move_to(&new).unwrap();
    // Whoever comes where the host was knows nobody.
    assert!(
        Host::start_at(server(), &old)
            .unwrap()
            .children()
            .is_empty()
    );
    let there = Host::setup().path(&new).resume(state);
    let host = there.start(server()).unwrap();
    assert_eq!(host.children().len(), 1);
    assert_eq!(id(&mut lines), known);
    host.close();
    // From now on it is a child of that path, without anything to resume.
    let host = Host::start_at(server(), &new).unwrap();
    assert_eq!(host.children().len(), 1);
    assert_eq!(id(&mut lines), known);
    host.children().iter().for_each(ChildHandle::end);
    process.wait().unwrap();
    drop(host);
    assert_eq!(names(folder.path()), ["new"]);
    assert_eq!(names(&folder.path().join("new")), [""; 0]);
}

#[test]
fn a_host_that_moves_says_where_to() {
    let folder = private_folder();
    let (host, child, process) = host_with_visitor(folder.path());
    child.detach();
    let there = folder.path().join("there.sock");
    host.move_to(&there).unwrap();
    let heard = heard(process);
    let last = heard.last().unwrap();
    assert_eq!(last["params"]["then"], "elsewhere");
    assert_eq!(last["params"]["socket"], there.to_str().unwrap());
}

/// The example program, which can be killed.
struct Phoenix {
    process: Process,
    says: ChildStdin,
    heard: Lines<BufReader<ChildStdout>>,
}

impl Phoenix {
    fn start(path: &Path) -> Self {
        Self::of(Self::program().arg(path))
    }

    fn program() -> Command {
        let this = std::env::current_exe().unwrap();
        let built = this.parent().unwrap().with_file_name("examples");
        Command::new(built.join("phoenix"))
    }

    fn of(command: &mut Command) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            says: process.stdin.take().unwrap(),
            heard: follow(&mut process),
            process,
        }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.says, "{line}").unwrap();
    }

    /// Reads on to a line that begins so.
    fn hear(&mut self, begin: &str) -> String {
        let mut lines = self.heard.by_ref().map(Result::unwrap);
        lines.find(|line| line.starts_with(begin)).unwrap()
    }

    /// Reads on until it has said all of these, in whatever order.
    fn hear_all(&mut self, begins: &[String]) {
        let mut left = begins.to_vec();
        while !left.is_empty() {
            let line = self.heard.next().unwrap().unwrap();
            left.retain(|begin| !line.starts_with(begin.as_str()));
        }
    }

    /// The id of each child, by its label.
    fn list(&mut self) -> Vec<(String, String)> {
        self.say("list");
        let lines = self.heard.by_ref().map(Result::unwrap);
        let lines = lines.take_while(|line| line != "listed");
        let mut list: Vec<_> = lines
            .filter_map(|line| {
                let mut words = line.split(' ');
                let (label, id) = (words.next()?, words.next()?);
                (id.len() == 16).then(|| (label.to_owned(), id.to_owned()))
            })
            .collect();
        list.sort();
        list
    }
}

#[test]
fn a_program_without_a_path_becomes_another_and_keeps_its_children() {
    let folder = private_folder();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/faithful.py");
    let mut program = Phoenix::of(Phoenix::program().env("XDG_RUNTIME_DIR", folder.path()));
    program.hear("ready with 0");
    program.say(&format!("start ann exec python3 {script} > /dev/null"));
    program.hear("attached ann");
    let known = program.list();
    for _ in 0..2 {
        program.say("exec");
        program.hear_all(&["ready with 1".into(), "attached ann".into()]);
        assert_eq!(program.list(), known);
    }
    // It does not come back: its children end with it.
    program.say("quit");
    program.process.wait().unwrap();
    assert_eq!(names(&folder.path().join("lmcp")), [""; 0]);
}

/// Children that call without pause.
const CHILDREN: usize = 4;

/// How often their program is killed or becomes another one.
fn rounds() -> usize {
    let said = std::env::var("LMCP_TEST_RESTARTS").ok();
    said.map_or(6, |said| said.parse().unwrap())
}

#[test]
fn children_go_on_when_their_program_is_killed_or_becomes_another() {
    let folder = private_folder();
    let path: PathBuf = folder.path().join("host.sock");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/faithful.py");
    let mut program = Phoenix::start(&path);
    program.hear("ready with 0");
    let labels: Vec<_> = (0..CHILDREN).map(|number| format!("n{number}.")).collect();
    for label in &labels {
        program.say(&format!("start {label} exec python3 {script} > /dev/null"));
        program.hear(&format!("attached {label}"));
    }
    let known = program.list();
    assert_eq!(known.len(), CHILDREN);
    let ready = format!("ready with {CHILDREN}");
    let attached = labels.iter().map(|label| format!("attached {label}"));
    let expected: Vec<_> = attached.chain([ready]).collect();
    for round in 0..rounds() {
        if round % 2 == 0 {
            program.process.kill().unwrap();
            program.process.wait().unwrap();
            program = Phoenix::start(&path);
        } else {
            program.say("exec");
        }
        program.hear_all(&expected);
        assert_eq!(program.list(), known);
    }
    program.say("quit");
    program.process.wait().unwrap();
    // Nobody comes back: the next host takes what is left to it, and ends all of it.
    let host = Host::start_at(server(), &path).unwrap();
    let mut children = host.children();
    assert_eq!(children.len(), CHILDREN);
    children.iter().for_each(ChildHandle::end);
    children.clear();
    drop(host);
    assert_eq!(names(folder.path()), [""; 0]);
}
