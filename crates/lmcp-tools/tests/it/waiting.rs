//! Waiting for what a job writes, and typing into it.

use serde_json::{Value, json};

use crate::support::{Host, text};

async fn job(host: &Host, command: &str) -> String {
    let started = host.value("shell_bg", json!({ "command": command })).await;
    started["id"].as_str().unwrap().to_owned()
}

async fn wait_for(host: &Host, id: &str, pattern: &str) -> Value {
    let args = json!({"id": id, "wait_for": pattern});
    host.value("job_output", args).await
}

#[tokio::test]
async fn a_wait_looks_only_at_what_is_new_and_says_when_it_is_over() {
    let host = Host::new();
    let id = job(&host, "echo ready; read line; echo ready again; read line").await;
    let output = wait_for(&host, &id, "ready").await;
    assert_eq!(
        (&output["matched"], &output["waited"]),
        (&json!("ready"), &json!("matched"))
    );
    let args = json!({"id": id, "wait_for": "ready", "wait": 0.2});
    let late = host.call("job_output", args).await;
    let said = text(&late);
    assert!(
        said.starts_with("running; the wait of 0.2 s is over and nothing new matched"),
        "{said}"
    );
    let output = late.structured_content.unwrap();
    assert_eq!(
        (&output["waited"], &output["output"]),
        (&json!("expired"), &json!(""))
    );
    assert!(output.get("matched").is_none(), "{output}");
    // From an offset that is given, old output counts.
    let args = json!({"id": id, "wait_for": "ready", "offset": 0});
    assert_eq!(host.value("job_output", args).await["matched"], "ready");
    host.value("job_input", json!({"id": id, "text": "x\n"}))
        .await;
    let output = wait_for(&host, &id, "ready").await;
    assert_eq!(
        (&output["waited"], &output["output"]),
        (&json!("matched"), &json!("ready again\n"))
    );
    host.value("job_input", json!({"id": id, "text": "x\n"}))
        .await;
    let over = host
        .call("job_output", json!({"id": id, "wait_for": "never"}))
        .await;
    assert!(
        text(&over).starts_with("exit code 0; it ended before anything matched"),
        "{}",
        text(&over)
    );
    assert_eq!(over.structured_content.unwrap()["waited"], "ended");
}

#[tokio::test]
async fn a_line_that_had_begun_is_looked_at_whole() {
    let host = Host::new();
    let id = job(
        &host,
        "echo old; printf 'server rea'; read line; echo dy; read line",
    )
    .await;
    assert_eq!(wait_for(&host, &id, "rea").await["matched"], "rea");
    host.value("job_input", json!({"id": id, "text": "x\n"}))
        .await;
    let output = wait_for(&host, &id, "server ready").await;
    assert_eq!(
        (&output["matched"], &output["output"]),
        (&json!("server ready"), &json!("dy\n"))
    );
    host.value("job_stop", json!({ "id": id })).await;
}

#[tokio::test]
async fn input_comes_back_with_the_reaction_to_it_alone() {
    let host = Host::new();
    let id = job(
        &host,
        "printf '> '; while read line; do echo \"got $line\"; printf '> '; done; echo bye",
    )
    .await;
    wait_for(&host, &id, "> ").await;
    let mut offset = 2;
    for word in ["tea", "coffee"] {
        let args = json!({"id": id, "text": format!("{word}\n"), "wait_for": "> $"});
        let sent = host.call("job_input", args).await;
        let wanted = format!("got {word}\n> ");
        assert!(text(&sent).ends_with(&wanted), "{}", text(&sent));
        let sent = sent.structured_content.unwrap();
        assert_eq!(sent["offset"], offset);
        assert_eq!(sent["reaction"]["output"], wanted);
        assert_eq!(sent["reaction"]["waited"], "matched");
        offset += wanted.len();
        assert_eq!(sent["reaction"]["next_offset"], offset);
    }
    // Without a wait the answer says where the reaction will be.
    let sent = host
        .call("job_input", json!({"id": id, "text": "milk\n"}))
        .await;
    assert!(
        text(&sent).contains(&format!("offset={offset}")),
        "{}",
        text(&sent)
    );
    let args = json!({"id": id, "offset": offset, "wait_for": "> $"});
    let output = host.value("job_output", args).await;
    assert_eq!(output["output"], "got milk\n> ");
    let args = json!({"id": id, "eof": true, "wait_for": "> $"});
    let ended = host.value("job_input", args).await;
    assert_eq!(ended["reaction"]["waited"], "ended");
    assert_eq!(ended["reaction"]["output"], "bye\n");
    assert_eq!(ended["reaction"]["exit_code"], 0);
}

#[tokio::test]
async fn what_is_written_over_is_shown_once_and_recorded_whole() {
    let host = Host::new();
    let command =
        "printf '\\033[32m 10%%\\r 99%%\\r100%%\\033[0m\\ndone\\n'; printf 'a\\r\\nb\\r\\n'";
    let ran = host.shell(command).await;
    assert_eq!(ran["stdout"], "100%\ndone\na\r\nb\r\n");
    let id = job(&host, command).await;
    let args = json!({"id": id, "wait_for": "^100%$"});
    assert_eq!(host.value("job_output", args).await["matched"], "100%");
    let args = json!({"id": id, "wait_exit": true});
    let output = host.value("job_output", args).await;
    assert_eq!(output["output"], "100%\ndone\na\r\nb\r\n");
    let raw = host
        .value("job_output", json!({"id": id, "view": "raw"}))
        .await;
    assert_eq!(
        raw["output"],
        "\u{1b}[32m 10%\r 99%\r100%\u{1b}[0m\ndone\na\r\nb\r\n"
    );
    let found = host
        .value("job_output", json!({"id": id, "search": "^100%$"}))
        .await;
    assert_eq!(found["lines"][0]["line"], "100%");
    // Two megabytes of progress are one line.
    let ran = host
        .shell("for i in $(seq 1 40000); do printf '\\rprogress %040d of 40000' $i; done; echo; echo end")
        .await;
    let stdout = ran["stdout"].as_str().unwrap();
    assert!(
        stdout.starts_with("progress 000") && stdout.ends_with("40000 of 40000\nend\n"),
        "{stdout}"
    );
    assert_eq!(ran["truncated"], false);
}

#[tokio::test]
async fn patterns_are_bounded_and_refused_with_the_reason() {
    let host = Host::new();
    let id = job(&host, "echo ready; sleep 300").await;
    for member in ["wait_for", "search"] {
        let call = |pattern: String| {
            host.call("job_output", json!({"id": id, member: pattern, "wait": 1}))
        };
        let said = text(&call(r"\w".repeat(100_000)).await);
        assert!(
            said.contains("has 200000 bytes, and may have 4096"),
            "{said}"
        );
        let said = text(&call("(".into()).await);
        assert!(said.contains("`(` is not a regular expression"), "{said}");
        let said = text(&call(r"(\w{30}){30}".into()).await);
        assert!(said.contains("is not a regular expression"), "{said}");
        let result = call(r"(\w{2}){2}".into()).await;
        assert!(!result.is_error, "{}", text(&result));
    }
}
