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

/// The role of a child without a given role.
const ROLE: &str = "agent";

/// The name of this server in the configuration of the child.
const ENTRY: &str = "lmcp";

/// The word of the command line for this command, and the option that names the process of its running child.
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
    // Closing waits for running calls, so it must not block the thread that runs them.
    let _ = tokio::task::spawn_blocking(|| host.close()).await;
    Ok(ExitCode::from(code))
}

/// Returns the command that takes over a child as the installed version of this program. Checks first that this version
/// starts.
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

/// Starts the server with the tools. Everything of it ends with the command, also jobs.
fn start(options: &Options, picks: &[String], helper: Helper) -> Result<Host, Failure> {
    let settings = host::settings(options, helper, None)?;
    let host = Host::start(host::server(options.name(), settings)?)?;
    host::pick(host.server(), &options.tools)?;
    host::pick(host.server(), picks)?;
    host.server().add_tool(whoami())?;
    Ok(host)
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
