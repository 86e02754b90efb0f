//! `lmcp hub`: many servers behind one endpoint.

use std::{
    convert::Infallible, fs, os::unix::fs::MetadataExt as _, path::Path, sync::OnceLock,
    time::Duration,
};

use clap::{Args, Subcommand};
use lmcp::{
    Endpoint, Hub, Service as _, Terms,
    hub::{Isolate, Servers},
};
use tokio::time::sleep;

use super::{
    import::ImportOptions,
    listen::{self, Basis},
};
use crate::{
    client::HubStatusOptions,
    options::{Options as Serving, TOOLS, read_servers},
    report::{self, Failure},
    signals::Signals,
    socket,
};

/// What can be said to it: as to `serve`, but for the tools of this machine.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, mut_args = without_tools)]
pub(crate) struct HubOptions {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// Offer find_tools, describe_tool and call_tool instead of the tools of
    /// all servers, which are then called through the last.
    #[arg(long, verbatim_doc_comment)]
    lazy: bool,

    /// Of the servers in the file, use only these: NAME,NAME.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,

    #[command(flatten)]
    pub(crate) serving: Serving,
}

impl HubOptions {
    /// The servers that are to be used.
    fn pick(&self, mut servers: Servers) -> Servers {
        if !self.only.is_empty() {
            servers.retain(|name, _| self.only.contains(name));
        }
        servers
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Tell how the servers of a running hub are.
    Status(HubStatusOptions),

    /// Write a configuration with the servers that your clients have.
    Import(ImportOptions),
}

pub(crate) const AFTER: &str = "\
The file of --config names the servers, and may hold the options above. A
change of it starts and stops exactly what changed.

  [servers.files]
  command = \"npx\"
  args = [\"-y\", \"@modelcontextprotocol/server-filesystem\", \"/srv\"]

  [servers.tickets]
  url = \"https://tickets.example/mcp\"
  token_file = \"tickets.token\"

It may also be the JSON that a client has its mcpServers in; `lmcp hub import`
writes one with the servers of all your clients.";

/// The options of the tools of this machine are not for a hub, and the file is another.
fn without_tools(arg: clap::Arg) -> clap::Arg {
    if arg.get_id() == "config" {
        return arg.help(
            "The servers, in TOML or as the mcpServers of a client; see below.\n[env: LMCP_CONFIG]",
        );
    }
    let is_of_tools = arg.get_help_heading() == Some(TOOLS)
        || matches!(arg.get_id().as_str(), "changes_kept" | "change_bytes_kept");
    if is_of_tools { arg.hide(true) } else { arg }
}

pub(crate) async fn run(mut options: HubOptions) -> Result<(), Failure> {
    let serving = std::mem::take(&mut options.serving);
    if let Some(option) = serving.tool_option() {
        let words = format!("{option} is for the tools of this machine, and a hub has none");
        return Err(Failure::misuse(words).hint("`lmcp serve` can be one of its servers"));
    }
    let mut serving = serving.settle_with_servers()?;
    let Some(path) = serving.config.clone() else {
        let failure = Failure::misuse("no file names the servers");
        return Err(failure.hint("--config FILE; `lmcp hub --help` shows what it looks like"));
    };
    let servers = std::mem::take(&mut serving.servers);
    if let Some(name) = options
        .only
        .iter()
        .find(|name| !servers.contains_key(*name))
    {
        let words = format!("--only names `{name}`, and {} does not", path.display());
        return Err(Failure::misuse(words));
    }
    let servers = options.pick(servers);
    if servers.is_empty() {
        let words = format!("{} names no servers", path.display());
        return Err(Failure::misuse(words).hint("`lmcp hub --help` shows what it looks like"));
    }
    expect_told_apart(&servers, &serving)?;
    let seen = Seen::of(&path);
    let asked = socket::find(&serving)?;
    let signals = Signals::listen()?;
    let hub = OnceLock::new();
    let make = |basis: Basis| {
        let mut terms = Terms::default().limits(basis.limits);
        if let Some(key) = basis.key {
            terms = terms.key(key);
        }
        let (name, version) = (serving.name(), env!("CARGO_PKG_VERSION"));
        let hub = hub.get_or_init(|| match basis.directory {
            Some(folder) => Hub::kept_in(name, version, folder.join("hub")),
            None => Hub::new(name, version),
        });
        if options.lazy {
            hub.offer_lazily();
        }
        let set = hub.set(&servers);
        set.map_err(|why| Failure::misuse(format!("{}: {why}", path.display())))?;
        let words = format!("it stands for {} servers", servers.len());
        let terms = lmcp_tools::outside_of_fences(terms);
        Ok((Endpoint::on_terms(hub.clone(), terms), vec![words]))
    };
    let served = tokio::select! {
        served = listen::run(&serving, asked, signals, make) => served,
        never = watch(&options, &serving, &hub, &path, seen) => match never {},
    };
    if let Some(hub) = hub.get() {
        hub.hang_up().await;
    }
    served
}

/// Refuses servers for single callers where callers cannot be told apart: people would share one who were promised not to.
fn expect_told_apart(servers: &Servers, serving: &Serving) -> Result<(), Failure> {
    let mut servers = servers.iter();
    let Some((name, _)) = servers.find(|(_, config)| config.isolate == Isolate::Caller) else {
        return Ok(());
    };
    let option = match (serving.any_local_user, serving.allow_remote) {
        (Some(true), _) => "--any-local-user",
        (_, Some(true)) => "--allow-remote",
        _ => return Ok(()),
    };
    if serving.stdio || serving.has_token() {
        return Ok(());
    }
    let words = format!(
        "server `{name}` is for one caller each, and with {option} nobody knows who calls over HTTP"
    );
    Err(Failure::misuse(words).hint("give everybody a token: [[token]] in the file"))
}

/// Looks at the file again and again. One that is broken leaves the servers as they are.
async fn watch(
    options: &HubOptions,
    serving: &Serving,
    hub: &OnceLock<Hub>,
    path: &Path,
    mut seen: Seen,
) -> Infallible {
    loop {
        sleep(LOOK).await;
        let now = Seen::of(path);
        let Some(hub) = hub.get().filter(|_| now != seen) else {
            continue;
        };
        seen = now;
        let read = read_servers(path).map_err(|failure| failure.to_string());
        let set = read.and_then(|read| {
            let servers = options.pick(read.servers);
            expect_told_apart(&servers, serving).map_err(|failure| failure.to_string())?;
            hub.set(&servers)?;
            Ok(servers.len())
        });
        match set {
            Ok(count) => {
                report::note(&format!(
                    "{} has changed: {count} servers now",
                    path.display()
                ));
            }
            Err(why) => {
                report::note(&format!("warning: the servers stay as they were: {why}"));
            }
        }
    }
}

/// A file as it was when it was last looked at.
#[derive(PartialEq)]
struct Seen(Option<(u64, u64, i64, i64)>);

impl Seen {
    fn of(path: &Path) -> Self {
        let found = fs::metadata(path).ok();
        Self(found.map(|found| (found.ino(), found.size(), found.mtime(), found.mtime_nsec())))
    }
}

/// How often the file is looked at: one call of the system each time.
const LOOK: Duration = Duration::from_secs(1);
