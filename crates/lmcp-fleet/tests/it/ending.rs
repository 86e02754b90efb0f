//! A call that nobody waits for leaves no process behind.

use lmcp_testkit::soon;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Far, all};

/// Returns a command that writes to a FIFO when it runs, and the path of the FIFO.
async fn gated(far: &Far, extra: &str) -> (String, Value) {
    let gate = far.path("gate");
    far.value("shell", json!({ "argv": ["mkfifo", gate] }))
        .await;
    let command = format!("{extra} sleep 1000 & echo up > '{gate}'; sleep 1001");
    (gate, json!({ "command": command }))
}

/// Waits until the command runs.
async fn running(far: &Far, gate: &str) {
    let up = far
        .value("shell", json!({ "command": format!("cat '{gate}'") }))
        .await;
    assert_eq!(up["stdout"], "up\n");
    assert!(!far.processes().is_empty());
}

/// Calls `shell` with a command, and cancels the call when the command runs.
async fn cancelled(far: &Far, extra: &str) {
    let (gate, args) = gated(far, extra).await;
    tokio::select! {
        ended = far.client.call_tool("shell", args) => panic!("{ended:?}"),
        () = running(far, &gate) => {}
    }
}

#[tokio::test]
async fn a_cancelled_call_leaves_no_process() {
    for far in all() {
        cancelled(&far, "").await;
        soon(far.nothing_left()).await;
    }
}

#[tokio::test]
async fn what_left_the_session_of_its_command_ends_too() {
    let far = Far::sh();
    cancelled(&far, "setsid").await;
    soon(far.nothing_left()).await;
}

#[tokio::test]
async fn a_lost_hub_leaves_no_process_of_its_calls() {
    let far = Far::sh();
    cancelled(&far, "").await;
    let again = Far::sh_at(far.leave());
    soon(again.nothing_left()).await;
}

#[tokio::test]
async fn a_lost_link_ends_the_call_on_both_sides() {
    let far = Far::behind_relay();
    let (gate, args) = gated(&far, "").await;
    let cut = async {
        running(&far, &gate).await;
        for relay in far.relays() {
            kill_process(relay, Signal::KILL).unwrap();
        }
    };
    let (result, ()) = soon(async { tokio::join!(far.client.call_tool("shell", args), cut) }).await;
    let lost = result.unwrap_err();
    assert!(lost.message.contains("the connection was lost"), "{lost}");
    assert_eq!(lost.data.as_ref().unwrap()["began"], true);
    soon(far.nothing_left()).await;
    let after = far.value("shell", json!({ "command": "echo back" })).await;
    assert_eq!(after["stdout"], "back\n");
}

/// Lets go of what such a host holds open.
fn let_go(far: &Far) {
    std::fs::write(far.path("hold"), "").unwrap();
}

#[tokio::test]
async fn a_command_that_has_ended_is_answered_though_its_host_reads_no_more() {
    let far = Far::deaf_after("far_run");
    let ran = far
        .value("shell", json!({ "command": "echo done; exit 3" }))
        .await;
    assert_eq!(
        (&ran["stdout"], &ran["exit_code"]),
        (&json!("done\n"), &json!(3))
    );
    let_go(&far);
    soon(far.nothing_left()).await;
}

#[tokio::test]
async fn a_command_that_becomes_a_job_is_named_though_its_host_reads_no_more() {
    let far = Far::deaf_after("far_keep");
    let command = json!({ "command": "echo up; sleep 1000", "yield_after": 0.5 });
    let ran = far.value("shell", command).await;
    assert_eq!(ran["stdout"], "up\n");
    assert!(ran["job"].is_string(), "{ran}");
    let_go(&far);
}
