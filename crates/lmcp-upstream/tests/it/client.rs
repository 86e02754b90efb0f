//! A client of our own server, in every revision and over every link.

use std::sync::{Arc, Mutex};

use lmcp_core::{
    Client,
    client::{Change, Event, Fault},
};
use lmcp_wire::{LoggingLevel, ProtocolVersion, subscribe::SubscriptionFilter};
use serde_json::json;

use crate::{
    server::server,
    support::{By, EVERY, Place, begun, builder, soon, text},
};

/// Runs a test with every revision over every link.
async fn everywhere(test: impl AsyncFn(Client, ProtocolVersion)) {
    let place = Place::new().await;
    for by in EVERY {
        for version in by.versions() {
            test(place.connect(by, builder(version)).await, version).await;
        }
    }
}

#[tokio::test]
async fn tools_are_called_and_everything_is_listed_and_read() {
    everywhere(async |client, _| {
        assert_eq!(text(&client, "echo", json!({ "text": "ä" })).await, "ä");
        let tools = soon(client.list_tools()).await.unwrap();
        assert!(tools.iter().any(|tool| tool.name == "echo"));
        let resources = soon(client.list_resources()).await.unwrap();
        assert_eq!(resources[0].uri, "probe://text");
        assert!(soon(client.list_templates()).await.unwrap().is_empty());
        let read = soon(client.read("probe://text")).await.unwrap();
        assert_eq!(read.contents[0].text.as_deref(), Some("some text"));
        let prompts = soon(client.list_prompts()).await.unwrap();
        let prompt = soon(client.get_prompt(&prompts[0].name, json!({}))).await;
        assert_eq!(prompt.unwrap().messages.len(), 1);
        soon(client.ping()).await.unwrap();
        assert_eq!(soon(client.server_info()).await.unwrap().name, "probe");
        let words = soon(client.instructions()).await.unwrap();
        assert_eq!(words.as_deref(), Some("Handle with care."));
    })
    .await;
}

#[tokio::test]
async fn questions_are_answered() {
    everywhere(async |client, version| {
        assert_eq!(text(&client, "folders", json!({})).await, "file:///here");
        assert_eq!(text(&client, "sample", json!({})).await, "parrot");
        // Before 2025-06-18, users could not be asked anything.
        if version >= ProtocolVersion::V2025_06_18 {
            assert_eq!(text(&client, "greet", json!({})).await, "Hello, Ann!");
        }
        if version == ProtocolVersion::V2026_07_28 {
            assert_eq!(text(&client, "slow", json!({})).await, "slow Ann");
        }
    })
    .await;
}

#[tokio::test]
async fn a_call_tells_how_far_it_has_got_and_stops_when_it_is_dropped() {
    everywhere(async |client, _| {
        let mut calling = client.start_tool("work", json!({}));
        let mut last = None;
        loop {
            match soon(calling.next()).await {
                Some(Event::Progress(progress)) => last = Some(progress.progress),
                Some(Event::Done(result)) => {
                    assert_eq!(result.unwrap()["content"][0]["text"], "worked");
                    break;
                }
                event => panic!("{event:?}"),
            }
        }
        assert_eq!(last, Some(3.0));
        let before = text(&client, "stopped", json!({})).await;
        let mut calling = client.start_tool("hang", json!({}));
        begun(&mut calling).await;
        drop(calling);
        while text(&client, "stopped", json!({})).await == before {}
    })
    .await;
}

#[tokio::test]
async fn changes_are_heard_of() {
    everywhere(async |client, _| {
        let mut changes = soon(client.subscribe(["probe://text"])).await.unwrap();
        let (mut tools, mut resource) = (false, false);
        while !(tools && resource) {
            text(&client, "grow", json!({})).await;
            match soon(changes.next()).await {
                Some(Change::Tools) => tools = true,
                Some(Change::Resource(uri)) => {
                    assert_eq!(uri, "probe://text");
                    resource = true;
                }
                change => panic!("{change:?}"),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn who_may_not_watch_a_resource_is_told_so_each_time() {
    everywhere(async |client, version| {
        let mut changes = soon(client.subscribe(["probe://text"])).await.unwrap();
        for _ in 0..2 {
            let refused = soon(client.subscribe(["probe://text", "probe://missing"])).await;
            let error = refused
                .expect_err(&format!("{version}: there is no such resource"))
                .to_string();
            assert!(error.contains("probe://missing"), "{version}: {error}");
        }
        let mut filter = SubscriptionFilter::default();
        filter.resource_subscriptions = Some(vec!["probe://missing".into(), "probe://text".into()]);
        let granted = soon(client.listen(&filter)).await.unwrap();
        let watched = granted.granted().resource_subscriptions.as_deref();
        assert_eq!(watched.unwrap(), ["probe://text"], "{version}");
        text(&client, "grow", json!({})).await;
        assert!(soon(changes.next()).await.is_some(), "the first goes on");
    })
    .await;
}

#[tokio::test]
async fn log_messages_reach_whoever_wants_them() {
    let place = Place::new().await;
    for by in EVERY {
        for version in by.versions() {
            let heard = Arc::<Mutex<Vec<_>>>::default();
            let log = Arc::clone(&heard);
            let builder = builder(version).on_log(LoggingLevel::Info, move |message| {
                log.lock().unwrap().push(message.data);
            });
            let client = place.connect(by, builder).await;
            assert_eq!(text(&client, "work", json!({})).await, "worked");
            // Notifications and answers may overtake each other.
            soon(client.ping()).await.unwrap();
            assert_eq!(
                *heard.lock().unwrap(),
                [json!("worked")],
                "{by:?} {version}"
            );
        }
    }
}

#[tokio::test]
async fn an_error_says_whose_fault_it_is() {
    let place = Place::new().await;
    let client = place.connect(By::Socket, Client::builder()).await;
    let error = soon(client.call_tool("no such", json!({})))
        .await
        .unwrap_err();
    assert_eq!(
        (error.fault(), error.is_retriable()),
        (Fault::Caller, false)
    );
    let error = soon(Client::connect(lmcp_upstream::command("/no/such/program"))).await;
    let error = error.unwrap_err();
    assert_eq!(
        (error.fault(), error.is_retriable()),
        (Fault::Transport, false)
    );
}

#[tokio::test]
async fn a_server_in_the_same_process_is_a_server_like_any_other() {
    let client = soon(Client::connect(server())).await.unwrap();
    assert_eq!(
        text(&client, "echo", json!({ "text": "near" })).await,
        "near"
    );
}

#[tokio::test]
async fn a_slow_caller_holds_up_nobody() {
    let place = Place::new().await;
    for by in EVERY {
        let client = place.connect(by, Client::builder()).await;
        let unread = client.start_tool("work", json!({}));
        let mut hanging = client.start_tool("hang", json!({}));
        begun(&mut hanging).await;
        for _ in 0..100 {
            assert_eq!(text(&client, "echo", json!({ "text": "x" })).await, "x");
        }
        drop(unread);
    }
}
