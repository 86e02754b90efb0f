//! Commands that a server runs: their environment, and the state after the server has ended.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{file, folder, lmcp, post, said, start};

fn call(address: &str, headers: &str, tool: &str, arguments: &Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    // Without this header, the answer belongs to a revision without structured content.
    let headers = format!("mcp-protocol-version: 2025-11-25\r\n{headers}");
    let (status, answer) = post(address, &headers, &message);
    assert_eq!(status, 200, "{answer}");
    answer["result"]["structuredContent"].clone()
}

#[test]
fn a_job_keeps_neither_the_port_nor_the_server() {
    // Defect L18: a child that inherited the listening socket kept the port after the server had ended.
    let state = folder("port");
    let command = |address: &str| {
        lmcp(&[
            "serve",
            "--http",
            address,
            "--state-dir",
            state.to_str().unwrap(),
        ])
    };
    let (mut first, address, _) = start(command("127.0.0.1:0"));
    let job = call(&address, "", "shell_bg", &json!({ "command": "sleep 300" }));
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    let (_second, again, _) = start(command(&address));
    assert_eq!(again, address);
    let jobs = call(&again, "", "jobs", &json!({}));
    assert_eq!(jobs["jobs"][0]["state"], "running", "{jobs}");
    let stopped = call(&again, "", "job_stop", &json!({ "id": job["id"] }));
    assert_eq!(stopped["job"]["state"], "killed", "{stopped}");
}

#[test]
fn a_command_does_not_find_the_token() {
    let mut command = lmcp(&["serve", "--http", "127.0.0.1:0"]);
    command.env("LMCP_TOKEN", "hush-hush").env("OTHER", "fine");
    let (_running, address, _) = start(command);
    let headers = "authorization: Bearer hush-hush\r\n";
    let found = call(&address, headers, "shell", &json!({ "command": "env" }));
    let found = found["stdout"].as_str().unwrap();
    assert!(
        found.contains("OTHER=fine") && !found.contains("hush"),
        "{found}"
    );
}

#[cfg(all(target_env = "gnu", target_pointer_width = "64"))]
#[test]
fn all_threads_of_a_server_share_one_heap() {
    // A separate heap of a thread reserves 64 MiB of addresses, most of them not accessible yet: `---p`.
    let set_aside = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let number = |digits| u64::from_str_radix(digits, 16).ok();
        Some(
            rest.starts_with("---p")
                && (number(to)? % (64 << 20) == 0)
                && number(to)? - number(from)? > 32 << 20,
        )
    };
    let (running, address, _) = start(lmcp(&["serve", "--http", "127.0.0.1:0"]));
    // These calls use threads for the disk and for processes.
    call(&address, "", "shell", &json!({ "command": "true" }));
    call(&address, "", "list_dir", &json!({ "path": "/" }));
    let maps = fs::read_to_string(format!("/proc/{}/maps", running.0.id())).unwrap();
    let heaps = maps.lines().filter_map(set_aside).filter(|is| *is).count();
    assert_eq!(heaps, 0, "{maps}");
}

