//! Cancelled, timed out, left alone: nothing of a command survives what ends it.

use std::{fs, path::Path, time::Duration};

use lmcp_core::{Caller, CallerTransport, Identity, Principal, client::Event};
use serde_json::{Value, json};

use crate::support::{Host, settings, skipped, start, text};

/// A tree that hides as well as it can: a child, one in a session of its own, one whose parent is gone.
const TREE: &str = "sleep 300 & setsid sleep 300 & (setsid sleep 300 &); echo up; sleep 300";

/// What a command and all it starts have in their environment.
struct Mark(String);

impl Mark {
    fn new(name: &str) -> Self {
        Self(format!("{name}-{}", std::process::id()))
    }

    fn args(&self, command: &str, more: &Value) -> Value {
        let mut args = json!({"command": command, "env": {"MARK": self.0}});
        let more = more.as_object().unwrap().clone();
        args.as_object_mut().unwrap().extend(more);
        args
    }

    fn processes(&self) -> usize {
        let entry = format!("MARK={}\0", self.0).into_bytes();
        let all = fs::read_dir("/proc").unwrap().flatten();
        let environs = all.filter_map(|process| fs::read(process.path().join("environ")).ok());
        environs
            .filter(|environ| environ.windows(entry.len()).any(|part| part == entry))
            .count()
    }

    /// Waits until there are so many.
    async fn become_(&self, count: usize) {
        let soon = async {
            while self.processes() != count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(20), soon).await;
        assert!(
            waited.is_ok(),
            "{} of {} processes",
            self.processes(),
            count
        );
    }
}

#[tokio::test]
async fn a_cancelled_call_ends_its_whole_tree() {
    let (host, mark) = (Host::new(), Mark::new("cancel"));
    let mut calling = host
        .client()
        .start_tool("shell", mark.args(TREE, &json!({})));
    let running = async { while calling.next().await.is_some() {} };
    tokio::select! {
        () = running => panic!("it ended"),
        () = mark.become_(4) => {}
    }
    drop(calling);
    mark.become_(0).await;
}

#[tokio::test]
async fn a_tree_that_ignores_the_request_to_end_is_killed() {
    let (host, mark) = (Host::new(), Mark::new("stubborn"));
    let command = "trap '' TERM; (trap '' TERM; sleep 300) & sleep 300";
    let ran = host
        .value("shell", mark.args(command, &json!({"timeout": 0.2})))
        .await;
    assert_eq!(ran["timed_out"], true);
    assert_eq!(ran["signal"], "SIGKILL");
    assert_eq!(mark.processes(), 0);
}

#[tokio::test]
async fn a_time_limit_ends_the_whole_tree_and_is_told() {
    let (host, mark) = (Host::new(), Mark::new("timeout"));
    let result = host
        .call("shell", mark.args(TREE, &json!({"timeout": 0.5})))
        .await;
    assert!(result.is_error);
    let ran = result.structured_content.unwrap();
    assert_eq!(ran["timed_out"], true);
    assert_eq!(ran["stdout"], "up\n");
    mark.become_(0).await;
}

/// Each of these processes forks and ends at once, and none heeds TERM; whoever looks for them finds others a moment later.
#[tokio::test]
async fn processes_that_fork_without_pause_end_with_their_command() {
    let (host, mark) = (Host::new(), Mark::new("comets"));
    // They end with this file, too, if nothing else ends them.
    let go = tempfile::NamedTempFile::new().unwrap();
    let command = format!(
        "trap '' TERM; fly() {{ [ -e {} ] || exit; fly & exit; }}; for i in $(seq 16); do fly & done; sleep 300",
        go.path().display()
    );
    let result = host
        .call("shell", mark.args(&command, &json!({"timeout": 1})))
        .await;
    assert_eq!(result.structured_content.unwrap()["timed_out"], true);
    mark.become_(0).await;
}

#[tokio::test]
async fn what_a_command_leaves_is_told_and_ends_with_the_server() {
    let (host, mark) = (Host::new(), Mark::new("left"));
    let command = "sleep 300 & setsid sleep 300 & (setsid sleep 300 &); echo up";
    let ran = host.value("shell", mark.args(command, &json!({}))).await;
    assert_eq!(ran["left_running"].as_array().unwrap().len(), 3, "{ran}");
    assert_eq!(mark.processes(), 3);
    let jobs = host.value("jobs", json!({})).await;
    assert_eq!(jobs["jobs"][0]["left_running"], ran["left_running"]);
    drop(host.server);
    mark.become_(0).await;
}

