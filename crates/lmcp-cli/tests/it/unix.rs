//! The unix socket of `serve`, and a server that several clients share.

use std::{
    fs,
    io::{BufRead, BufReader, Write as _},
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::support::{Running, lmcp, said};

/// A folder that only this user can enter, as `$XDG_RUNTIME_DIR` is.
fn runtime() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("tests may write here");
    let rights = fs::Permissions::from_mode(0o700);
    fs::set_permissions(&folder, rights).expect("it is ours");
    folder
}

/// Starts the server, and waits until it listens on its socket.
pub(crate) fn start(mut command: Command) -> (Running, PathBuf) {
    let mut running = Running(command.spawn().expect("the binary was built for this test"));
    let stderr = BufReader::new(running.0.stderr.take().expect("stderr is a pipe"));
    let mut lines = stderr.lines().map_while(Result::ok);
    let path = lines.find_map(|line| line.strip_prefix("listening on ").map(PathBuf::from));
    // Later lines need a reader.
    std::thread::spawn(move || lines.for_each(drop));
    (running, path.expect("it says where it listens"))
}

fn connect(path: &Path) -> BufReader<UnixStream> {
    BufReader::new(UnixStream::connect(path).expect("it listens"))
}

/// Returns the answer to a call.
fn call(connection: &mut BufReader<UnixStream>, tool: &str, arguments: &Value) -> Value {
    let call = lmcp_testkit::call(1, tool, arguments);
    let line = format!("{call}\n");
    let stream = connection.get_mut();
    stream.write_all(line.as_bytes()).expect("it reads");
    let mut answer = String::new();
    connection.read_line(&mut answer).expect("it answers");
    serde_json::from_str(&answer).expect("an answer is JSON")
}

fn echo(connection: &mut BufReader<UnixStream>) -> bool {
    let answer = call(connection, "echo", &json!({ "text": "hi" }));
    answer["result"]["content"][0]["text"] == "hi"
}

/// Returns whether this is the socket of the user's own server.
fn is_own(path: &Path, runtime: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.parent() == Some(&runtime.join("lmcp"))
        && name.starts_with("serve-")
        && name.ends_with(".sock")
}

/// Returns the number of sockets in the folder.
fn sockets(runtime: &Path) -> usize {
    let entries = fs::read_dir(runtime.join("lmcp"))
        .expect("it was made")
        .flatten();
    entries
        .filter(|entry| is_own(&entry.path(), runtime))
        .count()
}

#[test]
fn the_users_own_socket_is_served_by_one_server() {
    let runtime = runtime();
    let serve = || {
        let mut command = lmcp(&["serve", "--demo", "--unix"]);
        command.env("XDG_RUNTIME_DIR", runtime.path());
        command
    };
    let (_running, path) = start(serve());
    // The name has a suffix, because the tests set a variable for the state folder.
    assert!(is_own(&path, runtime.path()), "{path:?}");
    assert!(echo(&mut connect(&path)));
    let (code, words) = said(&serve().output().expect("it runs"));
    assert_eq!(code, Some(75));
    assert!(words.contains("another server serves"), "{words}");
    assert!(echo(&mut connect(&path)));
}

