//! Which commands may run, and who is asked.

use lmcp_core::{Caller, CallerTransport, Client, Limits, Server, streams};
use lmcp_tools::{
    HostTools,
    settings::{Decision, Rule},
};
use lmcp_wire::CallToolResult;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    task::JoinSet,
};

use crate::support::{settings, start, text};

struct Ruled {
    client: Client,
    _state: tempfile::TempDir,
}

fn ruled(rules: Vec<Rule>) -> Ruled {
    let state = tempfile::tempdir().unwrap();
    let mut settings = settings(state.path());
    settings.rules = rules;
    Ruled {
        client: start(settings).client(),
        _state: state,
    }
}

async fn run(client: &Client, command: &str) -> CallToolResult {
    client
        .call_tool("shell", json!({ "command": command }))
        .await
        .unwrap()
}

#[tokio::test]
async fn what_is_denied_does_not_run() {
    let ruled = ruled(vec![Rule::new(Decision::Deny, "touch")]);
    let file = ruled._state.path().join("made");
    for command in [
        format!("touch {}", file.display()),
        format!("true; touch {}", file.display()),
        format!("bash -c 'touch {}'", file.display()),
        format!("true\ntouch {}", file.display()),
    ] {
        let result = run(&ruled.client, &command).await;
        assert!(
            result.is_error && text(&result).contains("forbid"),
            "{}",
            text(&result)
        );
    }
    assert!(!file.exists());
    assert!(!run(&ruled.client, "echo fine").await.is_error);
}

#[tokio::test]
async fn a_person_is_asked_and_decides() {
    let ruled = ruled(vec![Rule::new(Decision::Ask, "echo")]);
    for (answer, runs) in [
        (
            json!({"action": "accept", "content": {"approve": true}}),
            true,
        ),
        (
            json!({"action": "accept", "content": {"approve": false}}),
            false,
        ),
        (json!({"action": "decline"}), false),
        (json!({"action": "cancel"}), false),
    ] {
        let shown = answer.clone();
        let client = ruled.client.clone().answering(move |_, _| answer.clone());
        let result = run(&client, "echo hello").await;
        assert_eq!(!result.is_error, runs, "{shown}: {}", text(&result));
        assert_eq!(text(&result).ends_with("\nhello\n"), runs);
    }
}

#[tokio::test]
async fn where_nobody_can_be_asked_it_does_not_run() {
    let ruled = ruled(vec![Rule::new(Decision::Allow, "ls")]);
    let result = run(&ruled.client, "echo hello").await;
    assert!(result.is_error);
    assert!(text(&result).contains("cannot ask"), "{}", text(&result));
}

#[tokio::test]
async fn a_refusal_says_what_decided() {
    let rules = [
        (Decision::Allow, "echo"),
        (Decision::Ask, "git push"),
        (Decision::Deny, "rm"),
        (Decision::Deny, "git push --force"),
    ];
    let rules = rules.map(|(decision, words)| Rule::new(decision, words));
    let ruled = ruled(rules.to_vec());
    for (command, why) in [
        ("rm x", "(rule: deny `rm`)"),
        ("/bin/rm x", "(rule: deny `rm`)"),
        // A word is no command.
        (
            "echo rm; git push --force",
            "(rule: deny `git push --force`)",
        ),
        ("echo $(rm x)", "(rule: deny `rm`)"),
        ("git push", "(rule: ask `git push`)"),
        ("ls", "(no rule allows it)"),
        ("echo $(ls)", "(it cannot be told which commands it runs)"),
    ] {
        let result = run(&ruled.client, command).await;
        assert!(result.is_error, "{command}");
        let said = text(&result);
        assert!(said.contains(why), "{command}: {said}");
    }
    let args = json!({ "command": "echo", "env": { "A": "b" } });
    let result = ruled.client.call_tool("shell", args).await.unwrap();
    let said = text(&result);
    assert!(
        said.contains("(variables can change what it does)"),
        "{said}"
    );
}

