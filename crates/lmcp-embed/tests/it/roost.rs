//! The example `roost`: agents in terminals write to it while it restarts.

use std::{
    io::{Read as _, Write as _},
    process::{Child as Process, Command, Stdio},
};

use crate::visitor::private_folder;

/// The number of agents that write without pause.
const WRITERS: usize = 4;

/// How often the program restarts meanwhile.
const RESTARTS: usize = 5;

struct Roost {
    process: Process,
    seen: String,
}

impl Roost {
    fn say(&mut self, line: &str) {
        writeln!(self.process.stdin.as_ref().unwrap(), "{line}").unwrap();
    }

    /// Reads until this text appears, and returns the text before it.
    fn see(&mut self, text: &str) -> String {
        let mut bytes = [0; 4096];
        loop {
            if let Some((before, rest)) = self.seen.split_once(text) {
                let before = before.to_owned();
                self.seen = rest.to_owned();
                return before;
            }
            let out = self.process.stdout.as_mut().unwrap();
            let read = out.read(&mut bytes).unwrap();
            assert!(read > 0, "it has ended after: {}", self.seen);
            self.seen += &String::from_utf8_lossy(&bytes[..read]);
        }
    }
}

#[test]
fn nothing_that_was_acknowledged_is_lost_when_the_program_restarts() {
    let folder = private_folder();
    let this = std::env::current_exe().unwrap();
    let built = this.parent().unwrap().with_file_name("examples");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/writer.py");
    let writers = (0..WRITERS).map(|number| format!("w{number}:worker:exec python3 {script}"));
    let process = Command::new(built.join("roost"))
        .arg(folder.path().join("host.sock"))
        .args(writers)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut roost = Roost {
        process,
        seen: String::new(),
    };
    for _ in 0..RESTARTS {
        for _ in 0..WRITERS {
            roost.see("fifty");
        }
        roost.say("restart");
    }
    for _ in 0..WRITERS {
        roost.see("fifty");
    }
    for number in 0..WRITERS {
        roost.say(&format!("type w{number} stop"));
        roost.see("missing ");
        let counts = roost.see(" end");
        assert!(counts.starts_with("0 of "), "missing {counts}");
    }
    // The terminals are open twice, and not once more for every restart.
    let open = std::fs::read_dir(format!("/proc/{}/fd", roost.process.id())).unwrap();
    let links = open.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
    let terminals = links.filter(|link| link.ends_with("ptmx")).count();
    assert!(terminals <= 2 * WRITERS, "{terminals} are open");
    roost.say("quit");
    assert!(roost.process.wait().unwrap().success());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