#[test]
fn a_folder_that_others_can_enter_is_closed_to_them_before_it_is_used() {
    let runtime = runtime();
    let folder = runtime.path().join("lmcp");
    fs::create_dir(&folder).expect("it is ours");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let mut command = lmcp(&["serve", "--demo", "--idle-exit", "1", "--unix"]);
    command.env("XDG_RUNTIME_DIR", runtime.path());
    let (code, words) = said(&command.output().expect("it runs"));
    assert_eq!(code, Some(0), "{words}");
    assert!(words.contains("had a wrong mode"), "{words}");
    let mode = fs::metadata(&folder)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn it_stays_for_whoever_is_connected_and_stops_when_nobody_is() {
    let runtime = runtime();
    let path = runtime.path().join("s");
    let arguments = ["serve", "--demo", "--idle-exit", "1", "--unix"];
    let mut command = lmcp(&arguments);
    command.arg(&path);
    let (mut running, path) = start(command);
    let mut connection = connect(&path);
    // The call takes longer than the server waits for a new client.
    let answer = call(&mut connection, "wait", &json!({ "seconds": 2 }));
    assert!(answer["result"].is_object(), "{answer}");
    assert!(echo(&mut connection));
    drop(connection);
    assert!(running.0.wait().expect("it ends").success());
    assert!(!path.exists());
}

#[test]
fn a_socket_that_is_passed_on_is_served_and_left() {
    let runtime = runtime();
    let path = runtime.path().join("s");
    let manager = "import os, socket, sys\n\
        listener = socket.socket(socket.AF_UNIX)\n\
        listener.bind(sys.argv[1]); listener.listen()\n\
        os.dup2(listener.fileno(), 3); os.set_inheritable(3, True)\n\
        os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))\n\
        os.execv(sys.argv[2], sys.argv[2:])";
    let program = lmcp(&[]);
    let mut command = Command::new("python3");
    command
        .args(["-c", manager])
        .arg(&path)
        .arg(program.get_program())
        .args(["serve", "--demo", "--idle-exit", "1"])
        .env("LMCP_STATE_DIR", runtime.path())
        .stderr(std::process::Stdio::piped());
    let (mut running, served) = start(command);
    assert_eq!(served, path);
    let mut connection = connect(&path);
    assert!(echo(&mut connection));
    drop(connection);
    assert!(running.0.wait().expect("it ends").success());
    assert!(path.exists());
}

#[test]
fn a_socket_that_is_promised_and_not_passed_on_stops_the_start() {
    let script = "import os, sys\n\
        os.environ.update(LISTEN_FDS=sys.argv[1], LISTEN_PID=str(os.getpid()))\n\
        os.execv(sys.argv[2], sys.argv[2:])";
    for promised in ["0", "1", "many"] {
        let mut command = Command::new("python3");
        command
            .args(["-c", script, promised])
            .arg(lmcp(&[]).get_program())
            .args(["serve", "--demo"]);
        let (code, words) = said(&command.output().expect("it runs"));
        assert_eq!(code, Some(1), "{words}");
        assert!(words.contains("systemd"), "{words}");
    }
}

#[test]
fn stopping_when_idle_needs_a_socket_and_nothing_else() {
    let both = ["serve", "--idle-exit", "1", "--unix", "x", "--http", "0"];
    let (code, words) = said(&lmcp(&both).output().expect("it runs"));
    assert_eq!(code, Some(2));
    assert!(words.contains("nothing else"), "{words}");
    let (code, words) = said(
        &lmcp(&["serve", "--idle-exit", "1"])
            .output()
            .expect("it runs"),
    );
    assert_eq!(code, Some(2));
    assert!(words.contains("--unix"), "{words}");
}

#[test]
fn more_connections_than_files_keep_nobody_out() {
    let runtime = runtime();
    let path = runtime.path().join("s");
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -Hn 40; ulimit -n 40; exec \"$@\"", "sh"])
        .arg(lmcp(&[]).get_program())
        .args(["serve", "--demo", "--unix"])
        .arg(&path)
        .env("LMCP_STATE_DIR", runtime.path())
        .stderr(std::process::Stdio::piped());
    let (running, path) = start(command);
    let mut known = connect(&path);
    assert!(echo(&mut known));
    // Half of the files are for connections: silent connections make room for each other.
    let crowd: Vec<_> = (0..60).map(|_| connect(&path)).collect();
    let before = ticks(running.0.id());
    let waited = std::time::Instant::now();
    // The answer takes as long as requested, and the server does not use the processor meanwhile.
    let answer = call(&mut known, "wait", &json!({ "seconds": 1 }));
    assert!(answer["result"].is_object(), "{answer}");
    let (busy, waited) = (
        ticks(running.0.id()) - before,
        waited.elapsed().as_millis() / 10,
    );
    assert!(u128::from(busy) * 4 < waited, "{busy} of {waited} ticks");
    assert!(echo(&mut connect(&path)), "the next one is served");
    drop(crowd);
}

/// Returns the processor time of a process, in hundredths of a second.
fn ticks(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
    let (_, rest) = text.rsplit_once(')').expect("its name is in brackets");
    let fields: Vec<_> = rest.split_ascii_whitespace().collect();
    [11, 12]
        .map(|field| fields[field].parse::<u64>().expect("a number"))
        .iter()
        .sum()
}

