//! A program whose agents run in terminals, write to each other and share a scratchpad, and which restarts under them.
//! `roost SOCKET LABEL:ROLE:COMMAND…`; then lines: `list`, `say LABEL TEXT`, `type LABEL TEXT`, `restart`, `quit`.
#![expect(clippy::print_stdout, reason = "what it says is for people")]

use lmcp::embed::{ChildHandle, ChildOf as _, Host, HostHandle, inbox, whoami};
use lmcp::{Cx, NoArgs, Server, Tool, ToolResult, ToolSet, schemars::JsonSchema};
use serde::Deserialize;
use std::io::{Read as _, Write as _, stdin};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::{collections::BTreeMap, env, error::Error, fs, sync::Arc, thread, time::Duration};
use tokio::sync::Mutex;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

struct Desk(HostHandle, Arc<Mutex<String>>);

#[derive(Deserialize, JsonSchema)]
struct Message {
    /// The label of the agent that it is for; none for yourself.
    to: Option<String>,
    text: String,
    /// Sends it so much later.
    #[serde(default)]
    seconds: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Page {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Sure {
    /// Really wipe the scratchpad?
    yes: bool,
}

impl Desk {
    async fn send(self: Arc<Self>, message: Message, cx: Cx) -> ToolResult<()> {
        let from = cx.calling_child()?;
        let to = message
            .to
            .map_or(Some(from.clone()), |to| self.0.find_label(&to));
        let to = to.ok_or("nobody has this label")?;
        let text = format!("{}: {}", from.label(), message.text);
        if message.seconds == 0 {
            return Ok(to.deliver(text)?);
        }
        self.0.spawn(async move {
            tokio::time::sleep(Duration::from_secs(message.seconds)).await;
            let _ = to.deliver(text); // it may have ended
        });
        Ok(())
    }
    async fn read(self: Arc<Self>, _: NoArgs, _: Cx) -> String {
        self.1.lock().await.clone()
    }
    async fn append(self: Arc<Self>, page: Page, _: Cx) {
        self.1.lock().await.push_str(&page.text);
    }
    async fn wipe(self: Arc<Self>, _: NoArgs, cx: Cx) -> ToolResult<()> {
        let sure: Sure = cx.ask("sure", "This cannot be undone.").await?;
        if sure.yes {
            self.1.lock().await.clear();
        }
        Ok(())
    }
    async fn agents(self: Arc<Self>, _: NoArgs, _: Cx) -> String {
        list(&self.0)
    }
    fn server(self) -> Server {
        let send = Tool::new("send", Self::send).about("Writes to an agent, now or later.");
        let read = Tool::new("read_pad", Self::read).about("The shared scratchpad.");
        let append = Tool::new("append_pad", Self::append).about("Adds to the scratchpad.");
        let wipe = Tool::new("wipe_pad", Self::wipe).about("Wipes the scratchpad.");
        let agents = Tool::new("agents", Self::agents).about("Who is there.");
        let tools = ToolSet::new(self).tools(inbox().tool(whoami()));
        let tools = tools.tool(send.writes()).tool(read.read_only());
        let tools = tools.tool(append.writes()).tool(agents.read_only());
        let tools = tools.tool(wipe.destructive().only_for(["lead"]));
        Server::new("roost", "1.0.0").tools(tools)
    }
}

fn list(host: &HostHandle) -> String {
    let shown = |child: &ChildHandle| {
        let (label, role) = (child.label(), child.role());
        let connections = child.connections().len();
        format!("{label} ({role}): {connections} connections\n")
    };
    host.children().iter().map(shown).collect()
}

fn start(host: &Host, word: &str) -> Result<(String, fs::File)> {
    let [label, role, program] = word.splitn(3, ':').collect::<Vec<_>>()[..] else {
        return Err("LABEL:ROLE:COMMAND".into());
    };
    let (child, (pty, pts)) = (host.child(label, role)?, pty_process::blocking::open()?);
    let command = pty_process::blocking::Command::new("sh").args(["-c", program]);
    child.bind_watched(command.envs(child.env()).spawn(pts)?)?;
    child.detach();
    Ok((label.to_owned(), OwnedFd::from(pty).into()))
}

fn main() -> Result {
    let words: Vec<String> = env::args().skip(1).collect();
    let file = format!("{}.pad", words[0]);
    let pad = Arc::new(Mutex::new(fs::read_to_string(&file).unwrap_or_default()));
    let setup = Host::setup().path(&words[0]).unique_labels();
    let host = setup.start_with(|host| Desk(host.clone(), Arc::clone(&pad)).server())?;
    let (mut events, mut terminals) = (host.events(), BTreeMap::new());
    thread::spawn(move || {
        while let Some(event) = events.wait() {
            println!("{event}");
        }
    });
    for child in host.children() {
        if let Some(terminal) = child.take_kept("terminal") {
            terminals.insert(child.label(), terminal.into());
        }
    }
    if terminals.is_empty() {
        let started = words[1..].iter().map(|word| start(&host, word));
        terminals = started.collect::<Result<_>>()?;
    }
    for (label, terminal) in &terminals {
        let (label, mut terminal, mut bytes) = (label.clone(), terminal.try_clone()?, [0; 4096]);
        thread::spawn(move || {
            while let Ok(read @ 1..) = terminal.read(&mut bytes) {
                print!("[{label}] {}", String::from_utf8_lossy(&bytes[..read]));
            }
        });
    }
    for line in stdin().lines() {
        match line?.splitn(3, ' ').collect::<Vec<_>>()[..] {
            ["list"] => print!("{}", list(&host.handle())),
            ["say", to, text] => {
                let told = host.find_label(to).map(|child| child.deliver(text));
                println!("{told:?}");
            }
            ["type", to, text] => writeln!(terminals.get_mut(to).ok_or("who?")?, "{text}")?,
            ["restart"] => {
                let children = host.children();
                let failed = host.exec_with(|| {
                    fs::write(&file, &*pad.blocking_lock())?;
                    for child in &children {
                        if let Some(terminal) = terminals.get(&child.label()) {
                            child.keep("terminal", terminal)?;
                        }
                    }
                    let mut this = Command::new(env::current_exe()?);
                    this.args(&words);
                    Ok(this)
                });
                return Err(failed.into());
            }
            _ => break,
        }
    }
    host.end_children(Duration::from_secs(1)).wait();
    host.finish(Duration::from_secs(1));
    drop(fs::remove_file(&file));
    Ok(())
}
