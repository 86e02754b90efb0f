//! Servers that are lost and come back; processes that are started, and end.

use std::time::Duration;

use lmcp_core::{
    Client,
    client::{Event, Fault},
};
use lmcp_upstream::{Upstream, command, socket};
use lmcp_wire::ProtocolVersion;
use serde_json::json;

use crate::{
    server::server,
    support::{By, Place, begun, builder, probe, soon, text},
};

#[tokio::test]
async fn a_server_that_was_lost_is_found_again_and_a_call_that_it_had_is_an_error() {
    let mut place = Place::new().await;
    for version in ProtocolVersion::ALL {
        let client = place.connect(By::Socket, builder(version)).await;
        let mut calling = client.start_tool("hang", json!({}));
        begun(&mut calling).await;
        place.kill().await;
        let error = loop {
            match soon(calling.next()).await {
                Some(Event::Done(result)) => break result.unwrap_err(),
                Some(_) => {}
                None => panic!("it ends with a response"),
            }
        };
        assert_eq!(error.fault(), Fault::Transport, "{error}");
        assert!(error.is_retriable(), "{error}");
        place.serve_socket(&server().start().unwrap().endpoint());
        assert_eq!(
            text(&client, "echo", json!({ "text": "again" })).await,
            "again"
        );
    }
}

#[tokio::test]
async fn changes_are_heard_of_across_a_restart() {
    let mut place = Place::new().await;
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let client = place.connect(By::Socket, builder(version)).await;
        let mut changes = soon(client.subscribe(["probe://text"])).await.unwrap();
        soon(client.ping()).await.unwrap();
        place.kill().await;
        place.serve_socket(&server().start().unwrap().endpoint());
        // The old server may still get calls, and fail them.
        while soon(client.call_tool("grow", json!({}))).await.is_err() {}
        assert!(soon(changes.next()).await.is_some(), "{version}");
    }
}

#[tokio::test]
async fn a_process_that_dies_is_told_of_with_its_last_words_and_started_again() {
    let client = soon(Client::connect(command(probe()))).await.unwrap();
    let error = soon(client.call_tool("die", json!({}))).await.unwrap_err();
    assert!(error.message.contains("signal 6"), "{error}");
    assert_eq!(text(&client, "echo", json!({ "text": "x" })).await, "x");
    let complaining = "echo first >&2; echo 'no such option' >&2; exit 3";
    let error = soon(Client::connect(command("sh").args(["-c", complaining]))).await;
    let error = error.unwrap_err();
    assert!(error.message.contains("exit status 3"), "{error}");
    assert!(error.message.contains("first | no such option"), "{error}");
}

/// Prints its number and that of its child, and serves; both ignore the end of their input.
const STUBBORN: &str =
    r#"sleep 1000 & echo $$ $! > "$1"; trap '' TERM; "$2"; while :; do sleep 1000; done"#;

fn stubborn(numbers: &std::path::Path) -> lmcp_upstream::CommandTarget {
    command("sh")
        .args(["-c", STUBBORN, "stubborn"])
        .arg(numbers)
        .arg(probe())
}

async fn gone(numbers: &std::path::Path) {
    let numbers = std::fs::read_to_string(numbers).expect("the numbers are written");
    let alive = |number: &&str| {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat"));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    };
    let all_gone = async {
        while numbers.split_whitespace().any(|number| alive(&number)) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(all_gone).await;
}

#[tokio::test]
async fn a_process_ends_with_its_client_and_takes_its_family_along() {
    let folder = tempfile::TempDir::new().unwrap();
    let numbers = folder.path().join("numbers");
    let client = soon(Client::connect(stubborn(&numbers))).await.unwrap();
    assert_eq!(text(&client, "echo", json!({ "text": "x" })).await, "x");
    drop(client);
    gone(&numbers).await;
    let upstream = Upstream::new(stubborn(&numbers).route());
    soon(upstream.ready()).await.unwrap();
    soon(upstream.close()).await;
    gone(&numbers).await;
}

/// The part of a client that is killed. It does its work only when the test below starts it.
#[tokio::test]
async fn a_client_that_will_be_killed() {
    let Some(numbers) = std::env::var_os("UPSTREAM_TEST_NUMBERS") else {
        return;
    };
    let client = Client::connect(stubborn(numbers.as_ref())).await.unwrap();
    text(&client, "echo", json!({ "text": "x" })).await;
    std::fs::write(std::path::Path::new(&numbers).with_extension("ready"), "").unwrap();
    let () = std::future::pending().await;
}

#[tokio::test]
async fn a_process_ends_even_if_its_client_is_killed() {
    let folder = tempfile::TempDir::new().unwrap();
    let numbers = folder.path().join("numbers");
    let mut client = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process::a_client_that_will_be_killed"])
        .env("UPSTREAM_TEST_NUMBERS", &numbers)
        .stdout(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let ready = async {
        while !numbers.with_extension("ready").exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(ready).await;
    client.kill().await.unwrap();
    gone(&numbers).await;
}

#[tokio::test]
async fn nobody_waits_for_a_server_that_is_not_there_for_ever() {
    let folder = tempfile::TempDir::new().unwrap();
    let error = soon(Client::connect(socket(folder.path().join("none")))).await;
    let error = error.unwrap_err();
    assert_eq!(error.fault(), Fault::Transport);
    assert!(error.is_retriable(), "{error}");
}
