//! `jobs`: which of them, and in which order; and jobs that end with their session.

use std::path::Path;

use lmcp_core::unix;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::UnixStream,
};

use crate::support::{Host, text};

async fn job(host: &Host, command: &str) -> String {
    let started = host.value("shell_bg", json!({ "command": command })).await;
    started["id"].as_str().unwrap().to_owned()
}

fn ids(jobs: &Value) -> Vec<&str> {
    let jobs = jobs["jobs"].as_array().unwrap();
    jobs.iter().map(|job| job["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn what_runs_comes_first_and_the_newest_before_the_others() {
    let host = Host::new();
    let first = job(&host, "sleep 300").await;
    let over = job(&host, "exit 3").await;
    let second = job(&host, "sleep 300").await;
    host.value("job_output", json!({"id": over, "wait_exit": true}))
        .await;
    let jobs = host.value("jobs", json!({})).await;
    assert_eq!(ids(&jobs), [&second, &first, &over]);
    let running = host.value("jobs", json!({"state": "running"})).await;
    assert_eq!(ids(&running), [&second, &first]);
    let exited = host.value("jobs", json!({"state": "exited"})).await;
    assert_eq!(ids(&exited), [&over]);
    for id in [first, second] {
        host.value("job_stop", json!({"id": id, "signal": "KILL"}))
            .await;
    }
}

#[tokio::test]
async fn kept_outputs_of_commands_are_listed_on_request() {
    let host = Host::new();
    let ran = host.shell("seq 1 100000").await;
    assert_eq!(ran["truncated"], true);
    let listed = host.call("jobs", json!({})).await;
    let words = "no jobs\n1 more ended in another session or is the kept output of a command; all=true lists them";
    assert_eq!(text(&listed), words);
    let jobs = listed.structured_content.unwrap();
    assert_eq!((ids(&jobs).len(), &jobs["more"]), (0, &json!(1)));
    let all = host.value("jobs", json!({"all": true})).await;
    assert_eq!((ids(&all).len(), &all["more"]), (1, &json!(0)));
    // What a command left running is no kept output.
    let left = host.shell("sleep 300 >/dev/null 2>&1 & echo $!").await;
    let jobs = host.value("jobs", json!({})).await;
    assert_eq!(jobs["jobs"][0]["left_running"], left["left_running"]);
}

#[tokio::test]
async fn processes_that_are_left_are_counted_in_words_that_fit_their_number() {
    for (command, words) in [
        ("exit 3", "exit code 3  0 bytes"),
        ("sleep 300 & exit 3", "exit code 3, 1 process left  0 bytes"),
        (
            "sleep 300 & sleep 300 & exit 3",
            "exit code 3, 2 processes left  0 bytes",
        ),
    ] {
        let host = Host::new();
        let id = job(&host, command).await;
        host.value("job_output", json!({"id": id, "wait_exit": true}))
            .await;
        let listed = text(&host.call("jobs", json!({})).await);
        assert!(listed.starts_with(&format!("{id}  {words}")), "{listed}");
        host.value("job_stop", json!({"id": id, "signal": "KILL"}))
            .await;
    }
}

/// A session on a unix socket.
struct Session(BufReader<UnixStream>);

impl Session {
    async fn open(socket: &Path) -> Self {
        let mut session = Self(BufReader::new(UnixStream::connect(socket).await.unwrap()));
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "0"},
        });
        session.request("initialize", params).await;
        session
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let line = format!("{request}\n");
        self.0.get_mut().write_all(line.as_bytes()).await.unwrap();
        let mut answer = String::new();
        self.0.read_line(&mut answer).await.unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer["result"].clone()
    }

    async fn call(&mut self, tool: &str, args: Value) -> Value {
        let params = json!({"name": tool, "arguments": args});
        self.request("tools/call", params).await["structuredContent"].clone()
    }
}

#[tokio::test]
async fn a_session_lists_its_own_and_ends_what_was_to_end_with_it() {
    let host = Host::new();
    let path = host.state.path().join("socket");
    let socket = unix(&path).unwrap();
    let script = async {
        let (mut one, mut other) = (Session::open(&path).await, Session::open(&path).await);
        let over = one.call("shell_bg", json!({"command": "exit 3"})).await;
        one.call("job_output", json!({"id": over["id"], "wait_exit": true}))
            .await;
        let stays = one.call("shell_bg", json!({"command": "sleep 300"})).await;
        let ends = json!({"command": "sleep 300", "end_with_session": true});
        let ends = one.call("shell_bg", ends).await;
        let own = one.call("jobs", json!({})).await;
        assert_eq!(ids(&own), [&ends["id"], &stays["id"], &over["id"]]);
        // Another session sees what runs, and that there is more.
        let seen = other.call("jobs", json!({})).await;
        assert_eq!(ids(&seen), [&ends["id"], &stays["id"]]);
        assert_eq!(seen["more"], 1);
        let all = other.call("jobs", json!({"all": true})).await;
        assert_eq!(ids(&all), ids(&own));
        let wait = json!({"id": ends["id"], "wait_exit": true});
        let (waited, ()) = tokio::join!(other.call("job_output", wait), async { drop(one) });
        // It is gone with its record, or seen as it ends.
        assert!(waited.is_null() || waited["state"] == "killed", "{waited}");
        let left = other.call("jobs", json!({"state": "running"})).await;
        assert_eq!(ids(&left), [&stays["id"]]);
        other
            .call("job_stop", json!({"id": stays["id"], "signal": "KILL"}))
            .await;
    };
    let server = host.server.clone();
    tokio::select! {
        served = server.serve(socket) => panic!("{served:?}"),
        () = script => {}
    }
}
