//! `remote_list_hosts`: the state of the hosts of a fleet, and of the hosts of its hubs.

use std::{collections::HashSet, sync::Arc, time::Duration};

use lmcp_core::Tasks;
use lmcp_wire::{CallToolResult, Content, members::Members};
use serde_json::{json, value::RawValue};
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    call::{beside, choices, own_argument},
    host::{Host, Try},
    inner,
    select::{Selected, select},
    status::{HostState, HostStatus, now},
};

/// Answers a call with the state of these hosts. Checking the hosts takes at most `budget`, and asking all hubs among them
/// takes at most `budget`, too.
pub(crate) async fn list_hosts(
    params: Box<RawValue>,
    hosts: Vec<Arc<Host>>,
    budget: Duration,
) -> Result<CallToolResult, String> {
    let asked = beside(hosts.len(), move || Asked::read(params.get(), hosts)).await?;
    let Asked {
        hosts,
        wanted,
        is_forced,
    } = asked;
    if is_forced {
        look_at(&hosts, Instant::now() + budget).await;
    }
    let until = Instant::now() + budget;
    let mut status = Vec::new();
    for host in &hosts {
        status.push(host.status());
        if host.config.hub {
            // One that does not answer is not waited for once for each hub.
            let inner = timeout_at(until, inner::statuses(host, wanted.as_ref())).await;
            status.extend(inner.unwrap_or_default());
        }
    }
    beside(status.len(), move || {
        let mut result = CallToolResult::new(vec![Content::text(table(&status))]);
        result.structured_content = Some(json!({ "hosts": status }));
        Ok(result)
    })
    .await
}

/// What a caller asks for.
struct Asked {
    hosts: Vec<Arc<Host>>,
    /// The names that mean these hosts, or hosts of hubs among them, unless all are meant.
    wanted: Option<Arc<[String]>>,
    is_forced: bool,
}

impl Asked {
    fn read(params: &str, mut hosts: Vec<Arc<Host>>) -> Result<Self, String> {
        let params = Members::read(params).unwrap_or_default();
        let arguments = &own_argument("arguments", params.get("arguments"))?;
        let mut wanted = None;
        if !arguments["host"].is_null() {
            let names = match select(&arguments["host"], &choices(&hosts))? {
                Selected::One(name) => vec![name],
                Selected::Several(names) => names,
            };
            let outer: HashSet<_> = names
                .iter()
                .filter_map(|name| name.split('/').next())
                .collect();
            hosts.retain(|host| outer.contains(&*host.name));
            wanted = Some(names.into());
        }
        Ok(Self {
            hosts,
            wanted,
            is_forced: arguments["force"] == true,
        })
    }
}

/// Checks all hosts at once, at most until this time.
async fn look_at(hosts: &[Arc<Host>], until: Instant) {
    let looking = Tasks::default();
    for host in hosts.iter().filter(|host| !host.config.disabled) {
        let host = Arc::clone(host);
        looking.spawn(async move { host.look(Try::All).await });
    }
    let done = async {
        while !looking.is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    // A host that was not checked by then is reported with its earlier state.
    let _ = timeout_at(until, done).await;
}

/// Returns a line for each host, for models and people.
fn table(hosts: &[HostStatus]) -> String {
    if hosts.is_empty() {
        return "there are no hosts".to_owned();
    }
    let now = now();
    let lines = hosts.iter().map(|host| {
        let seconds = now.saturating_sub(host.since);
        let state = match host.state {
            HostState::Unknown => "not looked at yet".to_owned(),
            HostState::Up => format!("UP for {seconds} s"),
            HostState::Down => format!("DOWN for {seconds} s"),
            HostState::Disabled => "disabled".to_owned(),
        };
        let mut line = format!("{}: {state}", host.host);
        if let Some(via) = &host.via {
            line.push_str(&format!(", via {via}"));
        }
        if !host.groups.is_empty() {
            line.push_str(&format!(", in {}", host.groups.join(", ")));
        }
        if host.read_only {
            line.push_str(", read-only");
        }
        if let Some(reason) = &host.reason {
            line.push_str(&format!(" ({reason})"));
        }
        line
    });
    lines.collect::<Vec<_>>().join("\n")
}
