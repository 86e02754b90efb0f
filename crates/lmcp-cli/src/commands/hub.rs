//! `lmcp hub`: serves many servers behind one endpoint.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use clap::{Args, Subcommand};
use lmcp::{
    Endpoint, Hub, Layered, Logged, OwnerKey, Service, Terms,
    hub::{Groups, Isolate, Servers},
};
use lmcp_fleet::Hosts;
use tokio::time::sleep;

use super::{
    approve::{self, ApproveOptions},
    hosts::{HOSTS, HostsOptions, Mounting, hosts_of},
    import::ImportOptions,
    listen::{self, Basis, Made},
    push::{self, PushOptions},
};
use crate::{
    client::HubStatusOptions,
    options::{Options as Serving, TOOLS, read_servers},
    report::{self, Failure},
    signals::Signals,
    socket,
};

/// The options of `lmcp hub`: those of `serve`, but for the tools of this machine.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, mut_args = without_tools)]
pub(crate) struct HubOptions {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// Offer three tools (find_tools, describe_tool, call_tool) in the place
    /// of all tools; clients call every tool through call_tool.
    #[arg(long, verbatim_doc_comment)]
    lazy: bool,

    /// Use only these servers or groups of the file: NAME,NAME.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        verbatim_doc_comment
    )]
    only: Vec<String>,

    /// Hide tools that have changed since the hub first saw them, and new
    /// tools of a known server, until `lmcp hub approve` approves of them.
    #[arg(long, verbatim_doc_comment)]
    pin: bool,

    #[command(flatten)]
    pub(crate) serving: Serving,
}

/// The servers, hosts, groups and pins of a hub, from its files and its options.
struct Plan {
    servers: Servers,
    hosts: Hosts,
    groups: Groups,
    pin: bool,
}

impl HubOptions {
    /// Takes the parts of the file that the options select.
    fn plan(&self, file: &mut Serving) -> Result<Plan, String> {
        let mut plan = Plan {
            servers: std::mem::take(&mut file.servers),
            hosts: hosts_of(file)?,
            groups: std::mem::take(&mut file.groups),
            pin: self.pin || file.pin == Some(true),
        };
        expect_sound(&plan)?;
        if !self.only.is_empty() {
            let of_groups = self.only.iter().filter_map(|name| plan.groups.get(name));
            let picked: BTreeSet<_> = self
                .only
                .iter()
                .chain(of_groups.flatten())
                .cloned()
                .collect();
            plan.servers.retain(|name, _| picked.contains(name));
            if !picked.contains(HOSTS) {
                plan.hosts.clear();
            }
        }
        let (known, has_hosts) = (&plan.servers, !plan.hosts.is_empty());
        plan.groups.retain(|_, servers| {
            servers.retain(|name| known.contains_key(name) || has_hosts && name == HOSTS);
            !servers.is_empty()
        });
        expect_told_apart(&plan.servers, file)?;
        Ok(plan)
    }

    /// Refuses names that match nothing.
    fn expect_known(&self, file: &Serving, path: &Path) -> Result<(), Failure> {
        let mut only = self.only.iter();
        let is_known = |name: &str| {
            file.servers.contains_key(name) || file.groups.contains_key(name) || name == HOSTS
        };
        let Some(name) = only.find(|name| !is_known(name)) else {
            return Ok(());
        };
        let words = format!("--only names `{name}`, and {} does not", path.display());
        Err(Failure::misuse(words))
    }
}

impl Plan {
    /// Returns the name of a host that connects to the hub itself.
    fn joining(&self) -> Option<&str> {
        let mut hosts = self.hosts.iter();
        let (name, _) = hosts.find(|(_, host)| host.join && !host.disabled)?;
        Some(name)
    }

    fn pins(&self) -> bool {
        let mut servers = self.servers.values();
        servers.any(|config| config.pin.unwrap_or(self.pin))
    }

    fn set(&self, hub: &Hub, mounting: &Mounting) -> Result<(), String> {
        // Pinning is set before the servers, because their kept listings are shown at once.
        hub.pin(self.pin);
        hub.set(&self.servers)?;
        mounting.set(hub, &self.hosts)?;
        hub.set_groups(&self.groups);
        Ok(())
    }
}

