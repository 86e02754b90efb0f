//! A call that nobody waits for leaves nothing behind.

use lmcp_testkit::soon;
use serde_json::json;

use crate::support::{Far, all};

/// Starts a command that says when it runs, in a file that its test waits at.
async fn running(far: &Far, extra: &str) {
    let gate = far.path("gate");
    far.value("shell", json!({ "argv": ["mkfifo", gate] }))
        .await;
    let command = format!("{extra} sleep 1000 & echo up > '{gate}'; sleep 1001");
    let client = far.client.clone();
    let call = tokio::spawn(async move {
        client
            .call_tool("shell", json!({ "command": command }))
            .await
    });
    let up = far
        .value("shell", json!({ "command": format!("cat '{gate}'") }))
        .await;
    assert_eq!(up["stdout"], "up\n");
    assert!(!far.processes().is_empty());
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn a_cancelled_call_leaves_no_process() {
    for far in all() {
        running(&far, "").await;
        soon(far.nothing_left()).await;
    }
}

#[tokio::test]
async fn what_left_the_session_of_its_command_ends_too() {
    let far = Far::sh();
    running(&far, "setsid").await;
    soon(far.nothing_left()).await;
}

#[tokio::test]
async fn a_lost_hub_leaves_no_process_of_its_calls() {
    let far = Far::sh();
    let gate = far.path("gate");
    far.value("shell", json!({ "argv": ["mkfifo", gate] }))
        .await;
    let command = format!("echo up > '{gate}'; sleep 1000");
    let client = far.client.clone();
    let call = tokio::spawn(async move {
        client
            .call_tool("shell", json!({ "command": command }))
            .await
    });
    far.value("shell", json!({ "command": format!("cat '{gate}'") }))
        .await;
    call.abort();
    let home = far.leave();
    let again = Far::sh_at(home);
    soon(again.nothing_left()).await;
}
