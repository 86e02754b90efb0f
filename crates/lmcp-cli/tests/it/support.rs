//! Helpers of the tests: the binary, a server that ends with the test, a client that writes its own HTTP.

use std::{
    env,
    fs::{self, File, OpenOptions},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};

/// Returns the binary, without variables that it would read.
pub(crate) fn lmcp(arguments: &[&str]) -> Command {
    lmcp_at(Path::new(env!("CARGO_BIN_EXE_lmcp")), arguments)
}

/// Does the same, with the binary at another path.
pub(crate) fn lmcp_at(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("LMCP_") {
            command.env_remove(name);
        }
    }
    command
        .args(arguments)
        // Nothing of the tests is to stay in anybody's home.
        .env("LMCP_STATE_DIR", env!("CARGO_TARGET_TMPDIR"))
        // The same for the servers that it starts.
        .env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub(crate) fn said(output: &Output) -> (Option<i32>, String) {
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// Returns the message of a command that does not start.
pub(crate) fn refusal(mut command: Command) -> String {
    let (code, words) = said(
        &command
            .output()
            .expect("the binary was built for this test"),
    );
    assert_eq!(code, Some(2), "{words}");
    assert!(!words.contains("listening"), "{words}");
    words
}

/// A process that ends with the test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server, and returns its HTTP address and its earlier messages.
pub(crate) fn start(mut command: Command) -> (Running, String, String) {
    let mut running = Running(command.spawn().expect("the binary was built for this test"));
    let stderr = running.0.stderr.take().expect("stderr is a pipe");
    // Nothing is read ahead, because the test may want to read on.
    let mut stderr = BufReader::with_capacity(1, stderr);
    let (mut words, mut line) = (String::new(), String::new());
    while stderr.read_line(&mut line).is_ok_and(|read| read > 0) {
        if let Some(url) = line.trim().strip_prefix("listening on http://") {
            let address = url.trim_end_matches("/mcp").to_owned();
            running.0.stderr = Some(stderr.into_inner());
            return (running, address, words);
        }
        words.push_str(&line);
        line.clear();
    }
    panic!("it did not start: {words}");
}

/// Returns the path of a folder that does not exist yet.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    folder
}

/// Writes a file with this mode, in a folder of its own.
pub(crate) fn file(name: &str, text: &str, mode: u32) -> PathBuf {
    let folder = folder(name);
    fs::create_dir_all(&folder).expect("tests may write here");
    let path = folder.join("file");
    fs::write(&path, text).expect("tests may write here");
    let rights = fs::Permissions::from_mode(mode);
    fs::set_permissions(&path, rights).expect("it is ours");
    path
}

/// Returns the status of a GET that opens a stream.
pub(crate) fn get(address: &str, path: &str) -> u16 {
    let head = format!("GET {path} HTTP/1.1\r\naccept: text/event-stream\r\n");
    ask(address, &head, "").0
}

/// Returns the status and the JSON of a call.
pub(crate) fn post(address: &str, headers: &str, message: &Value) -> (u16, Value) {
    let body = message.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{headers}",
        body.len()
    );
    let (status, answer) = ask(address, &head, &body);
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, serde_json::from_str(body).unwrap_or_default())
}

/// Returns the names of the tools, with a request without a session.
pub(crate) fn tool_names(address: &str) -> Vec<String> {
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let (_, answer) = post(address, "", &list);
    let tools = answer["result"]["tools"].as_array().cloned();
    let names = tools.into_iter().flatten().map(|tool| tool["name"].clone());
    names
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect()
}

/// Returns the status, and everything up to the end of the connection; for a stream, only its beginning.
pub(crate) fn ask(address: &str, head: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let host = if head.contains("\r\nhost: ") {
        String::new()
    } else {
        format!("host: {address}\r\n")
    };
    let request = format!("{head}{host}connection: close\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    loop {
        let read = stream.read(&mut part).unwrap_or_default();
        answer.extend_from_slice(&part[..read]);
        let stream = answer.windows(13).any(|bytes| bytes == b"text/event-st");
        if read == 0 || stream {
            break;
        }
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok());
    (status.unwrap_or_default(), answer)
}

/// Returns whether this kind of namespace can be made. If not, writes a note that a test is skipped.
#[expect(clippy::print_stderr, reason = "says what was not tested")]
pub(crate) fn can_unshare(options: &[&str]) -> bool {
    let tried = Command::new("unshare").args(options).arg("true").output();
    let is_allowed = tried.is_ok_and(|output| output.status.success());
    if !is_allowed {
        eprintln!("note: `unshare {options:?}` is refused here, so this is not tested");
    }
    is_allowed
}

/// Returns the binary in namespaces of its own, without variables that it would read.
pub(crate) fn unshared(options: &[&str], arguments: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(options)
        .arg(env!("CARGO_BIN_EXE_lmcp"))
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Puts the program into a folder where other users can run it. Another process copies it: a file that this process has open
/// for writing could be inherited by a child of another test, and could not be run meanwhile.
pub(crate) fn program_in(folder: &Path) -> PathBuf {
    let program = folder.join("lmcp");
    let mut copy = Command::new("cp");
    let copied = copy.arg(env!("CARGO_BIN_EXE_lmcp")).arg(&program).status();
    assert!(copied.expect("there is cp").success());
    program
}

/// Opens a terminal: returns the end of the person, and the name of the other end.
pub(crate) fn terminal() -> (File, PathBuf) {
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY);
    let person = person.expect("the system has terminals");
    grantpt(&person).expect("the system has terminals");
    unlockpt(&person).expect("the system has terminals");
    let name = ptsname(&person, Vec::new()).expect("the system has terminals");
    let name = name.to_str().expect("it is a plain name");
    (File::from(person), PathBuf::from(name))
}

/// Opens the other end of a terminal, for a program.
pub(crate) fn screen(name: &Path) -> File {
    let screen = OpenOptions::new().read(true).write(true).open(name);
    screen.expect("the system has terminals")
}
