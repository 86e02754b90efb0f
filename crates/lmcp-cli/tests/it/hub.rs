//! `lmcp hub` with real servers, some of which are dead or hang.

mod callers;
mod groups;
mod import;
mod log;
mod pins;
mod watching;

use std::{
    fs,
    io::{BufRead, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{ChildStdin, ChildStdout, Command, Output},
};

use serde_json::{Value, json};

use crate::support::{Running, folder, lmcp, refusal, start, tool_names};

/// A folder with a configuration in it.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let folder = folder(name);
        fs::create_dir_all(&folder).expect("tests may write here");
        Self(folder)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        // The file is written in one step, because a hub may read it meanwhile.
        let draft = self.0.join("draft");
        fs::write(&draft, text).expect("tests may write here");
        fs::rename(&draft, &path).expect("tests may write here");
        path
    }

    fn hub(&self, config: &Path, more: &[&str]) -> Command {
        let mut command = lmcp(&["hub", "--config"]);
        command.arg(config).args(more);
        command.env("LMCP_STATE_DIR", self.0.join("state"));
        command
    }

    fn http(&self, config: &Path) -> (Running, String) {
        let (running, address, _) = start(self.hub(config, &["--http", "0"]));
        (running, address)
    }
}

/// Returns the table of a server that is this binary, with the demo tools.
fn demo(name: &str) -> String {
    let program = env!("CARGO_BIN_EXE_lmcp");
    format!("[servers.{name}]\ncommand = '{program}'\nargs = ['serve', '--demo', '--stdio']\n")
}

/// Does the same for a server that adds a line to a file at each start, and fails while another file exists.
fn counted(name: &str, place: &Path) -> String {
    let program = env!("CARGO_BIN_EXE_lmcp");
    let script = format!(
        "echo x >> {0}/starts; [ -e {0}/broken ] && echo no such database >&2 && exit 3; exec {program} serve --demo --stdio",
        place.display()
    );
    format!("[servers.{name}]\ncommand = 'sh'\nargs = ['-c', '{script}']\n")
}

fn with_client(address: &str, words: &[&str]) -> Output {
    let at = format!("http://{address}/mcp");
    let mut command = lmcp(words);
    command.args(["--at", &at, "--json"]);
    command
        .output()
        .expect("the binary was built for this test")
}

fn json_of(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    serde_json::from_str(&text).unwrap_or_else(|err| panic!("{err}: {text}{}", said()))
}

fn status(address: &str, server: &str) -> Value {
    let all = json_of(&with_client(address, &["hub", "status"]));
    let all = all["servers"].as_array().expect("it is a list").clone();
    let mut found = all.into_iter().filter(|one| one["name"] == server);
    found.next().expect("it is one of the servers")
}

const TROUBLE: &str = "
[servers.dead]
command = 'sh'
args = ['-c', 'echo no such database >&2; exit 3']
[servers.stuck]
command = 'sleep'
args = ['1000']
start_timeout = 0.5
";

#[test]
fn a_call_from_a_shell_waits_for_a_server_that_is_still_starting_and_tells_why_one_failed() {
    let place = Place::new("hub-call-starting");
    let (program, go) = (env!("CARGO_BIN_EXE_lmcp"), place.0.join("go"));
    // The server starts after somebody writes into the pipe.
    let made = Command::new("mkfifo").arg(&go).status();
    assert!(made.expect("there is mkfifo").success());
    let script = format!(
        "read line < {}; exec {program} serve --demo --stdio",
        go.display()
    );
    let slow = format!("[servers.slow]\ncommand = 'sh'\nargs = ['-c', '{script}']\n");
    let config = place.write("hub.toml", &format!("{slow}{TROUBLE}"));
    let (_running, address) = place.http(&config);
    let dead = with_client(&address, &["call", "dead__x"]);
    assert_eq!(dead.status.code(), Some(1));
    let said = String::from_utf8_lossy(&dead.stderr).into_owned();
    assert!(said.contains("no such database"), "{said}");
    // The hub's first list was answered without this server.
    assert_eq!(status(&address, "slow")["state"], "starting");
    let mut call = lmcp(&["call", "slow__echo", "text=5", "--json", "--at"]);
    let call = call.arg(format!("http://{address}/mcp")).spawn();
    let call = call.expect("the binary was built for this test");
    fs::write(go, "go\n").expect("the server reads it");
    let called = call.wait_with_output().expect("it ends");
    assert_eq!(json_of(&called)["content"][0]["text"], "5");
    let unknown = with_client(&address, &["call", "slow__x"]);
    assert_eq!(unknown.status.code(), Some(2));
}

