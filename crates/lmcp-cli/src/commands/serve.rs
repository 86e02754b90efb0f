//! `lmcp serve`

use std::path::PathBuf;

use lmcp::{Handle, Server};
use lmcp_tools::Helper;

use super::listen::{self, Basis, Made};
use crate::{apart, demo, host, options::Options, report::Failure, signals::Signals, socket};

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
        Ok(Made::new(start(server, &options)?.endpoint(), enforced))
    };
    listen::run(&options, asked, signals, ready).await
}

/// The server with its tools, and what is enforced about them.
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
