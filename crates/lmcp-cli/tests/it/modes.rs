//! Confined commands that change the modes of files of their server, which belong to the same user.
//!
//! Root is not stopped by modes. So where the tests run as root, the server runs as another user.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::{
        fs::{PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{proxy::modern, support::program_in};

/// A user that nobody is.
const USER: u32 = 64_994;

/// A server on stdio that is no root, with one root for commands.
struct Server {
    folder: tempfile::TempDir,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("tests may write here");
        let program = program_in(folder.path());
        fs::create_dir(folder.path().join("root")).expect("tests may write here");
        let mut command = Command::new(program);
        if rustix::process::geteuid().is_root() {
            for path in [folder.path(), &folder.path().join("root")] {
                chown(path, Some(USER), Some(USER)).expect("root may do this");
            }
            command.uid(USER).gid(USER);
        }
        command
            .args(["serve", "--stdio", "--root"])
            .arg(folder.path().join("root"))
            .arg("--state-dir")
            .arg(folder.path().join("state"))
            .env_clear()
            .env("HOME", folder.path())
            .env("PATH", "/usr/bin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("the binary was built for this test");
        let input = child.stdin.take().expect("stdin is a pipe");
        let output = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        Self {
            folder,
            child,
            input,
            output,
        }
    }

    fn jobs(&self) -> PathBuf {
        self.folder.path().join("state/jobs")
    }

    /// Calls a tool that succeeds.
    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let call = modern(
            1,
            "tools/call",
            json!({"name": tool, "arguments": arguments}),
        );
        writeln!(self.input, "{call}").expect("it reads");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it answers");
        let answer: Value = serde_json::from_str(&line).expect("JSON");
        let result = &answer["result"];
        assert!(result.is_object() && result["isError"] != true, "{answer}");
        result["structuredContent"].clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn mode(path: &Path) -> Option<u32> {
    let found = fs::symlink_metadata(path).ok()?;
    Some(found.permissions().mode() & 0o777)
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_job_that_takes_the_leave_to_reach_its_guard_away_is_stopped() {
    let mut server = Server::new();
    let command = "chmod 000 $(dirname $TMPDIR)/guard; cat; sleep 300";
    let id = server.call("shell_bg", &json!({ "command": command }))["id"].clone();
    let guard = server.jobs().join(id.as_str().unwrap()).join("guard");
    until("its mode is changed", || mode(&guard) == Some(0));
    server.call("job_stop", &json!({ "id": id }));
    let jobs = server.call("jobs", &json!({}));
    assert_ne!(jobs["jobs"][0]["state"], "running", "{jobs}");
}

#[test]
fn a_command_that_closes_the_state_folder_leaves_no_scratch_files() {
    let mut server = Server::new();
    let jobs = server.jobs();
    let state = jobs.parent().unwrap().display().to_string();
    let command = format!("echo x > $TMPDIR/x; chmod 000 {state}/jobs {state}");
    server.call("shell", &json!({ "command": command }));
    until("the folder of the command is gone", || {
        fs::read_dir(&jobs).is_ok_and(|mut entries| entries.next().is_none())
    });
    // A job loses its scratch files, and nothing else.
    let command = format!("echo kept; chmod 000 $(dirname $TMPDIR) {state}/jobs {state}");
    let id = server.call("shell_bg", &json!({ "command": command }))["id"].clone();
    let output = server.call("job_output", &json!({"id": id, "wait_exit": true}));
    assert_eq!(output["output"], "kept\n", "{output}");
    let scratch = jobs.join(id.as_str().unwrap()).join("tmp");
    until("its scratch folder is gone", || {
        fs::symlink_metadata(&scratch).is_err_and(|err| err.kind() == std::io::ErrorKind::NotFound)
    });
    let output = server.call("job_output", &json!({ "id": id }));
    assert_eq!(output["output"], "kept\n", "{output}");
}
