//! `lmcp serve`

use std::{env, path::PathBuf};

use lmcp::{Handle, Server};
use lmcp_fleet::join::{self, Joining};
use lmcp_proxy::{Outbound, Secret, Settings};
use lmcp_tools::Helper;

use super::listen::{self, Basis, Joined, Made};
use crate::{
    apart, demo, host,
    options::Options,
    private,
    report::{self, Failure},
    signals::Signals,
    socket,
    tokens::keep_to_ourselves,
};

pub(crate) async fn run(options: Options, helper: Helper) -> Result<(), Failure> {
    let mut options = options.settle()?;
    if !options.servers.is_empty() {
        let words = "the configuration names servers, and `lmcp serve` stands for none";
        return Err(Failure::misuse(words).hint("`lmcp hub` serves them"));
    }
    let is_for_hosts = options.token.iter().any(|token| token.on_hosts.is_some());
    if !options.hosts.is_empty() || is_for_hosts {
        let words = "the configuration is about hosts, and `lmcp serve` is one itself";
        return Err(Failure::misuse(words).hint("`lmcp hub` calls hosts"));
    }
    let asked = socket::find(&options)?;
    if options.detach {
        options.make_paths_absolute();
        socket::detach();
        apart::stand_apart();
    }
    let signals = Signals::listen()?;
    let ready = |basis: Basis| {
        let (server, enforced) = make(&options, helper, basis.directory)?;
        let mut server = server.limits(basis.limits);
        if let Some(key) = basis.key {
            server = server.key(key);
        }
        let handle = start(server, &options)?;
        let mut made = Made::new(handle.endpoint(), enforced);
        if let Some(url) = &options.join {
            let joining = joining(url, &options)?;
            let endpoint = made.endpoint.beside(join::listening(handle, report::note));
            made.joined = Some(Joined { joining, endpoint });
        }
        Ok(made)
    };
    listen::run(&options, asked, signals, ready).await
}

/// Returns the settings to join a hub, with the token of this host.
fn joining(url: &str, options: &Options) -> Result<Joining, Failure> {
    let Some(path) = options.join_token() else {
        let words = "--join needs the token that the hub has for this host";
        return Err(Failure::misuse(words).hint("--join-token-file FILE"));
    };
    options.expect_outside(path)?;
    keep_to_ourselves();
    let (url, path) = (url.to_owned(), path.to_owned());
    let plain_secrets = options.plain_secrets == Some(true);
    let settings = move || {
        let token = private::read(&path).map_err(|failure| failure.to_string())?;
        let mut settings = Settings::new(&url);
        settings.bearer = Some(Secret::new(token));
        settings.plain_secrets = plain_secrets;
        settings.outbound = Outbound::from_env(|name| env::var(name).ok());
        Ok(settings)
    };
    Joining::new(settings, report::note).map_err(Failure::misuse)
}

/// Returns the server with its tools, and the restrictions that are enforced.
fn make(
    options: &Options,
    helper: Helper,
    directory: Option<PathBuf>,
) -> Result<(Server, Vec<String>), Failure> {
    if options.demo == Some(true) {
        let harmless = "the demo tools touch nothing".to_owned();
        return Ok((demo::server(options.name()), vec![harmless]));
    }
    let mut settings = host::settings(options, helper, directory)?;
    settings.adopt_orphans = true;
    let enforced = host::enforced(&settings);
    Ok((host::server(options.name(), settings)?, enforced))
}

fn start(server: Server, options: &Options) -> Result<Handle, Failure> {
    let server = server.start()?;
    host::pick(&server, &options.tools)?;
    Ok(server)
}
