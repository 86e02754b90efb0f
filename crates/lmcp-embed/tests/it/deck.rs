//! The example `deck`, in a terminal, with an agent in each pane.

use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    path::PathBuf,
    process::Command,
};

use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::visitor::private_folder;

/// Calls the tool that each line of its input names, `NAME ARGUMENTS`, and shows the answer. `text` is repeated `times`.
const AGENT: &str = r#"
import json, os, socket, sys, time
def call(name, arguments):
    credentials = json.load(open(os.environ["LMCP_IDENTITY_FILE"]))
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(credentials["socket"])
    lines = connection.makefile("rw", encoding="utf-8", newline="\n")
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    params = {"name": name, "arguments": arguments, "_meta": meta}
    print(json.dumps({"lmcp_identity": credentials["identity"]}), file=lines)
    print(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}), file=lines, flush=True)
    for line in lines:
        message = json.loads(line)
        if message.get("id") == 1:
            return message["result"]["content"][0]["text"]
print("ready", os.getpid(), flush=True)
for line in sys.stdin:
    name, arguments = line.split(" ", 1)
    arguments = json.loads(arguments)
    if "times" in arguments:
        arguments["text"] *= arguments.pop("times")
    answer = None
    while answer is None:
        try:
            answer = call(name, arguments)
        except OSError:
            time.sleep(0.01)
    print("=", answer, flush=True)
"#;

/// A person at a terminal.
struct Person {
    terminal: File,
    seen: String,
}

impl Person {
    fn type_in(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads until this text is on the screen, and forgets everything before it.
    fn see(&mut self, text: &str) -> String {
        let mut bytes = [0; 4096];
        loop {
            if let Some(at) = self.seen.find(text) {
                let rest = self.seen.split_off(at);
                self.seen = rest.get(text.len()..).unwrap_or_default().to_owned();
                return rest;
            }
            let read = self.terminal.read(&mut bytes).unwrap();
            self.seen += &String::from_utf8_lossy(&bytes[..read]);
        }
    }
}

#[test]
fn two_agents_write_to_each_other_and_go_on_when_the_program_restarts() {
    let folder = private_folder();
    let agent = folder.path().join("agent.py");
    std::fs::write(&agent, AGENT).unwrap();
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = PathBuf::from(ptsname(&terminal, Vec::new()).unwrap().to_str().unwrap());
    let size = Winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&terminal, size).unwrap();
    let screen = || {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(&name)
            .unwrap()
    };
    let this = std::env::current_exe().unwrap();
    let built = this.parent().unwrap().with_file_name("examples");
    let command = format!("exec python3 {}", agent.display());
    let mut deck = Command::new(built.join("deck"))
        .arg(folder.path().join("host.sock"))
        .args([&command, &command])
        .stdin(screen())
        .stdout(screen())
        .spawn()
        .unwrap();
    let mut person = Person {
        terminal: File::from(terminal),
        seen: String::new(),
    };
    person.see("ready");
    person.see("left: ");
    person.see("ready");
    person.type_in("send {\"to\": \"right\", \"text\": \"good day\"}\n");
    person.see("= sent");
    // The text is longer than a variable can be.
    person.type_in("write_pad {\"text\": \"words\", \"times\": 40000, \"revision\": 0}\n");
    person.see("= revision 1");
    person.type_in("\x12");
    person.see("went on with 2 agents");
    person.type_in("write_pad {\"text\": \"a plan\", \"revision\": 1}\n");
    person.see("= revision 2");
    // After this, the line about the restart is not on the screen any more.
    person.see("left detached");
    person.type_in("\x12");
    person.see("went on with 2 agents");
    // The scratchpad and the message are still there, and both agents still run.
    person.type_in("read_pad {}\n");
    person.see("= revision 2");
    person.see("a plan");
    person.type_in("\x0f");
    person.see(">right");
    person.type_in("inbox {}\n");
    person.see("left: good day");
    person.type_in("\x11");
    assert!(deck.wait().unwrap().success());
    // The credentials were removed with their children.
    let left = std::fs::read_dir(folder.path()).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["agent.py"]);
}
