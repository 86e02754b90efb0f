//! `shell_bg`, `jobs`, `job_output`, `job_input`, `job_stop`

use std::{fs, os::unix::fs::MetadataExt as _};

use lmcp_core::client::Event;
use serde_json::{Value, json};

use crate::support::{Host, settings, start, text};

async fn job(host: &Host, command: &str) -> String {
    let started = host.value("shell_bg", json!({ "command": command })).await;
    started["id"].as_str().unwrap().to_owned()
}

async fn ended(host: &Host, id: &str) -> Value {
    host.value("job_output", json!({"id": id, "wait_exit": true}))
        .await
}

#[tokio::test]
async fn output_and_exit_code_are_there_after_the_end() {
    let host = Host::new();
    let id = job(&host, "echo one; echo two >&2; exit 4").await;
    let output = ended(&host, &id).await;
    assert_eq!(output["state"], "exited");
    assert_eq!(output["exit_code"], 4);
    assert_eq!(output["output"], "one\ntwo\n");
    let jobs = host.value("jobs", json!({})).await;
    assert_eq!(jobs["jobs"][0]["id"], *id);
    assert_eq!(jobs["jobs"][0]["exit_code"], 4);
}

#[tokio::test]
async fn pages_put_together_are_the_whole_output() {
    let host = Host::new();
    let id = job(&host, "seq 1 2000; printf 'h\\303\\251llo %.0s' $(seq 300)").await;
    ended(&host, &id).await;
    let (mut whole, mut offset) = (String::new(), 0);
    loop {
        let args = json!({"id": id, "offset": offset, "limit": 1000});
        let page = host.value("job_output", args).await;
        whole.push_str(page["output"].as_str().unwrap());
        let next = page["next_offset"].as_u64().unwrap();
        if next == page["total_bytes"] {
            break;
        }
        assert!(next > offset);
        offset = next;
    }
    let mut wanted: String = (1..=2000).map(|n| format!("{n}\n")).collect();
    wanted.push_str(&"héllo ".repeat(300));
    assert_eq!(whole, wanted);
}

#[tokio::test]
async fn a_pattern_is_waited_for() {
    let host = Host::new();
    let id = job(&host, "echo starting; read line; echo got $line; sleep 60").await;
    let args = json!({"id": id, "wait_for": "^start.*"});
    let output = host.value("job_output", args).await;
    assert_eq!(output["matched"], "starting");
    host.value("job_input", json!({"id": id, "text": "tea\n"}))
        .await;
    let args = json!({"id": id, "wait_for": "got \\w+"});
    let output = host.value("job_output", args).await;
    assert_eq!(output["matched"], "got tea");
    assert_eq!(output["state"], "running");
    let stopped = host.value("job_stop", json!({ "id": id })).await;
    assert_eq!(stopped["job"]["state"], "killed");
    assert_eq!(stopped["job"]["signal"], "SIGTERM");
}

#[tokio::test]
async fn the_next_server_finds_the_jobs_of_the_last() {
    let host = Host::new();
    let runs = job(&host, "echo before; read line; echo after; exit 5").await;
    let over = job(&host, "echo done").await;
    ended(&host, &over).await;
    let next = Host {
        server: start(settings(host.state.path())),
        state: tempfile::tempdir().unwrap(),
    };
    drop(host.server);
    assert_eq!(ended(&next, &over).await["exit_code"], 0);
    next.value("job_input", json!({"id": runs, "text": "x\n"}))
        .await;
    let output = ended(&next, &runs).await;
    assert_eq!(output["exit_code"], 5);
    assert_eq!(output["output"], "before\nafter\n");
}

#[tokio::test]
async fn what_is_kept_of_a_job_is_for_its_owner_alone() {
    let host = Host::new();
    let runs = job(&host, "cat").await;
    let folder = host.state.path().join("jobs").join(&runs);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().mode() & 0o077;
        assert_eq!(mode, 0, "{entry:?}");
        names.push(entry.file_name().into_string().unwrap());
    }
    for name in ["guard", "kept"] {
        assert!(names.iter().any(|found| found == name), "{names:?}");
    }
}

