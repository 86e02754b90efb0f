//! The folder for scratch files of a confined command: gone with the command, whatever was built there.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Host, settings, start, text};

/// A command that makes nested folders.
fn nest(depth: usize) -> String {
    format!("perl -e 'chdir $ENV{{TMPDIR}}; for (1..{depth}) {{ mkdir \"d\"; chdir \"d\" }}'")
}

fn fenced() -> (Host, TempDir) {
    let (state, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut settings = settings(state.path());
    settings.roots = vec![root.path().to_owned()];
    let server = start(settings);
    (Host { server, state }, root)
}

fn folders(state: &Path) -> Vec<PathBuf> {
    let jobs = fs::read_dir(state.join("jobs")).unwrap();
    jobs.map(|entry| entry.unwrap().path()).collect()
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let soon = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(120), soon).await;
    assert!(waited.is_ok(), "{what}");
}

fn has_perl() -> bool {
    let there = Path::new("/usr/bin/perl").exists();
    if !there {
        let note = b"skipped: there is no perl to make nested folders with\n";
        std::io::Write::write_all(&mut std::io::stderr(), note).unwrap();
    }
    there
}

#[tokio::test]
async fn nested_scratch_folders_go_with_their_command() {
    if !has_perl() {
        return;
    }
    let (host, root) = fenced();
    // Deeper than a stack is, for what removes folders by calling itself.
    let ran = host.shell(&nest(8_000)).await;
    assert_eq!(ran["exit_code"], 0, "{ran}");
    until("its folder is gone", || {
        folders(host.state.path()).is_empty()
    })
    .await;
    // A command that is cancelled, too.
    let mut calling = host.client().start_tool(
        "shell",
        json!({"command": format!("{}; touch done; sleep 300", nest(1000))}),
    );
    let built = root.path().join("done");
    tokio::select! {
        _ = async { while calling.next().await.is_some() {} } => panic!("it ended"),
        () = until("it is built", || built.exists()) => {}
    }
    drop(calling);
    until("its folder is gone", || {
        folders(host.state.path()).is_empty()
    })
    .await;
    assert_eq!(host.shell("echo here").await["stdout"], "here\n");
}

#[tokio::test]
async fn the_scratch_folder_of_a_job_goes_with_its_end_and_its_output_stays() {
    if !has_perl() {
        return;
    }
    let (host, _root) = fenced();
    let command = format!("{}; chmod 0 $TMPDIR; echo built", nest(1000));
    let started = host.value("shell_bg", json!({ "command": command })).await;
    let wait = json!({"id": started["id"], "wait_exit": true});
    let output = host.value("job_output", wait).await;
    assert_eq!(output["output"], "built\n");
    let dir = folders(host.state.path()).remove(0);
    until("its scratch folder is gone", || !dir.join("tmp").exists()).await;
    let output = host.value("job_output", json!({"id": started["id"]})).await;
    assert_eq!(output["output"], "built\n");
    assert_eq!(output["exit_code"], 0);
}

/// Its guard was killed, say, or the machine went down.
#[tokio::test]
async fn what_a_guard_could_not_remove_the_next_server_does() {
    let (host, root) = fenced();
    let state: Value = host
        .value("shell_bg", json!({"command": "echo kept"}))
        .await;
    let wait = json!({"id": state["id"], "wait_exit": true});
    host.value("job_output", wait).await;
    let dir = folders(host.state.path()).remove(0);
    until("it is tidied up", || !dir.join("tmp").exists()).await;
    drop(host.server);
    fs::create_dir_all(dir.join("tmp/a/b")).unwrap();
    fs::write(dir.join("tmp/a/b/c"), "left").unwrap();
    let mut settings = settings(host.state.path());
    settings.roots = vec![root.path().to_owned()];
    let next = start(settings);
    until("it is tidied up", || !dir.join("tmp").exists()).await;
    let args = json!({"id": state["id"]});
    let output = next.client().call_tool("job_output", args).await.unwrap();
    assert!(text(&output).contains("kept"), "{}", text(&output));
}

#[tokio::test]
async fn a_server_that_keeps_nothing_leaves_nothing() {
    let (temp, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut settings = settings(temp.path());
    settings.roots = vec![root.path().to_owned()];
    settings.state_dir = None;
    let server = start(settings);
    let client = server.client();
    let ran = client
        .call_tool(
            "shell",
            json!({"command": "echo $TMPDIR; seq 1 100000 >&2"}),
        )
        .await
        .unwrap();
    let ran = ran.structured_content.unwrap();
    let scratch = Path::new(ran["stdout"].as_str().unwrap().trim());
    let jobs = scratch.parent().unwrap().parent().unwrap().to_owned();
    assert!(jobs.exists());
    client
        .call_tool("shell_bg", json!({"command": "sleep 300"}))
        .await
        .unwrap();
    drop((client, server));
    until("its folder is gone", || !jobs.exists()).await;
}

#[tokio::test]
async fn of_a_command_that_kills_its_guard_nothing_is_left() {
    let host = Host::new();
    let ran = host
        .call("shell", json!({"command": "kill -9 $PPID; sleep 300"}))
        .await;
    assert!(ran.is_error, "{}", text(&ran));
    until("its folder is gone", || {
        folders(host.state.path()).is_empty()
    })
    .await;
}
