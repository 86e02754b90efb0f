//! Every revision of the protocol, with our own server, which checks everything that the specification says.

use lmcp_client::Settings;
use serde_json::{Value, json};

use crate::support::{Client, LEGACY, MODERN, NEWEST, serve, server, text};

#[tokio::test]
async fn every_revision_lists_calls_and_reads() {
    let running = serve(server()).await;
    for revision in LEGACY.into_iter().chain([MODERN]) {
        let mut client = Client::ready(Settings::new(running.url()), revision).await;
        let list = client.ask("tools/list", json!({})).await;
        assert_eq!(
            list["result"]["tools"].as_array().map(Vec::len),
            Some(4),
            "{revision}"
        );
        assert_eq!(text(&client.call("quick").await), "quick", "{revision}");
        let read = client
            .ask("resources/read", json!({ "uri": "test://ä" }))
            .await;
        assert_eq!(
            read["result"]["contents"][0]["text"], "text",
            "{revision}: {read}"
        );
        let unknown = client.ask("no/such", json!({})).await;
        assert_eq!(unknown["error"]["code"], -32601, "{revision}");
        let wrong = client.ask("tools/call", json!({ "name": "no such" })).await;
        assert_eq!(wrong["error"]["code"], -32602, "{revision}");
        client.link.close().await;
    }
}

#[tokio::test]
async fn what_a_call_says_comes_before_its_answer() {
    let running = serve(server()).await;
    for revision in LEGACY.into_iter().chain([MODERN]) {
        let mut client = Client::ready(Settings::new(running.url()), revision).await;
        let id = client.begin_call("speak");
        let heard = client.answer_and_before(id).await;
        let said: Vec<_> = heard
            .iter()
            .map(|message| &message["params"]["data"])
            .collect();
        assert_eq!(
            said,
            [&json!("one"), &json!("two"), &json!("three"), &Value::Null],
            "{revision}"
        );
        assert_eq!(text(&heard[3]), "spoken", "{revision}");
    }
}

#[tokio::test]
async fn a_batch_is_answered_message_by_message() {
    let running = serve(server()).await;
    let mut client = Client::ready(Settings::new(running.url()), "2025-03-26").await;
    let request = |id: i64, method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    for tool in ["quick", "speak"] {
        client.say(&json!([
            request(50, "ping", json!({})),
            request(51, "tools/call", json!({ "name": tool })),
            { "jsonrpc": "2.0", "method": "notifications/roots/list_changed" },
        ]));
        let (mut ping, mut call) = (0, 0);
        while (ping, call) != (1, 1) {
            let message = client.message().await;
            let messages = message.as_array().cloned().unwrap_or(vec![message]);
            ping += messages
                .iter()
                .filter(|message| message["id"] == 50)
                .count();
            call += messages
                .iter()
                .filter(|message| message["id"] == 51)
                .count();
        }
        // There was no other message: the next one is the next answer.
        assert_eq!(client.ask("ping", json!({})).await["result"], json!({}));
    }
    client.say(&json!([{ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" }]));
    client.say(&json!([]));
    assert_eq!(client.message().await["error"]["code"], -32600);
}

#[tokio::test]
async fn what_cannot_be_read_is_answered_by_the_server() {
    let running = serve(server()).await;
    let mut client = Client::ready(Settings::new(running.url()), NEWEST).await;
    client.link.send("{");
    assert_eq!(client.message().await["error"]["code"], -32700);
    client.link.send(r#"{"jsonrpc":"2.0","id":70,"method":5}"#);
    let answer = client.message().await;
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!(70), &json!(-32600))
    );
}

#[tokio::test]
async fn both_eras_speak_on_one_link() {
    let running = serve(server()).await;
    let mut client = Client::ready(Settings::new(running.url()), NEWEST).await;
    assert_eq!(text(&client.call("quick").await), "quick");
    let call = lmcp_testkit::request("m", "tools/call", json!({ "name": "quick" }));
    client.say(&call);
    let answer = client.message().await;
    assert_eq!(
        (&answer["id"], &answer["result"]["resultType"]),
        (&json!("m"), &json!("complete"))
    );
    assert_eq!(text(&client.call("quick").await), "quick");
}
