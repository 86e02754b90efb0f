//! Confined commands that change the modes of files of their server, which belong to the same user; and access lists, which
//! an older server allowed them to set.
//!
//! Modes do not stop root. So if the tests run as root, the server runs as another user.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::{
        fs::{PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    proxy::{Client, call, listening, modern, text},
    stripped::{ask, tools},
    support::{program_in, said},
};

/// A user number that nobody has.
const USER: u32 = 64_994;

/// A server on stdio that does not run as root, with one root for commands.
struct Server {
    folder: tempfile::TempDir,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// Makes a folder with the program and a folder `root`, which belongs to a user other than root.
fn place() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("tests may write here");
    program_in(folder.path());
    fs::create_dir(folder.path().join("root")).expect("tests may write here");
    if rustix::process::geteuid().is_root() {
        for path in [folder.path(), &folder.path().join("root")] {
            chown(path, Some(USER), Some(USER)).expect("root may do this");
        }
    }
    folder
}

/// Returns the program in this folder, run as the owner of the folder.
fn program(folder: &Path) -> Command {
    let mut command = Command::new(folder.join("lmcp"));
    if rustix::process::geteuid().is_root() {
        command.uid(USER).gid(USER);
    }
    command
        .env_clear()
        .env("HOME", folder)
        .env("TMPDIR", folder.join("root"))
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

impl Server {
    fn new() -> Self {
        let folder = place();
        let mut command = program(folder.path());
        command
            .args(["serve", "--stdio", "--root"])
            .arg(folder.path().join("root"))
            .arg("--state-dir")
            .arg(folder.path().join("state"));
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

    /// Calls a tool, and expects success.
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

#[test]
fn a_socket_whose_mode_was_changed_is_reached_by_the_proxy() {
    let folder = place();
    let socket = folder.path().join("s");
    let mut server = program(folder.path());
    server.args(["serve", "--demo", "--unix"]).arg(&socket);
    let _server = listening(&mut server);
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o000)).expect("it is there");
    let mut client = Client::new(program(folder.path()).arg("proxy").arg(&socket));
    client.open();
    client.send(&call(7, "echo", &json!({"text": "still here"})));
    let answer = client.answer(7);
    assert_eq!(text(&answer), "still here", "{answer}");
    assert_eq!(mode(&socket), Some(0o600));
}

/// An access list that allows nobody anything, as the kernel stores it.
const NO_LEAVE: &[u8] = b"\x02\0\0\0\
    \x01\0\0\0\xff\xff\xff\xff\x04\0\0\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";

/// Makes all new files in this folder unusable for their owner.
#[expect(clippy::print_stderr, reason = "says what was not tested")]
fn spoil(folder: &Path) -> bool {
    let flags = rustix::fs::XattrFlags::empty();
    let set = rustix::fs::setxattr(folder, "system.posix_acl_default", NO_LEAVE, flags);
    if set.is_err() {
        eprintln!("note: this file system has no access lists, so they are not tested");
    }
    set.is_ok()
}

#[test]
fn a_default_access_list_stops_no_host_and_nothing_is_left() {
    let folder = place();
    let runtime = folder.path().join("lmcp.d");
    fs::create_dir(&runtime).expect("tests may write here");
    fs::create_dir(runtime.join("lmcp")).expect("tests may write here");
    for path in [&runtime, &runtime.join("lmcp")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).expect("it is there");
        if rustix::process::geteuid().is_root() {
            chown(path, Some(USER), Some(USER)).expect("root may do this");
        }
    }
    if !spoil(&runtime.join("lmcp")) {
        return;
    }
    let mut command = program(folder.path());
    command.env("XDG_RUNTIME_DIR", &runtime);
    command.args(["run", "--", "/bin/sh", "-c", "cat $LMCP_IDENTITY_FILE"]);
    let output = command.output().expect("the program is there");
    let (code, words) = said(&output);
    assert_eq!(code, Some(0), "{words}");
    assert!(!output.stdout.is_empty(), "{words}");
    let left = fs::read_dir(runtime.join("lmcp")).expect("it is ours");
    assert_eq!(left.count(), 0);
}

#[test]
fn a_default_access_list_stops_no_command() {
    let mut server = Server::new();
    server.call("shell", &json!({"command": "true"}));
    let state = server.folder.path().join("state");
    if !spoil(&server.jobs()) || !spoil(&state) {
        return;
    }
    let ran = server.call("shell", &json!({"command": "mktemp > /dev/null; echo $?"}));
    assert_eq!(ran["stdout"], "0\n", "{ran}");
    let job = server.call(
        "shell_bg",
        &json!({"command": "mktemp > /dev/null; echo $?"}),
    );
    let output = json!({"id": job["id"], "wait_exit": true});
    let output = server.call("job_output", &output);
    assert_eq!(output["output"], "0\n", "{output}");
}

/// Lists tools through a proxy that a script starts below an identity without the right to run commands. The script gets the
/// program as `$LMCP`, the identity as `$FILE`, its folder as `$FOLDER`, and the folder above as `$ABOVE`.
fn below_an_identity(folder: &Path, script: &str) -> Output {
    let script = format!(
        r#"FILE="$LMCP_IDENTITY_FILE"; FOLDER="$(dirname "$FILE")"; ABOVE="$(dirname "$FOLDER")"; {script}"#
    );
    let mut command = program(folder);
    command.args(["run", "--read-only", "--", "sh", "-c", &script]);
    command.env("LMCP", folder.join("lmcp"));
    ask(command)
}

#[test]
fn an_identity_whose_modes_were_changed_is_used_as_it_was() {
    let folder = place();
    for mode in ["000", "755", "777"] {
        for what in ["$FILE", "$FOLDER", "$ABOVE", "$FILE $FOLDER $ABOVE"] {
            let script = format!(
                "chmod {mode} {what} || exit 1; $LMCP proxy; stat -c %a $FILE $FOLDER $ABOVE >$HOME/modes"
            );
            let output = below_an_identity(folder.path(), &script);
            let tools = tools(&output);
            assert!(tools.contains(&"whoami".to_owned()), "{mode} {what}");
            assert!(!tools.contains(&"shell".to_owned()), "{mode} {what}");
            let modes = fs::read_to_string(folder.path().join("modes")).expect("it was written");
            // A folder that others can only list does not prevent the use of the identity.
            let are_right = matches!(modes.lines().next(), Some("600"))
                && modes
                    .lines()
                    .skip(1)
                    .all(|mode| matches!(mode, "700" | "755"));
            assert!(are_right, "{mode} {what}: {modes}");
        }
    }
}

#[test]
fn an_identity_file_in_a_folder_of_something_else_is_refused_and_left_as_it_is() {
    let folder = place();
    let script = "mkdir -p $HOME/keys/mine; cp $FILE $HOME/keys/mine/id; chmod 644 $HOME/keys/mine/id; \
                  LMCP_IDENTITY_FILE=$HOME/keys/mine/id exec $LMCP proxy";
    let (code, words) = said(&below_an_identity(folder.path(), script));
    assert_eq!(code, Some(2), "{words}");
    assert!(words.contains("cannot use the identity file"), "{words}");
    let copy = folder.path().join("keys/mine/id");
    assert_eq!(mode(&copy), Some(0o644), "{words}");
}
