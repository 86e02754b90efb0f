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
    json,
    value::{RawValue, to_raw_value},
};
use tokio::{
    sync::{Semaphore, watch},
    task::AbortHandle,
    time::Instant,
};

use crate::{
    answer,
    call::{allowed, audit, beside, choice, choices, number, own_argument},
    config::{Hosts, Times, expect_named},
    copy,
    fan::{self, fan},
    host::{Answered, Host},
    hubs, inner,
    limits::{MOST_PARALLEL, MOST_WAIT, PARALLEL, PROBES, SMALL_FLEET},
    listing::list_hosts,
    probe,
    rights::{AllRights, Rights},
    select::{Selected, known, select},
    status::{HostStatus, STATUS},
    summary::summary,
    tools::{self, COPY, LIST_HOSTS, LOCAL, PREFIX},
};

/// The tools of a host on every host of a fleet, as a [`Service`]. Cheap to clone.
///
/// Hosts are checked in the background, so a call to a host that is down fails at once. No host delays a call to another.
#[derive(Clone)]
pub struct Fleet(Arc<Inner>);

struct Inner {
    /// The tools of a host, by their own names.
    local: Vec<Tool>,
    /// Tells this fleet from all others.
    id: Arc<str>,
    times: Times,
    /// The rights, by the names of callers.
    rights: AllRights,
    hosts: RwLock<BTreeMap<Arc<str>, Kept>>,
    /// A counter that goes up when the list of tools changes.
    changes: watch::Sender<u64>,
    places: Arc<Semaphore>,
    probes: Tasks,
}

/// A host and the task that checks it.
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
    /// Returns a fleet without hosts. `local` are the tools of a host, as the host lists them; the fleet offers those that
    /// it knows. Callers named in `rights` have these rights, and all others may do everything.
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

    /// Sets the hosts. A host whose configuration stays the same is not disturbed, and calls that run on the others end
    /// normally.
    ///
    /// # Errors
    /// A name is not valid, or there are too many hosts. Nothing was changed then.
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

    /// Returns the state of all hosts at their last check.
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

    /// Returns the tools, if there are hosts for them.
    fn tools(&self) -> Vec<Tool> {
        let hosts = self.hosts();
        if hosts.is_empty() {
            return Vec::new();
        }
        let known = match self.rights.values().any(|rights| rights.hosts.is_some()) {
            // All callers see the same descriptions, and some of them may not know of all hosts.
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
        let (fleet, caller) = (Arc::clone(self), request.caller().clone());
        if name == LIST_HOSTS {
            return Ok(Replies::later(async move {
                let (hosts, budget) = (fleet.hosts_for(&caller), fleet.times.budget);
                let listed = list_hosts(whole, hosts, budget).await;
                Replies::done(listed.unwrap_or_else(CallToolResult::error))
            }));
        }
        // An error that the model should read is a result, so that the model can do better the next time.
        if name == COPY {
            let read = move || {
                let rights = fleet.rights_of(&caller);
                rights.map_or(Ok(()), |rights| rights.check(&copy::tool()))?;
                copy::Plan::read(whole.get(), &fleet.hosts_for(&caller))
            };
            return Ok(self.planned(read, |plan, say| copy::run(plan, request, say)));
        }
        let local = name.strip_prefix(PREFIX);
        let local = local.and_then(|local| self.local.iter().find(|tool| tool.name == local));
        let unknown = || RpcError::invalid_params(format!("unknown tool: `{name}`"));
        let local = local.ok_or_else(unknown)?.clone();
        let tool = local.clone();
        let read = move || {
            let rights = fleet.rights_of(&caller);
            rights.map_or(Ok(()), |rights| rights.check(&tool))?;
            hubs::expect_new(whole.get(), &fleet.id)?;
            Plan::read(whole.get(), &fleet.hosts_for(&caller))
        };
        Ok(self.planned(read, |plan, say| run(plan, local, request, say)))
    }

    /// Answers a call: reads its plan, which looks for hosts among all of them, and then runs it.
    fn planned<P: Send + 'static, R>(
        &self,
        read: impl FnOnce() -> Result<P, String> + Send + 'static,
        run: impl FnOnce(P, Say) -> R + Send + 'static,
    ) -> Replies
    where
        R: Future<Output = Result<Outcome, RpcError>> + Send + 'static,
    {
        let count = self
            .hosts
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .len();
        if count <= SMALL_FLEET {
            return match read() {
                Ok(plan) => Replies::speaking(|say| run(plan, say)),
                Err(words) => Replies::done(CallToolResult::error(words)),
            };
        }
        Replies::speaking(move |say| async move {
            match beside(count, read).await {
                Ok(plan) => run(plan, say).await,
                Err(words) => Ok(CallToolResult::error(words).into()),
            }
        })
    }

    fn rights_of(&self, caller: &Caller) -> Option<&Rights> {
        self.rights.get(caller.principal()?)
    }

    /// Returns the hosts that a caller may use, in the order of their names.
    fn hosts_for(&self, caller: &Caller) -> Vec<Arc<Host>> {
        let mut hosts = self.hosts();
        if let Some(reach) = self.rights_of(caller).and_then(Rights::reach) {
            hosts.retain(|host| reach.is(&choice(host)));
        }
        hosts
    }

    fn hosts(&self) -> Vec<Arc<Host>> {
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        hosts.values().map(|kept| Arc::clone(&kept.host)).collect()
    }
}

