//! The binary as people see it: its messages, and its exit.

mod bridge;
mod calling;
mod commands;
mod confined_http;
mod endure;
mod fleet;
mod hub;
mod local_users;
mod modes;
mod one_file;
mod options;
mod places;
mod proxy;
#[path = "../../../lmcp-outbound/tests/it/proxy_server.rs"]
#[expect(
    dead_code,
    clippy::unwrap_used,
    reason = "it is written for the tests of another crate"
)]
mod proxy_server;
mod run;
mod run_nested;
mod run_server;
mod state;
mod stop;
mod stripped;
mod support;
mod terminal;
mod tokens;
mod unix;
mod upgrade;

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    process::Child,
};

use serde_json::json;

use support::{lmcp, said};

fn stdio() -> Child {
    lmcp(&["serve", "--demo", "--stdio"])
        .spawn()
        .expect("the binary was built for this test")
}

/// Returns a call of `echo` with a text of this size, as a line.
fn echo(id: usize, size: usize) -> Vec<u8> {
    let call = lmcp_testkit::call(id, "echo", &json!({ "text": "x".repeat(size) }));
    format!("{call}\n").into_bytes()
}

#[test]
fn without_a_command_it_explains_itself() {
    let (code, words) = said(&lmcp(&[]).output().unwrap());
    assert_eq!(code, Some(2));
    assert!(
        words.contains("Usage: lmcp") && words.contains("serve"),
        "{words}"
    );
}

#[test]
fn a_taken_port_is_named_with_a_hint() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, words) = said(&lmcp(&["serve", "--http", &address]).output().unwrap());
    assert_eq!(code, Some(1));
    assert!(
        words.starts_with(&format!("error: cannot listen on {address}: ")),
        "{words}"
    );
    assert!(
        words.contains("hint: choose another address with --http"),
        "{words}"
    );
}

#[test]
fn an_answer_larger_than_the_pipe_arrives_whole_after_the_input_ended() {
    let mut child = stdio();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&echo(1, 1 << 20)).unwrap();
    drop(input);
    let mut answer = Vec::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_end(&mut answer)
        .unwrap();
    assert!(answer.len() > 1 << 20 && answer.ends_with(b"\n"));
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_client_that_reads_nothing_and_goes_cannot_hold_the_process() {
    let mut child = stdio();
    let mut input = child.stdin.take().unwrap();
    for id in 0..4 {
        input.write_all(&echo(id, 200_000)).unwrap();
    }
    drop(input);
    // The output stays open and unread until the process has ended by itself.
    let output = child.stdout.take();
    assert_eq!(
        child.wait().unwrap().code(),
        Some(1),
        "it says that answers were lost"
    );
    drop(output);
}
