//! The hosts of hubs among ours: which of them a name means, and how they are.

use std::sync::Arc;

use serde::Deserialize;

use crate::{
    call::beside,
    config::is_name,
    host::Host,
    hubs::asked,
    limits::HOSTS,
    select::{Choice, Meant},
    status::{HostStatus, STATUS, one_line},
};

/// What stands for all hosts of a hub.
const ALL: &str = "@all";

/// The host that a name means: one of these, which are in the order of their names, or hosts of a hub among these.
pub(crate) fn find(hosts: &[Arc<Host>], name: &str) -> Option<Arc<Host>> {
    let (outer, inner) = name.split_once('/').unwrap_or((name, ALL));
    let host = named(hosts, outer)?;
    match host.config.hub {
        true => Some(Arc::new(Host::within(host, name, inner))),
        false => (name == outer).then(|| Arc::clone(host)),
    }
}

/// The host with this name among these, which are in the order of their names.
pub(crate) fn named<'a>(hosts: &'a [Arc<Host>], name: &str) -> Option<&'a Arc<Host>> {
    let at = hosts.binary_search_by_key(&name, |host| &*host.name).ok()?;
    hosts.get(at)
}

/// How the hosts of a hub are that one of these words means.
pub(crate) async fn statuses(host: &Host, wanted: Option<&Arc<[String]>>) -> Vec<HostStatus> {
    #[derive(Deserialize)]
    struct Told {
        hosts: Vec<HostStatus>,
    }
    let Some(service) = host.service() else {
        return Vec::new();
    };
    let told: Option<Told> = asked(&*service, STATUS).await.ok().flatten();
    let mut hosts = told.map(|told| told.hosts).unwrap_or_default();
    hosts.truncate(HOSTS);
    let (outer, wanted) = (Arc::clone(&host.name), wanted.cloned());
    let named = beside(hosts.len(), move || {
        Ok(meant(&outer, hosts, wanted.as_deref()))
    });
    named.await.unwrap_or_default()
}

/// Returns those of a hub's hosts that one of these words means, under the names that they have here.
fn meant(outer: &str, mut hosts: Vec<HostStatus>, wanted: Option<&[String]>) -> Vec<HostStatus> {
    // What is no name is none of a host of ours, and could be made to look like one of another.
    hosts.retain(|its| is_name(&its.host));
    if let Some(names) = wanted {
        let inner = names.iter().filter_map(|name| match name.split_once('/') {
            Some((hub, inner)) => (hub == outer).then_some(inner),
            None => (name == outer).then_some(ALL),
        });
        let meant = Meant::of(inner);
        hosts.retain(|its| {
            meant.is(&Choice {
                name: &its.host,
                groups: &its.groups,
                is_disabled: false,
                is_hub: false,
            })
        });
    }
    for its in &mut hosts {
        its.host = format!("{outer}/{}", its.host);
        its.groups.retain(|group| is_name(group));
        its.via = its.via.as_deref().map(one_line);
        its.reason = its.reason.as_deref().map(one_line);
    }
    hosts
}
