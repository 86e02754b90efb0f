//! The example that starts children in ways of its own, and changes their rights (H5 to H9).

use std::{
    io::Write as _,
    process::{Child as Process, ChildStdin, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::visitor::{call, follow, heard, private_folder, refusal, request, visitor};

/// Only limits the time of a failure.
const PATIENCE: Duration = Duration::from_secs(60);

struct Foreman {
    process: Process,
    says: Option<ChildStdin>,
    heard: mpsc::Receiver<String>,
    _folder: tempfile::TempDir,
}

impl Foreman {
    fn start() -> Self {
        let folder = private_folder();
        let this = std::env::current_exe().unwrap();
        let built = this.parent().unwrap().with_file_name("examples");
        let mut process = Command::new(built.join("foreman"))
            .env("XDG_RUNTIME_DIR", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = follow(&mut process);
        let (tell, heard) = mpsc::channel();
        thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .all(|line| tell.send(line).is_ok())
        });
        Self {
            says: process.stdin.take(),
            process,
            heard,
            _folder: folder,
        }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.says.as_ref().unwrap(), "{line}").unwrap();
    }

    /// Reads until a line begins with this text, and returns the rest of the line.
    fn hear(&mut self, begin: &str) -> String {
        loop {
            let line = self.heard.recv_timeout(PATIENCE).unwrap();
            if let Some(rest) = line.strip_prefix(begin) {
                return rest.trim().to_owned();
            }
        }
    }

    /// Returns the next answer of a child, which writes to the output of the example.
    fn answer(&mut self, id: u64) -> Value {
        loop {
            let rest = self.hear("{");
            let message: Value = serde_json::from_str(&format!("{{{rest}")).unwrap();
            if message["id"] == id {
                return message;
            }
        }
    }
}

/// Returns the shell command of a child that sends these lines.
fn says(lines: &[String]) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/visitor.py");
    let quoted: String = lines.iter().map(|line| format!(" '{line}'")).collect();
    let count = lines.len() + 1;
    format!("echo process $$; python3 {script} env {count}{quoted}; exec sleep 60")
}

#[test]
fn children_have_tasks_roles_families_and_other_ways_in() {
    let mut foreman = Foreman::start();
    foreman.hear("ready");
    let lines = [
        call(1, "task", &json!({})),
        call(2, "whoami", &json!({})),
        request(3, "resources/list", json!({})),
    ];
    foreman.say(&format!("start ann digging {}", says(&lines)));
    let ann = foreman.hear("process");
    let task = foreman.answer(1);
    assert_eq!(task["result"]["content"][0]["text"], "digging");
    assert_eq!(
        foreman.answer(2)["result"]["structuredContent"]["label"],
        "ann"
    );
    // A worker does not see the resource for leads.
    assert_eq!(foreman.answer(3)["result"]["resources"], json!([]));

    foreman.say("entry ann");
    let entry: Value = serde_json::from_str(&foreman.hear("entry")).unwrap();
    assert_eq!(entry["mcpServers"]["foreman"]["args"][0], "proxy");

    // A process outside of the child's tree is admitted only after `elsewhere`, and then has the child's new role.
    let elsewhere = |credentials: &str| {
        let lines = [request(1, "resources/list", json!({}))];
        visitor(credentials, 2, &lines).spawn().unwrap()
    };
    foreman.say("promote ann");
    foreman.hear("ann changed from worker to lead");
    let mut running = Command::new("sleep").arg("60").spawn().unwrap();
    foreman.say(&format!("adopt eve {}", running.id()));
    let credentials = foreman.hear("credentials");
    assert!(refusal(elsewhere(&credentials)).contains("has not started process"));
    let refused = foreman.hear("a connection of process ");
    assert!(refused.contains(" was refused: this token was given to another process"));
    foreman.say("elsewhere ann");
    let credentials = foreman.hear("credentials");
    let answers = heard(elsewhere(&credentials));
    assert_eq!(answers[0]["lmcp_welcome"]["desk"], 1);
    assert_eq!(answers[1]["result"]["resources"][0]["uri"], "plan://all");
    foreman.hear("ann attached");

    // The child may make a sub-agent only after `family`.
    let make = || {
        let arguments = json!({ "label": "sub", "role": "worker" });
        let answers = heard(
            visitor(&credentials, 2, &[call(1, "new_child", &arguments)])
                .spawn()
                .unwrap(),
        );
        answers[1]["result"]["isError"] == true
    };
    assert!(make());
    foreman.say("family ann");
    foreman.say("entry ann");
    foreman.hear("entry");
    assert!(!make());

    running.kill().unwrap();
    running.wait().unwrap();
    foreman.hear("eve ended");
    Command::new("kill").arg(ann).status().unwrap();
    foreman.hear("ann ended");
    drop(foreman.says.take());
    foreman.process.wait().unwrap();
}