#[tokio::test]
async fn lines_are_searched_for() {
    let host = Host::new();
    let id = job(&host, "seq 1 5000").await;
    ended(&host, &id).await;
    let found = host
        .value("job_output", json!({"id": id, "search": "^49(99|00)$"}))
        .await;
    let lines: Vec<_> = found["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| &found["line"])
        .collect();
    assert_eq!(lines, ["4900", "4999"]);
}

#[tokio::test]
async fn a_terminal_has_a_size_and_takes_keys() {
    let host = Host::new();
    // A shell that waits for `cat` may end by the signal as well, or with 130.
    let args = json!({"command": "stty size; exec cat", "tty": true, "rows": 30, "cols": 100});
    let id = host.value("shell_bg", args).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let args = json!({"id": id, "wait_for": "30 100"});
    assert_eq!(host.value("job_output", args).await["matched"], "30 100");
    // Once as typed and once by `cat`: now it is the one that gets the key.
    host.value(
        "job_input",
        json!({"id": id, "text": "tea", "keys": ["enter"]}),
    )
    .await;
    let args = json!({"id": id, "wait_for": "tea\\s+tea"});
    host.value("job_output", args).await;
    host.value("job_input", json!({"id": id, "keys": ["ctrl-c"]}))
        .await;
    let end = ended(&host, &id).await;
    assert_eq!(end["signal"], "SIGINT", "{end}");
}

#[tokio::test]
async fn an_unknown_job_is_an_error() {
    let host = Host::new();
    for id in ["nobody", "../..", ""] {
        let result = host.call("job_output", json!({ "id": id })).await;
        assert!(result.is_error, "{id}");
        assert!(
            text(&result).contains("there is no job"),
            "{}",
            text(&result)
        );
    }
}

#[tokio::test]
async fn a_command_that_takes_long_becomes_a_job() {
    let host = Host::new();
    let args = json!({"command": "echo first; sleep 1; echo last", "yield_after": 0.2});
    let ran = host.value("shell", args).await;
    let id = ran["job"].as_str().unwrap();
    let output = ended(&host, id).await;
    assert_eq!(output["output"], "first\nlast\n");
    assert_eq!(output["exit_code"], 0);
}

#[tokio::test]
async fn a_pattern_may_span_what_came_at_different_times() {
    let host = Host::new();
    let id = job(&host, "echo one; read line; echo two; sleep 60").await;
    host.value("job_output", json!({"id": id, "wait_for": "one"}))
        .await;
    let waiting = json!({"id": id, "offset": 0, "wait_for": "one\\s+two"});
    let (client, ready) = (host.client(), host.client());
    let wait = client.call_tool("job_output", waiting);
    let feed = ready.call_tool("job_input", json!({"id": id, "text": "x\n"}));
    let (waited, _) = tokio::join!(wait, feed);
    assert_eq!(
        waited.unwrap().structured_content.unwrap()["matched"],
        "one\ntwo"
    );
    host.value("job_stop", json!({ "id": id })).await;
}

#[tokio::test]
async fn an_id_is_no_process_number() {
    let host = Host::new();
    let started = host.value("shell_bg", json!({"command": "true"})).await;
    let (id, pid) = (started["id"].as_str().unwrap(), started["pid"].to_string());
    assert!(id.len() >= 16 && id.parse::<u64>().is_err(), "{id}");
    let by_pid = host.call("job_output", json!({ "id": pid })).await;
    assert!(by_pid.is_error);
}

#[tokio::test]
async fn what_looks_like_a_prompt_ends_no_wait() {
    let host = Host::new();
    let id = job(
        &host,
        "printf '$ '; printf '> '; printf '# '; read line; echo really",
    )
    .await;
    let args = json!({"id": id, "wait_for": "# $"});
    host.value("job_output", args).await;
    let waiting = json!({"id": id, "wait_for": "really", "wait": 20});
    let (client, ready) = (host.client(), host.client());
    let wait = client.call_tool("job_output", waiting);
    let feed = ready.call_tool("job_input", json!({"id": id, "text": "x\n"}));
    let (waited, fed) = tokio::join!(wait, feed);
    assert!(!fed.unwrap().is_error);
    assert_eq!(
        waited.unwrap().structured_content.unwrap()["matched"],
        "really"
    );
}

#[tokio::test]
async fn a_guard_listens_to_nobody_who_does_not_know_its_key() {
    let host = Host::new();
    let id = job(&host, "sleep 300").await;
    let socket = host.state.path().join("jobs").join(&id).join("guard");
    for words in [
        "{\"stop\":{\"grace_ms\":0}}\n",
        "{\"hello\":{\"key\":\"\"}}\n{\"stop\":{\"grace_ms\":0}}\n",
    ] {
        let mut stranger = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        std::io::Write::write_all(&mut stranger, words.as_bytes()).unwrap();
        let mut answer = Vec::new();
        std::io::Read::read_to_end(&mut stranger, &mut answer).unwrap();
        assert!(answer.is_empty());
    }
    let jobs = host.value("jobs", json!({})).await;
    assert_eq!(jobs["jobs"][0]["state"], "running");
    host.value("job_stop", json!({ "id": id })).await;
}

#[tokio::test]
async fn of_a_long_end_the_end_is_shown() {
    let host = Host::new();
    let id = job(&host, "seq 1 100000").await;
    ended(&host, &id).await;
    let page = host
        .value("job_output", json!({"id": id, "tail": 500_000}))
        .await;
    assert!(
        page["output"]
            .as_str()
            .unwrap()
            .ends_with("99999\n100000\n")
    );
    assert_eq!(page["next_offset"], page["total_bytes"]);
}

#[tokio::test]
async fn a_running_job_is_not_started_a_second_time() {
    let host = Host::new();
    let id = job(&host, "trap '' USR1; echo ready; sleep 300").await;
    host.value("job_output", json!({"id": id, "wait_for": "ready"}))
        .await;
    let args = json!({"id": id, "signal": "USR1", "restart": true});
    let refused = host.call("job_stop", args).await;
    assert!(
        refused.is_error && text(&refused).contains("still runs"),
        "{}",
        text(&refused)
    );
    host.value("job_stop", json!({ "id": id })).await;
}

/// Callers that wait for a job's end, each of whom has heard of it.
async fn crowd(host: &Host, id: &str, count: usize) -> tokio::task::JoinSet<Value> {
    let mut crowd = tokio::task::JoinSet::new();
    let (heard, mut hears) = tokio::sync::mpsc::channel(count);
    for _ in 0..count {
        let args = json!({"id": id, "wait_exit": true, "wait": 60});
        let params =
            json!({"name": "job_output", "arguments": args, "_meta": {"progressToken": "t"}});
        let mut waiting = host.client().start("tools/call", params);
        let heard = heard.clone();
        crowd.spawn(async move {
            loop {
                match waiting.next().await.unwrap() {
                    Event::Progress(_) => drop(heard.try_send(())),
                    Event::Done(result) => return result.unwrap(),
                    _ => {}
                }
            }
        });
    }
    for _ in 0..count {
        let soon = tokio::time::timeout(std::time::Duration::from_secs(20), hears.recv());
        soon.await.unwrap().unwrap();
    }
    crowd
}

#[tokio::test]
async fn a_job_is_driven_and_stopped_however_many_wait_for_it() {
    let host = Host::new();
    let id = job(
        &host,
        "trap 'echo usr1' USR1; echo up; while read x; do echo $x; done",
    )
    .await;
    let crowd = crowd(&host, &id, 40).await;
    let sent = host
        .call("job_input", json!({"id": id, "text": "tea\n"}))
        .await;
    assert!(!sent.is_error, "{}", text(&sent));
    let signalled = host
        .call("job_stop", json!({"id": id, "signal": "USR1"}))
        .await;
    assert!(!signalled.is_error, "{}", text(&signalled));
    let wait = json!({"id": id, "wait_for": "(?s)tea.*usr1|usr1.*tea"});
    let output = host.value("job_output", wait).await;
    assert!(output["matched"].is_string(), "{output}");
    let stopped = host
        .value("job_stop", json!({"id": id, "signal": "KILL"}))
        .await;
    assert_eq!(stopped["job"]["state"], "killed");
    for waited in crowd.join_all().await {
        assert_eq!(waited["structuredContent"]["state"], "killed", "{waited}");
    }
}

#[tokio::test]
async fn what_was_not_done_to_a_job_is_an_error() {
    let host = Host::new();
    let id = job(&host, "echo up; sleep 300").await;
    host.value("job_output", json!({"id": id, "wait_for": "up"}))
        .await;
    // In the place of its guard there is somebody now who hangs up, and the job runs.
    let socket = host.state.path().join("jobs").join(&id).join("guard");
    let aside = host.state.path().join("aside");
    fs::rename(&socket, &aside).unwrap();
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let mut hanging_up = tokio::task::JoinSet::new();
    hanging_up.spawn(async move {
        while let Ok((peer, _)) = listener.accept().await {
            drop(peer);
        }
    });
    for (tool, args) in [
        ("job_stop", json!({ "id": id })),
        ("job_stop", json!({"id": id, "signal": "KILL"})),
        ("job_stop", json!({"id": id, "signal": "USR1"})),
        ("job_input", json!({"id": id, "text": "x"})),
    ] {
        let result = host.call(tool, args).await;
        assert!(result.is_error, "{}", text(&result));
    }
    hanging_up.shutdown().await;
    fs::rename(&aside, &socket).unwrap();
    host.value("job_stop", json!({ "id": id })).await;
}

// A long text was copied before it was sent, and neither the copy nor its lines were counted.
#[tokio::test]
async fn a_long_text_is_typed_only_where_there_is_memory_for_it() {
    let host = Host::new();
    let id = job(&host, "cat >/dev/null").await;
    let budget = host.server.budget();
    let others = budget.account("others").take(budget.total() / 4 * 3);
    // The text itself fits beside what others hold.
    let typed = json!({ "id": id, "text": "x".repeat(5_400_000) });
    let refused = host.client().call_tool("job_input", typed.clone()).await;
    let data = refused.unwrap_err().into_rpc().data.unwrap();
    assert_eq!(
        (&data["limit"], &data["retriable"]),
        (&json!("memory_bytes"), &json!(true))
    );
    drop(others);
    let sent = host.value("job_input", typed).await;
    assert_eq!(sent["bytes"], 5_400_000, "{sent}");
    host.value("job_stop", json!({ "id": id })).await;
}

#[tokio::test]
async fn a_long_command_is_started_again_only_where_there_is_memory_for_it() {
    let host = Host::new();
    let id = job(&host, &format!("true # {}", "x".repeat(4_000_000))).await;
    ended(&host, &id).await;
    let again = json!({ "id": id, "restart": true });
    let budget = host.server.budget();
    let others = budget.account("others").take(budget.total() / 4 * 3);
    let refused = host.client().call_tool("job_stop", again.clone()).await;
    let data = refused.unwrap_err().into_rpc().data.unwrap();
    assert_eq!(
        (&data["limit"], &data["retriable"]),
        (&json!("memory_bytes"), &json!(true))
    );
    drop(others);
    let restarted = host.value("job_stop", again).await;
    assert!(restarted["restarted_as"].is_string(), "{restarted}");
}

// Neither the output that is read nor the answer that is made of it was counted before it was there.
#[tokio::test]
async fn the_output_of_a_job_is_read_only_where_there_is_memory_for_its_answer() {
    let host = Host::new();
    let budget = host.server.budget();
    for (sign, shown) in [("\\001", "\u{1}"), ("\\377", "\u{fffd}"), ("x", "x")] {
        let command = format!("head -c 1000000 /dev/zero | tr '\\0' '{sign}'");
        let id = job(&host, &command).await;
        ended(&host, &id).await;
        let read = || async {
            let uri = json!({ "uri": format!("job://{id}/output") });
            host.client().request("resources/read", uri).await
        };
        // The output itself fits beside what others hold.
        let others = budget
            .account("others")
            .take(budget.total() / 8 * 7 - 1_600_000);
        let refused = read().await.unwrap_err().into_rpc().data.unwrap();
        assert_eq!(
            (&refused["limit"], &refused["retriable"]),
            (&json!("memory_bytes"), &json!(true)),
            "{shown:?}"
        );
        drop(others);
        let whole = read().await.unwrap()["contents"][0]["text"].take();
        assert!(whole == shown.repeat(1_000_000), "{shown:?}");
        assert_eq!(budget.used(), 0, "everything was given back");
    }
}
