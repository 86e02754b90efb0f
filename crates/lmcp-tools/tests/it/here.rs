//! Every session has a folder and a tool chain of its own; the roots and the rules of the operator come first.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use lmcp_core::{Caller, CallerTransport, Client, Handle, Workplace};
use lmcp_tools::{
    Settings,
    settings::{Decision, Rule},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{settings, start, text};

/// A server, and two folders whose sessions share it.
struct Shared {
    server: Handle,
    ann: TempDir,
    bob: TempDir,
    _state: TempDir,
}

fn shared(change: impl FnOnce(&mut Settings, &Path)) -> Shared {
    let (state, ann, bob) = (folder(), folder(), folder());
    let mut settings = settings(state.path());
    change(&mut settings, ann.path());
    Shared {
        server: start(settings),
        ann,
        bob,
        _state: state,
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

impl Shared {
    /// A client that works there.
    fn at(&self, folder: &Path) -> Client {
        let variables = [
            ("PATH", format!("{}/bin:/usr/bin:/bin", folder.display())),
            ("VIRTUAL_ENV", folder.display().to_string()),
            ("GITHUB_TOKEN", "hush".into()),
        ];
        let folder = folder.canonicalize().unwrap_or(folder.into());
        let workplace = Workplace::new(folder).with_variables(variables);
        let caller = Caller::new(CallerTransport::Unix).working_at(workplace);
        self.server.client().caller(caller)
    }

    fn clients(&self) -> [Client; 2] {
        [&self.ann, &self.bob].map(|folder| self.at(folder.path()))
    }
}

async fn say(client: &Client, tool: &str, arguments: Value) -> String {
    text(&client.call_tool(tool, arguments).await.unwrap())
}

async fn output(client: &Client, command: &str) -> String {
    let result = client.call_tool("shell", json!({ "command": command }));
    let result = result.await.unwrap();
    let ran = result.structured_content.unwrap_or_default();
    ran["stdout"].as_str().unwrap_or_default().trim().to_owned()
}

#[tokio::test]
async fn relative_paths_of_every_tool_begin_in_the_sessions_folder() {
    let shared = shared(|_, _| ());
    for (client, name) in shared.clients().iter().zip(["ann", "bob"]) {
        let arguments =
            json!({ "path": "sub/note", "content": format!("of {name}\n"), "parents": true });
        say(client, "write_file", arguments).await;
    }
    for (client, name) in shared.clients().iter().zip(["ann", "bob"]) {
        let read = say(client, "read_file", json!({ "path": "sub/note" })).await;
        assert!(read.contains(&format!("of {name}")), "{read}");
        let read = say(
            client,
            "read_file",
            json!({ "paths": ["./sub/note", "sub/../sub/note"] }),
        )
        .await;
        assert_eq!(read.matches(&format!("of {name}")).count(), 2, "{read}");
        let found = say(client, "search_files", json!({ "pattern": "of" })).await;
        assert!(found.contains(&format!("of {name}")), "{found}");
        assert!(
            found.contains("sub/note") && !found.contains("/sub/note"),
            "{found}"
        );
        let listed = say(client, "list_dir", json!({})).await;
        assert!(listed.contains("sub"), "{listed}");
        let edit = json!({ "path": "sub/note", "old_string": "of", "new_string": "by" });
        say(client, "edit_file", edit).await;
        let history = say(client, "file_history", json!({ "path": "sub/note" })).await;
        assert!(history.contains("edit_file"), "{history}");
        assert_eq!(output(client, "cat sub/note").await, format!("by {name}"));
        let within = json!({ "command": "cat note", "cwd": "sub" });
        assert!(
            say(client, "shell", within)
                .await
                .contains(&format!("by {name}"))
        );
    }
    for (folder, name) in [(&shared.ann, "ann"), (&shared.bob, "bob")] {
        let note = fs::read_to_string(folder.path().join("sub/note")).unwrap();
        assert_eq!(note, format!("by {name}\n"));
    }
}

#[tokio::test]
async fn commands_run_in_the_sessions_folder_with_its_tool_chain() {
    let shared = shared(|_, _| ());
    for folder in [shared.ann.path(), shared.bob.path()] {
        let program = folder.join("bin/which-one");
        fs::create_dir(folder.join("bin")).unwrap();
        fs::write(&program, format!("#!/bin/sh\necho {}", folder.display())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (client, folder) in shared.clients().iter().zip([&shared.ann, &shared.bob]) {
        let folder = folder.path().display().to_string();
        assert_eq!(output(client, "pwd").await, folder);
        assert_eq!(output(client, "which-one").await, folder);
        assert_eq!(output(client, "echo $VIRTUAL_ENV").await, folder);
        assert_eq!(output(client, "echo ${GITHUB_TOKEN-none}").await, "none");
        let direct = json!({ "argv": ["which-one"] });
        assert!(say(client, "shell", direct).await.contains(&folder));
        let added = json!({ "command": "echo $VIRTUAL_ENV", "env": { "VIRTUAL_ENV": "mine" } });
        assert!(say(client, "shell", added).await.contains("mine"));
        // With a terminal and behind a fence the command is started in another way.
        let terminal = json!({ "command": "which-one", "tty": true });
        assert!(say(client, "shell", terminal).await.contains(&folder));
    }
}

#[tokio::test]
async fn a_job_and_its_log_begin_in_the_sessions_folder_and_so_does_it_again() {
    let shared = shared(|_, _| ());
    let [ann, bob] = shared.clients();
    let job = json!({ "command": "pwd; echo $VIRTUAL_ENV", "log": "log" });
    let started = ann.call_tool("shell_bg", job).await.unwrap();
    let id = started.structured_content.unwrap()["id"].clone();
    let wait = json!({ "id": id, "wait_exit": true, "wait": 60 });
    let folder = shared.ann.path().display().to_string();
    let expected = format!("{folder}\n{folder}\n");
    assert!(say(&ann, "job_output", wait).await.contains(&expected));
    let log = fs::read_to_string(shared.ann.path().join("log")).unwrap();
    assert_eq!(log, expected);
    // Whoever starts it again, it is the same job.
    let again = json!({ "id": id, "restart": true });
    let again = bob.call_tool("job_stop", again).await.unwrap();
    let again = again.structured_content.unwrap();
    let wait = json!({ "id": again["restarted_as"], "wait_exit": true, "wait": 60 });
    let said = say(&bob, "job_output", wait).await;
    assert!(said.contains(&expected), "{said}");
}

#[tokio::test]
async fn a_folder_outside_of_the_roots_is_not_used() {
    let shared = shared(|settings, ann| settings.roots = vec![ann.to_owned()]);
    let root = shared.ann.path().canonicalize().unwrap();
    let bob = shared.at(shared.bob.path());
    assert_eq!(Path::new(&output(&bob, "pwd").await), root);
    say(&bob, "write_file", json!({ "path": "x", "content": "x" })).await;
    assert!(root.join("x").exists() && !shared.bob.path().join("x").exists());
    // One that lies inside is.
    fs::create_dir(root.join("deep")).unwrap();
    let deep = shared.at(&root.join("deep"));
    assert_eq!(Path::new(&output(&deep, "pwd").await), root.join("deep"));
    say(&deep, "write_file", json!({ "path": "y", "content": "y" })).await;
    assert!(root.join("deep/y").exists());
    let above = say(&deep, "read_file", json!({ "path": "../../none" })).await;
    assert!(
        above.contains("outside of what this server may touch"),
        "{above}"
    );
    // One that only seems to lie inside is not.
    std::os::unix::fs::symlink(shared.bob.path(), root.join("link")).unwrap();
    let workplace = Workplace::new(root.join("link"));
    let caller = Caller::new(CallerTransport::Unix).working_at(workplace);
    let linked = shared.server.client().caller(caller);
    assert_eq!(Path::new(&output(&linked, "pwd").await), root);
}

#[tokio::test]
async fn a_folder_that_is_gone_is_told_and_not_replaced_by_another() {
    let shared = shared(|_, _| ());
    let gone = shared.ann.path().join("gone");
    let client = shared.at(&gone);
    let name = gone.display().to_string();
    for (tool, arguments) in [
        ("shell", json!({ "command": "pwd" })),
        ("list_dir", json!({})),
        ("read_file", json!({ "path": "x" })),
        ("write_file", json!({ "path": "x", "content": "x" })),
    ] {
        let result = client.call_tool(tool, arguments).await.unwrap();
        assert!(result.is_error, "{tool}: {result:?}");
        assert!(text(&result).contains(&name), "{tool}: {result:?}");
    }
    let elsewhere = json!({ "command": "pwd", "cwd": "/" });
    let said = say(&client, "shell", elsewhere).await;
    assert!(said.lines().any(|line| line == "/"), "{said}");
    fs::create_dir(&gone).unwrap();
    assert_eq!(output(&client, "pwd").await, name);
}

#[tokio::test]
async fn where_rules_say_what_may_run_the_tool_chain_is_the_servers() {
    let shared = shared(|settings, _| {
        settings.rules = vec![Rule::new(Decision::Allow, "printenv")];
    });
    let [ann, _] = shared.clients();
    let path = output(&ann, "printenv PATH").await;
    assert_eq!(path, std::env::var("PATH").unwrap());
    assert_eq!(output(&ann, "printenv VIRTUAL_ENV").await, "");
}