/// Starts a proxy to the user's own server.
fn proxy(runtime: &Path) -> (Running, BufReader<std::process::ChildStdout>) {
    let mut command = lmcp(&["proxy"]);
    command
        .env("XDG_RUNTIME_DIR", runtime)
        .env("HOME", runtime)
        .stderr(std::process::Stdio::null());
    let mut running = Running(command.spawn().expect("the binary was built for this test"));
    let stdout = running.0.stdout.take().expect("a pipe");
    (running, BufReader::new(stdout))
}

/// Returns a call whose answer is the process number of the server.
fn who_serves() -> String {
    // The guard of a command is a child of the server.
    let command = json!({ "command": "ps -o ppid= -p $PPID" });
    let call = lmcp_testkit::call(1, "shell", &command);
    format!("{call}\n")
}

/// Returns that answer. `Err` if the call may be repeated.
fn server(answers: &mut impl BufRead) -> Result<String, ()> {
    let mut answer = String::new();
    answers.read_line(&mut answer).expect("it answers");
    let answer: Value = serde_json::from_str(&answer).expect("an answer is JSON");
    if answer["error"]["data"]["retriable"] == true {
        return Err(());
    }
    let output = answer["result"]["structuredContent"]["stdout"].as_str();
    let output = output.unwrap_or_else(|| panic!("{answer}"));
    Ok(output.trim().to_owned())
}

/// Returns the process that answers behind a proxy.
fn server_behind(proxy: &mut (Running, BufReader<std::process::ChildStdout>)) -> String {
    loop {
        let stdin = proxy.0.0.stdin.as_mut().expect("a pipe");
        stdin.write_all(who_serves().as_bytes()).expect("it reads");
        // The server may have been killed after the proxy had passed on the call.
        if let Ok(server) = server(&mut proxy.1) {
            return server;
        }
    }
}

#[test]
fn proxies_start_one_server_and_share_it() {
    let runtime = runtime();
    let mut proxies: Vec<_> = (0..5).map(|_| proxy(runtime.path())).collect();
    let mut servers: Vec<_> = proxies.iter_mut().map(server_behind).collect();
    servers.dedup();
    assert_eq!(servers.len(), 1, "{servers:?}");
    let server = servers.remove(0);
    // After the server was killed, the next proxy that needs it starts it again.
    let killed = Command::new("kill").args(["-9", &server]).status();
    assert!(killed.expect("it runs").success());
    let mut next: Vec<_> = proxies.iter_mut().map(server_behind).collect();
    next.dedup();
    assert_eq!(next.len(), 1, "{next:?}");
    assert_ne!(next[0], server);
    drop(proxies);
    stop(runtime.path(), &next[0]);
}

#[test]
fn a_session_that_may_do_less_has_a_server_that_does_less() {
    let runtime = runtime();
    let work = runtime.path().join("work");
    fs::create_dir(&work).expect("tests may write here");
    fs::write(work.join("here"), "").expect("tests may write here");
    let mut open = proxy(runtime.path());
    let open_server = server_behind(&mut open);
    // The root is relative to the folder of the session.
    let mut command = lmcp(&["proxy"]);
    command
        .env("XDG_RUNTIME_DIR", runtime.path())
        .env("HOME", runtime.path())
        .env("LMCP_ROOT", ".")
        .env("LMCP_READ_ONLY", "true")
        .current_dir(&work);
    let mut strict = Running(command.spawn().expect("the binary was built for this test"));
    let tools = lmcp_testkit::request(1, "tools/list", json!({}));
    let list = lmcp_testkit::call(2, "list_dir", &json!({ "path": "." }));
    let lines = format!("{tools}\n{list}\n");
    let stdin = strict.0.stdin.as_mut().expect("a pipe");
    stdin.write_all(lines.as_bytes()).expect("it reads");
    let mut answers = BufReader::new(strict.0.stdout.take().expect("a pipe")).lines();
    let tools = answers.next().expect("it answers").expect("text");
    assert!(
        tools.contains("read_file") && !tools.contains("write_file"),
        "{tools}"
    );
    let listed = answers.next().expect("it answers").expect("text");
    assert!(listed.contains("here"), "{listed}");
    assert_eq!(sockets(runtime.path()), 2);
    drop((open, strict));
    stop(runtime.path(), &open_server);
}