#[tokio::test]
async fn what_a_command_left_can_be_stopped() {
    let (host, mark) = (Host::new(), Mark::new("rest"));
    host.value("shell", mark.args("sleep 300 & echo up", &json!({})))
        .await;
    let id = host.value("jobs", json!({})).await["jobs"][0]["id"].clone();
    let stopped = host.value("job_stop", json!({ "id": id })).await;
    assert_eq!(stopped["job"]["exit_code"], 0);
    assert_eq!(mark.processes(), 0);
}

#[tokio::test]
async fn a_job_is_stopped_with_everything_it_started() {
    let (host, mark) = (Host::new(), Mark::new("stop"));
    let id = host.value("shell_bg", mark.args(TREE, &json!({}))).await["id"].clone();
    mark.become_(4).await;
    let stopped = host.value("job_stop", json!({ "id": id })).await;
    assert_eq!(stopped["job"]["state"], "killed");
    assert_eq!(mark.processes(), 0);
    let again = host.call("job_stop", json!({ "id": id })).await;
    assert!(
        !again.is_error && text(&again).contains("had ended"),
        "{}",
        text(&again)
    );
}

#[tokio::test]
async fn a_job_can_be_started_again() {
    let (host, mark) = (Host::new(), Mark::new("again"));
    let id = host
        .value("shell_bg", mark.args("echo $MARK", &json!({})))
        .await["id"]
        .clone();
    host.value("job_output", json!({"id": id, "wait_exit": true}))
        .await;
    let stopped = host
        .value("job_stop", json!({"id": id, "restart": true}))
        .await;
    let next = stopped["restarted_as"].clone();
    assert_ne!(next, id);
    let output = host
        .value("job_output", json!({"id": next, "wait_exit": true}))
        .await;
    assert_eq!(output["output"], format!("{}\n", mark.0));
}

