//! Changes that clients are told without asking.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lmcp_core::{Cx, Handle, NoArgs, Replies, Request, Service, Tool, client::Change};
use lmcp_hub::ServerState;

use crate::{hub, notes};

async fn nothing(_: NoArgs, _: Cx) -> &'static str {
    ""
}

#[tokio::test(start_paused = true)]
async fn a_changed_list_is_told_once_and_only_if_it_is_another() {
    let (one, two) = (notes(), notes());
    let (_, client) = hub(&[("one", one.clone()), ("two", two.clone())]);
    client.list_tools().await.unwrap();
    let mut changes = client.subscribe(Vec::<String>::new()).await.unwrap();
    one.add_tool(Tool::new("new", nothing).read_only()).unwrap();
    assert_eq!(changes.next().await, Some(Change::Tools));
    let tools = client.list_tools().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "one__new"));
    // The next notification is about the next change.
    two.remove_prompt("sum");
    assert_eq!(changes.next().await, Some(Change::Prompts));
}

/// A server that counts how often its tools are listed.
struct Counting(Handle, Arc<AtomicUsize>);

impl Service for Counting {
    fn call(&self, request: Request) -> Replies {
        let is_list = request.method() == "tools/list";
        self.1.fetch_add(usize::from(is_list), Ordering::Relaxed);
        self.0.call(request)
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_announces_change_after_change_is_asked_once_a_second() {
    let (one, lists) = (notes(), Arc::<AtomicUsize>::default());
    let (hub, client) = hub(&[]);
    hub.mount("one", Counting(one.clone(), Arc::clone(&lists)));
    client.list_tools().await.unwrap();
    for number in 0..100 {
        let tool = Tool::new(format!("new{number}"), nothing);
        one.add_tool(tool.read_only()).unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let asked = lists.load(Ordering::Relaxed);
    assert!((4..8).contains(&asked), "asked {asked} times in 5 s");
    // The last change is not missed.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let tools = client.list_tools().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "one__new99"));
}

#[tokio::test(start_paused = true)]
async fn a_watched_resource_is_told_of_by_the_name_that_the_client_knows() {
    let (one, two) = (notes(), notes());
    let (_, client) = hub(&[("one", one.clone()), ("two", two.clone())]);
    client.list_resources().await.unwrap();
    let mut changes = client.subscribe(["two+note://about"]).await.unwrap();
    // The subscription reaches the server a moment after it is acknowledged.
    tokio::time::sleep(Duration::from_millis(10)).await;
    one.resource_updated("note://about");
    two.resource_updated("note://about");
    let told = changes.next().await;
    assert_eq!(told, Some(Change::Resource("two+note://about".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn servers_that_come_and_go_rename_nobody() {
    let (hub, client) = hub(&[("one", notes())]);
    let names = || async {
        let tools = client.list_tools().await.unwrap();
        tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>()
    };
    let before = names().await;
    hub.mount("a", Arc::new(notes()));
    let mut changes = client.subscribe(Vec::<String>::new()).await.unwrap();
    while !names().await.iter().any(|name| name == "a__ask") {
        changes.next().await;
    }
    let after = names().await;
    assert!(before.iter().all(|name| after.contains(name)), "{after:?}");
    let states: Vec<_> = hub
        .status()
        .into_iter()
        .map(|one| (one.name, one.state, one.tools))
        .collect();
    let ready = |name: &str| (name.to_owned(), ServerState::Ready, 4);
    assert_eq!(states, [ready("a"), ready("one")]);
}
