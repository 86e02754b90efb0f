//! A program that may be killed, or become another version of itself, while its children run on: its host is at a path, and
//! the next host there knows the children again. `cargo run -p lmcp-embed --example phoenix --
//! /run/user/1000/phoenix/host.sock`. Without a path the program can still become another version of itself, but its
//! children end when it is killed.
//!
//! The program reads lines: `start LABEL COMMAND` runs a command of a shell as a child, `list` shows the children, `exec`
//! starts the program again in its place, `quit` and the end of input close the host and leave the children alone.

#![expect(clippy::print_stdout, reason = "what it says is for people")]

use std::{
    env,
    error::Error,
    io::stdin,
    process::{Command, Stdio},
    thread,
};

use lmcp::{
    Server,
    embed::{Host, whoami},
};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result {
    let path = env::args_os().nth(1);
    let setup = match &path {
        Some(path) => Host::setup().path(path),
        None => Host::setup(),
    };
    let host = setup.start(Server::new("phoenix", "1.0.0").tool(whoami()))?;
    let mut events = host.events();
    // Another thread shows the events, as a window would.
    thread::spawn(move || {
        while let Some(event) = events.wait() {
            println!("{event}");
        }
    });
    println!("ready with {} children", host.children().len());
    for line in stdin().lines() {
        let line = line?;
        let mut words = line.trim().splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some("start"), Some(label), Some(command)) => start(&host, label, command)?,
            (Some("list"), ..) => list(&host),
            (Some("exec"), ..) => {
                let failed = host.exec(Command::new(env::current_exe()?).args(&path));
                return Err(failed.into());
            }
            (Some("quit"), ..) => break,
            _ => println!("what is `{line}`?"),
        }
    }
    host.close();
    Ok(())
}

/// Starts a child that outlives this program.
fn start(host: &Host, label: &str, command: &str) -> Result {
    let child = host.child(label, "worker")?;
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null());
    child.watch(child.spawn(&mut shell)?);
    // The data that the program needs about the child after a restart.
    child.store(&command)?;
    child.detach();
    Ok(())
}

fn list(host: &Host) {
    for child in host.children() {
        let (identity, connections) = (child.identity(), child.connections().len());
        let command: String = child.stored().unwrap_or_default();
        println!("{} {} {connections} {command}", identity.label, identity.id);
    }
    println!("listed");
}