#[tokio::test]
async fn a_client_that_knows_tasks_gets_one() {
    let host = Host::new();
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let client = host
        .client()
        .capabilities(serde_json::from_value(capabilities).unwrap());
    let args = json!({"command": "sleep 0.5; echo done", "yield_after": 0.1});
    let task = client
        .request("tools/call", json!({"name": "shell", "arguments": args}))
        .await
        .unwrap();
    assert_eq!(task["resultType"], "task");
    let soon = async {
        loop {
            let id = json!({ "taskId": task["taskId"] });
            let task = client.request("tasks/get", id).await.unwrap();
            if task["status"] != "working" {
                return task;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let task = tokio::time::timeout(Duration::from_secs(20), soon)
        .await
        .unwrap();
    assert_eq!(task["result"]["structuredContent"]["stdout"], "done\n");
}

#[tokio::test]
async fn jobs_that_nobody_could_find_again_end_with_the_server() {
    let mut settings = settings(Path::new("unused"));
    settings.state_dir = None;
    let server = start(settings);
    let client = server.client();
    let marks = [Mark::new("passing"), Mark::new("handed-over")];
    for (mark, tool, more) in [
        (&marks[0], "shell_bg", json!({})),
        (&marks[1], "shell", json!({ "yield_after": 0.1 })),
    ] {
        let result = client.call_tool(tool, mark.args("sleep 300", &more)).await;
        assert!(!result.unwrap().is_error);
    }
    let jobs = client.call_tool("jobs", json!({})).await.unwrap();
    let jobs = jobs.structured_content.unwrap();
    assert_eq!(
        [&jobs["jobs"][0]["state"], &jobs["jobs"][1]["state"]],
        ["running", "running"]
    );
    drop((client, server));
    for mark in &marks {
        mark.become_(0).await;
    }
}

#[tokio::test]
async fn jobs_end_with_the_child_that_started_them() {
    let (host, mark) = (Host::new(), Mark::new("orphan"));
    let (gone, watched) = tokio::sync::watch::channel(false);
    let identity = Identity::new("1", "child", "worker");
    let caller = Caller::new(CallerTransport::Memory).identified_until(identity, watched);
    let client = host.client().caller(caller);
    let args = mark.args("echo kept; sleep 300", &json!({}));
    let started = client.call_tool("shell_bg", args).await.unwrap();
    let id = started.structured_content.unwrap()["id"].clone();
    // While it is there, a job is as good as any.
    let args = json!({ "id": id, "wait_for": "kept" });
    let output = client.call_tool("job_output", args).await.unwrap();
    assert!(text(&output).contains("kept"), "{}", text(&output));
    assert!(mark.processes() > 0);
    gone.send_replace(true);
    mark.become_(0).await;
}

#[tokio::test]
async fn jobs_belong_to_who_started_them() {
    let host = Host::new();
    let call = async |who: &str, tool: &str, args: Value| {
        // Of one role, and even of one name.
        let identity = Identity::new(who, "child", "worker");
        let caller = Caller::new(CallerTransport::Memory).identified(identity);
        host.client()
            .caller(caller)
            .call_tool(tool, args)
            .await
            .unwrap()
    };
    let started = call("ann", "shell_bg", json!({"command": "sleep 300"})).await;
    let id = started.structured_content.unwrap()["id"].clone();
    for tool in ["job_output", "job_input", "job_stop"] {
        let result = call("bob", tool, json!({ "id": id })).await;
        assert!(
            result.is_error && text(&result).contains("there is no job"),
            "{tool}"
        );
    }
    let jobs = call("bob", "jobs", json!({}))
        .await
        .structured_content
        .unwrap();
    assert_eq!(jobs["jobs"], json!([]));
    let stopped = call("ann", "job_stop", json!({ "id": id })).await;
    assert!(!stopped.is_error);
}

// Ownership has one rule: the name and the role together.
#[tokio::test]
async fn jobs_are_not_shared_with_the_same_name_in_another_role() {
    let host = Host::new();
    let call = async |principal: Principal, tool: &str, args: Value| {
        let caller = Caller::new(CallerTransport::Memory).authenticated(principal);
        let client = host.client().caller(caller);
        client.call_tool(tool, args).await.unwrap()
    };
    let ann = || Principal::new("ann");
    let command = json!({"command": "sleep 300"});
    let started = call(ann().role("admin"), "shell_bg", command).await;
    let id = started.structured_content.unwrap()["id"].clone();
    for other in [
        ann(),
        ann().role("reader"),
        Principal::anyone().role("admin"),
    ] {
        for tool in ["job_output", "job_input", "job_stop"] {
            let result = call(other.clone(), tool, json!({ "id": id })).await;
            let words = text(&result);
            assert!(words.contains("there is no job"), "{tool}: {words}");
        }
        let jobs = call(other, "jobs", json!({})).await.structured_content;
        assert_eq!(jobs.unwrap()["jobs"], json!([]));
    }
    let stopped = call(ann().role("admin"), "job_stop", json!({ "id": id })).await;
    assert!(!stopped.is_error, "{}", text(&stopped));
}

/// The process that guards another one: its parent.
fn guard_of(started: &Value) -> String {
    let pid = started["pid"].as_i64().unwrap();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let behind_the_name = stat.rsplit(')').next().unwrap();
    behind_the_name
        .split_whitespace()
        .nth(1)
        .unwrap()
        .to_owned()
}

fn signal(name: &str, process: &str) {
    let kill = std::process::Command::new("kill")
        .args([name, process])
        .status();
    assert!(kill.unwrap().success());
}

#[tokio::test]
async fn a_job_whose_guard_was_killed_is_lost_and_says_so() {
    let (host, mark) = (Host::new(), Mark::new("lost"));
    let command = "sleep 300 & sleep 300";
    let started = host.value("shell_bg", mark.args(command, &json!({}))).await;
    mark.become_(3).await;
    signal("-KILL", &guard_of(&started));
    let id = &started["id"];
    let output = host
        .value("job_output", json!({"id": id, "wait_exit": true}))
        .await;
    assert_eq!(output["state"], "lost");
    let stopped = host.call("job_stop", json!({ "id": id })).await;
    assert_eq!(stopped.structured_content.unwrap()["job"]["state"], "lost");
    mark.become_(0).await;
}

#[tokio::test]
async fn a_command_ends_with_the_guard_that_it_kills_or_halts() {
    for (name, signal) in [("killed", "KILL"), ("halted", "STOP")] {
        let (host, mark) = (Host::new(), Mark::new(name));
        let command = format!("sleep 300 & kill -{signal} $PPID; sleep 300");
        let result = host.call("shell", mark.args(&command, &json!({}))).await;
        assert!(
            result.is_error && text(&result).contains("guard"),
            "{}",
            text(&result)
        );
        mark.become_(0).await;
    }
}

#[tokio::test]
async fn a_job_ends_with_a_guard_that_is_halted() {
    let (host, mark) = (Host::new(), Mark::new("halted-job"));
    let started = host.value("shell_bg", mark.args(TREE, &json!({}))).await;
    mark.become_(4).await;
    signal("-STOP", &guard_of(&started));
    let args = json!({"id": started["id"], "wait_exit": true});
    let output = host.value("job_output", args).await;
    assert_eq!(output["state"], "lost", "{output}");
    mark.become_(0).await;
}

#[tokio::test]
async fn a_job_whose_guard_is_silent_is_ended_by_force() {
    let (host, mark) = (Host::new(), Mark::new("silent"));
    let started = host.value("shell_bg", mark.args(TREE, &json!({}))).await;
    mark.become_(4).await;
    // The next server did not start that guard, and hears nothing of what becomes of it.
    let Host { server, state } = host;
    drop(server);
    let next = Host {
        server: start(settings(state.path())),
        state,
    };
    signal("-STOP", &guard_of(&started));
    let args = json!({"id": started["id"], "signal": "KILL"});
    let stopped = next.value("job_stop", args).await;
    assert_eq!(stopped["job"]["state"], "lost", "{stopped}");
    assert_eq!(mark.processes(), 0);
}

#[tokio::test]
async fn output_comes_as_progress() {
    let host = Host::new();
    let args = json!({"command": "echo first; read x < /dev/null; sleep 0.2; echo second"});
    let params = json!({"name": "shell", "arguments": args, "_meta": {"progressToken": "t"}});
    let mut calling = host.client().start("tools/call", params);
    let mut said = String::new();
    while let Some(event) = calling.next().await {
        if let Event::Progress(progress) = event {
            said.push_str(progress.message.as_deref().unwrap_or_default());
        }
    }
    assert!(said.contains("first\n"), "{said}");
}

#[tokio::test]
async fn too_much_output_is_read_in_pages() {
    let host = Host::new();
    let result = host.call("shell", json!({"command": "seq 1 100000"})).await;
    let ran = result.structured_content.clone().unwrap();
    assert_eq!(ran["truncated"], true);
    let stdout = ran["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("1\n2\n") && stdout.ends_with("\n99999\n100000\n"));
    let whole: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
    let note = stdout.lines().find(|line| line.starts_with('[')).unwrap();
    let shown = stdout.len() - note.len() - 1;
    assert_eq!(ran["omitted_bytes"], whole.len() - shown);
    let uri = ran["output"].as_str().unwrap();
    let id = uri.trim_start_matches("job://").trim_end_matches("/output");
    let (mut read, mut offset) = (String::new(), 0);
    while offset < whole.len() as u64 {
        let page = host
            .value("job_output", json!({"id": id, "offset": offset}))
            .await;
        read.push_str(page["output"].as_str().unwrap());
        offset = page["next_offset"].as_u64().unwrap();
    }
    assert!(read == whole);
    let resource = host
        .client()
        .request("resources/read", json!({ "uri": uri }))
        .await
        .unwrap();
    assert!(resource["contents"][0]["text"] == *whole);
}

#[tokio::test]
async fn only_so_many_jobs_run_at_once() {
    let state = tempfile::tempdir().unwrap();
    let mut settings = settings(state.path());
    settings.jobs_at_once = 1;
    let host = Host {
        server: start(settings),
        state,
    };
    let id = host
        .value("shell_bg", json!({"command": "sleep 300"}))
        .await["id"]
        .clone();
    let refused = host.call("shell_bg", json!({"command": "sleep 300"})).await;
    assert!(
        refused.is_error && text(&refused).contains("at once"),
        "{}",
        text(&refused)
    );
    host.value("job_stop", json!({ "id": id })).await;
    let id = host
        .value("shell_bg", json!({"command": "sleep 300"}))
        .await["id"]
        .clone();
    host.value("job_stop", json!({ "id": id })).await;
}

/// Asks to be traced by the process above, which is the guard, and stops for each signal then.
const TRACED: &str = "import ctypes, os, signal, sys
assert ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0
signal.signal(signal.SIGUSR1, lambda *_: print('heard', flush=True))
if sys.argv[1] == 'signal':
    os.kill(os.getpid(), signal.SIGUSR1)
    os._exit(3)
os.execv('/bin/sh', ['sh', '-c', 'echo heard; exit 3'])
";

#[tokio::test]
async fn a_command_that_asks_to_be_traced_has_not_ended() {
    if !Path::new("/usr/bin/python3").exists() {
        skipped("there is no python3");
        return;
    }
    let host = Host::new();
    for way in ["signal", "exec"] {
        let args = json!({"argv": ["/usr/bin/python3", "-c", TRACED, way]});
        let ended = host.value("shell", args).await;
        assert_eq!(ended["stdout"], "heard\n", "{ended}");
        assert_eq!(ended["exit_code"], 3, "{ended}");
    }
}
