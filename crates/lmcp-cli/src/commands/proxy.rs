//! `lmcp proxy`: runs without a runtime and without a log, because every client has one of these.

use std::{
    env,
    ffi::{OsStr, OsString},
    path::PathBuf,
    process::ExitCode,
};

use clap::Parser;
use lmcp_proxy::{Identity, Target, Way};

use crate::{
    daemon::Daemon,
    report::{self, Failure},
    socket,
};

/// What can be said to it.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// The path of a unix socket. Else LMCP_SOCKET, else the one in the identity file, else your own server at
    /// $XDG_RUNTIME_DIR/lmcp/serve.sock, which is started if it is not there.
    #[arg(value_name = "TARGET")]
    target: Option<String>,

    /// Do not start your own server, but wait for it.
    #[arg(long)]
    no_start: bool,

    /// Who calls: a file that holds {"socket": PATH, "identity": TOKEN}, for this user alone.
    ///
    /// Else LMCP_IDENTITY_FILE, or LMCP_IDENTITY_FD for an inherited descriptor; what these hold is shown to the server
    /// of that socket and to no other. The file is read again for each connection.
    #[arg(long, value_name = "FILE")]
    identity_file: Option<PathBuf>,
}

impl Options {
    /// The options, where the command line is this command and nothing odd: to know that takes far less memory than to
    /// know all that can be said to this program.
    pub(crate) fn alone(mut args: impl Iterator<Item = OsString>) -> Option<Self> {
        let name = args.nth(1)?;
        let is_it = [NAME, ALIAS].iter().any(|known| name == OsStr::new(known));
        if !is_it {
            return None;
        }
        Self::try_parse_from(std::iter::once(name).chain(args)).ok()
    }
}

/// What it is called, and what it was called elsewhere.
const NAME: &str = "proxy";
pub(crate) const ALIAS: &str = "mcp-stdio";

pub(crate) const AFTER: &str = "\
When the server goes, calls it had are answered with an error whose data says \"retriable\": true, and later ones wait up to
30 s for it to come back. Ends with its client: 0 if every call was answered, 1 if not, 77 if the server does not let this
identity in.

  claude mcp add tools -- lmcp proxy
  lmcp serve --unix /run/user/1000/lmcp.sock
  claude mcp add tools -- lmcp proxy /run/user/1000/lmcp.sock";

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let way = way(options)?;
    let ending = lmcp_proxy::run(&way, &mut |words| report::note(&format!("lmcp: {words}")));
    Ok(ending.into())
}

fn way(options: &Options) -> Result<Way, Failure> {
    let misuse = |err: lmcp_proxy::Error| Failure::misuse(err.to_string());
    let target = match (&options.target, variable("LMCP_SOCKET")?) {
        (Some(target), _) => Some(Target::parse(target)),
        (None, target) => target.as_deref().map(Target::parse),
    };
    let target = target.transpose().map_err(misuse)?;
    let identity = identity(options)?;
    if target.is_some() || identity.is_some() {
        return Way::new(target, identity).map_err(misuse);
    }
    let own = socket::own()?;
    let way = Way::new(Some(Target::Socket(own.path())), None).map_err(misuse)?;
    if options.no_start {
        return Ok(way);
    }
    let daemon = Daemon::new(own);
    Ok(way.starting(move || daemon.start()))
}

fn identity(options: &Options) -> Result<Option<Identity>, Failure> {
    if let Some(path) = &options.identity_file {
        return Ok(Some(Identity::file(path)));
    }
    if let Some(path) = env::var_os("LMCP_IDENTITY_FILE") {
        return Ok(Some(Identity::inherited(path)));
    }
    let Some(number) = variable("LMCP_IDENTITY_FD")? else {
        return Ok(None);
    };
    let number = number.parse().map_err(|_| {
        Failure::misuse(format!(
            "LMCP_IDENTITY_FD: `{number}` is not the number of a descriptor"
        ))
    })?;
    let identity = Identity::descriptor(number);
    identity
        .map(Some)
        .map_err(|err| Failure::misuse(err.to_string()))
}

fn variable(name: &str) -> Result<Option<String>, Failure> {
    let text = env::var_os(name).map(OsString::into_string).transpose();
    text.map_err(|_| Failure::misuse(format!("{name} is not UTF-8")))
}
