//! The hosts of a hub: takes them from its file and its registry into the fleet. `lmcp hub hosts` proposes them.

use std::{
    env, fs,
    io::{Write as _, stdout},
    path::PathBuf,
    sync::{OnceLock, PoisonError, RwLock},
    time::Duration,
};

use clap::Args;
use lmcp::{
    Hub, Next, Replies, Request, Service as _,
    http::{Deciding, HandOver, HeaderMap, StatusCode},
};
use lmcp_fleet::{
    AllRights, Fleet, Hosts, Pushed, PushedFolder, STATUS, Times,
    join::{self, Refusal},
    propose, read_registry,
};

use crate::{
    options::Options as Serving,
    private,
    report::{self, Failure},
    tokens::Tokens,
};

/// The options of `lmcp hub hosts`.
#[derive(Debug, Args)]
pub(crate) struct HostsOptions {
    /// Propose the hosts that a configuration of ssh names, patterns left
    /// out. [default: ~/.ssh/config]
    #[arg(long, value_name = "FILE", num_args = 0..=1, required = true, verbatim_doc_comment)]
    from_ssh_config: Option<Option<PathBuf>>,
}

/// Prints tables for the file of a hub.
pub(crate) fn run(options: HostsOptions) -> Result<(), Failure> {
    let named = options.from_ssh_config.flatten();
    let path = match named {
        Some(path) => path,
        None => {
            let home = env::var_os("HOME").map(PathBuf::from);
            let home = home.ok_or_else(|| Failure::misuse("HOME is not set"))?;
            home.join(".ssh/config")
        }
    };
    let text = fs::read_to_string(&path)
        .map_err(|err| Failure::cannot(&format!("read {}", path.display()), err))?;
    let proposed = propose(&text);
    if proposed.is_empty() {
        return Err(Failure::of(format!("{} names no hosts", path.display())));
    }
    report::note(
        "put what you want of this into the file of `lmcp hub --config`; hosts need `lmcp` in the PATH of ssh",
    );
    let written = stdout().write_all(proposed.as_bytes());
    written.map_err(|err| Failure::new("cannot write the hosts", err))
}

/// Reads the hosts of the file and of the registry. A table of the file replaces a line of the registry with the same name.
pub(super) fn hosts_of(file: &mut Serving) -> Result<Hosts, String> {
    let mut hosts = std::mem::take(&mut file.hosts);
    let Some(path) = &file.hosts_file else {
        return Ok(hosts);
    };
    let text = private::read(path).map_err(|failure| failure.to_string())?;
    let listed = read_registry(&text).map_err(|why| format!("{}: {why}", path.display()))?;
    for (name, mut host) in listed {
        host.plain_secrets = file.hosts_plain_secrets;
        hosts.entry(name).or_insert(host);
    }
    Ok(hosts)
}

/// Shows hosts in a hub: their tools exist while there are hosts.
pub(super) struct Mounting {
    fleet: OnceLock<Fleet>,
    times: Times,
    rights: AllRights,
    /// The options of the hub: a token of its callers cannot be used to join.
    serving: Serving,
    /// The tokens of hosts that join, by the names of the hosts.
    tokens: RwLock<Tokens>,
    /// The folder of the pushed program on hosts.
    pushed: PushedFolder,
}

impl Mounting {
    /// Makes no fleet yet: that waits for the first host.
    pub(super) fn new(serving: &Serving) -> Result<Self, Failure> {
        let limited = serving.token.iter().filter_map(|token| {
            let rights = token.on_hosts.clone()?;
            Some((token.name.clone(), rights))
        });
        Ok(Self {
            rights: limited.collect(),
            fleet: OnceLock::new(),
            serving: serving.clone(),
            tokens: RwLock::new(Tokens::none()),
            pushed: PushedFolder::of(|| {
                Some(Pushed::new(VERSION, &fs::read("/proc/self/exe").ok()?))
            }),
            times: times(&|name| env::var(name).ok()).map_err(Failure::misuse)?,
        })
    }

