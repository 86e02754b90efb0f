//! No socket of ours is a way around the fence: a confined command gets nothing from a server that may do more.

use std::{fs, path::Path};

use lmcp_core::{Handle, unix};
use serde_json::json;
use tempfile::TempDir;

use crate::support::{Host, settings, skipped, start, text};

/// Connects, sends its standard input and prints the line that comes back.
const CLIENT: &str = "import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(20)
s.connect(sys.argv[1])
try:
    s.sendall(sys.stdin.buffer.read())
except BrokenPipeError:
    pass
print(s.makefile().readline())
";

/// Is there what the client needs where a confined command finds it?
fn can_connect() -> bool {
    let found = Path::new("/usr/bin/python3").exists();
    if !found {
        skipped("no /usr/bin/python3, which a confined command could connect with");
    }
    found
}

/// A server below a root, which holds the client; and a socket outside of it.
struct Bench {
    root: TempDir,
    outside: TempDir,
    confined: Host,
}

impl Bench {
    /// Commands may also read these folders.
    fn new(also_read: &[&Path]) -> Self {
        let (root, outside, state) = (dir(), dir(), dir());
        fs::write(root.path().join("client.py"), CLIENT).unwrap();
        let mut settings = settings(state.path());
        settings.roots = vec![root.path().to_owned()];
        settings.also_read = also_read.iter().map(|path| (*path).to_owned()).collect();
        let server = start(settings);
        Self {
            root,
            outside,
            confined: Host { server, state },
        }
    }

    /// What a confined command hears that sends lines to a socket.
    async fn say(&self, socket: &Path, lines: &str) -> String {
        let client = self.root.path().join("client.py");
        let args = json!({
            "argv": ["/usr/bin/python3", client, socket],
            "stdin": lines,
        });
        let result = self.confined.call("shell", args).await;
        text(&result) + &format!("{:?}", result.structured_content)
    }

    /// What it hears on the socket of a server that it asks to run a command.
    async fn call(&self, server: Handle) -> String {
        let path = self.outside.path().join("socket");
        let socket = unix(&path).unwrap();
        let command = json!({"command": "echo got-$((20 + 3))"});
        let call = lmcp_testkit::call(1, "shell", &command);
        let line = format!("{call}\n");
        tokio::select! {
            served = server.serve(socket) => panic!("{served:?}"),
            heard = self.say(&path, &line) => heard,
        }
    }
}

fn dir() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[tokio::test]
async fn a_confined_command_gets_nothing_from_a_wider_server() {
    if !can_connect() {
        return;
    }
    let (bench, state) = (Bench::new(&[]), dir());
    let heard = bench.call(start(settings(state.path()))).await;
    assert!(
        heard.contains("confined command") && !heard.contains("got-23"),
        "{heard}"
    );
    // Not what it may do matters, but whether that is more.
    let mut reads = settings(state.path());
    reads.read_only = true;
    let heard = bench.call(start(reads)).await;
    assert!(heard.contains("confined command"), "{heard}");
}

#[tokio::test]
async fn a_confined_command_may_use_a_server_that_may_do_no_more() {
    if !can_connect() {
        return;
    }
    let (bench, state) = (Bench::new(&[]), dir());
    let mut same = settings(state.path());
    same.roots = vec![bench.root.path().to_owned()];
    let heard = bench.call(start(same)).await;
    assert!(heard.contains("got-23"), "{heard}");
}

#[tokio::test]
async fn a_confined_command_drives_no_wider_job_even_if_it_knows_the_key() {
    if !can_connect() {
        return;
    }
    let free = Host::new();
    let id = free.value("shell_bg", json!({"command": "cat"})).await["id"].clone();
    let job = free.state.path().join("jobs").join(id.as_str().unwrap());
    let record = fs::read(job.join("job.json")).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    // Its operator lets it read what it should not.
    let bench = Bench::new(&[&job]);
    let hello = json!({"hello": {"key": record["key"], "follows": false}});
    let input = json!({"input": {"text": "typed\n", "eof": false}});
    let heard = bench
        .say(&job.join("guard"), &format!("{hello}\n{input}\n"))
        .await;
    assert!(!heard.contains("started"), "{heard}");
    let output = free.value("job_output", json!({ "id": id })).await;
    assert_eq!(output["output"], "", "{output}");
    free.value("job_stop", json!({ "id": id })).await;
}

#[test]
fn jobs_are_not_kept_where_commands_can_read_them() {
    let (root, other) = (dir(), dir());
    let mut settings = settings(&other.path().join("state"));
    settings.roots = vec![root.path().to_owned()];
    settings.also_read = vec![other.path().to_owned()];
    let refused = lmcp_tools::HostTools::new(settings).unwrap_err();
    assert!(refused.to_string().contains("cannot be kept"), "{refused}");
}
