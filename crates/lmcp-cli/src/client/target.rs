//! The server that a command line names.

use std::{ffi::OsString, path::Path};

use lmcp::{
    Endpoint,
    client::{self, Error, Settings},
    upstream::{CommandTarget, Route, SocketTarget, UrlTarget, command, socket, url},
};

use crate::{commands::proxy, report::Failure, this_program::this_program};

/// Variables that are passed to `lmcp proxy`, and to no other program that is started.
const OWN: [&str; 1] = ["LMCP_TOKEN"];

/// The named server.
pub(crate) enum Target {
    Url(Box<UrlTarget>),
    Socket(SocketTarget),
    Command(CommandTarget),
}

impl Target {
    /// Finds the target: a URL, a path, or a program to start. Without any, the server that `lmcp proxy` finds.
    pub(crate) fn of(
        at: Option<&str>,
        token_file: Option<&Path>,
        program: &[OsString],
    ) -> Result<Self, Failure> {
        Ok(match (at, program.split_first()) {
            (_, Some((program, words))) => Self::Command(command(program).args(words)),
            (None, None) => {
                let program = this_program().map_err(|err| Failure::new("cannot start", err))?;
                // The program is lmcp itself, so it gets the variables that select its server.
                let own = OWN
                    .iter()
                    .filter_map(|name| Some((name, std::env::var_os(name)?)));
                let proxy = command(program).arg("proxy");
                Self::Command(own.fold(proxy, |proxy, (name, value)| proxy.env(name, value)))
            }
            (Some(at), None) if at.contains("://") => {
                let target = url(at).from_env();
                Self::Url(Box::new(match proxy::token(token_file)? {
                    Some(token) => target.secret(token),
                    None => target,
                }))
            }
            (Some(at), None) if looks_like_an_address(at) => {
                let words = format!("`{at}` would be the path of a socket");
                return Err(Failure::misuse(words).hint("a URL begins with http:// or https://"));
            }
            // Without the option, no token is sent: a server without tokens would read the greeting as a message.
            (Some(at), None) if token_file.is_none() => Self::Socket(socket(at)),
            (Some(at), None) => Self::Socket(match proxy::token(token_file)? {
                Some(token) => socket(at).secret(token),
                None => socket(at),
            }),
        })
    }

    /// Returns the route to the server.
    pub(crate) fn route(self) -> Result<Route, Failure> {
        match self {
            Self::Url(url) => url.route().map_err(|err| Failure::misuse(&*err.message)),
            Self::Socket(socket) => Ok(socket.route()),
            Self::Command(command) => Ok(command.route()),
        }
    }
}

/// Returns whether a text is a host with a port, and not a file.
fn looks_like_an_address(at: &str) -> bool {
    let host = at.split('/').next().unwrap_or_default();
    let port = host.rsplit_once(':').map(|(_, port)| port);
    let has_port = port.is_some_and(|port| port.parse::<u16>().is_ok());
    has_port && !Path::new(at).exists()
}

impl client::Target for Target {
    async fn connect(self, settings: &Settings) -> Result<Endpoint, Error> {
        match self {
            Self::Url(url) => url.connect(settings).await,
            Self::Socket(socket) => socket.connect(settings).await,
            Self::Command(command) => command.connect(settings).await,
        }
    }
}
