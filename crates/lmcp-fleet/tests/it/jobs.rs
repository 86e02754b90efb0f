//! Jobs on every kind of host: they outlive the connection, read typed input, and end with all processes that they started.

use std::{fs, time::Duration};

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::{Far, all};

async fn start(far: &Far, command: &str) -> String {
    let started = far.value("shell_bg", json!({ "command": command })).await;
    assert_eq!(started["state"], "running");
    assert!(started["pid"].as_i64().unwrap() > 1);
    started["id"].as_str().unwrap().to_owned()
}

async fn output(far: &Far, args: Value) -> Value {
    far.value("job_output", args).await
}

#[tokio::test]
async fn a_job_is_read_by_offset_and_waited_for() {
    for far in all() {
        let id = start(
            &far,
            "echo one; echo two >&2; read line; echo got $line; exit 4",
        )
        .await;
        let first = output(&far, json!({ "id": id, "wait_for": "two" })).await;
        assert_eq!(
            (&first["output"], &first["waited"]),
            (&json!("one\ntwo\n"), &json!("matched")),
            "{}",
            far.name
        );
        let sent = far
            .value(
                "job_input",
                json!({ "id": id, "text": "it's\n", "wait_for": "got" }),
            )
            .await;
        assert_eq!(sent["reaction"]["matched"], "got", "{}: {sent}", far.name);
        assert_eq!(sent["bytes"], 5);
        let rest = output(&far, json!({ "id": id, "offset": 8, "wait_exit": true })).await;
        assert_eq!(
            (&rest["output"], &rest["exit_code"]),
            (&json!("got it's\n"), &json!(4)),
            "{}",
            far.name
        );
        let part = output(&far, json!({ "id": id, "offset": 4, "limit": 3 })).await;
        assert_eq!(
            (&part["output"], &part["next_offset"]),
            (&json!("two"), &json!(7)),
            "{}",
            far.name
        );
        let listed = far.value("jobs", json!({ "all": true })).await;
        assert_eq!(listed["jobs"][0]["id"], json!(id));
        assert_eq!(listed["jobs"][0]["state"], "exited");
        let refused = far
            .error("job_input", json!({ "id": id, "text": "x" }))
            .await;
        assert!(refused.contains("has ended"), "{refused}");
    }
}

#[tokio::test]
async fn the_end_of_input_ends_what_reads_it() {
    for far in all() {
        let id = start(&far, "wc -l").await;
        far.value(
            "job_input",
            json!({ "id": id, "text": "a\nb\n", "eof": true }),
        )
        .await;
        let read = output(&far, json!({ "id": id, "wait_exit": true })).await;
        assert_eq!(read["exit_code"], 0, "{}", far.name);
        assert_eq!(read["output"].as_str().unwrap().trim(), "2", "{}", far.name);
    }
}

#[tokio::test]
async fn input_that_a_job_does_not_read_yet_is_kept_for_it() {
    for far in all() {
        let go = far.home.path().join("go");
        let wait = format!("until [ -e '{}' ]; do sleep 0.05; done", go.display());
        let id = start(&far, &format!("echo up; {wait}; wc -c")).await;
        output(&far, json!({ "id": id, "wait_for": "up" })).await;
        let more_than_a_pipe_holds = "x".repeat(1_000_000);
        let sent = far
            .value(
                "job_input",
                json!({ "id": id, "text": more_than_a_pipe_holds }),
            )
            .await;
        assert_eq!(sent["bytes"], 1_000_000, "{}: {sent}", far.name);
        let refused = far
            .error("job_input", json!({ "id": id, "text": "y" }))
            .await;
        assert!(refused.contains("has not read"), "{}: {refused}", far.name);
        fs::write(go, "").unwrap();
        // The job counts everything, and then waits for more until its input ends.
        while far
            .call("job_input", json!({ "id": id, "eof": true }))
            .await
            .is_error
        {}
        let read = output(&far, json!({ "id": id, "wait_exit": true })).await;
        let counted = read["output"].as_str().unwrap();
        assert!(counted.contains("1000000"), "{}: {counted}", far.name);
    }
}

