//! Callers of one revision with servers of another.

use lmcp_core::{Endpoint, client::Event};
use lmcp_upstream::{Upstream, socket};
use lmcp_wire::ProtocolVersion;
use serde_json::json;

use crate::support::{By, Place, begun, builder, soon, text};

#[tokio::test]
async fn every_revision_is_served_by_a_server_of_every_other() {
    let far = Place::new().await;
    for behind in ProtocolVersion::ALL {
        for by in [By::Socket, By::Url] {
            // Callers on a socket and over HTTP have different owners, and questions go to one owner only.
            let upstream = Upstream::builder(socket(far.path()).route())
                .version(behind)
                .build();
            let near = Place::serving(Endpoint::new(upstream)).await;
            for version in ProtocolVersion::ALL {
                let at = format!("{version} to {behind} by {by:?}");
                let client = near.connect(by, builder(version)).await;
                assert_eq!(
                    text(&client, "echo", json!({ "text": "x" })).await,
                    "x",
                    "{at}"
                );
                let tools = soon(client.list_tools()).await.unwrap();
                assert!(tools.iter().any(|tool| tool.name == "echo"), "{at}");
                assert_eq!(
                    soon(client.server_info()).await.unwrap().name,
                    "probe",
                    "{at}"
                );
                assert_eq!(
                    text(&client, "folders", json!({})).await,
                    "file:///here",
                    "{at}"
                );
                assert_eq!(text(&client, "sample", json!({})).await, "parrot", "{at}");
                let can_ask = |version| version >= ProtocolVersion::V2025_06_18;
                if can_ask(version) && can_ask(behind) {
                    assert_eq!(
                        text(&client, "greet", json!({})).await,
                        "Hello, Ann!",
                        "{at}"
                    );
                }
                let mut calling = client.start_tool("work", json!({}));
                begun(&mut calling).await;
                loop {
                    match soon(calling.next()).await {
                        Some(Event::Done(result)) => {
                            assert_eq!(result.unwrap()["content"][0]["text"], "worked", "{at}");
                            break;
                        }
                        Some(_) => {}
                        None => panic!("{at}"),
                    }
                }
                let before = text(&client, "stopped", json!({})).await;
                let mut calling = client.start_tool("hang", json!({}));
                begun(&mut calling).await;
                drop(calling);
                while text(&client, "stopped", json!({})).await == before {}
            }
        }
    }
}

#[tokio::test]
async fn changes_reach_callers_of_every_revision() {
    let far = Place::new().await;
    for behind in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let upstream = Upstream::builder(socket(far.path()).route())
            .version(behind)
            .build();
        let near = Place::serving(Endpoint::new(upstream)).await;
        for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
            let client = near.connect(By::Socket, builder(version)).await;
            let mut changes = soon(client.subscribe(["probe://text"])).await.unwrap();
            let mut seen = std::collections::BTreeSet::new();
            while seen.len() < 2 {
                soon(client.ping()).await.unwrap();
                text(&client, "grow", json!({})).await;
                seen.insert(format!("{:?}", soon(changes.next()).await.unwrap()));
            }
        }
    }
}