#[test]
fn commands_do_not_ignore_the_signals_that_a_script_made_the_server_ignore() {
    let mut command = Command::new("env");
    command
        .arg("--ignore-signal=INT,QUIT,HUP")
        .arg(env!("CARGO_BIN_EXE_lmcp"))
        .args(["serve", "--http", "127.0.0.1:0", "--state-dir"])
        .arg(folder("ignored-signals"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let (_running, address, _) = start(command);
    for name in ["SIGINT", "SIGQUIT", "SIGHUP"] {
        // The command runs without a shell, because bash always ignores SIGQUIT.
        let raise =
            format!("import signal; signal.raise_signal(signal.{name}); print('still here')");
        let line = format!("exec python3 -c \"{raise}\"");
        for tty in [false, true] {
            let arguments = json!({ "command": line, "tty": tty });
            let job = call(&address, "", "shell_bg", &arguments);
            let wanted = json!({ "id": job["id"], "wait_exit": true });
            let ended = call(&address, "", "job_output", &wanted);
            assert_eq!(ended["signal"], name, "{ended}");
        }
    }
}

/// Returns how many processes have this variable in their environment.
fn processes_with(variable: &str) -> usize {
    let variable = format!("{variable}\0").into_bytes();
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let environs = all.filter_map(|process| fs::read(process.path().join("environ")).ok());
    environs
        .filter(|environ| environ.windows(variable.len()).any(|part| part == variable))
        .count()
}

#[test]
fn nothing_hides_from_a_server_whose_guard_was_killed() {
    let (_running, address, _) = start(lmcp(&["serve", "--http", "127.0.0.1:0"]));
    let mark = format!("guard-killed-{}", std::process::id());
    // Three processes: one in the command's session, one in its own session, and one whose parent has ended, too.
    let hidden = "sleep 300 & setsid sleep 300 & (setsid sleep 300 &)";
    let command = format!("{hidden}; sleep 0.2; kill -KILL $PPID; sleep 300");
    let arguments = json!({ "command": command, "env": { "MARK": mark } });
    call(&address, "", "shell", &arguments);
    let until = Instant::now() + Duration::from_secs(20);
    let variable = format!("MARK={mark}");
    while processes_with(&variable) > 0 {
        assert!(Instant::now() < until, "orphans are left");
        std::thread::yield_now();
    }
}

#[test]
fn folders_of_path_that_commands_cannot_read_are_named_at_the_start() {
    let (root, chain) = (folder("path-root"), folder("path-chain"));
    for folder in [&root, &chain] {
        fs::create_dir_all(folder).unwrap();
    }
    let path = format!("{}:/usr/bin:/bin", chain.display());
    let mut command = lmcp(&["serve", "--stdio", "--root", root.to_str().unwrap()]);
    command.env("PATH", &path);
    // Standard input ends at once, and the server ends with it.
    let (_, words) = said(&command.stdin(Stdio::null()).output().unwrap());
    let wanted = format!(
        "commands cannot run what is in {}; --also-read lets them",
        chain.display()
    );
    assert!(words.contains(&wanted), "{words}");
    command.arg("--also-read").arg(&chain);
    let (_, words) = said(&command.output().unwrap());
    assert!(!words.contains("commands cannot run"), "{words}");
}

#[test]
fn an_exit_code_is_an_error_where_the_operator_says_so() {
    for (options, is_error) in [(&[][..], false), (&["--exit-code-is-error"], true)] {
        let mut command = lmcp(&["serve", "--http", "127.0.0.1:0"]);
        command.args(options);
        let (_running, address, _) = start(command);
        let params = json!({ "name": "shell", "arguments": { "command": "exit 3" } });
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let (_, answer) = post(&address, "mcp-protocol-version: 2025-11-25\r\n", &message);
        let result = &answer["result"];
        assert_eq!(
            result["isError"].as_bool().unwrap_or_default(),
            is_error,
            "{answer}"
        );
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("exit code 3"), "{text}");
    }
}

#[test]
fn fetch_goes_through_the_proxy_that_the_environment_names() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        line
    });
    let mut command = lmcp(&["serve", "--http", "127.0.0.1:0"]);
    for name in [
        "https_proxy",
        "all_proxy",
        "ALL_PROXY",
        "no_proxy",
        "NO_PROXY",
    ] {
        command.env_remove(name);
    }
    command.env("HTTPS_PROXY", proxy);
    let (_running, address, _) = start(command);
    // No connection is made: the proxy closes it.
    let params = json!({ "name": "fetch", "arguments": { "url": "https://93.184.215.14/" } });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let (_, answer) = post(&address, "", &message);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(
        asked.join().unwrap(),
        "CONNECT 93.184.215.14:443 HTTP/1.1\r\n"
    );
}

#[test]
fn as_many_changes_are_kept_as_the_operator_says() {
    let config = file(
        "commands-changes",
        "changes_kept = 2\nchange_bytes_kept = '1M'\n",
        0o644,
    );
    let from_file = ["--config", config.to_str().unwrap()];
    for (options, kept) in [(&["--changes-kept", "3"][..], 3), (&from_file, 2)] {
        let state = folder("commands-changes-state");
        let mut command = lmcp(&["serve", "--http", "127.0.0.1:0"]);
        command.args(options).arg("--state-dir").arg(&state);
        let (_running, address, _) = start(command);
        let path = config.with_file_name("changed");
        for content in ["1", "2", "3", "4", "5"] {
            let arguments = json!({ "path": path, "content": content });
            call(&address, "", "write_file", &arguments);
        }
        let listed = call(&address, "", "file_history", &json!({}));
        assert_eq!(listed["changes"].as_array().unwrap().len(), kept);
        // More than a fourth of a megabyte is not kept, if that is the limit.
        let arguments = json!({ "path": path, "content": "x".repeat(300_000) });
        call(&address, "", "write_file", &arguments);
        let listed = call(&address, "", "file_history", &json!({}));
        let last = listed["changes"][0]["about"].as_str().unwrap();
        assert_eq!(last.contains("xxx"), kept == 3, "{last}");
    }
}
