//! The first list of a hub, before its servers have answered. The clock is paused.

use std::{os::unix::net::UnixListener, path::Path, time::Duration};

use lmcp_core::{Endpoint, Handle, Replies, Request, Server, Service, Tasks, unix};
use lmcp_hub::{Hub, Reach, ServerConfig, Servers};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::{
    notes,
    trouble::{Fault, faulty},
};

fn at(path: impl AsRef<Path>) -> ServerConfig {
    ServerConfig::new(Reach::Socket(path.as_ref().to_owned()))
}

/// Starts a new hub; returns it, the time of its first list, and the number of tools in that list.
async fn first_list(folder: &Path, servers: &Servers) -> (Hub, Duration, usize) {
    let hub = Hub::kept_in("hub", "1", folder.join("hub"));
    hub.set(servers).expect("all have names of their own");
    let began = Instant::now();
    let client = Endpoint::new(hub.clone()).client();
    let tools = client
        .list_tools()
        .await
        .expect("a list is always answered");
    (hub, began.elapsed(), tools.len())
}

#[tokio::test(start_paused = true)]
async fn servers_that_fail_at_once_hold_up_no_list() {
    let folder = tempfile::tempdir().unwrap();
    let names = (0..5).map(|number| format!("dead-{number}"));
    let servers: Servers = names
        .map(|name| (name.clone(), at(folder.path().join(name))))
        .collect();
    let (_hub, time, tools) = first_list(folder.path(), &servers).await;
    assert_eq!((time.as_secs(), tools), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_holds_up_the_first_list_of_the_first_hub_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    // The socket accepts connections, and nothing ever answers.
    let _hangs = UnixListener::bind(folder.path().join("hangs")).unwrap();
    let path = folder.path().join("good");
    let good = Server::new("good", "1").tool(crate::pins::say("Says hello."));
    let (endpoint, socket) = (good.start().unwrap().endpoint(), unix(&path).unwrap());
    let serving = Tasks::default();
    serving.spawn(async move {
        let _ = endpoint.serve(socket).await;
    });
    let servers: Servers = [
        ("hangs", at(folder.path().join("hangs"))),
        ("good", at(path)),
    ]
    .map(|(name, config)| (name.to_owned(), config))
    .into();
    let (_hub, time, tools) = first_list(folder.path(), &servers).await;
    assert_eq!((time.as_secs(), tools), (5, 1));
    let known = folder.path().join("hub/hangs.json");
    while !known.exists() {
        tokio::task::yield_now().await;
    }
    let (_hub, time, tools) = first_list(folder.path(), &servers).await;
    assert_eq!((time.as_secs(), tools), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_server_that_has_not_said_what_it_offers_may_be_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let _hangs = UnixListener::bind(folder.path().join("hangs")).unwrap();
    let servers: Servers = [("hangs".to_owned(), at(folder.path().join("hangs")))].into();
    let (hub, ..) = first_list(folder.path(), &servers).await;
    let client = Endpoint::new(hub).client();
    let error = client.call_tool("hangs__x", json!({})).await;
    let error = error.unwrap_err();
    assert_eq!(error.data.as_ref().unwrap()["retriable"], true, "{error}");
    let error = client.call_tool("other__x", json!({})).await;
    assert_eq!(error.unwrap_err().code, -32602);
}

/// A server that cannot be reached before this time.
struct Late(Instant, Handle);

impl Service for Late {
    fn call(&self, request: Request) -> Replies {
        let Self(time, server) = self;
        let (time, server) = (*time, server.clone());
        Replies::later(async move {
            sleep_until(time).await;
            server.call(request)
        })
    }
}

fn late() -> Late {
    Late(Instant::now() + Duration::from_secs(10), notes())
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_server_that_is_still_starting_waits_for_it_and_for_no_other() {
    let hub = Hub::new("hub", "1");
    hub.mount("slow", late());
    hub.mount("good", notes());
    hub.mount("hangs", faulty(Fault::Hangs).0);
    let client = Endpoint::new(hub).client();
    let began = Instant::now();
    client.call_tool("good__count", json!({})).await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 0);
    let (tool, unknown) = tokio::join!(
        client.call_tool("slow__count", json!({})),
        client.call_tool("slow__other", json!({})),
    );
    tool.unwrap();
    // The server has listed its tools by then.
    assert_eq!(unknown.unwrap_err().code, -32602);
    assert_eq!(began.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_of_a_server_that_is_still_starting_is_waited_for_too() {
    let hub = Hub::new("hub", "1");
    hub.mount("slow", late());
    let client = Endpoint::new(hub).client();
    let params = json!({ "name": "slow__sum", "arguments": { "name": "garden" } });
    client.request("prompts/get", params).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn with_three_tools_for_all_a_call_waits_for_its_server_alone() {
    let hub = Hub::new("hub", "1");
    hub.mount("slow", late());
    hub.mount("good", notes());
    hub.offer_lazily();
    let client = Endpoint::new(hub).client();
    let began = Instant::now();
    for (name, seconds) in [("good__count", 0), ("slow__count", 10)] {
        let called = client.call_tool("call_tool", json!({ "name": name })).await;
        let called = called.unwrap();
        assert_eq!(called.content[0].as_text(), Some("three"), "{called:?}");
        assert_eq!(began.elapsed().as_secs(), seconds, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_server_that_fails_to_start_says_why_it_failed() {
    for (fault, words) in [
        (Fault::Dead, "it ended with exit status 3"),
        (Fault::Hangs, "it was not there within 30 s"),
        (Fault::Lies, "the answer to `tools/list` is no list"),
    ] {
        let hub = Hub::new("hub", "1");
        hub.mount("bad", faulty(fault).0);
        let client = Endpoint::new(hub).client();
        let error = client.call_tool("bad__x", json!({})).await.unwrap_err();
        assert!(error.message.contains(words), "{error}");
        assert!(error.message.contains("server `bad`"), "{error}");
    }
}
