//! `remote_list_hosts`: how the hosts of a fleet are, and those of its hubs.

use std::{sync::Arc, time::Duration};

use lmcp_core::Tasks;
use lmcp_wire::{CallToolResult, Content, members::Members};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    fleet::{choices, own_argument},
    host::{Host, Try},
    hubs,
    select::{Selected, select},
    status::{HostState, HostStatus, now},
};

/// Answers a call with how these hosts are. Looking at them takes no longer than this, and so does asking all hubs among them.
pub(crate) async fn list_hosts(
    params: &str,
    mut hosts: Vec<Arc<Host>>,
    budget: Duration,
) -> Result<CallToolResult, String> {
    let params = Members::read(params).unwrap_or_default();
    let arguments = &own_argument("arguments", params.get("arguments"))?;
    let mut wanted = None;
    if !arguments["host"].is_null() {
        let names = match select(&arguments["host"], &choices(&hosts))? {
            Selected::One(name) => vec![name],
            Selected::Several(names) => names,
        };
        let outer = |name: &String| name.split('/').next().map(str::to_owned);
        let outer: Vec<_> = names.iter().filter_map(outer).collect();
        hosts.retain(|host| outer.iter().any(|name| **name == *host.name));
        wanted = Some(names);
    }
    if arguments["force"] == true {
        look_at(&hosts, Instant::now() + budget).await;
    }
    let until = Instant::now() + budget;
    let mut status = Vec::new();
    for host in &hosts {
        status.push(host.status());
        if host.config.hub {
            // One that does not answer is not waited for once for each hub.
            let inner = timeout_at(until, hubs::statuses(host, wanted.as_deref())).await;
            status.extend(inner.unwrap_or_default());
        }
    }
    let mut result = CallToolResult::new(vec![Content::text(table(&status))]);
    result.structured_content = Some(json!({ "hosts": status }));
    Ok(result)
}

/// Looks at all of them at once, and not longer than until a time.
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
    // What has not been seen by then is told of as it was.
    let _ = timeout_at(until, done).await;
}

/// A line for each host, for models and people.
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
