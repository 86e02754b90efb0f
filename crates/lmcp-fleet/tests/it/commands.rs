//! `shell` on every kind of host.

use serde_json::json;

use crate::support::{Far, all};

#[tokio::test]
async fn a_command_tells_its_code_and_both_streams() {
    for far in all() {
        let ran = far
            .value(
                "shell",
                json!({ "command": "echo out; echo err >&2; exit 3" }),
            )
            .await;
        assert_eq!(ran["exit_code"], 3, "{}: {ran}", far.name);
        assert_eq!(
            (&ran["stdout"], &ran["stderr"]),
            (&json!("out\n"), &json!("err\n"))
        );
        assert_eq!(ran["timed_out"], false);
    }
}

#[tokio::test]
async fn a_code_is_told_from_a_signal() {
    for far in all() {
        for (command, code, signal) in [
            ("exit 137", json!(137), json!(null)),
            ("sh -c 'kill -KILL $$'; exit $?", json!(137), json!(null)),
            ("kill -KILL $$", json!(null), json!("SIGKILL")),
        ] {
            let result = far.call("shell", json!({ "command": command })).await;
            let ran = result.structured_content.unwrap();
            assert_eq!(ran["exit_code"], code, "{}, {command}: {ran}", far.name);
            assert_eq!(ran["signal"], signal, "{}, {command}: {ran}", far.name);
        }
    }
}

#[tokio::test]
async fn a_line_may_be_longer_than_an_argument_can_be() {
    for far in all() {
        let long = "x".repeat(200_000);
        let ran = far
            .value(
                "shell",
                json!({ "command": format!("v='{long}'; echo ${{#v}}; cat"), "stdin": "typed" }),
            )
            .await;
        assert_eq!(ran["stdout"], "200000\ntyped", "{}", far.name);
    }
}

#[tokio::test]
async fn folder_variables_and_input_reach_the_command_as_they_are() {
    for far in all() {
        let odd = "a 'b' \"c\" $d `e` \\f\n-g";
        let folder = far.home.path().join("it's \n here");
        std::fs::create_dir(&folder).unwrap();
        let ran = far
            .value(
                "shell",
                json!({
                    "command": "pwd; printf '%s\\n' \"$ODD\"; cat",
                    "cwd": folder,
                    "env": [format!("ODD={odd}")],
                    "stdin": odd,
                }),
            )
            .await;
        let expected = format!("{}\n{odd}\n{odd}", folder.display());
        assert_eq!(ran["stdout"], expected, "{}", far.name);
        let ran = far
            .value("shell", json!({ "argv": ["printf", "%s|", odd, "-n", ""] }))
            .await;
        assert_eq!(ran["stdout"], format!("{odd}|-n||"), "{}", far.name);
    }
}

#[tokio::test]
async fn a_timeout_kills_and_says_so() {
    for far in all() {
        let result = far
            .call(
                "shell",
                json!({ "command": "echo begun; sleep 1000", "timeout": 1 }),
            )
            .await;
        let ran = result.structured_content.clone().unwrap();
        assert!(result.is_error, "{}: {ran}", far.name);
        assert_eq!(
            (&ran["timed_out"], &ran["signal"]),
            (&json!(true), &json!("SIGTERM")),
            "{}",
            far.name
        );
        assert_eq!(ran["stdout"], "begun\n");
    }
}

#[tokio::test]
async fn of_long_output_the_ends_are_shown_and_the_rest_can_be_read() {
    for far in all() {
        let ran = far
            .value("shell", json!({ "command": "i=0; while [ $i -lt 9000 ]; do echo line $i; i=$((i+1)); done" }))
            .await;
        assert_eq!(ran["truncated"], true, "{}", far.name);
        let shown = ran["stdout"].as_str().unwrap();
        assert!(
            shown.starts_with("line 0\n") && shown.ends_with("line 8999\n"),
            "{}",
            far.name
        );
        let (_, after) = shown.split_once("job_output with id=").unwrap();
        let id = after.split(' ').next().unwrap();
        let read = far
            .value("job_output", json!({ "id": id, "search": "line 4567" }))
            .await;
        assert_eq!(read["lines"][0]["line"], "line 4567", "{}", far.name);
    }
}

