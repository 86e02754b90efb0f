//! `lmcp run`: a command with an identity, and with the tools of this machine.
//!
//! It is a host of one child. Asked by SIGUSR2, it becomes the version of this program that is installed by then, and goes on
//! with the same child. Below another host it makes none of its own (`nested.rs`).

mod agent;
mod nested;

use std::{
    env,
    ffi::OsString,
    fmt::Display,
    path::Path,
    process::{Command, ExitCode, Stdio},
};

use lmcp::embed::{Child, Host, whoami};
use lmcp_tools::Helper;
use lmcp_wiring::{Entry, Made, User, Wiring};
use rustix::process::Pid;

use crate::{
    cli::RunOptions,
    host,
    options::{Options, Role},
    presets,
    report::{self, Failure},
    this_program::this_program,
};
use agent::{Agent, News};

/// The role of a child that was given none.
const ROLE: &str = "agent";

/// The name of this server in the configuration of the child.
const ENTRY: &str = "lmcp";

/// The word of the command line for this command, and the option that says which process is its child already.
const NAME: &str = "run";
const RUNNING: &str = "--running";

pub(crate) async fn run(said: RunOptions, helper: Helper) -> Result<ExitCode, Failure> {
    let mut options = said.options().settle()?;
    if let Some(outer) = nested::outer(&said)? {
        return outer.run(&said, &options).await;
    }
    let picks = narrow(&mut options, said.role.as_deref())?;
    let host = start(&options, &picks, helper)?;
    options.expect_socket_outside(host.socket())?;
    let (mut agent, owned) = match said.running {
        Some(process) => (Agent::running(process)?, None),
        None => {
            let role = said.role.as_deref().unwrap_or(ROLE);
            let child = host.child(&said.label(), role)?;
            options.expect_outside(child.credentials())?;
            let (wiring, made) = wire(&entry_of(&child)?, &said, &options, child.folder())?;
            let agent = Agent::start(&wiring, |command| child.spawn(command));
            (agent?, Some((made, child)))
        }
    };
    let code = loop {
        match agent.next().await? {
            News::Ended(code) => break code,
            News::Upgrade => match newest(agent.process()) {
                Ok(mut newest) => {
                    return Err(Failure::new("cannot upgrade", host.exec(&mut newest)));
                }
                Err(failure) => report::note(&format!("{failure}; this version goes on")),
            },
        }
    };
    drop(owned);
    // Closing waits for what runs, and so must not hold the thread that would let it end.
    let _ = tokio::task::spawn_blocking(|| host.close()).await;
    Ok(ExitCode::from(code))
}

/// The command that goes on with a child as the version of this program that is installed now. That one must start at all.
fn newest(child: Pid) -> Result<Command, Failure> {
    let failed = |why: &dyn Display| Failure::of(format!("cannot upgrade: {why}"));
    let this = this_program().map_err(|err| failed(&err))?;
    let mut tried = Command::new(&this);
    tried.arg("--version").stdin(Stdio::null());
    let tried = tried.output().map_err(|err| failed(&err))?;
    if !tried.status.success() {
        return Err(failed(&format!(
            "`{}` ends with {}",
            this.display(),
            tried.status
        )));
    }
    let mut words: Vec<OsString> = env::args_os().skip(1).collect();
    let running = OsString::from(format!("{RUNNING}={child}"));
    if !words.contains(&running) {
        let at = words.iter().position(|word| word == NAME);
        words.insert(at.map_or(0, |at| at + 1), running);
    }
    let mut command = Command::new(this);
    command.args(words);
    Ok(command)
}

/// What the role may do. Gives the tools that are picked for it out of those for everybody. A role that is named and not
/// there is a mistake, never a role without limits.
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

/// The server with the tools. Nothing of it outlives the command, jobs included.
fn start(options: &Options, picks: &[String], helper: Helper) -> Result<Host, Failure> {
    let settings = host::settings(options, helper, None)?;
    let host = Host::start(host::server(options.name(), settings)?)?;
    host::pick(host.server(), &options.tools)?;
    host::pick(host.server(), picks)?;
    host.server().add_tool(whoami())?;
    Ok(host)
}

/// The server of a child, as it stands in the configuration of the command.
fn entry_of(child: &Child) -> Result<Entry, Failure> {
    let not_text = || Failure::of("a path that is needed is not text");
    let this = this_program().map_err(|err| Failure::new("cannot find this program", err))?;
    let server = child.mcp_entry(&this).ok_or_else(not_text)?;
    let mut entry = Entry::new(ENTRY, server.command).args(server.args);
    entry.env = server.env;
    Ok(entry)
}

/// How the command is told where its server is, and what was made for that.
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
