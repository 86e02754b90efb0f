//! Jobs on a terminal: what it shows, and whether somebody is to type.

use serde_json::{Value, json};

use crate::support::{Host, text};

async fn on_terminal(host: &Host, command: &str) -> String {
    let args = json!({"command": command, "tty": true, "rows": 10, "cols": 40});
    let started = host.value("shell_bg", args).await;
    started["id"].as_str().unwrap().to_owned()
}

/// Reads the job until it says this of its input. A process that has written its prompt is about to read, and that is seen
/// a moment later.
async fn until_it_waits(host: &Host, id: &str, wanted: &[&str]) -> Value {
    loop {
        let output = host.value("job_output", json!({ "id": id })).await;
        let waits = output["waits_for_input"].as_str().unwrap_or_default();
        if wanted.contains(&waits) {
            return output;
        }
        assert_eq!(output["state"], "running", "{output}");
    }
}

#[tokio::test]
async fn a_screen_is_shown_as_its_terminal_shows_it_and_the_stream_stays() {
    let host = Host::new();
    let draw = "printf 'one\\ntwo\\033[1;1H\\033[32mfirst\\033[0m\\033[5;3Hfive'; sleep 300";
    let id = on_terminal(&host, draw).await;
    let new = host
        .value("job_output", json!({"id": id, "wait_for": "five"}))
        .await;
    assert_eq!(new["matched"], "five");
    let shown = host.call("job_output", json!({ "id": id })).await;
    let words = "screen of 10 rows and 40 columns, cursor in row 5, column 7";
    assert!(text(&shown).contains(words), "{}", text(&shown));
    let shown = shown.structured_content.unwrap();
    assert_eq!(shown["output"], "first\ntwo\n\n\n  five");
    assert_eq!(shown["next_offset"], shown["total_bytes"]);
    let args = json!({"id": id, "offset": 0, "view": "raw"});
    let raw = host.value("job_output", args).await;
    let raw = raw["output"].as_str().unwrap();
    assert!(raw.starts_with("one\r\ntwo\u{1b}[1;1H"), "{raw:?}");
    // A larger terminal, once it is one.
    host.value("job_input", json!({"id": id, "rows": 20, "cols": 60}))
        .await;
    let shown = host
        .call("job_output", json!({"id": id, "view": "screen"}))
        .await;
    assert!(
        text(&shown).contains("20 rows and 60 columns"),
        "{}",
        text(&shown)
    );
    host.value("job_stop", json!({ "id": id })).await;
}

#[tokio::test]
async fn without_a_terminal_there_is_no_screen() {
    let host = Host::new();
    let started = host
        .value("shell_bg", json!({"command": "echo plain"}))
        .await;
    let args = json!({"id": started["id"], "view": "screen"});
    let refused = host.call("job_output", args).await;
    assert!(
        refused.is_error && text(&refused).contains("no terminal"),
        "{}",
        text(&refused)
    );
}

#[tokio::test]
async fn a_job_that_reads_its_terminal_is_told_to_wait_for_input() {
    let host = Host::new();
    let id = on_terminal(
        &host,
        "printf 'name? '; read name; echo \"hello $name\"; sleep 300",
    )
    .await;
    until_it_waits(&host, &id, &["yes"]).await;
    let listed = host.call("jobs", json!({})).await;
    assert!(
        text(&listed).contains("running, waits for input"),
        "{}",
        text(&listed)
    );
    let args = json!({"id": id, "text": "Ann\n", "wait_for": "hello Ann"});
    let sent = host.value("job_input", args).await;
    assert_eq!(sent["reaction"]["matched"], "hello Ann");
    // Now it sleeps, and wants nothing.
    let output = host.value("job_output", json!({ "id": id })).await;
    assert!(output.get("waits_for_input").is_none(), "{output}");
    assert_eq!(output["output"], "name? Ann\nhello Ann");
    host.value("job_stop", json!({ "id": id })).await;
}

#[tokio::test]
async fn a_prompt_that_takes_keys_may_be_waiting() {
    let host = Host::new();
    let id = on_terminal(&host, "PS1='ready> ' bash --norc --noprofile -i").await;
    until_it_waits(&host, &id, &["yes", "maybe"]).await;
    let args = json!({"id": id, "text": "echo $((20 + 3))", "keys": ["enter"], "wait_for": "^23"});
    let sent = host.value("job_input", args).await;
    assert_eq!(sent["reaction"]["matched"], "23");
    let args = json!({"id": id, "text": "exit 4", "keys": ["enter"]});
    host.value("job_input", args).await;
    let ended = host
        .value("job_output", json!({"id": id, "wait_exit": true}))
        .await;
    assert_eq!(ended["exit_code"], 4);
}
