//! The ways to a host. Each way makes a [`Service`] that answers as `lmcp serve` does there. A new way needs one more
//! [`Kind`] and one more function in [`ways`].

use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::Arc,
};

use lmcp_client::{Endpoint, Secret, Settings, outbound};
use lmcp_core::Service;
use lmcp_upstream::{Route, Upstream, command};
use lmcp_wire::ClientCapabilities;
use rustix::fs::OFlags;

use crate::{
    config::{HostConfig, Times},
    join::Seat,
    limits::{ALIVE, CALLS, LINKS, REQUESTS, TOKEN_BYTES},
    pushed::{self, PushedFolder},
    script::{ScriptHost, quoted},
};

/// The kind of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Http,
    /// A connection that the host has made.
    Join,
    Ssh,
    /// A shell behind ssh, for hosts without lmcp.
    Shell,
}

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Join => "join",
            Self::Ssh => "ssh",
            Self::Shell => "shell",
        }
    }

    /// Returns how many calls go to one host on this way at once. Some room stays free for the check whether the host is up.
    pub(crate) fn most_calls(self) -> usize {
        match self {
            Self::Http => REQUESTS - 4,
            Self::Join | Self::Ssh => CALLS,
            Self::Shell => LINKS - 1,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Makes the service that stands for the host. Nothing is connected before the first request.
pub(crate) type Make = Box<dyn Fn() -> Result<Arc<dyn Service>, String> + Send + Sync>;

/// One way to a host.
pub(crate) struct Way {
    pub(crate) kind: Kind,
    pub(crate) make: Make,
}

/// Returns the ways to a host, the best first.
pub(crate) fn ways(config: &HostConfig, times: Times, seat: Option<&Arc<Seat>>) -> Vec<Way> {
    let mut ways = Vec::new();
    if let Some(seat) = seat {
        let seat = Arc::clone(seat);
        let make: Make = Box::new(move || seat.service());
        ways.push(Way {
            kind: Kind::Join,
            make,
        });
    }
    if config.url.is_some() {
        let config = config.clone();
        let make: Make = Box::new(move || Ok(upstream(http(&config)?)));
        ways.push(Way {
            kind: Kind::Http,
            make,
        });
    }
    if config.ssh.is_some() {
        let config = config.clone();
        let make: Make = Box::new(move || {
            expect_trusted(&config)?;
            Ok(upstream(ssh(&config, times)))
        });
        ways.push(Way {
            kind: Kind::Ssh,
            make,
        });
    }
    // A shell cannot confine anybody to a folder, and cannot forbid writing.
    let is_free = config.roots.is_empty() && !config.read_only;
    if config.ssh.is_some() && is_free {
        let config = config.clone();
        let make: Make = Box::new(move || {
            expect_trusted(&config)?;
            let command = [
                vec!["ssh".to_owned()],
                ssh_args(&config, times, "sh".to_owned()),
            ];
            let host = ScriptHost::new(command.concat()).map_err(|err| err.to_string())?;
            Ok(Arc::new(host))
        });
        ways.push(Way {
            kind: Kind::Shell,
            make,
        });
    }
    ways
}

/// Returns the service for a route. It does not try again if the server is lost: another way may be open at once. Questions
/// of the server reach nobody: the tools of a host ask none, and a host in wrong hands would ask for secrets.
pub(crate) fn upstream(route: Route) -> Arc<dyn Service> {
    let upstream = Upstream::builder(route).impatient().names_callers();
    Arc::new(upstream.capabilities(ClientCapabilities::default()).build())
}

fn http(config: &HostConfig) -> Result<Route, String> {
    let mut settings = Settings::new(config.url.as_deref().unwrap_or_default());
    settings.outbound = outbound::Settings::from_env(|name| std::env::var(name).ok());
    settings.plain_secrets = config.plain_secrets;
    settings.requests = REQUESTS;
    if let Some(token) = &config.token {
        settings.bearer = Some(Secret::new(token.expose()));
    }
    if let Some(path) = &config.token_file {
        settings.bearer = Some(Secret::new(token(path)?));
    }
    let endpoint = Endpoint::new(settings).map_err(|err| err.to_string())?;
    Ok(Route::Url(endpoint))
}

/// Reads the token in a file, which only its owner may be able to read, as with every other token.
fn token(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let file = open(path).map_err(|err| format!("cannot read the token in `{shown}`: {err}"))?;
    lmcp_private::expect_safe(path)
        .and_then(|()| lmcp_private::expect_secret(&file))
        .map_err(|err| format!("cannot trust the token in `{shown}`: {err}"))?;
    let mut text = String::new();
    file.take(TOKEN_BYTES)
        .read_to_string(&mut text)
        .map_err(|err| format!("cannot read the token in `{shown}`: {err}"))?;
    Ok(text)
}

/// Refuses a configuration of ssh that another user could have written, because it says which program connects.
pub(crate) fn expect_trusted(config: &HostConfig) -> Result<(), String> {
    let Some(path) = &config.ssh_config else {
        return Ok(());
    };
    let trusted = open(path).and_then(|file| lmcp_private::expect_trusted(&file, path));
    trusted.map_err(|err| format!("cannot trust `{}`: {err}", path.display()))
}

/// Opens a file. A pipe in its place does not block.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Returns the route over the user's own ssh, with its configuration, agent, jump hosts and known hosts. ssh asks nobody
/// anything, and does not connect to a host whose key is unknown or has changed.
fn ssh(config: &HostConfig, times: Times) -> Route {
    let args = ssh_args(config, times, serve(config));
    command("ssh").args(args).route()
}

/// Returns the arguments with which ssh runs a line in the shell of the host.
pub(crate) fn ssh_args(config: &HostConfig, times: Times, line: String) -> Vec<String> {
    let mut args = Vec::new();
    if let Some(file) = &config.ssh_config {
        args.extend(["-F".to_owned(), file.display().to_string()]);
    }
    for option in [
        "BatchMode=yes".to_owned(),
        format!("ConnectTimeout={}", times.connect.as_secs().max(1)),
        format!("ServerAliveInterval={}", ALIVE.as_secs()),
        "ServerAliveCountMax=3".to_owned(),
        // Other users of ssh must not depend on a connection that is closed when no host needs it.
        "ControlMaster=no".to_owned(),
        "ClearAllForwardings=yes".to_owned(),
    ] {
        args.extend(["-o".to_owned(), option]);
    }
    args.push("-T".to_owned());
    args.push("--".to_owned());
    args.push(config.ssh.clone().unwrap_or_default());
    args.push(line);
    args
}

/// Returns the command line for the shell of the host.
fn serve(config: &HostConfig) -> String {
    let mut args = "serve --stdio".to_owned();
    for root in &config.roots {
        args.push_str(" --root ");
        args.push_str(&quoted(root));
    }
    if config.read_only {
        args.push_str(" --read-only");
    }
    let pushed = config.pushed.as_ref().filter(|_| config.has_usual_name());
    match pushed.and_then(PushedFolder::name) {
        Some(folder) => pushed::either(folder, &args),
        None => format!("{} {args}", program(&config.lmcp)),
    }
}

/// Quotes the name or path of a program; `~/` is the home of the user there.
fn program(name: &str) -> String {
    match name.strip_prefix("~/") {
        Some(rest) => format!("\"$HOME\"/{}", quoted(rest)),
        None => quoted(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> HostConfig {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn ssh_asks_nobody_and_trusts_nobody_new() {
        let config = config("ssh = 'me@web'\nssh_config = '/c'");
        let args = ssh_args(&config, Times::default(), serve(&config)).join(" ");
        assert!(
            args.starts_with("-F /c -o BatchMode=yes -o ConnectTimeout=10 -o ServerAlive"),
            "{args}"
        );
        assert!(args.ends_with("-T -- me@web lmcp serve --stdio"), "{args}");
        assert!(!args.contains("StrictHostKeyChecking"), "{args}");
    }

    #[test]
    fn what_the_shell_there_gets_is_quoted() {
        let config =
            config("ssh = 'x'\nlmcp = '~/bin dir/lmcp'\nroots = [\"/a'b; rm\"]\nread_only = true");
        let line = serve(&config);
        assert_eq!(
            line,
            r#""$HOME"/'bin dir/lmcp' serve --stdio --root '/a'\''b; rm' --read-only"#
        );
    }

    #[test]
    fn http_comes_before_ssh_and_a_shell_is_for_hosts_without_bounds() {
        let kinds = |text| {
            let config = config(text);
            let seat = config.join.then(Arc::<Seat>::default);
            let ways = ways(&config, Times::default(), seat.as_ref());
            ways.iter().map(|way| way.kind).collect::<Vec<_>>()
        };
        assert_eq!(
            kinds("ssh = 'x'\nurl = 'http://x'"),
            [Kind::Http, Kind::Ssh, Kind::Shell]
        );
        assert_eq!(kinds("ssh = 'x'"), [Kind::Ssh, Kind::Shell]);
        assert_eq!(kinds("join = true\ntoken_file = 't'"), [Kind::Join]);
        assert_eq!(kinds("ssh = 'x'\nread_only = true"), [Kind::Ssh]);
        assert_eq!(kinds("ssh = 'x'\nroots = ['/a']"), [Kind::Ssh]);
    }
}
