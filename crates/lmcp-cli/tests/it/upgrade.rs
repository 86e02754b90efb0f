//! Servers that become another version of the program while sessions run on.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    proxy::{Client, modern},
    support::lmcp_at,
};

/// A user who has installed the program.
struct User {
    home: tempfile::TempDir,
    program: PathBuf,
}

impl User {
    fn new() -> Self {
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("tests may write here");
        fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).expect("it is ours");
        let program = home.path().join("program");
        let user = Self { home, program };
        user.install();
        user
    }

    /// Replaces the program by another file, as package managers do.
    fn install(&self) {
        self.install_with(|path| {
            fs::copy(env!("CARGO_BIN_EXE_lmcp"), path).expect("there is room");
        });
    }

    fn install_with(&self, make: impl FnOnce(&Path)) {
        let fresh = self.home.path().join("fresh");
        make(&fresh);
        fs::rename(&fresh, &self.program).expect("it is ours");
    }

    /// Returns the program with these arguments.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = lmcp_at(&self.program, arguments);
        command
            .env("XDG_RUNTIME_DIR", self.home.path())
            .env("HOME", self.home.path());
        command
    }

    /// Returns `lmcp run`, with an agent that is a proxy.
    fn run(&self) -> Client {
        let mut run = self.command(&["run", "--label", "ann", "--"]);
        run.arg(&self.program).arg("proxy");
        Client::new(&mut run)
    }

    /// Returns `lmcp run`, whose command has begun, and ends with 7 when its input ends.
    fn run_that_ends_with_7(&self) -> Child {
        let mut run = self.command(&["run", "--", "sh", "-c", "echo ready; read -r line; exit 7"]);
        let mut running = run.spawn().expect("the binary was built for this test");
        let mut said = BufReader::new(running.stdout.take().expect("a pipe")).lines();
        assert_eq!(said.next().expect("it speaks").expect("text"), "ready");
        running
    }

    /// Waits until this process runs the installed program.
    fn await_newest(&self, process: u32) {
        let exe = format!("/proc/{process}/exe");
        while !fs::read_link(&exe).is_ok_and(|path| path == self.program) {
            std::thread::yield_now();
        }
    }

    /// Returns the names in the runtime folder.
    fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.home.path().join("lmcp")).expect("it was made");
        let names = entries.map(|entry| entry.expect("it is listed").file_name());
        names
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    }
}

/// Returns the note that says why an upgrade did not happen.
fn why_not(client: &mut Client) -> String {
    let stderr = client.process.0.stderr.take().expect("a pipe");
    let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
    let note = lines.find(|line| line.contains("cannot upgrade"));
    note.expect("it says so")
}

fn signal(process: u32, signal: Signal) {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    kill_process(process.expect("it is one"), signal).expect("it runs");
}

fn who(client: &mut Client, id: u64) -> Value {
    let call = json!({ "name": "whoami", "arguments": {} });
    client.send(&modern(id, "tools/call", call));
    client.answer(id)["result"]["structuredContent"].clone()
}

#[test]
fn lmcp_run_is_upgraded_under_its_agent() {
    let user = User::new();
    let mut client = user.run();
    let run = client.process.0.id();
    let known = who(&mut client, 1);
    assert_eq!(known["label"], "ann");
    for id in 2..4 {
        user.install();
        signal(run, Signal::USR2);
        user.await_newest(run);
        assert_eq!(who(&mut client, id), known);
    }
    assert_eq!(client.end(), Some(0));
    assert_eq!(user.left(), [""; 0]);
}

#[test]
fn the_code_of_an_agent_that_ends_after_an_upgrade_is_that_of_lmcp_run() {
    let user = User::new();
    let mut running = user.run_that_ends_with_7();
    user.install();
    signal(running.id(), Signal::USR2);
    user.await_newest(running.id());
    drop(running.stdin.take());
    assert_eq!(running.wait().expect("it is our child").code(), Some(7));
    assert_eq!(user.left(), [""; 0]);
}