#[test]
fn the_healthy_are_served_whatever_others_do() {
    let place = Place::new("hub-trouble");
    let text = format!(
        "{}{}rename = {{ echo = 'say' }}\n{TROUBLE}",
        demo("one"),
        demo("two")
    );
    let config = place.write("hub.toml", &text);
    let (_running, address) = place.http(&config);
    let names = tool_names(&address);
    let expected = ["add", "echo", "greet", "wait"].map(|name| format!("one__{name}"));
    assert!(
        expected.iter().all(|name| names.contains(name)),
        "{names:?}"
    );
    assert!(names.contains(&"two__say".to_owned()), "{names:?}");
    assert_eq!(names.len(), 8, "{names:?}");
    for name in ["one__echo", "two__say"] {
        let said = json_of(&with_client(&address, &["call", name, "text=hello"]));
        assert_eq!(said["content"][0]["text"], "hello");
    }
    let dead = status(&address, "dead");
    assert_eq!(dead["state"], "failed");
    let why = dead["lastError"].as_str().unwrap_or_default();
    assert!(
        why.contains("exit status 3") && why.contains("no such database"),
        "{dead}"
    );
    let one = status(&address, "one");
    assert_eq!((&one["state"], &one["calls"]), (&json!("ready"), &json!(1)));
}

#[test]
fn what_servers_offer_is_kept_and_a_dead_one_says_why() {
    let place = Place::new("hub-kept");
    let config = place.write("hub.toml", &counted("db", &place.0));
    let starts =
        || fs::read_to_string(place.0.join("starts")).map_or(0, |text| text.lines().count());
    let (running, address) = place.http(&config);
    assert_eq!(tool_names(&address).len(), 4);
    // The listing is saved after the answer. Then this hub is killed.
    while !place.0.join("state/hub/db.json").exists() {
        std::thread::yield_now();
    }
    drop(running);
    assert_eq!(starts(), 1);
    place.write("broken", "");
    let (_running, address) = place.http(&config);
    // No server is started for the kept listing.
    assert_eq!(tool_names(&address).len(), 4);
    assert_eq!(starts(), 1);
    let failed = with_client(&address, &["call", "db__echo", "text=x"]);
    let words = String::from_utf8_lossy(&failed.stdout).into_owned();
    for part in ["server `db`", "exit status 3", "no such database"] {
        assert!(words.contains(part), "{words}");
    }
    assert_eq!(failed.status.code(), Some(3), "{words}");
    fs::remove_file(place.0.join("broken")).expect("it is there");
    // The hub tries the server again by itself after the pause.
    loop {
        let again = with_client(&address, &["call", "db__echo", "text=x"]);
        if again.status.success() {
            break;
        }
    }
    assert_eq!(status(&address, "db")["state"], "ready");
}

/// Returns the number of the process behind a server that writes its number to a file.
fn last_pid(place: &Place) -> String {
    let pids = fs::read_to_string(place.0.join("pids")).expect("it was started");
    pids.lines().last().expect("it was started").to_owned()
}

#[test]
fn a_server_that_is_killed_is_there_again_and_that_is_counted() {
    let place = Place::new("hub-killed");
    let program = env!("CARGO_BIN_EXE_lmcp");
    let script = format!(
        "echo $$ >> {}/pids; exec {program} serve --demo --stdio",
        place.0.display()
    );
    let table = format!("[servers.db]\ncommand = 'sh'\nargs = ['-c', '{script}']\n");
    let config = place.write("hub.toml", &table);
    let (_running, address) = place.http(&config);
    assert_eq!(tool_names(&address).len(), 4);
    for restarts in 1..=3 {
        let pid = last_pid(&place);
        let killed = Command::new("kill").args(["-9", &pid]).status();
        assert!(killed.is_ok_and(|status| status.success()));
        // A call that the server had begun may get an error, and can be repeated.
        while last_pid(&place) == pid {
            with_client(&address, &["call", "db__echo", "text=x"]);
        }
        let said = json_of(&with_client(&address, &["call", "db__echo", "text=x"]));
        assert_eq!(said["content"][0]["text"], "x");
        assert_eq!(status(&address, "db")["restarts"], restarts);
    }
}

