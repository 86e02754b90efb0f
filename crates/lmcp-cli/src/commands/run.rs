//! `lmcp run`: a command with an identity, and with the tools of this machine.

use std::{
    io,
    os::unix::process::ExitStatusExt as _,
    process::{Command, ExitCode, ExitStatus},
};

use lmcp::embed::{Child, Host, whoami};
use lmcp_tools::Helper;
use lmcp_wiring::{Entry, User, Wiring};
use rustix::process::{Pid, getpid, kill_process};

use crate::{
    child::STEP,
    cli::RunOptions,
    host,
    options::{Options, Role},
    presets,
    report::{self, Failure},
    signals::PassedOn,
    this_program::this_program,
};

/// What a child is that nobody gave a role.
const ROLE: &str = "agent";

/// What the server is called among those of the child.
const ENTRY: &str = "lmcp";

pub(crate) async fn run(said: RunOptions, helper: Helper) -> Result<ExitCode, Failure> {
    let role = said.role.as_deref().unwrap_or(ROLE);
    let mut options = said.options().settle()?;
    let picks = narrow(&mut options, said.role.as_deref())?;
    let host = start(&options, &picks, helper)?;
    options.expect_socket_outside(host.socket())?;
    let child = host.child(&said.label(), role)?;
    options.expect_outside(child.credentials())?;
    let wiring = wire(&child, &said, &options)?;
    let made = wiring.make()?;
    for note in &wiring.notes {
        report::note(note);
    }
    let status = watch_over(&child, &wiring).await;
    drop((made, child));
    // Closing waits for what runs, and so must not hold the thread that would let it end.
    let _ = tokio::task::spawn_blocking(|| host.close()).await;
    let status = status.map_err(|err| Failure::new("cannot start the command", err))?;
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
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

/// How the command is told where its server is.
fn wire(child: &Child, said: &RunOptions, options: &Options) -> Result<Wiring, Failure> {
    let not_text = || Failure::of("a path that is needed is not text");
    let this = this_program().map_err(|err| Failure::new("cannot find this program", err))?;
    let mut entry = Entry::new(ENTRY, "");
    let server = child.mcp_entry(&this).ok_or_else(not_text)?;
    (entry.command, entry.args, entry.env) = (server.command, server.args, server.env);
    let presets = presets::over_all(options.presets.clone())?;
    let (preset, note) = presets.choose(said.preset.as_deref(), said.program())?;
    if let Some(note) = note {
        report::note(&note);
    }
    let user = User::of_this_process();
    let wiring = lmcp_wiring::plan(&preset, &said.command, &entry, &user, child.folder());
    Ok(wiring?)
}

/// Starts it, passes on what it is sent, and waits for its end.
async fn watch_over(child: &Child, wiring: &Wiring) -> io::Result<ExitStatus> {
    let mut passed_on = PassedOn::listen()?;
    let mut command = Command::new(this_program()?);
    command
        .arg(STEP)
        .arg(getpid().to_string())
        .arg("--")
        .args(&wiring.argv)
        .envs(&wiring.env);
    let mut process = child.spawn(&mut command)?;
    let pid = Pid::from_child(&process);
    let mut ended = tokio::task::spawn_blocking(move || process.wait());
    loop {
        tokio::select! {
            status = &mut ended => return status.map_err(io::Error::other)?,
            signal = passed_on.next() => drop(kill_process(pid, signal)),
        }
    }
}