    /// Answers a request for the state of the hosts, because the hub itself does not know it.
    pub(super) fn front(&self, request: Request, next: Next<'_>) -> Replies {
        match self.fleet.get() {
            Some(fleet) if request.method() == STATUS => fleet.call(request),
            _ => next.call(request),
        }
    }

    /// Decides about a host that wants to join: its token names the host.
    pub(super) fn admit(&self, headers: &HeaderMap) -> Deciding {
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        let named = tokens.identify(headers);
        let fleet = self.fleet.get().cloned();
        Box::pin(async move {
            let name = named.map_err(|words| (StatusCode::UNAUTHORIZED, words))?;
            let (Some(name), Some(fleet)) = (name, fleet) else {
                let words = Refusal::Unknown.to_string();
                return Err((StatusCode::NOT_FOUND, words));
            };
            let admission = fleet.admit(&name).await.map_err(|refusal| {
                let status = match refusal {
                    Refusal::Taken => StatusCode::CONFLICT,
                    Refusal::Busy => StatusCode::SERVICE_UNAVAILABLE,
                    _ => StatusCode::NOT_FOUND,
                };
                (status, format!("{refusal}: `{name}`"))
            })?;
            let mut agreed = HandOver::to(move |stream| admission.take(stream));
            if let Ok(name) = name.parse() {
                agreed.headers.insert(join::NAME, name);
            }
            Ok(agreed)
        })
    }

    /// Returns the same hosts, with the folder into which `lmcp hub push` puts the program.
    fn with_pushed(&self, hosts: &Hosts) -> Hosts {
        let mut hosts = hosts.clone();
        for host in hosts.values_mut() {
            if host.ssh.is_some() && host.has_usual_name() {
                host.pushed = Some(self.pushed.clone());
            }
        }
        hosts
    }

    /// Reads the tokens of hosts that join.
    fn join_tokens(&self, hosts: &Hosts) -> Result<Tokens, String> {
        let joining = hosts.iter().filter(|(_, host)| host.join);
        let files = joining.filter_map(|(name, host)| Some((name, host.token_file.as_deref()?)));
        let read = Tokens::of_hosts(files, &self.serving);
        read.map_err(|failure| failure.to_string())
    }

    /// Sets the hosts of the hub.
    pub(super) fn set(&self, hub: &Hub, hosts: &Hosts) -> Result<(), String> {
        let tokens = self.join_tokens(hosts)?;
        let is_first = self.fleet.get().is_none();
        if hosts.is_empty() && is_first {
            return Ok(());
        }
        let make = || Fleet::new(lmcp_tools::definitions(), self.times, self.rights.clone());
        let fleet = self.fleet.get_or_init(make);
        let had_some = !fleet.status().is_empty();
        fleet.set(&self.with_pushed(hosts))?;
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = tokens;
        match (had_some, hosts.is_empty()) {
            (false, false) => hub.mount_plainly(HOSTS, fleet.clone()),
            (true, true) => hub.unmount(HOSTS),
            (true, false) | (false, true) => {}
        }
        Ok(())
    }
}

/// The name for all hosts together among the servers of a hub.
pub(super) const HOSTS: &str = "hosts";

/// Reads how often hosts are checked, from the variables of the hub before this one.
fn times(variable: &dyn Fn(&str) -> Option<String>) -> Result<Times, String> {
    let mut times = Times::default();
    for (name, time) in [
        ("LMCP_HUB_PROBE_TTL_UP", &mut times.up),
        ("LMCP_HUB_PROBE_TTL_DOWN_MIN", &mut times.down_min),
        ("LMCP_HUB_PROBE_TTL_DOWN_MAX", &mut times.down_max),
        ("LMCP_HUB_PROBE_BUDGET", &mut times.budget),
        ("LMCP_HUB_SSH_TIMEOUT", &mut times.connect),
    ] {
        let Some(text) = variable(name) else {
            continue;
        };
        let seconds = text.trim().parse().ok();
        let said = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let said = said.filter(|said| *said >= LEAST);
        *time = said.ok_or_else(|| format!("{name} is `{text}`, which is no number of seconds"))?;
    }
    Ok(times)
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The shortest time between two checks.
const LEAST: Duration = Duration::from_millis(100);
