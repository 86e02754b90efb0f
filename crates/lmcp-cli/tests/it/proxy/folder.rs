//! Sessions in several folders share the user's own server: each works in the folder of its proxy, with its own tool chain.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use super::{Client, call, modern, text};
use crate::support::lmcp;

/// A user who has no server yet. Servers that were started end with the test.
struct User(tempfile::TempDir);

impl User {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("tests may write here");
        let rights = fs::Permissions::from_mode(0o700);
        fs::set_permissions(&home, rights).expect("it is ours");
        Self(home)
    }

    /// Makes a project, with a program of its own.
    fn project(&self, name: &str) -> PathBuf {
        let folder = self.0.path().join(name);
        let program = folder.join("bin/which-project");
        fs::create_dir_all(folder.join("bin")).expect("tests may write here");
        fs::write(&program, format!("#!/bin/sh\necho program of {name}\n")).expect("it is ours");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is ours");
        fs::write(folder.join("note"), format!("note of {name}\n")).expect("it is ours");
        folder
    }

    /// Returns a proxy to the user's own server, as an agent in that folder starts it.
    fn proxy(&self, folder: &Path) -> Command {
        let path = format!("{}/bin:/usr/bin:/bin", folder.display());
        let mut command = lmcp(&["proxy"]);
        command
            .env("XDG_RUNTIME_DIR", self.0.path())
            .env("HOME", self.0.path())
            .env("PATH", path)
            .env("VIRTUAL_ENV", folder.join("venv"))
            .env("OPENAI_API_KEY", "hush")
            .env("CARGO_REGISTRY_TOKEN", "hush")
            .env("OF_THIS_TERMINAL", "yes")
            .current_dir(folder);
        command
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let mark = format!("XDG_RUNTIME_DIR={}\0", self.0.path().display()).into_bytes();
        for process in fs::read_dir("/proc").expect("this is Linux").flatten() {
            let environ = fs::read(process.path().join("environ")).unwrap_or_default();
            if environ.windows(mark.len()).any(|part| part == mark) {
                let pid = process.file_name();
                let _ = Command::new("kill").arg("-TERM").arg(pid).status();
            }
        }
    }
}

/// Joins the text of a result and the output of its command.
fn said(answer: &Value) -> String {
    let output = answer["result"]["structuredContent"]["stdout"].as_str();
    format!("{}\n{}", text(answer), output.unwrap_or_default())
}

fn has_line(said: &str, line: &Path) -> bool {
    said.lines().any(|said| Path::new(said) == line)
}

/// A client that talks to the server through its own proxy.
struct Session {
    client: Client,
    last: u64,
}

impl Session {
    /// Starts a client of 2026-07-28, which has no handshake.
    fn modern(command: &mut Command) -> Self {
        let client = Client::new(command);
        Self { client, last: 0 }
    }

    fn open(command: &mut Command) -> Self {
        let mut client = Client::new(command);
        client.open();
        Self { client, last: 100 }
    }

    /// Calls a tool and returns the text of its result. Repeats a call that was lost with a killed server.
    fn say(&mut self, tool: &str, arguments: &Value) -> String {
        loop {
            self.last += 1;
            let message = if self.last > 100 {
                call(self.last, tool, arguments)
            } else {
                let params = json!({ "name": tool, "arguments": arguments });
                modern(self.last, "tools/call", params)
            };
            self.client.send(&message);
            let answer = self.client.answer(self.last);
            if answer["error"]["data"]["retriable"] != true {
                return said(&answer);
            }
        }
    }

    /// Runs a command line and returns what it wrote.
    fn shell(&mut self, line: &str) -> String {
        self.say("shell", &json!({ "command": line }))
    }
}

#[test]
fn each_session_works_in_its_own_folder_also_with_the_next_server() {
    let user = User::new();
    let projects = ["ann", "bob"].map(|name| user.project(name));
    let mut sessions = [
        Session::modern(&mut user.proxy(&projects[0])),
        Session::open(&mut user.proxy(&projects[1])),
    ];
    for round in ["first", "second"] {
        for (session, folder) in sessions.iter_mut().zip(&projects) {
            let name = folder.file_name().unwrap().to_str().unwrap();
            let shown = folder.display().to_string();
            assert!(has_line(&session.shell("pwd"), folder));
            let program = session.shell("which-project");
            assert!(program.contains(&format!("program of {name}")), "{program}");
            assert!(
                session
                    .shell("echo $VIRTUAL_ENV")
                    .contains(&format!("{shown}/venv"))
            );
            let note = session.say("read_file", &json!({ "path": "note" }));
            assert!(note.contains(&format!("note of {name}")), "{note}");
            let found = session.say("search_files", &json!({ "pattern": "note of" }));
            assert!(found.contains(&format!("note of {name}")), "{found}");
            session.say("write_file", &json!({ "path": round, "content": name }));
            let written = fs::read_to_string(folder.join(round)).expect("it was written here");
            assert_eq!(written, name);
        }
        // The server is killed; the next one knows the folders of all sessions, though no client sends them again.
        let server = sessions[0].shell("echo server $(ps -o ppid= -p $PPID)");
        let server = server.lines().find_map(|line| line.strip_prefix("server "));
        let server = server.expect("its number");
        let killed = Command::new("kill").args(["-9", server]).status();
        assert!(killed.expect("there is kill").success(), "{server}");
    }
}

