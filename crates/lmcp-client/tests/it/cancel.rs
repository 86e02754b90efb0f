//! A cancelled request stops at the server, in the way of each revision.

use lmcp_client::Settings;
use serde_json::json;

use crate::support::{Client, MODERN, NEWEST, hanging, serve, server, text, while_linked};

#[tokio::test]
async fn a_cancelled_call_stops_and_is_not_answered() {
    let (tool, mut watcher) = hanging("hang");
    let running = serve(server().tool(tool)).await;
    for revision in ["2025-03-26", NEWEST, MODERN] {
        let mut client = Client::ready(Settings::new(running.url()), revision).await;
        let id = client.begin_call("hang");
        while_linked(&mut client, watcher.started()).await;
        client.tell("notifications/cancelled", &json!({ "requestId": id }));
        while_linked(&mut client, watcher.dropped()).await;
        // The next message is the answer to the next request, and there is none for the one before.
        let next = client.begin_call("quick");
        let heard = client.answer_and_before(next).await;
        assert_eq!(
            (heard.len(), text(&heard[0])),
            (1, &json!("quick")),
            "{revision}"
        );
    }
}

#[tokio::test]
async fn a_cancelled_call_that_was_not_sent_yet_never_is() {
    let (tool, mut watcher) = hanging("hang");
    let (other, mut other_watcher) = hanging("other");
    let running = serve(server().tool(tool).tool(other)).await;
    for revision in [NEWEST, MODERN] {
        let mut settings = Settings::new(running.url());
        settings.requests = 1;
        let mut client = Client::ready(settings, revision).await;
        let first = client.begin_call("hang");
        let second = client.begin_call("other");
        let third = client.begin_call("quick");
        while_linked(&mut client, watcher.started()).await;
        client.tell("notifications/cancelled", &json!({ "requestId": second }));
        client.tell("notifications/cancelled", &json!({ "requestId": first }));
        assert_eq!(text(&client.answer(third).await), "quick");
        while_linked(&mut client, watcher.dropped()).await;
        assert!(
            other_watcher.is_running(),
            "it never began, so it never stopped"
        );
    }
}

#[tokio::test]
async fn a_link_that_is_closed_or_dropped_stops_what_ran() {
    let (tool, mut watcher) = hanging("hang");
    let running = serve(server().tool(tool)).await;
    let begin = async |revision: &str, watcher: &mut crate::support::Watcher| {
        let mut client = Client::ready(Settings::new(running.url()), revision).await;
        client.begin_call("hang");
        while_linked(&mut client, watcher.started()).await;
        client
    };
    for revision in [NEWEST, MODERN] {
        let client = begin(revision, &mut watcher).await;
        client.link.close().await;
        watcher.dropped().await;
    }
    drop(begin(MODERN, &mut watcher).await);
    watcher.dropped().await;
}