/// Refuses groups that no path can name, groups with unknown servers, and servers that hide the hosts.
fn expect_sound(plan: &Plan) -> Result<(), String> {
    if !plan.hosts.is_empty() {
        let mut servers = plan.servers.iter();
        let hides = |name: &str, prefix: Option<&str>| name == HOSTS || prefix == Some("");
        if let Some((name, _)) =
            servers.find(|(name, config)| hides(name, config.prefix.as_deref()))
        {
            return Err(format!(
                "server `{name}` needs another name or prefix: `{HOSTS}`, and names without a prefix, are those of the hosts"
            ));
        }
    }
    for (group, servers) in &plan.groups {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        if group.is_empty() || !group.chars().all(is_plain) {
            return Err(format!(
                "group `{group}` cannot be part of a path: letters, digits, `-` and `_` can"
            ));
        }
        if let Some(name) = servers
            .iter()
            .find(|name| !plan.servers.contains_key(*name) && *name != HOSTS)
        {
            return Err(format!(
                "group `{group}` names `{name}`, and there is no such server"
            ));
        }
    }
    Ok(())
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the state of the servers of a running hub.
    Status(HubStatusOptions),

    /// Show tools that have changed since the hub first saw them, or approve
    /// of them.
    #[command(after_help = approve::AFTER, verbatim_doc_comment)]
    Approve(ApproveOptions),

    /// Propose hosts for the file of a hub.
    Hosts(HostsOptions),

    /// Copy this program to a host behind ssh that does not have it.
    #[command(after_help = push::AFTER)]
    Push(PushOptions),

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

  [hosts.web1]            # the tools of `lmcp serve` there, as remote_shell
  url = \"https://web1.example:8080/mcp\"
  token_file = \"web1.token\"
  ssh = \"me@web1.example\" # when that cannot be reached, or alone

  [hosts.laptop]          # it connects to the hub: lmcp serve --join URL
  join = true
  token_file = \"laptop.token\"

  [groups]                # over HTTP, /mcp/work shows only these
  work = [\"tickets\", \"hosts\"]

The JSON of a client with `mcpServers` works, too. `lmcp hub import` writes a
TOML file with the servers of all your clients.";

/// Hides the options of this machine's tools, which a hub does not have, and describes its file.
fn without_tools(arg: clap::Arg) -> clap::Arg {
    if arg.get_id() == "config" {
        return arg.help(
            "The servers, in TOML or as the mcpServers of a client; see below.\n[env: LMCP_CONFIG]",
        );
    }
    let is_of_tools = arg.get_help_heading() == Some(TOOLS)
        || matches!(
            arg.get_id().as_str(),
            "changes_kept" | "change_bytes_kept" | "join" | "join_token_file" | "plain_secrets"
        );
    if is_of_tools { arg.hide(true) } else { arg }
}

pub(crate) async fn run(mut options: HubOptions) -> Result<(), Failure> {
    let serving = std::mem::take(&mut options.serving);
    if let Some(option) = serving.tool_option() {
        let words = format!("{option} is for the tools of this machine, and a hub has none");
        return Err(Failure::misuse(words).hint("`lmcp serve` can be one of its servers"));
    }
    let mut serving = serving.settle_with_servers()?;
    if let Some(option) = serving.tool_option() {
        let words = format!(
            "{option}, set in the file or the environment, is for the tools of this machine, and a hub has none"
        );
        return Err(Failure::misuse(words).hint("`lmcp serve` can be one of its servers"));
    }
    let Some(path) = serving
        .config
        .clone()
        .or_else(|| serving.hosts_file.clone())
    else {
        let failure = Failure::misuse("no file names the servers");
        return Err(failure.hint("--config FILE; `lmcp hub --help` shows what it looks like"));
    };
    options.expect_known(&serving, &path)?;
    let wrong = |why: String| Failure::misuse(format!("{}: {why}", path.display()));
    let plan = options.plan(&mut serving).map_err(wrong)?;
    if plan.servers.is_empty() && plan.hosts.is_empty() {
        let words = format!("{} names no servers and no hosts", path.display());
        return Err(Failure::misuse(words).hint("`lmcp hub --help` shows what it looks like"));
    }
    let serves_http = serving.http.is_some() || !serving.listens();
    if let Some(name) = plan.joining().filter(|_| !serves_http) {
        let words = format!("host `{name}` joins over HTTP, and this hub does not serve that");
        return Err(Failure::misuse(words).hint("say --http"));
    }
    let files = Files::of(&serving);
    let mounting = Arc::new(Mounting::new(&serving)?);
    let asked = socket::find(&serving)?;
    let signals = Signals::listen()?;
    let hub = OnceLock::new();
    let make = |basis: Basis| {
        expect_memory(&plan, basis.directory.is_some()).map_err(wrong)?;
        let mut terms = Terms::default().limits(basis.limits);
        if let Some(key) = basis.key {
            terms = terms.key(key);
        }
        let (name, version) = (serving.name(), env!("CARGO_PKG_VERSION"));
        let hub = hub.get_or_init(|| {
            let hub = match basis.directory {
                Some(folder) => Hub::kept_in(name, version, folder.join(FOLDER)),
                None => Hub::new(name, version),
            };
            match basis.key {
                Some(key) => hub.key(key_of(key, &path)),
                None => hub,
            }
        });
        if options.lazy {
            hub.offer_lazily();
        }
        plan.set(hub, &mounting).map_err(wrong)?;
        let terms = lmcp_tools::outside_of_fences(terms);
        let front = Arc::clone(&mounting);
        let whole = Layered::new(hub.clone());
        let whole = whole.layer(move |request, next| front.front(request, next));
        let endpoint = Endpoint::on_terms(Logged::new(whole), terms);
        let mut made = Made::new(endpoint, described(&plan));
        made.below = Some(Box::new(groups(hub.clone())));
        let front = Arc::clone(&mounting);
        made.join = Some(Box::new(move |headers| front.admit(headers)));
        Ok(made)
    };
    tokio::select! {
        biased;
        served = listen::run(&serving, asked, signals, make) => served,
        never = watch(&options, &serving, &hub, &mounting, files) => match never {},
        never = shed_starts(&hub) => match never {},
    }
}

/// Makes the key of the hub with this file. Hubs of one state folder share a key, and their servers may have the same names.
fn key_of(key: [u8; 32], file: &Path) -> OwnerKey {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let file = file.as_os_str().as_encoded_bytes().escape_ascii();
    OwnerKey::from(key).within(&file.to_string())
}

/// Finds the service of a group by its name.
fn groups(hub: Hub) -> impl Fn(&str) -> Result<Arc<dyn Service>, String> + Send + Sync {
    move |name| match hub.group(name) {
        Some(group) => Ok(Arc::new(Logged::new(group))),
        None => Err(format!("this hub has no group `{name}`")),
    }
}

/// Frees the code that only the start of this hub and of its servers needs, whenever one of them has been started.
async fn shed_starts(hub: &OnceLock<Hub>) -> Infallible {
    loop {
        match hub.get() {
            Some(hub) => hub.settled().await,
            None => sleep(LOOK).await,
        }
        // Other servers may be starting at the same time.
        sleep(TOGETHER).await;
        lmcp::heap::let_go_of_code();
    }
}

fn counted(plan: &Plan) -> String {
    match plan.hosts.len() {
        0 => format!("serving {} servers", plan.servers.len()),
        hosts => format!("serving {} servers and {hosts} hosts", plan.servers.len()),
    }
}

fn described(plan: &Plan) -> Vec<String> {
    let mut words = vec![counted(plan)];
    if !plan.groups.is_empty() {
        let paths = plan.groups.keys().map(|name| format!("/mcp/{name}"));
        let paths: Vec<_> = paths.collect();
        words.push(format!(
            "over HTTP, groups of them are at {}",
            paths.join(", ")
        ));
    }
    if plan.pins() {
        words.push("tools that are new or have changed wait for `lmcp hub approve`".to_owned());
    }
    words
}

/// Refuses to pin if nothing is kept: nobody could approve anything, and every start would accept everything as it is.
fn expect_memory(plan: &Plan, keeps: bool) -> Result<(), String> {
    match plan.pins() && !keeps {
        true => Err("`pin` needs a folder that keeps what was approved: --state-dir".to_owned()),
        false => Ok(()),
    }
}

/// Refuses servers for single callers if callers cannot be told apart: people would share a server that should not be
/// shared.
fn expect_told_apart(servers: &Servers, serving: &Serving) -> Result<(), String> {
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
    Err(format!(
        "server `{name}` is for one caller each, and with {option} nobody knows who calls over HTTP; \
         give everybody a token: [[token]] in the file"
    ))
}

/// Checks the files and the approvals repeatedly. A broken file changes nothing.
async fn watch(
    options: &HubOptions,
    serving: &Serving,
    hub: &OnceLock<Hub>,
    mounting: &Mounting,
    mut files: Files,
) -> Infallible {
    let mut others = files.read().map(|file| others(&file)).ok();
    loop {
        sleep(LOOK).await;
        let Some(hub) = hub.get() else {
            continue;
        };
        hub.heed_approvals().await;
        let Some(path) = files.changed() else {
            continue;
        };
        let path = path.display();
        match read_again(options, serving, hub, mounting, &files) {
            Ok((count, now)) => {
                report::note(&format!("{path} has changed: {count} now"));
                if others
                    .replace(now.clone())
                    .is_some_and(|before| before != now)
                {
                    report::note(&format!(
                        "warning: other options in {path} have changed: they count from the next start"
                    ));
                }
            }
            Err(why) => {
                report::note(&format!("warning: the servers stay as they were: {why}"));
            }
        }
    }
}

/// Returns the options of a file beside its servers, hosts, groups and pins. A running hub does not read these options
/// again.
fn others(file: &Serving) -> String {
    let file = Serving {
        servers: Servers::default(),
        hosts: Hosts::default(),
        hosts_plain_secrets: false,
        groups: Groups::default(),
        pin: None,
        ..file.clone()
    };
    format!("{file:?}")
}

/// Applies the current content of the files to the hub. Returns the numbers of servers and hosts, and the other options of
/// the file.
fn read_again(
    options: &HubOptions,
    serving: &Serving,
    hub: &Hub,
    mounting: &Mounting,
    files: &Files,
) -> Result<(String, String), String> {
    let mut file = files.read().map_err(|failure| failure.to_string())?;
    let others = others(&file);
    let plan = options.plan(&mut Serving {
        servers: std::mem::take(&mut file.servers),
        hosts: std::mem::take(&mut file.hosts),
        hosts_plain_secrets: file.hosts_plain_secrets,
        groups: std::mem::take(&mut file.groups),
        pin: file.pin,
        ..serving.clone()
    })?;
    expect_memory(&plan, !serving.keeps_nothing())?;
    plan.set(hub, mounting)?;
    let count = counted(&plan);
    Ok((count.trim_start_matches("serving ").to_owned(), others))
}

/// The files of a hub, with their state at the last check.
struct Files {
    config: Option<PathBuf>,
    registry: Option<PathBuf>,
    seen: [Seen; 2],
}

impl Files {
    fn of(serving: &Serving) -> Self {
        let (config, registry) = (serving.config.clone(), serving.hosts_file.clone());
        let seen = [&config, &registry].map(|path| Seen::of(path.as_deref()));
        Self {
            config,
            registry,
            seen,
        }
    }

    /// Reads the current configuration.
    fn read(&self) -> Result<Serving, Failure> {
        match &self.config {
            Some(path) => read_servers(path),
            None => Ok(Serving::default()),
        }
    }

    /// Returns a file that has changed since the last check.
    fn changed(&mut self) -> Option<PathBuf> {
        let paths = [&self.config, &self.registry];
        let now = paths.map(|path| Seen::of(path.as_deref()));
        let changed = (0..paths.len()).find(|place| now[*place] != self.seen[*place])?;
        self.seen = now;
        paths[changed].clone()
    }
}

/// The state of a file at the last check.
#[derive(PartialEq)]
struct Seen(Option<(u64, u64, i64, i64)>);

impl Seen {
    fn of(path: Option<&Path>) -> Self {
        let found = path.and_then(|path| fs::metadata(path).ok());
        Self(found.map(|found| (found.ino(), found.size(), found.mtime(), found.mtime_nsec())))
    }
}

/// The name of the hub's folder in the state folder.
pub(super) const FOLDER: &str = "hub";

/// Servers that start within this time count as starting together.
const TOGETHER: Duration = Duration::from_millis(20);

/// The time between two checks of the files and of the approvals: each check is one system call.
const LOOK: Duration = Duration::from_secs(1);