#[test]
fn what_only_one_session_has_is_not_passed_on() {
    let user = User::new();
    let (ann, bob) = (user.project("ann"), user.project("bob"));
    // The first session starts the server.
    let mut first = Session::modern(&mut user.proxy(&ann));
    let mut command = user.proxy(&bob);
    command.env_remove("VIRTUAL_ENV").env("LC_TIME", "C");
    let environment = first.shell("env");
    let mut second = Session::modern(&mut command);
    for (said, is_first) in [(environment, true), (second.shell("env"), false)] {
        assert!(!said.contains("hush"), "{said}");
        assert!(!said.contains("LMCP_"), "{said}");
        assert!(!said.contains("OF_THIS_TERMINAL"), "{said}");
        assert!(said.contains(&format!("HOME={}", user.0.path().display())));
        assert_eq!(said.contains("VIRTUAL_ENV="), is_first, "{said}");
        assert_eq!(said.contains("LC_TIME=C"), !is_first, "{said}");
    }
}

#[test]
fn a_proxy_whose_folder_was_removed_is_told_so() {
    let user = User::new();
    let folder = user.project("ann");
    let command = user.proxy(&folder);
    // The proxy starts in a folder that is removed before its start.
    let mut shell = Command::new("sh");
    shell.args(["-c", "rm -r \"$PWD\" && exec \"$@\"", "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    shell.envs(
        command
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    for pipe in [Command::stdin, Command::stdout, Command::stderr] {
        pipe(&mut shell, std::process::Stdio::piped());
    }
    let mut session = Session::modern(shell.current_dir(&folder));
    let said = session.shell("pwd");
    let expected = format!(
        "the folder of this session, `{}`, is not there",
        folder.display()
    );
    assert!(said.contains(&expected), "{said}");
    let said = session.say("write_file", &json!({ "path": "x", "content": "x" }));
    assert!(said.contains("does not exist"), "{said}");
    assert!(!user.0.path().join("x").exists());
    user.project("ann");
    let note = session.say("read_file", &json!({ "path": "note" }));
    assert!(note.contains("note of ann"), "another of that name: {note}");
}

#[test]
fn a_folder_outside_of_the_root_is_not_used() {
    let user = User::new();
    let (inside, outside) = (user.project("root/inside"), user.project("outside"));
    let root = user.0.path().join("root");
    for (folder, expected) in [(&inside, &inside), (&outside, &root)] {
        let mut command = user.proxy(folder);
        let mut session = Session::modern(command.env("LMCP_ROOT", &root));
        let said = session.shell("pwd");
        assert!(has_line(&said, expected), "{said}");
        let arguments = json!({ "path": "x", "content": "x" });
        session.say("write_file", &arguments);
        assert!(expected.join("x").exists());
    }
    assert!(!outside.join("x").exists());
}

#[test]
fn on_stdio_the_roots_of_a_client_choose_the_folder() {
    let user = User::new();
    let (folder, started) = (user.project("ann"), user.project("elsewhere"));
    let mut command = lmcp(&["serve", "--stdio"]);
    let mut client = Client::new(command.current_dir(&started));
    let mut hello = super::initialize();
    hello["params"]["capabilities"] = json!({ "roots": {} });
    client.send(&hello);
    client.answer(0);
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    client.send(&call(1, "shell", &json!({ "command": "pwd" })));
    let question = client.receive();
    assert_eq!(question["method"], "roots/list", "{question}");
    let roots = json!({ "roots": [{ "uri": format!("file://{}", folder.display()) }] });
    client.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": roots }));
    let answer = client.answer(1);
    assert!(has_line(&said(&answer), &folder), "{answer}");
    // An absolute path or a second call does not ask again.
    client.send(&call(2, "read_file", &json!({ "path": "note" })));
    let answer = client.receive();
    assert!(text(&answer).contains("note of ann"), "{answer}");
}
