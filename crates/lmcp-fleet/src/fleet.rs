//! The fleet: a [`Service`] whose tools run on other hosts.

use std::{
    collections::BTreeMap,
    fmt,
    pin::Pin,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use lmcp_core::{
    Caller, Discovery, Outcome, Page, Payload, Replies, Reply, Request, Say, Server, Service, Tasks,
};
use lmcp_wire::{
    CallToolResult, RpcError, ServerCapabilities, Tool,
    capability::ListCapability,
    discover::{CacheHint, PaginatedParams},
    members::Members,
    meta,
    method::{notification, request},
};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use tokio::{
    sync::{Semaphore, watch},
    task::AbortHandle,
    time::Instant,
};

use crate::{
    answer,
    config::{Hosts, Times, expect_named},
    copy,
    fan::{self, fan},
    host::{Answered, Failed, Host},
    hubs,
    limits::{MOST_PARALLEL, MOST_WAIT, OWN_ARGUMENT_BYTES, PARALLEL, PROBES},
    listing::list_hosts,
    path::Kind,
    probe,
    rights::{AllRights, Rights},
    select::{Choice, Selected, known, select},
    status::{HostStatus, STATUS},
    summary::summary,
    tools::{self, COPY, LIST_HOSTS, LOCAL, PREFIX},
};

/// The tools of a host on every host of a fleet, as a [`Service`]. Cheap to clone.
///
/// Hosts are looked at in the background, so a call to one that is down fails at once; no host holds up a call to another.
#[derive(Clone)]
pub struct Fleet(Arc<Inner>);

struct Inner {
    /// The tools of a host, by their own names.
    local: Vec<Tool>,
    /// What tells this fleet from all others.
    id: Arc<str>,
    times: Times,
    /// By the names of callers.
    rights: AllRights,
    hosts: RwLock<BTreeMap<Arc<str>, Kept>>,
    /// Counts up when the list of tools changes.
    changes: watch::Sender<u64>,
    places: Arc<Semaphore>,
    probes: Tasks,
}

/// A host and the task that looks at it.
struct Kept {
    host: Arc<Host>,
    watcher: AbortHandle,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

impl Fleet {
    /// A fleet without hosts. The tools are those of a host, as it lists them itself; of these the fleet has all that it knows.
    /// Callers of these names have these rights, and all others may do everything.
    pub fn new(local: Vec<Tool>, times: Times, rights: AllRights) -> Self {
        let position = |tool: &Tool| LOCAL.iter().position(|name| *name == tool.name);
        let mut local: Vec<_> = local
            .into_iter()
            .filter(|tool| position(tool).is_some())
            .collect();
        local.sort_by_key(position);
        Self(Arc::new(Inner {
            local,
            id: random_id().into(),
            times,
            rights,
            hosts: RwLock::default(),
            changes: watch::Sender::default(),
            places: Arc::new(Semaphore::new(PROBES)),
            probes: Tasks::default(),
        }))
    }

    /// Has exactly these hosts from now on. Those that stay as they are go on undisturbed, and calls that go on at others end
    /// as they would have.
    ///
    /// # Errors
    /// A name is none, or there are too many. Nothing has changed then.
    pub fn set(&self, new: &Hosts) -> Result<(), String> {
        expect_named(new)?;
        let mut hosts = self.0.hosts.write().unwrap_or_else(PoisonError::into_inner);
        hosts.retain(|name, kept| new.get(&**name) == Some(&kept.host.config));
        for (name, config) in new {
            if hosts.contains_key(name.as_str()) {
                continue;
            }
            let host = Arc::new(Host::new(name, config.clone(), self.0.times, &self.0.id));
            let watcher = match config.disabled {
                true => self.0.probes.spawn(async {}),
                false => {
                    let places = Arc::clone(&self.0.places);
                    self.0.probes.spawn(probe::watch(Arc::clone(&host), places))
                }
            };
            hosts.insert(Arc::clone(&host.name), Kept { host, watcher });
        }
        drop(hosts);
        self.0.changes.send_modify(|version| *version += 1);
        Ok(())
    }

    /// How all hosts are, by what was last seen of them.
    pub fn status(&self) -> Vec<HostStatus> {
        self.0.hosts().iter().map(|host| host.status()).collect()
    }

    pub(crate) fn host(&self, name: &str) -> Option<Arc<Host>> {
        let hosts = self.0.hosts.read().unwrap_or_else(PoisonError::into_inner);
        hosts.get(name).map(|kept| Arc::clone(&kept.host))
    }
}

impl Service for Fleet {
    fn call(&self, request: Request) -> Replies {
        match self.0.answer(request) {
            Ok(replies) => replies,
            Err(error) => Replies::error(error),
        }
    }

    fn hang_up(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            let leaving = Tasks::default();
            for host in self.0.hosts() {
                leaving.spawn(async move { host.hang_up().await });
            }
            while !leaving.is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
    }
}

impl Inner {
    fn answer(self: &Arc<Self>, request: Request) -> Result<Replies, RpcError> {
        match request.method() {
            request::INITIALIZE | request::DISCOVER => Ok(Replies::done(discovery())),
            request::PING => Ok(Replies::done(Payload::Acknowledged)),
            request::TOOLS_LIST => {
                request.check_flaw()?;
                let params: PaginatedParams = request.params()?;
                if params.cursor.is_some() {
                    return Err(RpcError::invalid_params("`cursor` is none of this list"));
                }
                let page = Page::new("tools", &self.tools(), None);
                Ok(Replies::done(Payload::List(page, CacheHint::private(0))))
            }
            request::TOOLS_CALL => {
                request.check_flaw()?;
                self.call(request)
            }
            STATUS => {
                let hosts = self.hosts_for(request.caller());
                let hosts: Vec<_> = hosts.iter().map(|host| host.status()).collect();
                let told = to_raw_value(&json!({ "hosts": hosts }));
                let told = told.map_err(|err| RpcError::internal(err.to_string()))?;
                Ok(Replies::done(told))
            }
            request::LISTEN => {
                let changes = self.changes.subscribe();
                Ok(Replies::speaking(|say| listen(changes, say)))
            }
            method => Err(RpcError::method_not_found(method)),
        }
    }

    /// The tools, as long as there are hosts for them.
    fn tools(&self) -> Vec<Tool> {
        let hosts = self.hosts();
        if hosts.is_empty() {
            return Vec::new();
        }
        let known = match self.rights.values().any(|rights| rights.hosts.is_some()) {
            // All callers see the same descriptions, and not all may know of all hosts.
            true => "remote_list_hosts names them".to_owned(),
            false => known(&choices(&hosts)),
        };
        let remote = self.local.iter().map(|tool| tools::remote(tool, &known));
        [tools::list_hosts(&known)]
            .into_iter()
            .chain(remote)
            .chain([tools::copy(&known)])
            .collect()
    }

    fn call(self: &Arc<Self>, request: Request) -> Result<Replies, RpcError> {
        let name = request.target()?.into_owned();
        let whole: &RawValue = request.params()?;
        let whole = whole.to_owned();
        if name == LIST_HOSTS {
            let (fleet, hosts) = (Arc::clone(self), self.hosts_for(request.caller()));
            return Ok(Replies::later(async move {
                let listed = list_hosts(whole.get(), hosts, fleet.times.budget).await;
                Replies::done(listed.unwrap_or_else(CallToolResult::error))
            }));
        }
        if name == COPY {
            let rights = self.rights_of(request.caller());
            let allowed = rights.map_or(Ok(()), |rights| rights.check(&copy::tool()));
            let hosts = self.hosts_for(request.caller());
            let plan = allowed.and_then(|()| copy::Plan::read(whole.get(), &hosts));
            return Ok(match plan {
                Ok(plan) => Replies::speaking(|say| copy::run(plan, request, say)),
                Err(words) => Replies::done(CallToolResult::error(words)),
            });
        }
        let local = name.strip_prefix(PREFIX);
        let local = local.and_then(|local| self.local.iter().find(|tool| tool.name == local));
        let unknown = || RpcError::invalid_params(format!("unknown tool: `{name}`"));
        let local = local.ok_or_else(unknown)?;
        // What a model has to know to do better the next time is a result that it reads.
        let rights = self.rights_of(request.caller());
        let allowed = rights.map_or(Ok(()), |rights| rights.check(local));
        let allowed = allowed.and_then(|()| hubs::expect_new(whole.get(), &self.id));
        let hosts = self.hosts_for(request.caller());
        let plan = match allowed.and_then(|()| Plan::read(whole.get(), &hosts)) {
            Ok(plan) => plan,
            Err(words) => return Ok(Replies::done(CallToolResult::error(words))),
        };
        let local = local.clone();
        Ok(Replies::speaking(|say| run(plan, local, request, say)))
    }

    fn rights_of(&self, caller: &Caller) -> Option<&Rights> {
        self.rights.get(caller.principal()?)
    }

    /// The hosts that are there for a caller.
    fn hosts_for(&self, caller: &Caller) -> Vec<Arc<Host>> {
        let mut hosts = self.hosts();
        if let Some(rights) = self.rights_of(caller) {
            hosts.retain(|host| rights.reach(&choice(host)));
        }
        hosts
    }

    fn hosts(&self) -> Vec<Arc<Host>> {
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        hosts.values().map(|kept| Arc::clone(&kept.host)).collect()
    }
}

/// A call, read: for which hosts, how, and what they are sent.
struct Plan {
    one: Option<Arc<Host>>,
    several: Vec<Arc<Host>>,
    parallel: usize,
    wait: Duration,
    /// The parameters of the request, without what is for the fleet.
    params: String,
}

impl Plan {
    fn read(params: &str, hosts: &[Arc<Host>]) -> Result<Self, String> {
        let no_object = |_| "the arguments are no object".to_owned();
        let mut params = Members::read(params).map_err(no_object)?;
        let arguments = params.take("arguments");
        let text = arguments.as_ref().map_or("{}", |arguments| arguments.get());
        let mut arguments = Members::read(text).map_err(no_object)?;
        let mut own = |name: &str| own_argument(name, arguments.take(name).as_deref());
        let (host, parallel, wait) = (own("host")?, own("parallel")?, own("host_wait")?);
        let parallel = number(&parallel, "parallel", 1.0, MOST_PARALLEL as f64)?;
        let wait = number(&wait, "host_wait", 0.0, MOST_WAIT.as_secs_f64())?;
        params.set("arguments", &arguments);
        let find = |name: &String| hubs::find(hosts, name);
        let (one, several) = match select(&host, &choices(hosts))? {
            Selected::One(name) => (find(&name), Vec::new()),
            Selected::Several(names) => (None, names.iter().filter_map(find).collect()),
        };
        Ok(Self {
            one,
            several,
            parallel: parallel.map_or(PARALLEL, |count| count as usize),
            wait: Duration::from_secs_f64(wait.unwrap_or_default()),
            params: serde_json::to_string(&params).map_err(|err| err.to_string())?,
        })
    }

    /// The request as a host gets it: with the tool's own name.
    /// Takes the parameters out of the plan: called once.
    fn request(&mut self, request: Request, local: &Tool) -> Result<Request, RpcError> {
        let no_object = |_| RpcError::invalid_params("`params` must be an object");
        let own = std::mem::take(&mut self.params);
        let mut params = Members::read(&own).map_err(no_object)?;
        params.set("name", &local.name);
        let told = params.take("_meta");
        let told = told.as_ref().map_or("{}", |told| told.get());
        let mut told = Members::read(told).unwrap_or_default();
        if told.get(meta::CLIENT_CAPABILITIES).is_some() {
            // Tools of hosts ask nobody anything, so a host that does is none to be answered. A task of a host would have an id
            // that leads back to none.
            told.set(meta::CLIENT_CAPABILITIES, &json!({}));
        }
        params.set("_meta", &told);
        request.with_params(&params)
    }
}

/// An argument that is for the fleet itself.
///
/// # Errors
/// It is too long to be one.
pub(crate) fn own_argument(name: &str, raw: Option<&RawValue>) -> Result<Value, String> {
    match raw {
        Some(raw) if raw.get().len() > OWN_ARGUMENT_BYTES => {
            Err(format!("`{name}` has at most {OWN_ARGUMENT_BYTES} bytes"))
        }
        Some(raw) => Ok(serde_json::from_str(raw.get()).unwrap_or_default()),
        None => Ok(Value::Null),
    }
}

/// A number, or a text that is one.
pub(crate) fn number(
    value: &Value,
    name: &str,
    least: f64,
    most: f64,
) -> Result<Option<f64>, String> {
    let number = match value {
        Value::Null => return Ok(None),
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_f64(),
    };
    let number = number.filter(|number| (least..=most).contains(number));
    let words = || format!("`{name}` is a number from {least} to {most}");
    number.map(Some).ok_or_else(words)
}

async fn run(mut plan: Plan, local: Tool, request: Request, say: Say) -> Result<Outcome, RpcError> {
    let tool = format!("{PREFIX}{}", local.name);
    let (caller, account) = (request.caller().owner(), request.account());
    let sent = plan.request(request, &local)?;
    if let Some(host) = &plan.one {
        let began = Instant::now();
        let answered = match allowed(host, &local) {
            Ok(()) => host.call(sent, plan.wait, &say).await,
            Err(failed) => Answered {
                path: None,
                result: Err(failed),
            },
        };
        audit(&tool, &host.name, &answered, began, &caller);
        return Ok(answer::of_one(host, answered, account.as_ref()));
    }
    let calls = plan.several.iter().map(|host| {
        let request = allowed(host, &local).map(|()| sent.clone());
        (Arc::clone(host), request)
    });
    let calls: Vec<fan::Planned> = calls.collect();
    let parts = fan(calls, (&tool, &caller), plan.parallel, plan.wait, &say).await;
    Ok(summary(parts).into())
}

/// Refuses to change anything where nothing may be changed, whatever way leads there.
pub(crate) fn allowed(host: &Host, local: &Tool) -> Result<(), Failed> {
    match host.config.read_only && !tools::is_read_only(local) {
        true => Err(Failed {
            words: format!(
                "the host is read-only, and `{}` may change something",
                local.name
            ),
            began: Some(false),
            is_retriable: false,
        }),
        false => Ok(()),
    }
}

/// One line in the log for each host and call.
pub(crate) fn audit(tool: &str, host: &str, answered: &Answered, began: Instant, caller: &str) {
    let how = match &answered.result {
        Ok(outcome) => outcome.to_string(),
        Err(failed) => format!("{:?}", failed.words),
    };
    audit_line(tool, (host, answered.path), &how, began, caller);
}

/// The same of a call that came to its end in another way.
pub(crate) fn audit_line(
    tool: &str,
    (host, path): (&str, Option<Kind>),
    how: &str,
    began: Instant,
    caller: &str,
) {
    let milliseconds = began.elapsed().as_millis();
    let path = path.map_or("no way", |path| path.word());
    tracing::info!("{tool} on {host} via {path}: {how} ({milliseconds} ms, {caller})");
}

pub(crate) fn choices(hosts: &[Arc<Host>]) -> Vec<Choice<'_>> {
    hosts.iter().map(|host| choice(host)).collect()
}

fn choice(host: &Host) -> Choice<'_> {
    Choice {
        name: &host.name,
        groups: &host.config.groups,
        is_disabled: host.config.disabled,
        is_hub: host.config.hub,
    }
}

fn random_id() -> String {
    let key = Server::random_key();
    let digits = key.iter().take(16).map(|byte| format!("{byte:02x}"));
    digits.collect()
}

fn discovery() -> Payload {
    let mut capabilities = ServerCapabilities::default();
    capabilities.tools = Some(ListCapability::announced());
    Payload::Discover(
        Box::new(Discovery::new(capabilities)),
        CacheHint::private(0),
    )
}

/// Tells of changes of the list of tools, for as long as somebody listens.
async fn listen(mut changes: watch::Receiver<u64>, say: Say) -> Result<Outcome, RpcError> {
    let accepted = json!({ "notifications": { "toolsListChanged": true } });
    say.say(Reply::notify(notification::LISTEN_ACKNOWLEDGED, &accepted))
        .await;
    while changes.changed().await.is_ok() {
        say.say(Reply::notify(notification::TOOLS_CHANGED, &json!({})))
            .await;
    }
    Ok(Payload::Acknowledged.into())
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = self.0.hosts();
        f.debug_set()
            .entries(hosts.iter().map(|host| &host.name))
            .finish()
    }
}
