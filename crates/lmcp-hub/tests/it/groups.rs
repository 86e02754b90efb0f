//! A group is like a hub of its own to its clients.

use lmcp_core::{Endpoint, client::Change};
use lmcp_hub::Groups;
use lmcp_wire::subscribe::SubscriptionFilter;
use serde_json::json;

use crate::{hub, notes};

fn groups(all: &[(&str, &[&str])]) -> Groups {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let all = all.iter();
    all.map(|(name, servers)| ((*name).to_owned(), owned(servers)))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn nothing_of_another_group_is_seen_or_reached() {
    let (hub, whole) = hub(&[("one", notes()), ("two", notes())]);
    hub.set_groups(&groups(&[("first", &["one"])]));
    assert!(hub.group("second").is_none());
    let first = Endpoint::new(hub.group("first").unwrap()).client();
    assert_eq!(whole.list_tools().await.unwrap().len(), 8);
    assert_eq!(first.list_tools().await.unwrap().len(), 4);
    assert_eq!(first.list_prompts().await.unwrap().len(), 1);
    assert_eq!(first.list_resources().await.unwrap().len(), 1);
    assert_eq!(first.list_templates().await.unwrap().len(), 1);
    first.call_tool("one__link", json!({})).await.unwrap();
    first.read("one+note://about").await.unwrap();
    assert!(first.call_tool("two__link", json!({})).await.is_err());
    assert!(first.read("two+note://about").await.is_err());
    let arguments = json!({ "name": "x" });
    assert!(first.get_prompt("two__sum", &arguments).await.is_err());
    assert!(whole.get_prompt("two__sum", &arguments).await.is_ok());
    let completing = json!({ "ref": { "type": "ref/resource", "uri": "two+note://{name}" },
        "argument": { "name": "name", "value": "gar" } });
    assert!(
        first
            .request("completion/complete", completing.clone())
            .await
            .is_err()
    );
    assert!(
        whole
            .request("completion/complete", completing)
            .await
            .is_ok()
    );
    let status = first.request(lmcp_hub::STATUS, json!({})).await.unwrap();
    assert_eq!(status["servers"].as_array().map(Vec::len), Some(1));
    let said = first.request("server/discover", json!({})).await.unwrap();
    let said = said["instructions"].as_str().unwrap_or_default();
    assert!(said.contains("one: ") && !said.contains("two: "), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_group_hears_of_its_own_changes_alone() {
    let (one, two) = (notes(), notes());
    let (hub, whole) = hub(&[("one", one.clone()), ("two", two.clone())]);
    hub.set_groups(&groups(&[("first", &["one"])]));
    whole.list_tools().await.unwrap();
    let first = Endpoint::new(hub.group("first").unwrap()).client();
    let watched = ["one+note://about", "two+note://about"];
    let mut filter = SubscriptionFilter::default();
    filter.prompts_list_changed = Some(true);
    filter.resource_subscriptions = Some(watched.map(String::from).into());
    let mut heard = first.listen(&filter).await.unwrap();
    let granted = heard.granted().resource_subscriptions.as_deref();
    assert_eq!(granted, Some(&watched.map(String::from)[..1]));
    let mut everything = whole.subscribe(Vec::<String>::new()).await.unwrap();
    two.remove_tool("link");
    assert_eq!(everything.next().await, Some(Change::Tools));
    two.resource_updated("note://about");
    one.remove_prompt("sum");
    // The next notification is about the first change of a server in the group.
    assert_eq!(heard.next().await, Some(Change::Prompts));
    // A group that is gone sends nothing more, and leads to no server.
    hub.set_groups(&Groups::new());
    assert_eq!(heard.next().await, None);
    assert!(first.call_tool("one__count", json!({})).await.is_err());
}
