//! The program that `clients/host-chaos` kills: `chaos-host SOCKET JOURNAL PROGRAM`. Its host is at a path, its children outlive it.
//!
//! A line at a time tells it what to do: `start LABEL COMMAND` runs a command of a shell as a child, `list` shows the children, `exec`
//! becomes PROGRAM, `quit` closes and leaves the children alone. It says what happens to them, a line each.

#![expect(clippy::print_stdout, reason = "what it says is read by a script")]

use std::{
    env,
    error::Error,
    ffi::OsString,
    fs::{File, OpenOptions},
    io::{Write as _, stdin},
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use lmcp::{
    Cx, NoArgs, Server, Tool, ToolResult,
    embed::{ChildOf as _, Event, Host},
};
use schemars::JsonSchema;
use serde::Deserialize;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

#[derive(Deserialize, JsonSchema)]
struct Note {
    /// A word that no other call has.
    key: String,
}

fn main() -> Result {
    let args: Vec<OsString> = env::args_os().skip(1).collect();
    let [socket, journal, program] = &args[..] else {
        return Err("usage: chaos-host SOCKET JOURNAL PROGRAM".into());
    };
    let journal = OpenOptions::new().create(true).append(true).open(journal)?;
    // Tells this run of the program from all others, those in the same process among them.
    let run = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    let version = env::current_exe()?;
    let version = version.file_name().unwrap_or_default().to_string_lossy();
    let host = Host::start_at(server(journal, run, &version), socket)?;
    let mut events = host.events();
    thread::spawn(move || {
        while let Some(event) = events.wait() {
            show(&event);
        }
    });
    println!("ready {run} {version} {}", host.children().len());
    for line in stdin().lines() {
        let line = line?;
        let mut words = line.splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some("start"), Some(label), Some(command)) => start(&host, label, command)?,
            (Some("list"), ..) => list(&host),
            (Some("exec"), ..) => return Err(host.exec(Command::new(program).args(&args)).into()),
            _ => break,
        }
    }
    host.close();
    Ok(())
}

/// The host writes the effect of a call into its journal before it answers the call.
fn server(journal: File, run: u128, version: &str) -> Server {
    let journal = Arc::new(journal);
    let note = move |args: Note, cx: Cx| {
        let journal = Arc::clone(&journal);
        async move {
            let id = cx.child().map(|child| child.identity().id.clone());
            let id = id.ok_or("this is nobody's child")?;
            // Each line is one write, so that a line stays whole whenever the program is killed.
            (&*journal).write_all(format!("{}\n", args.key).as_bytes())?;
            ToolResult::Ok(format!("{id} {run}"))
        }
    };
    Server::new("chaos-host", version)
        .tool(Tool::new("note", note).about("Notes a key.").writes())
        .tool(Tool::new("wait", wait).about("Waits.").read_only())
}

async fn wait(_: NoArgs, _: Cx) -> &'static str {
    tokio::time::sleep(Duration::from_secs(3600)).await;
    "waited"
}

fn start(host: &Host, label: &str, command: &str) -> Result {
    let child = host.child(label, "worker")?;
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null());
    child.watch(child.spawn(&mut shell)?);
    child.detach();
    Ok(())
}

fn list(host: &Host) {
    for child in host.children() {
        let (identity, process) = (child.identity(), child.process().unwrap_or_default());
        println!("child {} {} {process}", identity.label, identity.id);
    }
    println!("listed");
}

fn show(event: &Event) {
    match event {
        Event::Attached(child, _) => println!("attached {}", child.identity().label),
        Event::Detached(child, _) => println!("detached {}", child.identity().label),
        Event::Ended(child, _) => println!("ended {}", child.identity().label),
        other => println!("wrong {other:?}"),
    }
}