#[tokio::test]
async fn what_a_shell_cannot_do_is_refused_with_the_way_out() {
    let far = Far::sh();
    for args in [json!({ "command": "true", "tty": true })] {
        let words = far.error("shell", args).await;
        assert!(words.contains("lmcp hub push HOST"), "{words}");
    }
    let words = far
        .error("shell", json!({ "command": "true", "cwd": "/no/such" }))
        .await;
    assert!(words.contains("`/no/such` does not exist"), "{words}");
}

#[tokio::test]
async fn noise_of_a_profile_is_nobodys_answer() {
    let home = tempfile::tempdir().unwrap();
    let noisy = "echo 'Welcome!'; printf 'no line end'; exec sh";
    let host = lmcp_fleet::script::ScriptHost::new([
        "env".to_owned(),
        format!("HOME={}", home.path().display()),
        "sh".into(),
        "-c".into(),
        noisy.into(),
    ]);
    let client = lmcp_core::Endpoint::new(host.unwrap()).client();
    let result = client
        .call_tool("shell", json!({ "command": "echo hi" }))
        .await
        .unwrap();
    assert_eq!(result.structured_content.unwrap()["stdout"], "hi\n");
}

#[tokio::test]
async fn a_shell_that_does_not_come_says_why() {
    let host = lmcp_fleet::script::ScriptHost::new([
        "sh",
        "-c",
        "echo 'Permission denied (publickey).' >&2; exit 255",
    ]);
    let client = lmcp_core::Endpoint::new(host.unwrap()).client();
    let refused = client
        .call_tool("shell", json!({ "command": "echo hi" }))
        .await
        .unwrap_err();
    assert!(
        refused.message.contains("Permission denied (publickey)."),
        "{refused}"
    );
    assert_eq!(refused.data.as_ref().unwrap()["began"], false);
}

#[tokio::test]
async fn a_slow_call_holds_up_nobody() {
    let far = Far::sh();
    let fifo = far.path("fifo");
    far.value("shell", json!({ "argv": ["mkfifo", fifo] }))
        .await;
    // Each command opens one end of the FIFO, and waits for the other.
    let slow = far.value("shell", json!({ "command": format!("cat '{fifo}'") }));
    let quick = far.value(
        "shell",
        json!({ "command": format!("echo hello > '{fifo}'") }),
    );
    let (slow, quick) = tokio::join!(slow, quick);
    assert_eq!(slow["stdout"], "hello\n");
    assert_eq!(quick["exit_code"], 0);
}

#[tokio::test]
async fn a_command_that_takes_long_becomes_a_job() {
    for far in all() {
        let gate = far.path("gate");
        far.value("shell", json!({ "argv": ["mkfifo", gate] }))
            .await;
        let command = format!("echo one; echo two >&2; cat '{gate}'; echo four; exit 5");
        let ran = far
            .value("shell", json!({ "command": command, "yield_after": 0.5 }))
            .await;
        let id = ran["job"]
            .as_str()
            .unwrap_or_else(|| panic!("{}: {ran}", far.name))
            .to_owned();
        assert_eq!(
            (&ran["stdout"], &ran["stderr"]),
            (&json!("one\n"), &json!("two\n")),
            "{}",
            far.name
        );
        let seen = far
            .value("job_output", json!({ "id": id, "offset": 0 }))
            .await;
        assert_eq!(
            (&seen["output"], &seen["state"]),
            (&json!("one\ntwo\n"), &json!("running")),
            "{}",
            far.name
        );
        far.value(
            "shell",
            json!({ "command": format!("echo three > '{gate}'") }),
        )
        .await;
        let all = far
            .value(
                "job_output",
                json!({ "id": id, "offset": 0, "wait_exit": true }),
            )
            .await;
        assert_eq!(all["output"], "one\ntwo\nthree\nfour\n", "{}", far.name);
        assert_eq!(
            (&all["exit_code"], &all["waited"]),
            (&json!(5), &json!("ended")),
            "{}",
            far.name
        );
        let errors = far
            .value(
                "job_output",
                json!({ "id": id, "offset": 0, "stream": "stderr" }),
            )
            .await;
        assert_eq!(errors["output"], "two\n", "{}", far.name);
    }
}
