//! `shell`

use serde_json::json;

use crate::support::{Host, settings, start, text};

#[tokio::test]
async fn all_tools_are_there_and_say_what_they_are() {
    let host = Host::new();
    assert_eq!(host.server.tool_names(), lmcp_tools::NAMES);
    let listed = host
        .client()
        .request("tools/list", json!({}))
        .await
        .unwrap();
    for tool in listed["tools"].as_array().unwrap() {
        let name = &tool["name"];
        let words = tool["description"]
            .as_str()
            .unwrap()
            .split_whitespace()
            .count();
        assert!(words < 40, "{name}: {words} words");
        assert!(
            tool["title"].is_string() && tool["outputSchema"]["type"] == "object",
            "{name}"
        );
        for hint in [
            "readOnlyHint",
            "destructiveHint",
            "idempotentHint",
            "openWorldHint",
        ] {
            assert!(tool["annotations"][hint].is_boolean(), "{name}: {hint}");
        }
        // Descriptions cost tokens; these names say all there is to say.
        let plain = ["path", "content", "new_string", "url", "query", "id"];
        let arguments = tool["inputSchema"]["properties"].as_object().unwrap();
        for (argument, schema) in arguments {
            let said = schema.get("description").is_some() || plain.contains(&argument.as_str());
            assert!(said, "{name}: {argument} is not described");
        }
    }
}

#[tokio::test]
async fn exit_code_stdout_and_stderr_come_back() {
    let host = Host::new();
    let ran = host.shell("echo out; echo err >&2; exit 3").await;
    assert_eq!(ran["exit_code"], 3);
    assert_eq!(ran["stdout"], "out\n");
    assert_eq!(ran["stderr"], "err\n");
    assert_eq!(ran["timed_out"], false);
    assert!(ran.get("signal").is_none());
}

