//! `lmcp run`: a command with an identity, and with the tools of this machine.
//!
//! The program is a host with one child. At SIGUSR2 it becomes the installed version of itself, and takes over the same
//! child. Below another host it makes no host of its own (`nested.rs`).

mod agent;
mod nested;

use std::{
    env,
    ffi::OsString,
    fmt::Display,
    future::pending,
    path::Path,
    pin::pin,
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use lmcp::{
    Handle,
    embed::{Child, Host, whoami},
};
use lmcp_tools::Helper;
use lmcp_wiring::{Entry, Made, User, Wiring};
use rustix::process::Pid;
use tokio::time::timeout;

use crate::{
    cli::RunOptions,
    host,
    options::{Options, Role},
    presets,
    report::{self, Failure},
    signals::HeldBack,
    this_program::this_program,
};
use agent::{Agent, News};

/// The role of a child without a given role.
const ROLE: &str = "agent";

/// The name of this server in the configuration of the child.
const ENTRY: &str = "lmcp";

/// The word of the command line for this command, and the option that names the process of its running child.
const NAME: &str = "run";
const RUNNING: &str = "--running";
/// The option that only checks whether this version can go on.
const CHECK: &str = "--check";
/// How long the check may take.
const CHECK_WAIT: Duration = Duration::from_secs(10);

pub(crate) async fn run(said: RunOptions, helper: Helper) -> Result<ExitCode, Failure> {
    // A command that runs already is taken over first, because its signals wait.
    let running = match said.running.filter(|_| !said.check) {
        Some(process) => Some(Agent::running(process)?),
        None => None,
    };
    let mut options = said.options().settle()?;
    if said.running.is_none()
        && let Some(outer) = nested::outer(&said)?
    {
        return outer.run(&said, &options).await;
    }
    let picks = narrow(&mut options, said.role.as_deref())?;
    let settings = host::settings(&options, helper, None)?;
    let server = host::server(options.name(), settings)?;
    if said.check {
        return choose(&server.start()?, &options, &picks).map(|()| ExitCode::SUCCESS);
    }
    // Everything of it ends with the command, also jobs.
    let host = Host::start(server)?;
    choose(host.server(), &options, &picks)?;
    options.expect_socket_outside(host.socket())?;
    let (mut agent, owned) = match running {
        Some(agent) => (agent, None),
        None => {
            let role = said.role.as_deref().unwrap_or(ROLE);
            let child = host.child(&said.label(), role)?;
            options.expect_outside(child.credentials())?;
            let (wiring, made) = wire(&entry_of(&child)?, &said, &options, child.folder())?;
            let agent = Agent::start(&wiring, |command| child.spawn(command));
            (agent?, Some((made, child)))
        }
    };
    let mut checking = pin!(None);
    let code = loop {
        let checked = async {
            match checking.as_mut().as_pin_mut() {
                Some(checking) => checking.await,
                None => pending().await,
            }
        };
        let newest = tokio::select! {
            news = agent.next() => match news? {
                News::Ended(code) => break code,
                News::Upgrade => {
                    if checking.is_none() {
                        checking.set(Some(newest(agent.process())));
                    }
                    continue;
                }
            },
            newest = checked => newest,
        };
        checking.set(None);
        match newest {
            Ok(mut newest) => {
                let _held = HeldBack::new();
                return Err(Failure::new("cannot upgrade", host.exec(&mut newest)));
            }
            Err(failure) => report::note(&format!("{failure}; this version goes on")),
        }
    };
    drop(owned);
    // Closing waits for running calls, so it must not block the thread that runs them.
    let _ = tokio::task::spawn_blocking(|| host.close()).await;
    Ok(ExitCode::from(code))
}

/// Returns whether this process is the newest version of a program that runs a command already.
pub(crate) fn goes_on() -> bool {
    let is_running = |word: OsString| word.as_encoded_bytes().starts_with(RUNNING.as_bytes());
    let mut words = env::args_os().skip_while(|word| word != NAME);
    words.nth(1).is_some_and(is_running)
}

/// Returns the command that takes over a child as the installed version of this program. Checks first that this version
/// starts, and can go on with the options and files as they are now.
async fn newest(child: Pid) -> Result<Command, Failure> {
    let failed = |why: &dyn Display| Failure::of(format!("cannot upgrade: {why}"));
    let this = this_program().map_err(|err| failed(&err))?;
    let mut words: Vec<OsString> = env::args_os().skip(1).collect();
    let at = words.iter().position(|word| word == NAME);
    let at = at.map_or(0, |at| at + 1);
    let running = OsString::from(format!("{RUNNING}={child}"));
    if !words.contains(&running) {
        words.insert(at, running);
    }
    let mut tried = tokio::process::Command::new(&this);
    let (before, after) = words.split_at(at);
    tried.args(before).arg(CHECK).args(after);
    tried.stdin(Stdio::null()).kill_on_drop(true);
    let tried = match timeout(CHECK_WAIT, tried.output()).await {
        Ok(tried) => tried.map_err(|err| failed(&err))?,
        Err(_) => {
            let wait = CHECK_WAIT.as_secs();
            return Err(failed(&format!(
                "`{}` does not check its options within {wait} s",
                this.display()
            )));
        }
    };
    if !tried.status.success() {
        let said = String::from_utf8_lossy(&tried.stderr);
        let said = said.lines().next().unwrap_or_default();
        return Err(failed(&format!(
            "`{}` ends with {}: {said}",
            this.display(),
            tried.status
        )));
    }
    let mut command = Command::new(this);
    command.args(words);
    Ok(command)
}

/// Limits the options to the rights of the role. Returns the tools of the role, out of those for everybody. An unknown role
/// is an error, and never a role without limits.
fn narrow(options: &mut Options, named: Option<&str>) -> Result<Vec<String>, Failure> {
    if options.roles.is_empty() && named.is_none() {
        return Ok(Vec::new());
    }
    let role = named.unwrap_or(ROLE);
    let Some(Role { tools, read_only }) = options.roles.get(role).cloned() else {
        let known: Vec<_> = options.roles.keys().map(String::as_str).collect();
        let failure = Failure::misuse(format!("there is no role `{role}`"));
        return Err(failure.hint(match known[..] {
            [] => "roles are said in a file: --config FILE, with [roles.NAME] in it".to_owned(),
            _ => format!("the file has {}", known.join(", ")),
        }));
    };
    if read_only {
        options.read_only = Some(true);
    }
    Ok(tools)
}

/// Leaves the tools that the options and the role choose.
fn choose(server: &Handle, options: &Options, picks: &[String]) -> Result<(), Failure> {
    host::pick(server, &options.tools)?;
    host::pick(server, picks)?;
    Ok(server.add_tool(whoami())?)
}

/// Returns the server of a child, as an entry for the configuration of the command.
fn entry_of(child: &Child) -> Result<Entry, Failure> {
    let not_text = || Failure::of("a path that is needed is not text");
    let this = this_program().map_err(|err| Failure::new("cannot find this program", err))?;
    let server = child.mcp_entry(&this).ok_or_else(not_text)?;
    let mut entry = Entry::new(ENTRY, server.command).args(server.args);
    entry.env = server.env;
    Ok(entry)
}

/// Plans how the command finds its server, and makes the files for that.
fn wire(
    entry: &Entry,
    said: &RunOptions,
    options: &Options,
    scratch: &Path,
) -> Result<(Wiring, Made), Failure> {
    let presets = presets::over_all(options.presets.clone())?;
    let (preset, note) = presets.choose(said.preset.as_deref(), said.program())?;
    let user = User::of_this_process();
    let wiring = lmcp_wiring::plan(&preset, &said.command, entry, &user, scratch)?;
    let made = wiring.make()?;
    for note in note.iter().chain(&wiring.notes) {
        report::note(note);
    }
    Ok((wiring, made))
}