#[test]
fn sessions_have_servers_of_their_own_where_the_file_says_so() {
    let place = Place::new("hub-isolated");
    let text = format!("{}isolate = 'session'\n", counted("db", &place.0));
    let config = place.write("hub.toml", &text);
    let socket = place.0.join("hub.sock");
    let mut command = place.hub(&config, &["--http", "0", "--unix"]);
    command.arg(&socket);
    let (_running, address, _) = start(command);
    assert_eq!(tool_names(&address).len(), 4);
    for _ in 0..2 {
        let mut command = lmcp(&["call", "db__echo", "text=x", "--json", "--at"]);
        let output = command.arg(&socket).output();
        let output = output.expect("the binary was built for this test");
        assert_eq!(json_of(&output)["content"][0]["text"], "x");
    }
    let starts = fs::read_to_string(place.0.join("starts")).expect("it was started");
    assert_eq!(
        starts.lines().count(),
        3,
        "one to list, and one for each connection"
    );
}

/// Reads lines of a hub's log until one contains these words.
fn until(lines: &mut impl BufRead, words: &str) -> String {
    let mut line = String::new();
    while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
        if line.contains(words) {
            return line;
        }
        line.clear();
    }
    panic!("it never said `{words}`");
}

#[test]
fn a_change_of_the_file_touches_only_what_changed() {
    let place = Place::new("hub-watched");
    let config = place.write(
        "hub.toml",
        &format!("{}{}", counted("db", &place.0), demo("one")),
    );
    let (mut running, address) = place.http(&config);
    let mut said = BufReader::new(running.0.stderr.take().expect("stderr is a pipe"));
    assert_eq!(tool_names(&address).len(), 8);
    let text = format!(
        "{}tools = ['echo']\n{}",
        counted("db", &place.0),
        demo("two")
    );
    place.write("hub.toml", &text);
    until(&mut said, "2 servers now");
    while !tool_names(&address).contains(&"two__echo".to_owned()) {}
    let names = tool_names(&address);
    assert_eq!(names.len(), 5, "{names:?}");
    assert_eq!(names[0], "db__echo");
    place.write("hub.toml", "[servers.db]\ncommnd = 'x'\n");
    let line = until(&mut said, "stay as they were");
    assert!(
        line.contains("hub.toml:2") && line.contains("commnd"),
        "{line}"
    );
    assert_eq!(tool_names(&address), names);
    with_client(&address, &["call", "db__echo", "text=x"]);
    let starts = fs::read_to_string(place.0.join("starts")).expect("it was started");
    assert_eq!(
        starts.lines().count(),
        1,
        "the server that stayed was left alone"
    );
}

/// A hub on stdio, and a client of a revision with sessions.
struct Session {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    _running: Running,
}

impl Session {
    fn new(mut command: Command) -> Self {
        let mut running = Running(command.spawn().expect("the binary was built for this test"));
        let mut session = Self {
            input: running.0.stdin.take().expect("stdin is a pipe"),
            output: BufReader::new(running.0.stdout.take().expect("stdout is a pipe")),
            _running: running,
        };
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "test", "version": "1" } });
        let opened = session.ask("initialize", &params);
        assert_eq!(opened["result"]["protocolVersion"], "2025-06-18");
        session.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        session
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").expect("it reads");
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it writes");
        serde_json::from_str(&line).unwrap_or_else(|err| panic!("{err}: {line}"))
    }

    /// Sends a request, answers the questions that come, and returns the response.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.send(&json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params }));
        loop {
            let message = self.next();
            match message["method"].as_str() {
                Some("elicitation/create") => {
                    let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
                    self.send(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": answer }));
                }
                Some(_) => {}
                None if message["id"] == method => return message,
                None => panic!("nobody asked for {message}"),
            }
        }
    }
}

