//! `lmcp tools`, `call`, `read`, `prompt` and `ping`: a server called from a shell.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Running, file, folder, lmcp, said, screen, start, terminal};

const DEMO: [&str; 5] = [
    "--",
    env!("CARGO_BIN_EXE_lmcp"),
    "serve",
    "--demo",
    "--stdio",
];

/// Calls the server with the demo tools; returns the exit code, stdout and stderr.
fn demo(arguments: &[&str]) -> (Option<i32>, String, String) {
    run(&mut lmcp(&[arguments, &DEMO].concat()))
}

fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command
        .stdin(Stdio::null())
        .output()
        .expect("the binary was built for this test");
    let (code, words) = said(&output);
    (
        code,
        String::from_utf8_lossy(&output.stdout).into_owned(),
        words,
    )
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).expect("it is one JSON document")
}

#[test]
fn tools_are_listed_and_told_about() {
    let (code, text, _) = demo(&["tools", "--text"]);
    assert_eq!(code, Some(0));
    assert!(text.contains("echo   Return the text unchanged."), "{text}");
    let (_, text, _) = demo(&["tools", "wait", "--text"]);
    assert!(text.starts_with("lmcp call wait "), "{text}");
    let (_, text, _) = demo(&["tools"]);
    let names = json_of(&text)["tools"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    assert!(names.iter().any(|tool| tool["name"] == "add"), "{text}");
}

#[test]
fn a_call_prints_its_text_or_one_json_document() {
    let (code, text, words) = demo(&["call", "echo", "text=hello there", "--text"]);
    assert_eq!((code, &*text, &*words), (Some(0), "hello there\n", ""));
    let (code, text, _) = demo(&["call", "add", "numbers=1", "numbers=2.5"]);
    assert_eq!(code, Some(0));
    assert_eq!(
        json_of(&text)["structuredContent"],
        json!({ "count": 2, "sum": 3.5 })
    );
}

#[test]
fn exit_codes_tell_what_is_wrong() {
    // The tool failed: 1, and its words are in the result.
    let host = ["--", env!("CARGO_BIN_EXE_lmcp"), "serve", "--stdio"];
    let missing = ["call", "read_file", "path=/nowhere/at/all"];
    let (code, text, _) = run(&mut lmcp(&[&missing[..], &host[..]].concat()));
    assert_eq!(code, Some(1));
    assert_eq!(json_of(&text)["isError"], true);
    // The command line makes no sense: 2.
    for arguments in [
        &["call", "echo"][..],
        &["call", "echo", "text"],
        &["call", "ecko", "text=x"],
        &["ping", "--timeout", "0"],
    ] {
        let (code, text, words) = demo(arguments);
        assert_eq!((code, &*text), (Some(2), ""), "{arguments:?}: {words}");
    }
    let (_, _, words) = demo(&["call", "echo", "text=x", "{"]);
    assert!(words.contains("this is not a JSON object"), "{words}");
    // The server cannot be reached: 3, and programs read the reason on stdout.
    let (code, text, _) = run(&mut lmcp(&[
        "ping",
        "--",
        "sh",
        "-c",
        "echo all is lost >&2; exit 7",
    ]));
    assert_eq!(code, Some(3));
    let error = json_of(&text)["error"].to_string();
    assert!(
        error.contains("exit status 7") && error.contains("all is lost"),
        "{error}"
    );
    let nobody = folder("calling-nobody").join("socket");
    let (code, _, words) = run(&mut lmcp(&["ping", "--at", nobody.to_str().unwrap()]));
    assert_eq!(code, Some(3), "{words}");
    let (code, _, words) = demo(&["call", "wait", "seconds=60", "--timeout", "1"]);
    assert_eq!(code, Some(3));
    assert!(words.contains("not answered within 1 s"), "{words}");
}

#[test]
fn servers_behind_urls_and_sockets_are_called() {
    let token = file("calling-token", "hush-hush", 0o600);
    let token = token.to_str().unwrap();
    let (_server, address, _) = start(lmcp(&[
        "serve",
        "--demo",
        "--http",
        ":0",
        "--token-file",
        token,
    ]));
    let url = format!("http://{address}/mcp");
    let (code, text, words) = run(&mut lmcp(&[
        "call",
        "echo",
        "text=x",
        "--text",
        "--at",
        &url,
        "--token-file",
        token,
    ]));
    assert_eq!((code, &*text), (Some(0), "x\n"), "{words}");
    let (code, _, words) = run(&mut lmcp(&["call", "echo", "text=x", "--at", &url]));
    assert_eq!(code, Some(3), "{words}");
    assert!(
        words.contains("401") && words.contains("--token-file"),
        "{words}"
    );
}

#[test]
fn without_a_server_it_is_the_users_own() {
    let home = folder("calling-own");
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("note"), "found\n").unwrap();
    // The guard of a command is a child of the server, which must end with this test.
    let mut command = lmcp(&["call", "shell", "command=cat note; ps -o ppid= -p $PPID"]);
    command
        .env("XDG_RUNTIME_DIR", &home)
        .env("HOME", &home)
        .current_dir(&home);
    let (code, text, words) = run(&mut command);
    assert_eq!(code, Some(0), "{words}");
    let result = json_of(&text);
    let output = result["structuredContent"]["stdout"].as_str().unwrap();
    // Relative paths belong to the current folder.
    let (note, server) = output.split_once('\n').unwrap();
    let server = server.trim().parse().ok().and_then(Pid::from_raw);
    kill_process(server.unwrap(), Signal::TERM).unwrap();
    assert_eq!(note, "found");
}