#[tokio::test]
async fn a_stopped_job_is_gone_with_all_it_started_and_can_be_started_again() {
    for far in all() {
        let id = start(&far, "trap '' TERM; sleep 1000 & echo up; wait").await;
        output(&far, json!({ "id": id, "wait_for": "up" })).await;
        let stopped = far.value("job_stop", json!({ "id": id, "grace": 1 })).await;
        assert_eq!(stopped["job"]["state"], "killed", "{}: {stopped}", far.name);
        assert_eq!(far.processes(), Vec::<String>::new(), "{}", far.name);
        let again = far
            .value("job_stop", json!({ "id": id, "restart": true }))
            .await;
        let new = again["restarted_as"].as_str().unwrap();
        let read = output(&far, json!({ "id": new, "wait_for": "up" })).await;
        assert_eq!(read["state"], "running", "{}", far.name);
        far.value("job_stop", json!({ "id": new, "signal": "KILL" }))
            .await;
        assert_eq!(far.processes(), Vec::<String>::new(), "{}", far.name);
    }
}

#[tokio::test]
async fn signals_reach_a_job_or_are_refused() {
    for far in all() {
        let id = start(&far, "trap 'echo hup' HUP; trap 'echo int; exit 7' INT; echo up; while :; do sleep 0.1; done").await;
        output(&far, json!({ "id": id, "wait_for": "up" })).await;
        far.value("job_stop", json!({ "id": id, "signal": "HUP" }))
            .await;
        output(&far, json!({ "id": id, "wait_for": "hup" })).await;
        let result = far
            .call("job_stop", json!({ "id": id, "signal": "INT" }))
            .await;
        if result.is_error {
            assert!(
                crate::support::text(&result).contains("deaf to INT"),
                "{}",
                far.name
            );
            far.value("job_stop", json!({ "id": id })).await;
        } else {
            let wait = json!({ "id": id, "wait_exit": true });
            let mut read = output(&far, wait.clone()).await;
            // dash loses a signal that arrives while it starts a process.
            while read["state"] == "running" {
                far.value("job_stop", json!({ "id": id, "signal": "INT" }))
                    .await;
                read = output(&far, wait.clone()).await;
            }
            assert_eq!(read["exit_code"], 7, "{}: {read}", far.name);
        }
    }
}

#[tokio::test]
async fn a_job_outlives_the_connection_and_the_hub() {
    let far = Far::sh();
    let id = start(&far, "echo up; read line; echo $line").await;
    output(&far, json!({ "id": id, "wait_for": "up" })).await;
    let far = far.again();
    let listed = far.value("jobs", json!({})).await;
    assert_eq!(
        (&listed["jobs"][0]["id"], &listed["jobs"][0]["state"]),
        (&json!(id), &json!("running"))
    );
    far.value("job_input", json!({ "id": id, "text": "later\n" }))
        .await;
    let read = output(&far, json!({ "id": id, "wait_exit": true })).await;
    assert_eq!(
        (&read["output"], &read["exit_code"]),
        (&json!("up\nlater\n"), &json!(0))
    );
    assert!(
        far.error("job_output", json!({ "id": "nosuchjob" }))
            .await
            .contains("there is no job")
    );
    assert!(
        far.error("job_output", json!({ "id": "../x" }))
            .await
            .contains("there is no job")
    );
}

#[tokio::test]
async fn the_folder_of_jobs_is_for_its_user_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let far = Far::sh();
    start(&far, "true").await;
    let folder = far.home.path().join(".local/state/lmcp/script-jobs");
    let mode = fs::metadata(folder).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700);
}

#[tokio::test]
async fn a_pattern_that_takes_long_holds_up_nobody() {
    let far = Far::sh();
    let mut text = String::new();
    let mut random = 1_u32;
    for letter in 0..1 << 20 {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        text.push(match random & 1 {
            _ if letter % 2000 == 1999 => '\n',
            0 => 'a',
            _ => 'b',
        });
    }
    let file = far.home.path().join("letters");
    fs::write(&file, text).unwrap();
    let id = start(&far, &format!("cat {}", file.display())).await;
    output(&far, json!({ "id": id, "wait_exit": true })).await;
    // For each letter, the search must remember which of the last 150 letters were an `a`.
    let search = json!({ "id": id, "search": "[ab]*a[ab]{150}[cd]" });
    let search = far.client.call_tool("job_output", search);
    // If the search ran on the thread of all callers, it would end before its time limit could be noticed.
    let searched = timeout(Duration::from_secs(3), search).await;
    assert!(searched.is_err(), "{searched:?}");
}