#[test]
fn a_client_with_sessions_is_served_on_stdio_and_asked_by_the_servers() {
    let place = Place::new("hub-stdio");
    let program = env!("CARGO_BIN_EXE_lmcp");
    let servers = json!({ "mcpServers": { "one": { "command": program, "args": ["serve", "--demo", "--stdio"] } } });
    let text = format!("// as a client has it\n{servers}");
    let config = place.write("mcp.json", &text);
    let mut session = Session::new(place.hub(&config, &["--stdio"]));
    let tools = session.ask("tools/list", &json!({}));
    assert_eq!(tools["result"]["tools"].as_array().map(Vec::len), Some(4));
    let call = json!({ "name": "one__greet", "arguments": {} });
    let greeted = session.ask("tools/call", &call);
    assert_eq!(greeted["result"]["content"][0]["text"], "Hello, Ada!");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_served() {
    let place = Place::new("hub-refused");
    let empty = place.write("empty.toml", "name = 'x'\n");
    let broken = place.write("broken.json", "{\n\"mcpServers\": {\n\"a\": {} } }");
    let good = place.write("good.toml", &demo("one"));
    for (command, words) in [
        (lmcp(&["hub"]), "--config FILE"),
        (place.hub(&empty, &[]), "names no servers"),
        (place.hub(&broken, &[]), "server `a`"),
        (place.hub(&good, &["--only", "two"]), "names `two`"),
        (
            place.hub(&good, &["--root", "/tmp"]),
            "--root is for the tools",
        ),
    ] {
        let said = refusal(command);
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn some_of_the_servers_are_used_and_their_tools_offered_lazily() {
    let place = Place::new("hub-lazy");
    let config = place.write("hub.toml", &format!("{}{}", demo("one"), demo("two")));
    let (_running, address, _) =
        start(place.hub(&config, &["--http", "0", "--lazy", "--only", "one"]));
    let names = tool_names(&address);
    assert_eq!(names, ["find_tools", "describe_tool", "call_tool"]);
    let found = json_of(&with_client(&address, &["call", "find_tools"]));
    let found = found["content"][0]["text"].as_str().unwrap_or_default();
    assert!(
        found.lines().count() == 4 && found.contains("one__echo: "),
        "{found}"
    );
    let call = r#"{"name": "one__echo", "arguments": {"text": "hello"}}"#;
    let said = json_of(&with_client(&address, &["call", "call_tool", call]));
    assert_eq!(said["content"][0]["text"], "hello");
}

#[test]
fn only_a_hub_tells_how_its_servers_are() {
    let (_running, address, _) = start(lmcp(&["serve", "--demo", "--http", "0"]));
    let asked = with_client(&address, &["hub", "status"]);
    let words = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert!(words.contains("no hub"), "{words}");
    assert_eq!(asked.status.code(), Some(1));
}

#[test]
fn the_servers_of_clients_become_a_configuration_that_is_served() {
    let place = Place::new("hub-import");
    for folder in [".codex", ".cursor", ".gemini"] {
        fs::create_dir_all(place.0.join(folder)).expect("tests may write here");
    }
    let program = env!("CARGO_BIN_EXE_lmcp");
    let server = json!({ "command": program, "args": ["serve", "--demo", "--stdio"] });
    let claude = json!({ "mcpServers": { "one": server }, "projects": { "/p": { "mcpServers": { "bad": 1 } } } });
    place.write(".claude.json", &claude.to_string());
    place.write(
        ".cursor/mcp.json",
        &json!({ "mcpServers": { "one": server } }).to_string(),
    );
    place.write(".gemini/settings.json", "{ broken");
    let codex = format!(
        "[mcp_servers.two]\ncommand = '{program}'\nargs = ['serve', '--demo', '--stdio']\n"
    );
    place.write(".codex/config.toml", &codex);
    let mut command = lmcp(&["hub", "import"]);
    command.env("HOME", &place.0).current_dir(&place.0);
    let output = command
        .output()
        .expect("the binary was built for this test");
    assert!(output.status.success());
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    for words in [
        "`bad` is left out",
        "settings.json: line 1",
        "config.toml: 1 servers",
    ] {
        assert!(notes.contains(words), "{notes}");
    }
    let config = place.write("hub.toml", &String::from_utf8_lossy(&output.stdout));
    let (_running, address) = place.http(&config);
    let names = tool_names(&address);
    assert_eq!(names.len(), 8, "{names:?}");
    assert!(names.contains(&"two__echo".to_owned()), "{names:?}");
}

#[test]
fn what_an_imported_file_hides_is_shown_as_its_number() {
    let place = Place::new("hub-import-hidden");
    let bad = "a\r\u{202e}\u{1b}[2J";
    let servers = json!({ "mcpServers": { bad: 1, "b\u{200b}": { "command": "x\u{2066}" } } });
    let file = place.write("evil.json", &servers.to_string());
    let mut command = lmcp(&["hub", "import"]);
    let output = command
        .arg(file)
        .output()
        .expect("the binary was built for this test");
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(notes.contains(r"a\u{d}\u{202e}\u{1b}[2J"), "{notes}");
    let written = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(written.contains(r#"[servers."b\U0000200B"]"#), "{written}");
    let both = notes + &written;
    assert!(
        !both.contains(['\r', '\u{1b}', '\u{200b}', '\u{202e}', '\u{2066}']),
        "{both}"
    );
}
