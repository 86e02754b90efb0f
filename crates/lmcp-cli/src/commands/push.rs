//! `lmcp hub push`: puts this program on a host behind ssh, where the hub finds the program.

use std::{
    env, fs,
    io::{self, BufRead as _, IsTerminal as _, Write as _, stderr, stdin},
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use clap::Args;
use lmcp_fleet::{HostConfig, Pushed};

use crate::{
    options::Options as Serving,
    report::{self, Failure},
};

/// The options of `lmcp hub push`.
#[derive(Debug, Args)]
pub(crate) struct PushOptions {
    /// A host of the file that has `ssh`, or a destination as ssh takes it.
    #[arg(value_name = "HOST")]
    host: String,

    /// Do not ask.
    #[arg(long)]
    yes: bool,

    /// The file of the hub. [env: LMCP_CONFIG]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(crate) const AFTER: &str = "\
The program goes to ~/.cache/lmcp there, in a folder of its own for every
version. A hub of the same version runs it on hosts that have no lmcp in their
PATH. It is your own ssh that connects, and it asks for no password.";

pub(crate) fn run(options: &PushOptions) -> Result<(), Failure> {
    let host = host(options)?;
    let program =
        fs::read("/proc/self/exe").map_err(|err| Failure::new("cannot read this program", err))?;
    let pushed = Pushed::new(env!("CARGO_PKG_VERSION"), &program);
    let name = &options.host;
    let look = pushed.look(&host).map_err(Failure::misuse)?;
    let looked = finish(look, name, &[])?;
    let said = String::from_utf8_lossy(&looked.stdout);
    let mut lines = said.lines();
    let system = lines.next().unwrap_or_default();
    expect_fit(name, system)?;
    let shown = pushed.shown();
    if lines.any(|line| line == "there") {
        report::note(&format!("{name} has {shown} already"));
        return Ok(());
    }
    if !options.yes && !agrees(name, &shown, program.len())? {
        return Err(Failure::of("nothing was copied"));
    }
    finish(pushed.take(&host, &program), name, &program)?;
    report::note(&format!("{name} has {shown} now"));
    Ok(())
}

/// Returns the host of the file, or a host that has only a destination.
fn host(options: &PushOptions) -> Result<HostConfig, Failure> {
    let serving = Serving {
        config: options.config.clone(),
        ..Serving::default()
    };
    let mut serving = serving.settle_with_servers()?;
    let hosts = super::hosts::hosts_of(&mut serving).map_err(Failure::misuse)?;
    let name = &options.host;
    match hosts.get(name) {
        Some(host) if host.ssh.is_some() => Ok(host.clone()),
        Some(_) => Err(Failure::misuse(format!("host `{name}` has no `ssh`"))),
        None => HostConfig::over_ssh(name).map_err(Failure::misuse),
    }
}

/// Refuses a host that could not run this program.
fn expect_fit(name: &str, system: &str) -> Result<(), Failure> {
    let (kernel, machine) = system.split_once(' ').unwrap_or((system, ""));
    let ours = env::consts::ARCH;
    let is_fit = match ours {
        "arm" => machine.starts_with("arm"),
        "x86" => machine == "x86_64" || machine.ends_with("86"),
        ours => machine == ours,
    };
    if kernel == "Linux" && is_fit {
        return Ok(());
    }
    Err(Failure::of(format!(
        "{name} is `{system}`, and this program is for Linux on {ours}"
    )))
}

/// Asks the person at the terminal.
fn agrees(name: &str, shown: &str, bytes: usize) -> Result<bool, Failure> {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        let words = format!("nobody can be asked whether {name} is to get {shown}");
        return Err(Failure::misuse(words).hint("--yes copies without asking"));
    }
    let megabytes = bytes as f64 / 1e6;
    let question = format!("copy this program ({megabytes:.1} MB) to {shown} on {name}? [y/N] ");
    let _ = stderr().write_all(question.as_bytes());
    let mut answer = String::new();
    let read = stdin().lock().read_line(&mut answer);
    read.map_err(|err| Failure::new("cannot read the answer", err))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Runs a command to its end, with this input.
fn finish(mut command: Command, name: &str, input: &[u8]) -> Result<Output, Failure> {
    let failed = |err| Failure::new("cannot run ssh", err);
    let child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.map_err(failed)?;
    // ssh and the host write little before they have read everything, so writing first cannot block for ever.
    let written = match child.stdin.take() {
        Some(mut stdin) => stdin.write_all(input),
        None => Ok(()),
    };
    let output = child.wait_with_output().map_err(failed)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim();
        let why = match said.is_empty() {
            true => format!("ssh ended with {}", output.status),
            false => said.replace('\n', "; "),
        };
        return Err(Failure::of(format!("{name}: {why}")));
    }
    match written {
        Err(err) if err.kind() != io::ErrorKind::BrokenPipe => Err(failed(err)),
        _ => Ok(output),
    }
}
