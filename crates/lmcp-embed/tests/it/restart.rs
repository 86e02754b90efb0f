//! Hosts that end and start again while their children run on (H2, H10).

use std::{
    fs,
    io::{BufReader, Lines, Write as _},
    path::{Path, PathBuf},
    process::{Child as Process, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use lmcp_core::Server;
use lmcp_embed::{Child, ChildHandle, Ended, Event, Host, State, whoami};
use serde_json::Value;

use crate::visitor::{follow, heard, private_folder, visitor};

pub(crate) fn server() -> Server {
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

/// Returns the id in the next answer to `whoami`; other lines are skipped.
fn id(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    loop {
        let line = lines.next().unwrap().unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        if let Some(id) = line["result"]["structuredContent"]["id"].as_str() {
            return id.to_owned();
        }
    }
}

/// Returns the names in the folder of the host.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub(crate) fn asleep(child: &Child) -> Process {
    child.spawn(Command::new("sleep").arg("60")).unwrap()
}

pub(crate) fn kill(mut process: Process) {
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
    // Without a host, the child waits. The next host still learns of its end.
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

#[test]
fn a_child_that_the_next_host_cannot_write_down_is_told_as_ended_and_leaves_nothing() {
    let folder = private_folder();
    let path = folder.path().join("host.sock");
    for in_the_way in ["process.json", "child.new"] {
        let host = Host::start_at(server(), &path).unwrap();
        let child = host.child("ann", "worker").unwrap();
        let process = asleep(&child);
        let place = child.folder().join(in_the_way);
        child.detach();
        host.close();
        // As on a full disk, nothing can be written there.
        let _ = fs::remove_file(&place);
        fs::create_dir(&place).unwrap();
        let host = Host::start_at(server(), &path).unwrap();
        assert_eq!(host.children(), [], "{in_the_way}");
        let event = host.events().take();
        assert!(
            matches!(&event, Some(Event::Ended(child, Ended::TakenBack)) if child.identity().label == "ann"),
            "{in_the_way}: {event:?}"
        );
        drop(host);
        assert_eq!(names(folder.path()), [""; 0], "{in_the_way}");
        kill(process);
    }
}

pub(crate) fn label(child: &ChildHandle) -> String {
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
    // A host at another path does not take the children.
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
fn what_a_folder_says_of_its_child_is_newer_than_what_was_exported() {
    let folder = private_folder();
    let path = folder.path().join("host.sock");
    let host = Host::start_at(server(), &path).unwrap();
    let (ann, bob) = (host.child("ann", "lead"), host.child("bob", "worker"));
    let (ann, bob) = (ann.unwrap(), bob.unwrap());
    let first = asleep(&ann);
    ann.store(&1).unwrap();
    let old = host.export();
    ann.set_role("worker");
    ann.store(&2).unwrap();
    let second = asleep(&bob);
    ann.detach();
    bob.detach();
    host.close();
    let host = Host::setup().path(&path).resume(old).start(server());
    let host = host.unwrap();
    let children = host.children();
    let find = |label: &str| {
        let child = children
            .iter()
            .find(|child| child.identity().label == label);
        child.unwrap()
    };
    assert_eq!(find("ann").identity().role, "worker");
    assert_eq!(find("ann").stored::<u8>(), Some(2));
    assert_eq!(find("bob").process(), Some(second.id()));
    kill(first);
    kill(second);
}

#[test]
fn a_pipe_in_place_of_a_file_holds_up_no_host() {
    let folder = private_folder();
    let path = folder.path().join("host.sock");
    for name in ["child.json", "process.json", "identity.json"] {
        let child = folder.path().join("host.0123456789abcdef.child");
        fs::create_dir(&child).unwrap();
        let record = format!(
            r#"{{"token":"00","id":"0","label":"a","role":"b","process":null,"folder":{child:?}}}"#
        );
        fs::write(child.join("child.json"), record).unwrap();
        let _ = fs::remove_file(child.join(name));
        let made = Command::new("mkfifo").arg(child.join(name)).status();
        assert!(made.unwrap().success());
        let (tell, told) = mpsc::channel();
        let path = path.clone();
        thread::spawn(move || {
            let host = Host::start_at(server(), path).unwrap();
            let number = host.children().len();
            host.close();
            tell.send(number)
        });
        assert_eq!(told.recv_timeout(Duration::from_secs(30)), Ok(0), "{name}");
        let _ = fs::remove_dir_all(&child);
    }
}

#[test]
fn a_record_with_a_name_that_leads_elsewhere_is_passed_over() {
    let folder = private_folder();
    let path = folder.path().join("host.sock");
    let host = Host::start_at(server(), &path).unwrap();
    let child = host.child("ann", "worker").unwrap();
    let process = asleep(&child);
    let record = child.folder().join("child.json");
    let id = child.identity().id.clone();
    child.detach();
    host.close();
    for name in ["../escaped", "a/b", ""] {
        let text = fs::read_to_string(&record).unwrap();
        let mut changed: Value = serde_json::from_str(&text).unwrap();
        changed["id"] = name.into();
        fs::write(&record, changed.to_string()).unwrap();
        assert_eq!(Host::start_at(server(), &path).unwrap().children(), []);
        fs::write(&record, text).unwrap();
    }
    let host = Host::start_at(server(), &path).unwrap();
    assert_eq!(host.children()[0].identity().id, id);
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
    // Two tools have the same name, so the server is not valid.
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

/// Starts a host below a folder, and a child of it that is connected.
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

#[tokio::test]
async fn a_host_on_the_programs_runtime_says_whether_to_wait() {
    let folder = private_folder();
    let setup = Host::setup().path(folder.path().join("host.sock"));
    let host = setup.start_here(server()).await.unwrap();
    let mut events = host.events();
    let child = host.child("ann", "worker").unwrap();
    let process = child.spawn(&mut visitor("env", 9, &[])).unwrap();
    events.next().await.unwrap();
    child.detach();
    host.close();
    let heard = tokio::task::spawn_blocking(|| heard(process));
    let heard = heard.await.unwrap();
    let last = heard.last().unwrap();
    assert_eq!(last["params"]["then"], "wait", "{heard:?}");
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
    // A new host at the old path knows no children.
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
    // From now on, the child belongs to that path, without any state to resume.
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
pub(crate) struct Phoenix {
    process: Process,
    says: ChildStdin,
    heard: Lines<BufReader<ChildStdout>>,
}

impl Phoenix {
    pub(crate) fn start(path: &Path) -> Self {
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

    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.says, "{line}").unwrap();
    }

    /// Reads until a line begins with this text.
    pub(crate) fn hear(&mut self, begin: &str) -> String {
        let mut lines = self.heard.by_ref().map(Result::unwrap);
        lines.find(|line| line.starts_with(begin)).unwrap()
    }

    /// Reads until all of these lines have appeared, in any order.
    fn hear_all(&mut self, begins: &[String]) {
        let mut left = begins.to_vec();
        while !left.is_empty() {
            let line = self.heard.next().unwrap().unwrap();
            left.retain(|begin| !line.starts_with(begin.as_str()));
        }
    }

    /// Returns the id of each child, with its label.
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
    program.hear("ann attached");
    let known = program.list();
    for _ in 0..2 {
        program.say("exec");
        program.hear_all(&["ready with 1".into(), "ann attached".into()]);
        assert_eq!(program.list(), known);
    }
    // This host does not come back: its children end with it.
    program.say("quit");
    program.process.wait().unwrap();
    assert_eq!(names(&folder.path().join("lmcp")), [""; 0]);
}

/// The number of children that call without pause.
const CHILDREN: usize = 4;

/// Returns how often their program is killed or becomes another one.
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
        program.hear(&format!("{label} attached"));
    }
    let known = program.list();
    assert_eq!(known.len(), CHILDREN);
    let ready = format!("ready with {CHILDREN}");
    let attached = labels.iter().map(|label| format!("{label} attached"));
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
    // The program does not start again: the next host takes over its children, and ends them.
    let host = Host::start_at(server(), &path).unwrap();
    let mut children = host.children();
    assert_eq!(children.len(), CHILDREN);
    children.iter().for_each(ChildHandle::end);
    children.clear();
    drop(host);
    assert_eq!(names(folder.path()), [""; 0]);
}