#[test]
fn a_version_that_does_not_start_takes_nobodys_place() {
    let user = User::new();
    let mut client = user.run();
    let known = who(&mut client, 1);
    user.install_with(|path| {
        fs::write(path, "#!/bin/sh\nexit 3\n").expect("there is room");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    });
    signal(client.process.0.id(), Signal::USR2);
    let note = why_not(&mut client);
    assert!(note.contains("this version goes on"), "{note}");
    assert_eq!(who(&mut client, 2), known);
    assert_eq!(client.end(), Some(0));
}

#[test]
fn an_upgrade_that_its_options_would_stop_does_not_happen() {
    let user = User::new();
    let file = user.home.path().join("options.toml");
    fs::write(&file, "read_only = true\n").expect("there is room");
    let mut run = user.command(&["run", "--config"]);
    run.arg(&file).args(["--label", "ann", "--"]);
    run.arg(&user.program).arg("proxy");
    let mut client = Client::new(&mut run);
    let known = who(&mut client, 1);
    user.install();
    fs::write(&file, "read_only = 7\n").expect("there is room");
    signal(client.process.0.id(), Signal::USR2);
    let note = why_not(&mut client);
    assert!(
        note.contains("options.toml") && note.contains("this version goes on"),
        "{note}"
    );
    assert_eq!(who(&mut client, 2), known);
    assert_eq!(client.end(), Some(0));
}

#[test]
fn a_version_whose_check_does_not_end_holds_nobody_up() {
    let user = User::new();
    let mut running = user.run_that_ends_with_7();
    let begun = user.home.path().join("begun");
    user.install_with(|path| {
        let script = format!("#!/bin/sh\necho >{}\nexec sleep 600\n", begun.display());
        fs::write(path, script).expect("there is room");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    });
    signal(running.id(), Signal::USR2);
    while !begun.exists() {
        std::thread::yield_now();
    }
    drop(running.stdin.take());
    assert_eq!(running.wait().expect("it is our child").code(), Some(7));
}

#[test]
fn signals_in_the_middle_of_an_upgrade_do_not_end_the_run() {
    let user = User::new();
    let mut client = user.run();
    let run = client.process.0.id();
    let known = who(&mut client, 1);
    user.install();
    signal(run, Signal::USR2);
    let exe = format!("/proc/{run}/exe");
    // From before to after the program is replaced.
    while !fs::read_link(&exe).is_ok_and(|path| path == user.program) {
        signal(run, Signal::INT);
        signal(run, Signal::QUIT);
    }
    for _ in 0..1000 {
        signal(run, Signal::INT);
    }
    assert_eq!(who(&mut client, 2), known);
    assert_eq!(client.end(), Some(0));
}

/// Returns the process that serves all sessions.
fn server(user: &User) -> u32 {
    let lock = fs::read_to_string(user.home.path().join("lmcp/serve.lock"));
    let process = lock.expect("it serves").trim().parse();
    process.expect("it is a number")
}

#[test]
fn the_shared_server_is_upgraded_under_its_sessions() {
    let user = User::new();
    let mut proxy = user.command(&["proxy"]);
    // This variable would be a setting, and select another server.
    proxy.env_remove("LMCP_STATE_DIR");
    let mut clients = [(); 2].map(|()| Client::new(&mut proxy));
    for client in &mut clients {
        client.send(&modern(1, "tools/list", json!({})));
        assert!(client.answer(1)["result"]["tools"].is_array());
    }
    let old = server(&user);
    user.install();
    signal(old, Signal::TERM);
    for client in &mut clients {
        client.send(&modern(2, "tools/list", json!({})));
        assert!(client.answer(2)["result"]["tools"].is_array());
    }
    let new = server(&user);
    assert_ne!(old, new);
    user.await_newest(new);
    for client in clients {
        assert_eq!(client.end(), Some(0));
    }
    signal(new, Signal::TERM);
}