/// Ends the servers that were started here: the known one, and those with this runtime folder in their environment.
fn stop(runtime: &Path, known: &str) {
    let mut servers = vec![known.to_owned()];
    let mark = format!("XDG_RUNTIME_DIR={}\0", runtime.display()).into_bytes();
    for process in fs::read_dir("/proc").expect("this is Linux").flatten() {
        let environ = fs::read(process.path().join("environ")).unwrap_or_default();
        if environ.windows(mark.len()).any(|part| part == mark) {
            servers.extend(process.file_name().into_string());
        }
    }
    let _ = Command::new("kill")
        .arg("-TERM")
        .args(&servers)
        .stderr(std::process::Stdio::null())
        .status();
    while sockets(runtime) > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_client_that_has_said_all_is_answered_by_the_server_that_is_started_for_it() {
    let runtime = runtime();
    let (mut proxy, mut answers) = proxy(runtime.path());
    let mut stdin = proxy.0.stdin.take().expect("a pipe");
    stdin.write_all(who_serves().as_bytes()).expect("it reads");
    drop(stdin);
    let server = server(&mut answers).expect("there is a server");
    assert_eq!(proxy.0.wait().unwrap().code(), Some(0));
    stop(runtime.path(), &server);
}

#[test]
fn a_server_that_cannot_start_is_said_by_the_proxy() {
    let runtime = runtime();
    let mut command = lmcp(&["proxy"]);
    command
        .env("XDG_RUNTIME_DIR", runtime.path())
        .env("HOME", runtime.path())
        .env("LMCP_ROOT", "/nonexistent/root");
    let mut running = Running(command.spawn().expect("the binary was built for this test"));
    let stdin = running.0.stdin.as_mut().expect("a pipe");
    stdin
        .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n")
        .expect("it reads");
    let stderr = BufReader::new(running.0.stderr.take().expect("a pipe"));
    let mut lines = stderr.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("cannot start") && line.contains("/nonexistent/root")));
}

#[test]
fn a_confined_command_gets_nothing_from_the_own_server() {
    let (runtime, root) = (runtime(), runtime());
    let mut own = lmcp(&["serve", "--unix"]);
    own.env("XDG_RUNTIME_DIR", runtime.path());
    let (own, socket) = start(own);
    let program = Path::new(env!("CARGO_BIN_EXE_lmcp"));
    // Asks the user's own server for its process number, through a proxy.
    let call = who_serves();
    let ask = format!(
        "echo '{}' | {} proxy {}; echo ended with $?",
        call.trim(),
        program.display(),
        socket.display()
    );
    for is_confined in [false, true] {
        let mut command = lmcp(&["serve", "--stdio"]);
        if is_confined {
            command.arg("--root").arg(root.path());
            command
                .arg("--also-read")
                .arg(program.parent().expect("a folder"));
        }
        command.env("XDG_RUNTIME_DIR", runtime.path());
        let said = shell_on_stdio(command, &ask);
        let is_answered = said.contains(&format!("{}\\n", own.0.id()));
        assert_eq!(is_answered, !is_confined, "{said}");
        assert_eq!(said.contains("confined command"), is_confined, "{said}");
        // A failure that is final does not say that a retry helps.
        let is_final = said.contains("ended with 77") && said.contains(r#""retriable":false"#);
        assert_eq!(is_final, is_confined, "{said}");
    }
}

/// Asks a server on stdio to run a line, and returns the answer.
pub(crate) fn shell_on_stdio(mut command: Command, line: &str) -> String {
    let mut server = Running(command.spawn().expect("the binary was built for this test"));
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": "shell", "arguments": { "command": line }, "_meta": meta });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let stdin = server.0.stdin.as_mut().expect("a pipe");
    writeln!(stdin, "{call}").expect("it reads");
    let mut answer = String::new();
    let stdout = server.0.stdout.take().expect("a pipe");
    BufReader::new(stdout)
        .read_line(&mut answer)
        .expect("it answers");
    let answer: Value = serde_json::from_str(&answer).expect("an answer is JSON");
    let ran = &answer["result"]["structuredContent"];
    format!(
        "{}{}",
        ran["stdout"].as_str().unwrap_or_default(),
        ran["stderr"]
    )
}
