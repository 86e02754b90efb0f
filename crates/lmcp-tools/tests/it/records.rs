//! What is left of commands on disk: little, never their input, and cheap to list.

use std::{fs, io::Write as _, path::Path};

use serde_json::json;

use crate::support::{Host, settings, start, text};

/// Every file below a folder, with its path.
fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.is_file() {
            found.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    found
}

#[tokio::test]
async fn stdin_is_never_recorded() {
    let host = Host::new();
    let stdin = "a secret line of input\n".repeat(100_000);
    // One whose output is kept because it is long, and one that is handed over as a job.
    let long = json!({"command": "wc -c; seq 1 100000", "stdin": stdin});
    let ran = host.value("shell", long).await;
    assert!(
        ran["stdout"].as_str().unwrap().starts_with("2300000\n"),
        "{ran}"
    );
    let job = json!({"command": "sleep 300; cat >/dev/null", "stdin": stdin, "yield_after": 0.1});
    let ran = host.value("shell", job).await;
    for (path, bytes) in files(host.state.path()) {
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("a secret line of input"), "{path}");
        assert!(!path.ends_with("job.json") || bytes.len() < 1024, "{path}");
    }
    host.value("job_stop", json!({"id": ran["job"]})).await;
}

#[tokio::test]
async fn a_job_that_was_given_input_is_not_started_again_without_it() {
    let host = Host::new();
    let args = json!({"command": "cat; sleep 300", "stdin": "tea", "yield_after": 0.1});
    let id = host.value("shell", args).await["job"].clone();
    let refused = host
        .call("job_stop", json!({"id": id, "restart": true}))
        .await;
    assert!(
        refused.is_error && text(&refused).contains("input"),
        "{}",
        text(&refused)
    );
    let jobs = host.value("jobs", json!({})).await;
    assert_eq!(jobs["jobs"][0]["state"], "running");
    host.value("job_stop", json!({ "id": id })).await;
}

#[tokio::test]
async fn a_long_command_has_a_short_record_and_can_be_started_again() {
    let host = Host::new();
    let command = format!("echo {}; echo end", "x".repeat(100_000));
    let started = host.value("shell_bg", json!({ "command": command })).await;
    let id = started["id"].as_str().unwrap();
    let wait = json!({"id": id, "wait_exit": true});
    host.value("job_output", wait).await;
    let record = host.state.path().join("jobs").join(id).join("job.json");
    assert!(fs::metadata(record).unwrap().len() < 1024);
    let jobs = host.value("jobs", json!({})).await;
    let shown = jobs["jobs"][0]["command"].as_str().unwrap();
    assert!(
        shown.starts_with("echo xxx") && shown.len() < 400,
        "{shown}"
    );
    let again = host
        .value("job_stop", json!({"id": id, "restart": true}))
        .await;
    let wait = json!({"id": again["restarted_as"], "wait_exit": true, "tail": 10});
    let output = host.value("job_output", wait).await;
    assert!(output["output"].as_str().unwrap().ends_with("end\n"));
}

#[tokio::test]
async fn a_forged_record_costs_nothing_and_hides_no_other() {
    let host = Host::new();
    let started = host.value("shell_bg", json!({"command": "true"})).await;
    let id = started["id"].as_str().unwrap();
    host.value("job_output", json!({"id": id, "wait_exit": true}))
        .await;
    let jobs = host.state.path().join("jobs");
    let forged = jobs.join("aaaaaaaaaaaaaaaa");
    fs::create_dir(&forged).unwrap();
    fs::write(forged.join("kept"), "1").unwrap();
    fs::write(forged.join("output"), "").unwrap();
    // A file without an end, as far as anybody who reads all of it is concerned.
    let mut record = fs::File::create(forged.join("job.json")).unwrap();
    record.write_all(b"{\"owner\":\"").unwrap();
    record.set_len(1 << 40).unwrap();
    let listed = host.value("jobs", json!({})).await;
    let ids: Vec<_> = listed["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| &job["id"])
        .collect();
    assert_eq!(ids, [id]);
    let next = start(settings(host.state.path()));
    let listed = next.client().call_tool("jobs", json!({})).await.unwrap();
    assert!(text(&listed).contains(id), "{}", text(&listed));
}

#[tokio::test]
async fn a_pipe_in_the_place_of_output_holds_nobody_up() {
    let host = Host::new();
    let started = host.value("shell_bg", json!({"command": "true"})).await;
    let id = started["id"].as_str().unwrap();
    host.value("job_output", json!({"id": id, "wait_exit": true}))
        .await;
    let output = host.state.path().join("jobs").join(id).join("output");
    fs::remove_file(&output).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&output).status();
    assert!(made.unwrap().success());
    let listed = host.value("jobs", json!({"all": true})).await;
    assert_eq!(listed["jobs"][0]["id"], id);
    host.call("job_output", json!({"id": id})).await;
    let next = start(settings(host.state.path()));
    let client = next.client();
    let listed = client.call_tool("jobs", json!({"all": true}));
    let listed = listed.await.unwrap();
    assert!(text(&listed).contains(id), "{}", text(&listed));
}

/// What the first release wrote: one file with everything.
#[tokio::test]
async fn a_record_of_an_earlier_server_is_still_listed() {
    let host = Host::new();
    let dir = host.state.path().join("jobs/bbbbbbbbbbbbbbbb");
    fs::create_dir_all(&dir).unwrap();
    let order = json!({
        "dir": dir, "argv": ["/bin/bash", "-c", "true"], "env": {}, "cwd": "/", "stdin": "open", "tty": null,
        "timeout_ms": null, "grace_ms": 2000, "keep": true, "passing": false, "spool_bytes": 1, "fence": null,
        "key": "k", "log": false,
    });
    let about = json!({
        "owner": "", "command": "true", "is_line": true, "started": 1_700_000_000, "order": order, "log": null,
    });
    fs::write(dir.join("job.json"), about.to_string()).unwrap();
    fs::write(dir.join("kept"), "1").unwrap();
    fs::write(dir.join("output"), "old\n").unwrap();
    fs::write(dir.join("marks"), "").unwrap();
    let listed = host.value("jobs", json!({})).await;
    assert_eq!(listed["jobs"][0]["id"], "bbbbbbbbbbbbbbbb");
    assert_eq!(listed["jobs"][0]["command"], "true");
}
