//! A program that starts children in ways of its own, and changes their rights while they run. `cargo run -p lmcp-embed
//! --example foreman`
//!
//! The program reads lines: `start LABEL TASK COMMAND` runs a command of a shell as a worker with a task, `adopt LABEL PID`
//! takes a process that runs already, `promote LABEL` makes a worker a lead, `elsewhere LABEL` admits processes that the
//! child started in tmux or a container, `family LABEL` allows the child sub-agents, `entry LABEL` shows the entry for the
//! configuration of its agent.

#![expect(clippy::print_stdout, reason = "what it says is for people")]

use std::{collections::HashMap, error::Error, io::stdin, process::Command, thread};

use lmcp::{
    Cx, NoArgs, Resource, Server, Tool,
    embed::{Allowance, Child, ChildOf as _, Host, family, whoami},
};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// The program's data about a child. A tool finds it by the caller.
struct Task(String);

async fn task(_: NoArgs, cx: Cx) -> String {
    let task = cx.child_data::<Task>();
    task.map_or_else(|| "you have none".to_owned(), |task| task.0.clone())
}

fn server() -> Server {
    let task = Tool::new("task", task).about("Your own task.").read_only();
    let plan = Resource::text("plan://all", "plan", "Everybody's tasks.");
    Server::new("foreman", "1.0.0")
        .tool(task)
        .tool(whoami())
        .tools(family())
        .resource(plan.only_for(["lead"]))
}

fn main() -> Result {
    let host = Host::start(server())?;
    let mut events = host.events();
    thread::spawn(move || {
        while let Some(event) = events.wait() {
            println!("{event}");
        }
    });
    // A child ends when it is dropped.
    let mut children = HashMap::<String, Child>::new();
    println!("ready");
    for line in stdin().lines() {
        let line = line?;
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["start", label, task, command] => {
                let child = start(&host, label, task, command)?;
                children.insert(label.to_owned(), child);
            }
            ["adopt", label, process] => {
                let child = host.child(label, "worker")?;
                // The process has no credentials yet: a person has to give it the file.
                println!("credentials {}", child.credentials().display());
                child.bind(process.parse()?)?;
                children.insert(label.to_owned(), child);
            }
            [what, label] => match children.get(label) {
                Some(child) => change(child, what),
                None => println!("who is `{label}`?"),
            },
            _ => println!("what is `{line}`?"),
        }
    }
    Ok(())
}

/// Starts a child as a library for pseudo-terminals would: with variables, and with a process as the result.
fn start(host: &Host, label: &str, task: &str, command: &str) -> Result<Child> {
    let child = host.child(label, "worker")?;
    child.set_data(Task(task.to_owned()));
    // The child sees the field in its welcome and in its identity.
    child.set_field("desk", host.children().len());
    let mut shell = Command::new("sh");
    let process = shell.args(["-c", command]).envs(child.env()).spawn()?;
    // A process of the child may connect before this call; it waits.
    child.bind_watched(process)?;
    Ok(child)
}

fn change(child: &Child, what: &str) {
    match what {
        // Only this child is told that there is a new resource.
        "promote" => child.set_role("lead"),
        "elsewhere" => {
            child.admit_adopted();
            println!("credentials {}", child.credentials().display());
        }
        "family" => child.allow_children(Allowance::new(["worker"]).number(2)),
        "entry" => {
            let entry = child.mcp_entry("lmcp");
            println!(
                "entry {}",
                serde_json::json!({ "mcpServers": { "foreman": entry } })
            );
        }
        other => println!("what is `{other}`?"),
    }
}
