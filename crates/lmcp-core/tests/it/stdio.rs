//! Standard input and output, in a process of its own: what reaches the wire, and when the process ends.

use std::{process::Stdio, time::Instant};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStderr, Command},
};

use crate::support::{Peer, show_time, soon};

#[tokio::test]
async fn without_input_the_process_ends_well() {
    let start = Instant::now();
    let mut child = probe().stdin(Stdio::null()).spawn().unwrap();
    let status = soon(child.wait()).await.unwrap();
    show_time(
        "stdio: start to exit with empty input",
        start,
        Instant::now(),
    );
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn quick_answers_in_flight_at_the_end_of_input_arrive() {
    let mut process = Process::start();
    for id in 1..=20 {
        process.peer.call(id, "quick").await;
    }
    let answers = process.peer.finish().await;
    let mut ids: Vec<i64> = answers
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["id"]
                .as_i64()
                .unwrap()
        })
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, Vec::from_iter(1..=20));
    assert_eq!(soon(process.child.wait()).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn an_answer_that_takes_longer_than_the_end_of_input_arrives() {
    let mut process = Process::start();
    process.peer.call(1, "slow").await;
    let answer: Value = serde_json::from_str(&process.peer.finish().await).unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "slow");
}

#[tokio::test]
async fn a_last_line_without_an_end_is_answered() {
    let mut process = Process::start();
    let request = crate::support::request(1, "tools/call", json!({ "name": "quick" }));
    process.peer.write(request.to_string().as_bytes()).await;
    let answer: Value = serde_json::from_str(&process.peer.finish().await).unwrap();
    assert_eq!(answer["id"], 1);
}

#[tokio::test]
async fn the_process_ends_though_a_handler_runs() {
    let mut process = Process::start();
    process.peer.call(1, "hang").await;
    assert_eq!(process.stderr.line().await, "started");
    let closed = Instant::now();
    let rest = process.peer.finish().await;
    assert_eq!(rest, "", "a request that was given up is not answered");
    let status = soon(process.child.wait()).await.unwrap();
    show_time(
        "stdio: end of input to exit, slow handler running",
        closed,
        Instant::now(),
    );
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn the_process_ends_though_nobody_reads_its_output() {
    let mut process = Process::start();
    process.peer.call(1, "hang").await;
    assert_eq!(process.stderr.line().await, "started");
    drop(process.peer);
    assert_eq!(process.stderr.line().await, "dropped");
    assert_eq!(soon(process.child.wait()).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn the_process_ends_when_its_answers_cannot_be_written() {
    let mut process = Process::start();
    let (reader, mut writer) = process.peer.split();
    drop(reader);
    let call = json!({ "name": "quick" });
    writer.request(1, "tools/call", call).await;
    let status = soon(process.child.wait()).await.unwrap();
    assert_eq!(status.code(), Some(1));
}

#[tokio::test]
async fn what_a_handler_prints_goes_to_stderr() {
    let mut process = Process::start();
    process.peer.call(1, "print").await;
    let answer = process.peer.receive().await;
    assert_eq!(answer["result"]["content"][0]["text"], "printed");
    assert_eq!(process.stderr.line().await, "printed by a handler");
    assert_eq!(process.peer.finish().await, "");
}

#[tokio::test]
async fn without_a_log_the_number_of_a_panic_is_on_stderr() {
    let mut process = Process::start();
    process.peer.call(1, "panic").await;
    let answer = process.peer.receive().await;
    let words = answer["error"]["message"].as_str().unwrap();
    let number = words.strip_prefix("internal error, incident ").unwrap();
    let expected = format!("incident {number}: a handler panicked: a secret");
    // What Rust prints of a panic comes before it.
    while process.stderr.line().await != expected {}
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_child_of_a_handler_inherits_nothing_of_the_protocol() {
    let child = probe().spawn().unwrap();
    let pipes = [
        pipe_of(child.stdin.as_ref().unwrap()),
        pipe_of(child.stdout.as_ref().unwrap()),
    ];
    let mut process = Process::of(child);
    process.peer.call(1, "child").await;
    // Were it the child's input too, this request would be lost to it.
    process.peer.call(2, "quick").await;
    let mut answers = [process.peer.receive().await, process.peer.receive().await];
    answers.sort_by_key(|answer| answer["id"].as_i64());
    assert_eq!(
        answers[0]["result"]["content"][0]["text"],
        "the child ended with exit status: 0"
    );
    assert_eq!(answers[1]["result"]["content"][0]["text"], "quick");
    assert_eq!(process.stderr.line().await, "printed by a child");
    loop {
        let line = process.stderr.line().await;
        if line == "end of list" {
            break;
        }
        assert!(pipes.iter().all(|pipe| !line.contains(pipe)), "{line}");
    }
}

/// The name the kernel has for a pipe: the same at both ends, in every process.
#[cfg(target_os = "linux")]
fn pipe_of(end: &impl std::os::fd::AsRawFd) -> String {
    let link = format!("/proc/self/fd/{}", end.as_raw_fd());
    let name = std::fs::read_link(link).expect("an open pipe has a name");
    name.display().to_string()
}

/// The probe, with pipes for everything.
pub(crate) fn probe() -> Command {
    let tests = std::env::current_exe().expect("a test is a file");
    let folder = tests.parent().and_then(|folder| folder.parent());
    let probe = folder
        .expect("tests lie in `deps`")
        .join("examples/stdio-probe");
    assert!(
        probe.exists(),
        "build it first: cargo build -p lmcp-core --example stdio-probe"
    );
    let mut command = Command::new(probe);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// A probe that runs.
pub(crate) struct Process {
    pub(crate) peer: Peer,
    pub(crate) stderr: Stderr,
    pub(crate) child: Child,
}

impl Process {
    pub(crate) fn start() -> Self {
        Self::of(probe().spawn().expect("the probe can be run"))
    }

    fn of(mut child: Child) -> Self {
        let stdin = child.stdin.take().expect("stdin is a pipe");
        let stdout = child.stdout.take().expect("stdout is a pipe");
        let stderr = child.stderr.take().expect("stderr is a pipe");
        Self {
            peer: Peer::new(stdout, stdin),
            stderr: Stderr(BufReader::new(stderr).lines()),
            child,
        }
    }
}

/// What a probe says beside the protocol.
pub(crate) struct Stderr(Lines<BufReader<ChildStderr>>);

impl Stderr {
    pub(crate) async fn line(&mut self) -> String {
        let line = soon(self.0.next_line()).await;
        line.expect("stderr is text").expect("something is said")
    }
}