// D4
#[tokio::test]
async fn a_question_that_could_not_be_put_is_no_refusal_of_the_user() {
    let state = tempfile::tempdir().unwrap();
    let mut settings = settings(state.path());
    settings.rules = vec![Rule::new(Decision::Ask, "true")];
    let mut limits = Limits::default();
    limits.questions = 0;
    let server = HostTools::new(settings).unwrap();
    let server = server.add_to(Server::new("host", "0")).limits(limits);
    let server = server.start().unwrap();
    let (near, far) = tokio::io::duplex(64 << 10);
    let (reader, writer) = tokio::io::split(far);
    let connection = streams(reader, writer, Caller::new(CallerTransport::Memory));
    let mut serving = JoinSet::new();
    serving.spawn(async move { server.serve(connection).await });
    let (reader, mut writer) = tokio::io::split(near);
    let mut lines = BufReader::new(reader).lines();
    let hello = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "test", "version": "0" },
    });
    let call = json!({ "name": "shell", "arguments": { "command": "true" } });
    for (id, method, params) in [(1, "initialize", hello), (2, "tools/call", call)] {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let line = format!("{request}\n");
        writer.write_all(line.as_bytes()).await.unwrap();
        let answer = lines.next_line().await.unwrap().unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["id"], id, "{answer}");
        if id == 2 {
            let data = &answer["error"]["data"];
            assert_eq!(data["limit"], "questions", "{answer}");
            assert_eq!(data["retriable"], true, "{answer}");
        }
    }
}

#[tokio::test]
async fn a_command_too_long_to_be_checked_does_not_run() {
    let ruled = ruled(vec![Rule::new(Decision::Deny, "git push")]);
    let result = run(&ruled.client, &"true;".repeat(20_000)).await;
    assert!(result.is_error, "{result:?}");
    let words = text(&result);
    assert!(
        words.contains("up to 65536 bytes; this one has 100000"),
        "{words}"
    );
    assert!(!run(&ruled.client, &"true;".repeat(1000)).await.is_error);
}

#[tokio::test]
async fn no_tool_changes_the_rules() {
    let ruled = ruled(vec![Rule::new(Decision::Deny, "touch")]);
    let listed = ruled.client.request("tools/list", json!({})).await.unwrap();
    let settings = ["config", "rule", "policy", "allow", "deny", "root"];
    for tool in listed["tools"].as_array().unwrap() {
        let (name, schema) = (
            tool["name"].as_str().unwrap(),
            &tool["inputSchema"]["properties"],
        );
        let arguments = schema
            .as_object()
            .into_iter()
            .flatten()
            .map(|(argument, _)| argument.as_str());
        for word in arguments.chain([name]) {
            assert!(
                !settings.iter().any(|setting| word.contains(setting)),
                "{name}: {word}"
            );
        }
    }
    // Nor does what a command finds in its environment.
    let args = json!({"command": "touch x", "env": {"LMCP_DENY": "", "LMCP_ALLOW": "touch"}});
    let result = ruled.client.call_tool("shell", args).await.unwrap();
    assert!(
        result.is_error && text(&result).contains("forbid"),
        "{}",
        text(&result)
    );
}

#[tokio::test]
async fn variables_and_input_are_asked_about() {
    let ruled = ruled(vec![Rule::new(Decision::Allow, "ls")]);
    let args =
        json!({"command": "ls -d /", "env": {"BASH_ENV": "/dev/stdin"}, "stdin": "echo sneaked"});
    let result = ruled.client.call_tool("shell", args.clone()).await.unwrap();
    assert!(
        result.is_error && !text(&result).contains("sneaked"),
        "{}",
        text(&result)
    );
    let seen = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let asked = std::sync::Arc::clone(&seen);
    let client = ruled.client.clone().answering(move |_, question| {
        *asked.lock().unwrap() = format!("{question:?}");
        json!({"action": "decline"})
    });
    client.call_tool("shell", args).await.unwrap();
    let seen = seen.lock().unwrap();
    assert!(
        seen.contains("BASH_ENV") && seen.contains("sneaked"),
        "{seen}"
    );
}

#[tokio::test]
async fn a_job_that_is_started_again_is_looked_at_again() {
    let state = tempfile::tempdir().unwrap();
    let mut ruled = settings(state.path());
    ruled.rules = vec![Rule::new(Decision::Ask, "touch")];
    let server = start(ruled);
    let approving = |approve: bool| {
        let answer = json!({"action": "accept", "content": {"approve": approve}});
        server.client().answering(move |_, _| answer.clone())
    };
    let folder = tempfile::tempdir().unwrap();
    let args = json!({"command": "touch x", "cwd": folder.path()});
    let job = approving(true).call_tool("shell_bg", args).await.unwrap();
    let id = job.structured_content.unwrap()["id"].clone();
    approving(true)
        .call_tool("job_output", json!({"id": id, "wait_exit": true}))
        .await
        .unwrap();
    let again = approving(false)
        .call_tool("job_stop", json!({"id": id, "restart": true}))
        .await
        .unwrap();
    assert!(
        again.is_error && text(&again).contains("not approved"),
        "{}",
        text(&again)
    );
}
