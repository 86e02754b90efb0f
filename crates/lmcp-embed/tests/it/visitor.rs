//! Starts `visitor.py`, and reads its lines.

use std::{
    fs,
    io::{BufRead as _, BufReader, Lines},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

use serde_json::Value;

/// Returns the command that runs the program, with a pipe for its output.
pub(crate) fn visitor(credentials: &str, count: usize, lines: &[String]) -> Command {
    let mut command = Command::new("python3");
    command
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/visitor.py"))
        .arg(credentials)
        .arg(count.to_string())
        .args(lines)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
}

/// Returns all lines that the program received.
pub(crate) fn heard(process: Child) -> Vec<Value> {
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| line.into()))
        .collect()
}

/// Returns the lines of the program as they arrive.
pub(crate) fn follow(process: &mut Child) -> Lines<BufReader<ChildStdout>> {
    BufReader::new(process.stdout.take().unwrap()).lines()
}

/// Returns the words of a refusal, which is the only line.
pub(crate) fn refusal(process: Child) -> String {
    let heard = heard(process);
    assert_eq!(heard.len(), 1, "{heard:?}");
    heard[0]["error"]["message"].as_str().unwrap().to_owned()
}

/// Returns a request without a session.
pub(crate) fn request(id: u64, method: &str, params: Value) -> String {
    lmcp_testkit::request(id, method, params).to_string()
}

/// Returns a call of a tool.
pub(crate) fn call(id: u64, tool: &str, arguments: &Value) -> String {
    lmcp_testkit::call(id, tool, arguments).to_string()
}

/// Returns a path as text for the command line.
pub(crate) fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Returns a folder that only this user can enter.
pub(crate) fn private_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    folder
}