#[tokio::test]
async fn a_process_that_keeps_the_pipe_does_not_keep_the_answer() {
    let host = Host::new();
    let ran = host.shell("sleep 60 & echo hi").await;
    assert_eq!(ran["stdout"], "hi\n");
    assert_eq!(ran["left_running"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_command_that_ran_is_an_answer_and_its_exit_code_comes_first() {
    let host = Host::new();
    for (command, first) in [
        ("ls /missing-for-sure", "exit code 2, "),
        ("echo a | grep b", "exit code 1, "),
        ("echo fine", "exit code 0, "),
        ("kill -SEGV $$", "ended by SIGSEGV, "),
    ] {
        let ran = host.call("shell", json!({ "command": command })).await;
        assert!(!ran.is_error, "{command}");
        assert!(text(&ran).starts_with(first), "{}", text(&ran));
    }
    let fine = host.call("shell", json!({"command": "echo fine"})).await;
    assert!(text(&fine).ends_with(" s\nfine\n"), "{}", text(&fine));
}

#[tokio::test]
async fn what_fits_is_shown_whole_and_of_more_a_little() {
    let host = Host::new();
    let fits = host.call("shell", json!({"command": "seq 1800"})).await;
    assert!(text(&fits).ends_with("\n1799\n1800\n") && text(&fits).contains("\n900\n"));
    let long = host
        .call(
            "shell",
            json!({"command": "seq -f line-of-output-%g 20000"}),
        )
        .await;
    let told = text(&long);
    assert!(told.len() < 13_000, "{} bytes", told.len());
    assert!(told.contains("\nline-of-output-1\n") && told.ends_with("-20000\n"));
    let (head, tail) = told.split_once("[… ").unwrap();
    assert!(tail.contains(" bytes left out; job_output with id=") && head.len() < tail.len());
    let id = tail.split_once("id=").unwrap().1;
    let id = id.split_once(' ').unwrap().0;
    let end = host.call("job_output", json!({ "id": id })).await;
    assert!(text(&end).len() < 13_000 && text(&end).ends_with("-20000\n"));
    let page = json!({ "id": id, "offset": 4000 });
    assert!(text(&host.call("job_output", page).await).len() > 13_000);
}

#[tokio::test]
async fn a_timeout_of_zero_is_none() {
    let host = Host::new();
    for tool in ["shell", "shell_bg"] {
        let ran = json!({"command": "echo fine", "timeout": 0});
        let ran = host.call(tool, ran).await;
        assert!(!ran.is_error, "{}", text(&ran));
    }
}

#[tokio::test]
async fn a_command_that_we_ended_or_could_not_run_is_an_error() {
    let host = Host::new();
    let late = json!({"command": "echo begun; sleep 60", "timeout": 0.3});
    let late = host.call("shell", late).await;
    assert!(
        late.is_error && text(&late).contains("its time was over") && text(&late).contains("begun"),
        "{}",
        text(&late)
    );
    let outside = tempfile::tempdir().unwrap();
    let mut confined = settings(host.state.path());
    confined.roots = vec![outside.path().to_owned()];
    let confined = start(confined);
    // Between the guard and the command stands one more step on a terminal and below a root.
    for (server, tty) in [
        (&host.server, false),
        (&host.server, true),
        (&confined, false),
    ] {
        let args = json!({"argv": ["/no/such/program"], "tty": tty});
        let missing = server.client().call_tool("shell", args).await.unwrap();
        assert!(
            missing.is_error && text(&missing).contains("cannot run `/no/such/program`"),
            "{}",
            text(&missing)
        );
        let args = json!({"command": "exit 127", "tty": tty});
        let own = server.client().call_tool("shell", args).await.unwrap();
        assert!(!own.is_error, "{}", text(&own));
    }
}

#[tokio::test]
async fn the_operator_may_want_failures_as_errors() {
    let state = tempfile::tempdir().unwrap();
    let mut settings = settings(state.path());
    settings.exit_code_is_error = true;
    let server = start(settings);
    for (command, is_error) in [
        ("ls /missing-for-sure", true),
        ("echo a | grep b", false),
        ("kill -SEGV $$", true),
        ("true", false),
    ] {
        let args = json!({ "command": command });
        let ran = server.client().call_tool("shell", args).await.unwrap();
        assert_eq!(ran.is_error, is_error, "{command}");
    }
}

#[tokio::test]
async fn standard_input_is_closed_or_given() {
    let host = Host::new();
    assert_eq!(host.shell("cat; echo end").await["stdout"], "end\n");
    let long = "x".repeat(1_000_000);
    let ran = host
        .value("shell", json!({"command": "wc -c", "stdin": long}))
        .await;
    assert_eq!(ran["stdout"], "1000000\n");
    let ignored = host
        .value("shell", json!({"command": "echo done", "stdin": long}))
        .await;
    assert_eq!(ignored["stdout"], "done\n");
}

#[tokio::test]
async fn a_command_finds_nothing_open_but_its_own_three() {
    let host = Host::new();
    let ran = host.shell("ls /proc/self/fd").await;
    assert_eq!(ran["stdout"], "0\n1\n2\n3\n");
    let ran = host
        .value("shell", json!({"command": "ls /proc/self/fd", "tty": true}))
        .await;
    assert_eq!(
        ran["stdout"]
            .as_str()
            .unwrap()
            .split_whitespace()
            .collect::<Vec<_>>(),
        ["0", "1", "2", "3"]
    );
}

#[tokio::test]
async fn arguments_need_no_shell() {
    let host = Host::new();
    let ran = host
        .value("shell", json!({"argv": ["printf", "%s", "$HOME; *"]}))
        .await;
    assert_eq!(ran["stdout"], "$HOME; *");
    let missing = host
        .call("shell", json!({"argv": ["/no/such/program"]}))
        .await;
    assert!(
        missing.is_error && text(&missing).contains("/no/such/program"),
        "{}",
        text(&missing)
    );
}

#[tokio::test]
async fn bad_arguments_are_told() {
    let host = Host::new();
    for (args, words) in [
        (json!({}), "give `command`"),
        (json!({"command": "true", "argv": ["true"]}), "not both"),
        (json!({"command": " "}), "is empty"),
        (json!({"argv": []}), "give `command`"),
        (json!({"command": "true", "timeout": 1e9}), "shell_bg"),
        (json!({"command": "true", "timeout": -1}), "timeout"),
        (
            json!({"command": "true", "cwd": "/no/such"}),
            "does not exist",
        ),
        (json!({"command": "true", "cmd": "x"}), "cmd"),
    ] {
        let result = host.call("shell", args.clone()).await;
        assert!(
            result.is_error && text(&result).contains(words),
            "{args}: {}",
            text(&result)
        );
    }
}

#[tokio::test]
async fn signals_and_codes_are_told_as_they_are() {
    let host = Host::new();
    for code in [0, 1, 2, 126, 127, 255] {
        assert_eq!(host.shell(&format!("exit {code}")).await["exit_code"], code);
    }
    let killed = host.shell("kill -SEGV $$").await;
    assert_eq!(killed["signal"], "SIGSEGV");
    assert!(killed.get("exit_code").is_none());
    assert_eq!(
        host.shell("bash -c 'kill -9 $$'; exit $?").await["exit_code"],
        137
    );
}

#[tokio::test]
async fn bytes_that_are_no_text_and_split_characters_come_through() {
    let host = Host::new();
    let ran = host
        .shell("printf 'a\\377b\\0c'; printf '\\303'; sleep 0.1; printf '\\251'")
        .await;
    assert_eq!(ran["stdout"], "a\u{fffd}b\0c\u{e9}");
}

#[tokio::test]
async fn a_flood_on_one_stream_does_not_block_the_other() {
    let host = Host::new();
    let ran = host
        .shell("head -c 1000000 /dev/zero | tr '\\0' e >&2; echo out")
        .await;
    assert_eq!(ran["exit_code"], 0);
    assert!(
        ran["stdout"].as_str().unwrap().ends_with("out\n"),
        "{}",
        ran["stdout"]
    );
}

#[tokio::test]
async fn many_commands_at_once_do_not_mix() {
    let host = Host::new();
    let client = host.client();
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..100 {
        let client = client.clone();
        let args = json!({"command": format!("echo {n}; echo {n} >&2; sleep 0.1; echo {n}")});
        calls.spawn(async move { (n, client.call_tool("shell", args).await.unwrap()) });
    }
    for (n, result) in calls.join_all().await {
        let ran = result.structured_content.unwrap();
        assert_eq!(ran["stdout"], format!("{n}\n{n}\n"));
        assert_eq!(ran["stderr"], format!("{n}\n"));
    }
}

#[tokio::test]
async fn output_is_where_the_client_looks_for_it() {
    let host = Host::new();
    for (client, structured) in [
        ("claude-code", false),
        ("codex-mcp-client", false),
        ("opencode", false),
        ("gemini-cli-mcp-client", false),
        ("somebody", true),
    ] {
        let call = async |command: &str| {
            let client = host.client().named(client);
            client
                .call_tool("shell", json!({ "command": command }))
                .await
                .unwrap()
        };
        let fine = call("echo to-be-seen").await;
        assert_eq!(fine.structured_content.is_some(), structured, "{client}");
        assert!(text(&fine).contains("to-be-seen"), "{client}");
        // Of an error some show the text alone.
        let args = json!({"command": "echo to-be-seen; sleep 60", "timeout": 0.3});
        let failed = host.client().named(client).call_tool("shell", args).await;
        let failed = failed.unwrap();
        assert!(
            failed.is_error && text(&failed).contains("to-be-seen"),
            "{client}"
        );
        let long = call("seq 1 200000").await;
        let rest = long.structured_content.as_ref().map(ToString::to_string);
        let bytes = text(&long).len() + rest.unwrap_or_default().len();
        assert!(bytes < 64 * 1024, "{client}: {bytes}");
    }
}

#[tokio::test]
async fn more_variables_than_a_command_may_get_are_refused() {
    let host = Host::new();
    let many: Vec<_> = (0..5000).map(|number| format!("V{number}=1")).collect();
    let refused = host
        .call("shell", json!({"command": "true", "env": many}))
        .await;
    assert!(refused.is_error);
    assert!(
        text(&refused).contains("at most 4096"),
        "{}",
        text(&refused)
    );
}

#[tokio::test]
async fn without_the_tools_for_jobs_a_command_becomes_none() {
    let host = Host::new();
    for tool in ["shell_bg", "jobs", "job_output", "job_input", "job_stop"] {
        assert!(host.server.remove_tool(tool), "{tool}");
    }
    for args in [
        json!({"command": "true", "run_in_background": true}),
        json!({"command": "true", "yield_after": 1}),
    ] {
        let refused = host.call("shell", args).await;
        let words = text(&refused);
        assert!(
            refused.is_error && words.contains("cannot become a job"),
            "{words}"
        );
    }
    let ran = host
        .value("shell", json!({"command": "echo ran", "yield_after": 0}))
        .await;
    assert_eq!(ran["stdout"], "ran\n");
    assert_eq!(host.shell("echo ran").await["stdout"], "ran\n");
}