#[test]
fn a_program_that_is_started_gets_no_token_of_ours() {
    let script = "echo \"$(env | grep -c ^LMCP_) of $OWN\" >&2; exit 9";
    let mut command = lmcp(&["ping", "--", "sh", "-c", script]);
    command
        .env("LMCP_TOKEN", "hush")
        .env("LMCP_TOKEN_FILE", "/hush")
        .env("LMCP_BRAVE_KEY", "hush")
        // A file with the tokens of hosts.
        .env("LMCP_HUB_BACKENDS", "/hush")
        .env("OWN", "these");
    let (_, text, _) = run(&mut command);
    let error = json_of(&text)["error"].to_string();
    assert!(error.contains("last words: 0 of these"), "{error}");
}

#[test]
fn a_value_comes_from_stdin() {
    let mut command = lmcp(&[&["call", "echo", "text=-", "--text"][..], &DEMO].concat());
    let mut running = Running(command.spawn().unwrap());
    running
        .0
        .stdin
        .take()
        .unwrap()
        .write_all(b"from stdin")
        .unwrap();
    let mut text = String::new();
    running
        .0
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "from stdin\n");
    assert!(running.0.wait().unwrap().success());
}

#[test]
fn ctrl_c_cancels_the_call_at_the_server() {
    let folder = folder("calling-cancel");
    fs::create_dir_all(&folder).unwrap();
    let pipe = folder.join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let (_server, address, _) = start(lmcp(&["serve", "--http", ":0"]));
    let url = format!("http://{address}/mcp");
    let script = format!(
        "command=exec > {}; echo begun; exec sleep 1000",
        pipe.display()
    );
    let mut call = Running(
        lmcp(&["call", "shell", &script, "--at", &url])
            .spawn()
            .unwrap(),
    );
    let mut told = BufReader::new(File::open(&pipe).unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    assert_eq!(line, "begun\n");
    let pid = Pid::from_child(&call.0);
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(call.0.wait().unwrap().code(), Some(130));
    // The pipe ends when the command ends.
    line.clear();
    assert_eq!(told.read_line(&mut line).unwrap(), 0);
}

/// Types at a terminal, and returns everything that it shows.
fn at_a_terminal(arguments: &[&str], typed: &str) -> String {
    let (mut terminal, name) = terminal();
    let mut command = lmcp(&[arguments, &DEMO].concat());
    command
        .stdin(screen(&name))
        .stdout(screen(&name))
        .stderr(screen(&name));
    let mut running = Running(command.spawn().expect("the binary was built for this test"));
    drop(command);
    let written = terminal.write_all(typed.as_bytes());
    written.expect("the other end is open");
    let (mut shown, mut part) = (Vec::new(), [0; 4096]);
    // Reading fails after the last process has closed the terminal.
    while let Ok(read @ 1..) = terminal.read(&mut part) {
        shown.extend_from_slice(&part[..read]);
    }
    running.0.wait().expect("it is ours");
    String::from_utf8_lossy(&shown).into_owned()
}

#[test]
fn questions_are_asked_at_the_terminal() {
    let shown = at_a_terminal(&["call", "greet"], "Ada\nyes\n");
    assert!(shown.contains("Who is to be greeted?"), "{shown}");
    assert!(shown.contains("Hello, Ada!"), "{shown}");
}

#[test]
fn a_script_answers_a_question_on_the_command_line() {
    let (code, text, words) = demo(&["call", "greet", "--answer", "name=Ada", "--text"]);
    assert_eq!((code, &*text, &*words), (Some(0), "Hello, Ada!\n", ""));
    let shown = at_a_terminal(&["call", "greet", "--answer", "name=Ada"], "");
    assert!(shown.contains("Hello, Ada!"), "{shown}");
    assert!(!shown.contains("Who is"), "{shown}");
}

#[test]
fn a_question_without_an_answer_says_how_to_give_one() {
    let (code, _, words) = demo(&["call", "greet"]);
    let hint = "hint: the tool asks a question: run it in a terminal, or give --answer NAME=VALUE";
    assert_eq!(code, Some(1));
    assert!(words.contains(hint), "{words}");
    let (code, _, words) = demo(&["call", "greet", "--answer", "nmae=Ada"]);
    assert_eq!(code, Some(1));
    let declined = "the question `Who is to be greeted?` is declined: it needs --answer name=…\n";
    assert!(words.contains(declined), "{words}");
    assert!(words.contains("no question has a field `nmae`"), "{words}");
    let (code, _, words) = demo(&["call", "greet", "--answer", "Ada"]);
    assert_eq!(code, Some(2));
    assert!(words.contains("`Ada` is not NAME=VALUE"), "{words}");
}

#[test]
fn progress_is_shown_at_the_terminal_and_taken_away() {
    let shown = at_a_terminal(&["call", "wait", "seconds=1"], "");
    assert!(
        shown.contains("\r\x1b[K[####") && shown.contains('%'),
        "{shown:?}"
    );
    let bars = shown.rfind("%").unwrap();
    assert!(shown[bars..].contains("\r\x1b[K"), "{shown:?}");
}

#[test]
fn resources_and_prompts_are_listed_and_read() {
    let host = ["--", env!("CARGO_BIN_EXE_lmcp"), "serve", "--stdio"];
    let (code, text, words) = run(&mut lmcp(&[&["read", "--text"][..], &host].concat()));
    assert_eq!(code, Some(0), "{words}");
    assert!(text.contains("://"), "{text}");
    let (code, text, _) = demo(&["prompt", "--text"]);
    assert_eq!((code, &*text), (Some(0), "the server has no prompts\n"));
    let (code, _, words) = demo(&["prompt", "none"]);
    assert_eq!(code, Some(1), "{words}");
    let (code, _, words) = demo(&["read", "nothing://at/all"]);
    assert_eq!(code, Some(1), "{words}");
    let (code, text, _) = demo(&["ping"]);
    assert_eq!(
        (code, &json_of(&text)["server"]["name"]),
        (Some(0), &json!("lmcp"))
    );
}

/// A server whose names contain control sequences for terminals.
const ESCAPES: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "a", "version": "1"}}
    if message["method"] == "tools/list":
        schema = {"type": "object", "properties": {"a\x1b]0;b\x07": {"type": "string"}}, "required": ["c\x1b[2J"]}
        result = {"tools": [{"name": "x", "inputSchema": schema}, {"name": "n\x1b[31m", "inputSchema": {"type": "object"}}]}
    if message["method"] in ("initialize", "tools/list"):
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    elif "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "?"}}), flush=True)
"#;

#[test]
fn names_of_a_server_do_not_drive_the_terminal_in_errors_and_hints() {
    for tool in ["none", "x"] {
        let (code, _, words) = run(&mut lmcp(&["call", tool, "--", "python3", "-c", ESCAPES]));
        assert_eq!(code, Some(2), "{words:?}");
        assert!(words.contains("hint: "), "{words:?}");
        let drives = |char: char| char.is_control() && char != '\n';
        assert!(!words.contains(drives), "{words:?}");
    }
}
