//! Subscriptions: who hears of what, how often, and how it ends.

use lmcp_core::{
    Audience, Caller, CallerTransport, Cx, Handle, NoArgs, Principal, Prompt, Resource, Tool,
    ToolError, ToolResult,
    client::{Calling, Event},
};
use serde_json::{Value, json};

use crate::support::{connect, server, soon};

#[tokio::test]
async fn a_listener_is_told_first_what_it_will_hear_of() {
    let server = server()
        .tool(Tool::new("t", nothing).read_only())
        .start()
        .unwrap();
    for (wanted, granted) in [
        (json!({}), json!({})),
        (
            json!({ "toolsListChanged": true }),
            json!({ "toolsListChanged": true }),
        ),
        (json!({ "toolsListChanged": false }), json!({})),
        // The server has neither prompts nor resources.
        (
            json!({ "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true, "resourceSubscriptions": ["x://a"] }),
            json!({ "toolsListChanged": true }),
        ),
    ] {
        let (method, params) = heard(&mut listen(&server, &wanted)).await;
        assert_eq!(method, "notifications/subscriptions/acknowledged");
        assert_eq!(params["notifications"], granted);
        assert_eq!(params["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
    }
}

#[tokio::test]
async fn each_list_is_told_of_to_those_who_asked() {
    let server = full();
    let mut every = opened(&server, json!({ "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true })).await;
    let mut prompts = opened(&server, json!({ "promptsListChanged": true })).await;
    server
        .add_tool(Tool::new("more", nothing).read_only())
        .unwrap();
    assert_eq!(
        heard(&mut every).await.0,
        "notifications/tools/list_changed"
    );
    server
        .add_resource(Resource::text("x://more", "more", ""))
        .unwrap();
    assert_eq!(
        heard(&mut every).await.0,
        "notifications/resources/list_changed"
    );
    server.add_prompt(Prompt::new("more", nothing)).unwrap();
    assert_eq!(
        heard(&mut every).await.0,
        "notifications/prompts/list_changed"
    );
    assert_eq!(
        heard(&mut prompts).await.0,
        "notifications/prompts/list_changed"
    );
    server.remove_tool("more");
    assert_eq!(
        heard(&mut every).await.0,
        "notifications/tools/list_changed"
    );
    assert!(is_silent(&mut every).await && is_silent(&mut prompts).await);
}

#[tokio::test]
async fn changes_that_were_not_read_are_told_once() {
    let server = full();
    let mut listening = opened(
        &server,
        json!({ "toolsListChanged": true, "resourceSubscriptions": ["x://a"] }),
    )
    .await;
    for number in 0..100 {
        server
            .add_tool(Tool::new(format!("t{number}"), nothing).read_only())
            .unwrap();
        server.resource_updated("x://a");
    }
    assert_eq!(
        heard(&mut listening).await.0,
        "notifications/tools/list_changed"
    );
    assert_eq!(
        heard(&mut listening).await.0,
        "notifications/resources/updated"
    );
    assert!(is_silent(&mut listening).await);
}

#[tokio::test]
async fn a_watched_resource_covers_what_is_below_it() {
    let server = full();
    let filter = json!({ "resourceSubscriptions": ["x://a", "y://folder/"] });
    let mut listening = opened(&server, filter).await;
    for (uri, covered) in [
        ("x://a", true),
        ("x://a/b", true),
        ("x://ab", false),
        ("x://", false),
        ("y://folder/file", true),
        ("y://folder", false),
        ("z://a", false),
    ] {
        server.resource_updated(uri);
        if covered {
            let (method, params) = heard(&mut listening).await;
            assert_eq!(method, "notifications/resources/updated");
            assert_eq!(params["uri"], uri);
            assert_eq!(params["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
        } else {
            assert!(is_silent(&mut listening).await, "{uri}");
        }
    }
}

#[tokio::test]
async fn a_listener_that_does_not_read_holds_little() {
    let server = full();
    let mut listening = opened(&server, json!({ "resourceSubscriptions": ["x://a"] })).await;
    for number in 0..100_000 {
        server.resource_updated(&format!("x://a/{number}"));
    }
    let mut told = Vec::new();
    while let Some(params) = try_heard(&mut listening).await {
        told.push(params["uri"].clone());
    }
    assert!((1..=1025).contains(&told.len()), "{}", told.len());
    assert!(
        told.contains(&json!("x://a")),
        "the watched one stands for the rest"
    );
}

#[tokio::test]
async fn listeners_do_not_disturb_each_other() {
    let server = full();
    let filter = json!({ "toolsListChanged": true });
    let mut stays = opened(&server, filter.clone()).await;
    drop(opened(&server, filter.clone()).await);
    let _idle = opened(&server, filter).await;
    server.remove_tool("t");
    assert_eq!(
        heard(&mut stays).await.0,
        "notifications/tools/list_changed"
    );
}

#[tokio::test]
async fn on_lines_every_notification_names_its_subscription() {
    let server = full();
    let (mut peer, _serving) = connect(&server);
    let id = json!("süb-1");
    let mut request = crate::support::request(
        0,
        "subscriptions/listen",
        json!({ "notifications": { "toolsListChanged": true } }),
    );
    request["id"] = id.clone();
    peer.send(&request).await;
    peer.request(
        7,
        "subscriptions/listen",
        json!({ "notifications": { "toolsListChanged": true } }),
    )
    .await;
    for expected in [&id, &json!(7)] {
        let message = peer.receive().await;
        assert_eq!(
            message["method"],
            "notifications/subscriptions/acknowledged"
        );
        assert_eq!(
            &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
            expected
        );
    }
    server.remove_tool("t");
    let mut told = Vec::new();
    for _ in 0..2 {
        let message = peer.receive().await;
        assert_eq!(message["method"], "notifications/tools/list_changed");
        told.push(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone());
    }
    told.sort_by_key(Value::is_string);
    assert_eq!(told, [json!(7), id]);
}

#[tokio::test]
async fn on_lines_a_cancelled_subscription_says_nothing_more() {
    let server = full();
    let (mut peer, _serving) = connect(&server);
    peer.request(
        1,
        "subscriptions/listen",
        json!({ "notifications": { "toolsListChanged": true } }),
    )
    .await;
    peer.receive().await;
    peer.cancel(1).await;
    peer.request(2, "server/discover", json!({})).await;
    assert_eq!(peer.receive().await["id"], 2);
    server.remove_tool("t");
    assert_eq!(peer.finish().await, "");
}

#[tokio::test]
async fn when_the_server_closes_a_subscription_ends_well() {
    let server = full();
    let (mut peer, mut serving) = connect(&server);
    peer.request(
        5,
        "subscriptions/listen",
        json!({ "notifications": { "toolsListChanged": true } }),
    )
    .await;
    peer.receive().await;
    server.close();
    let notice = peer.receive().await;
    assert_eq!(notice["method"], "notifications/cancelled");
    assert_eq!(notice["params"]["requestId"], 5);
    let end = peer.receive().await;
    assert_eq!(
        (&end["id"], &end["result"]["resultType"]),
        (&json!(5), &json!("complete"))
    );
    assert_eq!(
        end["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        5
    );
    assert_eq!(peer.finish().await, "");
    serving.ended().await.unwrap();
}

fn full() -> Handle {
    let server = server()
        .tool(Tool::new("t", nothing).read_only())
        .prompt(Prompt::new("p", nothing))
        .resource(Resource::text("x://a", "a", "text"))
        .resource(Resource::template("y://folder/{name}", "file", file));
    server.start().expect("it is right")
}

async fn nothing(_: NoArgs, _: Cx) -> String {
    String::new()
}

fn listen(server: &Handle, filter: &Value) -> Calling {
    let params = json!({ "notifications": filter });
    server.client().start("subscriptions/listen", params)
}

/// A subscription past its acknowledgement.
async fn opened(server: &Handle, filter: Value) -> Calling {
    let mut listening = listen(server, &filter);
    heard(&mut listening).await;
    listening
}

async fn heard(listening: &mut Calling) -> (String, Value) {
    match soon(listening.next()).await {
        Some(Event::Other(method, params)) => (method, params),
        other => panic!("{other:?}"),
    }
}

/// What can be heard without waiting.
async fn try_heard(listening: &mut Calling) -> Option<Value> {
    tokio::select! {
        biased;
        event = listening.next() => match event {
            Some(Event::Other(_, params)) => Some(params),
            other => panic!("{other:?}"),
        },
        () = std::future::ready(()) => None,
    }
}

/// Is there nothing to be heard now? All in this process tells at once, so now is enough.
async fn is_silent(listening: &mut Calling) -> bool {
    try_heard(listening).await.is_none()
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct File {
    name: String,
}

/// A file of a folder; the one called `secret` is nobody's to read.
async fn file(file: File, _: Cx) -> ToolResult<String> {
    match &*file.name {
        "secret" => Err(ToolError::not_found()),
        name => Ok(name.to_owned()),
    }
}

#[tokio::test]
async fn a_change_can_be_told_to_one_caller_by_its_name() {
    let server = full();
    let watch = |name: &str, role: &str| {
        let principal = Principal::new(name).role(role);
        let caller = Caller::new(CallerTransport::Memory).authenticated(principal);
        let wanted = json!({ "notifications": { "resourceSubscriptions": ["x://a"] } });
        let client = server.client().caller(caller);
        client.start("subscriptions/listen", wanted)
    };
    let mut listeners = [
        watch("ann", "lead"),
        watch("ann", "clerk"),
        watch("bob", "lead"),
    ];
    for listener in &mut listeners {
        heard(listener).await;
    }
    server
        .to(Audience::Principal("ann"))
        .resource_updated("x://a");
    let [lead, clerk, bob] = &mut listeners;
    assert_eq!(heard(lead).await.1["uri"], "x://a");
    assert_eq!(heard(clerk).await.1["uri"], "x://a");
    assert!(is_silent(bob).await);
}

#[tokio::test]
async fn the_subscriptions_of_one_caller_can_be_ended() {
    let server = full();
    let watch = |name: &str| {
        let caller = Caller::new(CallerTransport::Memory).authenticated(Principal::new(name));
        let wanted = json!({ "notifications": { "resourceSubscriptions": ["x://a"] } });
        let client = server.client().caller(caller);
        client.start("subscriptions/listen", wanted)
    };
    let (mut ann, mut bob) = (watch("ann"), watch("bob"));
    heard(&mut ann).await;
    heard(&mut bob).await;
    let to_ann = server.to(Audience::Principal("ann"));
    assert_eq!(to_ann.end_subscriptions(), 1);
    server.resource_updated("x://a");
    assert_eq!(heard(&mut ann).await.0, "notifications/cancelled");
    assert!(matches!(soon(ann.next()).await, Some(Event::Done(Ok(_)))));
    assert_eq!(heard(&mut bob).await.1["uri"], "x://a");
    // She may come back.
    let mut again = watch("ann");
    heard(&mut again).await;
    server.resource_updated("x://a");
    assert_eq!(heard(&mut again).await.1["uri"], "x://a");
}

#[tokio::test]
async fn what_a_caller_may_not_read_it_may_not_watch() {
    let server = full();
    let wanted = json!(["y://folder/secret", "y://folder/open", "w://none"]);
    let mut listening = listen(&server, &json!({ "resourceSubscriptions": wanted }));
    let (_, params) = heard(&mut listening).await;
    let granted = &params["notifications"]["resourceSubscriptions"];
    assert_eq!(granted, &json!(["y://folder/open"]));
    for uri in ["y://folder/secret", "w://none", "y://folder/open"] {
        server.resource_updated(uri);
    }
    let (_, params) = heard(&mut listening).await;
    assert_eq!(params["uri"], "y://folder/open");
    assert!(is_silent(&mut listening).await);
}

#[tokio::test]
async fn who_watches_a_folder_does_not_hear_of_what_it_may_not_read() {
    let server = full();
    let mut listening = opened(&server, json!({ "resourceSubscriptions": ["y://folder/"] })).await;
    for uri in ["y://folder/secret", "y://folder/open"] {
        server.resource_updated(uri);
    }
    let (_, params) = heard(&mut listening).await;
    assert_eq!(params["uri"], "y://folder/open");
    assert!(is_silent(&mut listening).await);
}

#[tokio::test]
async fn in_a_session_a_resource_that_may_not_be_read_is_as_unknown_as_one_that_is_not_there() {
    let (mut peer, _serving) = connect(&full());
    peer.shake_hands("2025-11-25").await;
    let mut errors = Vec::new();
    for uri in ["y://folder/secret", "w://none"] {
        peer.ask(1, "resources/subscribe", json!({ "uri": uri }))
            .await;
        let text = peer.receive().await["error"].to_string();
        errors.push(text.replace(uri, "URI"));
    }
    assert_eq!(errors[0], errors[1]);
    peer.ask(
        2,
        "resources/subscribe",
        json!({ "uri": "y://folder/open" }),
    )
    .await;
    assert_eq!(peer.receive().await["result"], json!({}));
}