/// A call, after its arguments were read: the hosts, the time limits, and the parameters for the hosts.
struct Plan {
    one: Option<Arc<Host>>,
    several: Vec<Arc<Host>>,
    parallel: usize,
    wait: Duration,
    /// The parameters of the request, without the arguments for the fleet.
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
        let find = |name: &String| inner::find(hosts, name);
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

    /// Makes the request for a host, with the tool's own name. Takes the parameters out of the plan, so it is called only
    /// once.
    fn request(&mut self, request: Request, local: &Tool) -> Result<Request, RpcError> {
        let no_object = |_| RpcError::invalid_params("`params` must be an object");
        let own = std::mem::take(&mut self.params);
        let mut params = Members::read(&own).map_err(no_object)?;
        params.set("name", &local.name);
        let told = params.take("_meta");
        let told = told.as_ref().map_or("{}", |told| told.get());
        let mut told = Members::read(told).unwrap_or_default();
        if told.get(meta::CLIENT_CAPABILITIES).is_some() {
            // Tools of a host never ask the caller anything, so a host that asks gets no answer. The id of a task would not
            // lead back to its host.
            told.set(meta::CLIENT_CAPABILITIES, &json!({}));
        }
        params.set("_meta", &told);
        request.with_params(&params)
    }
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

/// Reports changes of the list of tools, as long as somebody listens.
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

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;
    use crate::{config::HostConfig, testing::call_of};

    fn fleet(count: usize) -> Fleet {
        let local = ["shell", "read_file"].map(|name| Tool::new(name, json!({})));
        let fleet = Fleet::new(local.to_vec(), Times::default(), AllRights::default());
        let hosts = (0..count).map(|at| {
            let mut config = HostConfig::new();
            config.disabled = true;
            (format!("h{at}"), config)
        });
        fleet.set(&hosts.collect()).unwrap();
        fleet
    }

    /// Returns the words of the answer, and whether it needed another thread than that of the runtime.
    async fn answer(fleet: &Fleet, request: Request) -> (String, bool) {
        // The only other thread is busy until it is let go.
        let (let_go, waiting) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || waiting.recv());
        let mut answer = Box::pin(fleet.call(request).response());
        let first = tokio::select! {
            biased;
            answer = &mut answer => Some(answer),
            () = ready(()) => None,
        };
        drop(let_go);
        let is_beside = first.is_none();
        let answer = match first {
            Some(answer) => answer,
            None => answer.await,
        };
        let Payload::CallTool(result) = answer.unwrap().unwrap().payload else {
            panic!("it is a result");
        };
        let words = result.content[0].as_text().unwrap_or_default();
        (words.to_owned(), is_beside)
    }

    #[test]
    fn hosts_are_looked_for_beside_the_shared_thread_unless_there_are_few() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        let wrong = json!({ "host": "h*,nobody", "to_host": "h0", "path": "/x" });
        for (count, tool, is_expected_beside) in [
            (SMALL_FLEET, "remote_shell", false),
            (SMALL_FLEET + 1, "remote_shell", true),
            (SMALL_FLEET + 1, COPY, true),
            (SMALL_FLEET + 1, LIST_HOSTS, true),
        ] {
            let (words, is_beside) = runtime.block_on(async {
                let fleet = fleet(count);
                answer(&fleet, call_of(tool, &wrong)).await
            });
            assert_eq!(is_beside, is_expected_beside, "{tool} of {count} hosts");
            assert!(words.starts_with("there is no host `nobody`"), "{words}");
        }
    }
}
