//! Sessions do not meet: nobody stops, answers or overhears the requests of another.

use lmcp_core::{Cx, NoArgs, Tool, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    support::{hanging, hanging_after, serve, serve_as, server},
    visitor::{NEWEST, Visitor, opening, puppet},
};

// L11
#[tokio::test]
async fn a_session_belongs_to_who_opened_it() {
    let running = serve_as(server(), |http| {
        http.identify(
            |headers| match headers.get("x-user").map(|name| name.to_str()) {
                None => Ok(None),
                Some(Ok(name)) if name != "mallory" => Ok(Some(name.to_owned())),
                Some(_) => Err("not you".into()),
            },
        )
    })
    .await;
    let open = opening(NEWEST, "x", json!({})).with("x-user", "ann");
    let opened = running.ask(&open).await;
    let session = opened.head.get("mcp-session-id").expect("a session");
    let nobody = Visitor::new(&running).await;
    let ping = nobody.request(1, "ping", json!({}));
    let of_ann = ping.clone().with("mcp-session-id", session);
    for (post, status) in [
        (of_ann.clone().with("x-user", "ann"), 200),
        (of_ann.clone().with("x-user", "bob"), 404),
        (of_ann.clone(), 404),
        (of_ann.clone().with("x-user", "mallory"), 401),
        (ping.with("x-user", "ann"), 404),
        (nobody.delete().with("mcp-session-id", session), 404),
        (nobody.get().with("mcp-session-id", session), 404),
        // Nothing of that ended it.
        (of_ann.with("x-user", "ann"), 200),
    ] {
        let answer = running.ask(&post).await;
        assert_eq!(answer.head.status, status, "{post:?}");
        let challenge = answer.head.get("www-authenticate");
        assert_eq!(challenge.is_some(), status == 401);
    }
}

// L6
#[tokio::test]
async fn a_request_is_cancelled_by_its_own_session_only() {
    let (tool, mut watcher) = hanging("hang");
    let running = serve(server().tool(tool)).await;
    let (ann, bob) = (Visitor::new(&running).await, Visitor::new(&running).await);
    let mut connection = running.connect().await;
    connection.send(&ann.call(7, "hang")).await;
    watcher.started().await;
    assert_eq!(running.ask(&bob.cancel(7)).await.head.status, 202);
    // L7: the other's id 7 is none of the canceller's, whose own is answered.
    let ping = running.ask(&bob.request(7, "ping", json!({}))).await;
    assert_eq!(
        ping.json(),
        json!({ "jsonrpc": "2.0", "id": 7, "result": {} })
    );
    assert!(watcher.is_running());
    assert_eq!(running.ask(&ann.cancel(7)).await.head.status, 202);
    watcher.dropped().await;
}

// L7
#[tokio::test]
async fn a_number_and_a_text_are_different_ids() {
    let (first, mut number) = hanging("first");
    let (second, mut text) = hanging("second");
    let running = serve(server().tool(first).tool(second)).await;
    let visitor = Visitor::new(&running).await;
    let mut connections = [running.connect().await, running.connect().await];
    connections[0].send(&visitor.call(7, "first")).await;
    number.started().await;
    connections[1].send(&visitor.call("7", "second")).await;
    text.started().await;
    running.ask(&visitor.cancel("7")).await;
    text.dropped().await;
    assert!(number.is_running());
    running.ask(&visitor.cancel(7)).await;
    number.dropped().await;
}

// L8
#[tokio::test]
async fn a_question_is_answered_by_its_own_session_only() {
    let running = serve(server().tool(Tool::new("greet", greet).read_only())).await;
    let (ann, bob) = (Visitor::new(&running).await, Visitor::new(&running).await);
    let (mut of_ann, mut of_bob) = (running.connect().await, running.connect().await);
    of_ann.open_stream(&ann.call(1, "greet")).await;
    of_bob.open_stream(&bob.call(1, "greet")).await;
    let question = of_ann.next_message().await.json();
    let other = of_bob.next_message().await.json();
    assert_eq!(question["method"], "elicitation/create");
    assert_ne!(
        question["id"], other["id"],
        "one cannot be guessed from another"
    );
    let forged = bob.answer(
        &question["id"],
        json!({ "action": "accept", "content": { "name": "Eve" } }),
    );
    assert_eq!(running.ask(&forged).await.head.status, 202);
    for (visitor, question) in [(&ann, question), (&bob, other)] {
        let content = json!({ "name": "Ann" });
        let answer = visitor.answer(
            &question["id"],
            json!({ "action": "accept", "content": content }),
        );
        assert_eq!(running.ask(&answer).await.head.status, 202);
    }
    for connection in [&mut of_ann, &mut of_bob] {
        let rest = connection.rest().await;
        assert_eq!(rest[0]["result"]["content"][0]["text"], "Hello, Ann!");
    }
}

#[tokio::test]
async fn the_stream_of_another_session_cannot_be_resumed() {
    let (tool, mut puppet) = puppet("work");
    let running = serve(server().tool(tool)).await;
    let (ann, bob) = (Visitor::new(&running).await, Visitor::new(&running).await);
    let mut of_ann = running.connect().await;
    of_ann.send(&ann.call(1, "work")).await;
    puppet.started().await;
    puppet.log("first").await;
    of_ann.head().await;
    let event = of_ann.next_message().await;
    puppet.log("secret").await;
    let mut of_bob = running.connect().await;
    of_bob.open_stream(&bob.get_after(&event.id)).await;
    // Whatever it is told, it is not what belongs to the other, who hears all of it.
    let told = of_bob.next_event().await.unwrap();
    assert!(!told.data.contains("secret"), "{told:?}");
    assert_eq!(
        of_ann.next_message().await.json()["params"]["data"],
        "secret"
    );
    puppet.finish().await;
    assert_eq!(of_ann.rest().await.last().unwrap()["id"], 1);
}

#[tokio::test]
async fn the_stream_of_another_caller_cannot_be_resumed() {
    let (tool, mut puppet) = puppet("work");
    let running = serve_as(server().tool(tool), |http| {
        http.identify(|headers| {
            let name = headers.get("x-user").and_then(|name| name.to_str().ok());
            Ok(name.map(str::to_owned))
        })
    })
    .await;
    let ann = Visitor::as_user(&running, "ann").await;
    let bob = Visitor::as_user(&running, "bob").await;
    let mut of_ann = running.connect().await;
    of_ann
        .send(&ann.call(7, "work").with("x-user", "ann"))
        .await;
    puppet.started().await;
    puppet.log("first").await;
    of_ann.head().await;
    let event = of_ann.next_message().await;
    puppet.log("secret").await;
    // With her session, whatever else he says, he is told that there is none.
    for get in [ann.get_after(&event.id), ann.get()] {
        let answer = running.ask(&get.with("x-user", "bob")).await;
        assert_eq!(answer.head.status, 404, "{}", answer.body);
        assert!(!answer.body.contains("secret"), "{}", answer.body);
    }
    // In his own, her event is one that was lost: he is told that, and nothing that she was told.
    let mut of_bob = running.connect().await;
    let get = bob.get_after(&event.id).with("x-user", "bob");
    of_bob.open_stream(&get).await;
    let told = of_bob.rest().await;
    assert_eq!((told.len(), &told[0]["id"]), (1, &json!(7)));
    let words = told[0]["error"]["message"].as_str().unwrap();
    assert!(words.contains("was lost"), "{words}");
    // She lost nothing by it.
    let heard = of_ann.next_message().await.json();
    assert_eq!(heard["params"]["data"], "secret");
    puppet.finish().await;
    assert_eq!(of_ann.rest().await.last().unwrap()["id"], 7);
}

#[tokio::test]
async fn what_one_session_watches_is_not_told_to_another() {
    let touch = Tool::new("touch", |_: NoArgs, cx: Cx| async move {
        cx.server().resource_updated("test://a");
        cx.server().resource_updated("test://b");
        "touched"
    });
    let resource = |uri: &str| lmcp_core::Resource::text(uri, uri, "text");
    let server = server()
        .tool(touch.writes())
        .resource(resource("test://a"))
        .resource(resource("test://b"));
    let running = serve(server).await;
    let (ann, bob) = (Visitor::new(&running).await, Visitor::new(&running).await);
    let (mut of_ann, mut of_bob) = (running.connect().await, running.connect().await);
    of_ann.open_stream(&ann.get()).await;
    of_bob.open_stream(&bob.get()).await;
    running.ask(&ann.subscribe("test://a")).await;
    running.ask(&bob.subscribe("test://b")).await;
    for _ in 0..2 {
        running.ask(&ann.call(1, "touch")).await;
        let uri = |event: crate::visitor::Event| event.json()["params"]["uri"].clone();
        assert_eq!(uri(of_ann.next_message().await), "test://a");
        assert_eq!(uri(of_bob.next_message().await), "test://b");
    }
}

// L35
#[tokio::test]
async fn what_a_request_says_goes_on_its_own_stream_and_nowhere_else() {
    let grow = Tool::new("grow", |_: NoArgs, cx: Cx| async move {
        let new = Tool::new("new", |_: NoArgs, _: Cx| async { "new" });
        cx.server().add_tool(new.read_only())?;
        ToolResult::Ok("grown")
    });
    let (tool, mut puppet) = puppet("work");
    let running = serve(server().tool(tool).tool(grow.writes())).await;
    let (ann, bob) = (Visitor::new(&running).await, Visitor::new(&running).await);
    let mut standing = [running.connect().await, running.connect().await];
    standing[0].open_stream(&ann.get()).await;
    standing[1].open_stream(&bob.get()).await;
    let mut connection = running.connect().await;
    connection.send(&ann.call(1, "work")).await;
    puppet.started().await;
    puppet.act(|cx| cx.progress(2).step("half")).await;
    connection.head().await;
    let said = connection.next_message().await.json();
    assert_eq!(said["method"], "notifications/progress");
    puppet.log("a word").await;
    assert_eq!(
        connection.next_message().await.json()["method"],
        "notifications/message"
    );
    puppet.finish().await;
    assert_eq!(connection.rest().await.last().unwrap()["id"], 1);
    running.ask(&ann.call(2, "grow")).await;
    for stream in &mut standing {
        // The first thing heard is what came last: nothing else ever was for them.
        let heard = stream.next_message().await.json();
        assert_eq!(heard["method"], "notifications/tools/list_changed");
    }
}

// L35
#[tokio::test]
async fn a_question_goes_on_the_stream_of_its_request() {
    let running = serve(server().tool(Tool::new("greet", greet).read_only())).await;
    let ann = Visitor::of(&running, NEWEST).await;
    let mut standing = running.connect().await;
    standing.open_stream(&ann.get()).await;
    let mut connection = running.connect().await;
    connection.open_stream(&ann.call(1, "greet")).await;
    let question = connection.next_message().await.json();
    assert_eq!(question["method"], "elicitation/create");
    let refusal = ann.answer(&question["id"], json!({ "action": "decline" }));
    running.ask(&refusal).await;
    assert_eq!(connection.rest().await[0]["result"]["isError"], true);
    running.ask(&ann.delete()).await;
    assert_eq!(standing.rest().await, Vec::<Value>::new());
}

// L17: here only the connection tells that nobody waits.
#[tokio::test]
async fn a_call_without_a_session_stops_with_its_connection() {
    let (quiet, mut silent) = hanging("quiet");
    let (loud, mut spoken) =
        hanging_after("loud", |cx| cx.log(lmcp_wire::LoggingLevel::Error, "x"));
    let running = serve(server().tool(quiet).tool(loud)).await;
    for (name, watcher) in [("quiet", &mut silent), ("loud", &mut spoken)] {
        let mut connection = running.connect().await;
        let call = crate::visitor::sessionless("tools/call", json!({ "name": name }));
        connection.send(&call).await;
        watcher.started().await;
        drop(connection);
        watcher.dropped().await;
    }
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

async fn greet(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let Name { name } = cx.ask("name", "Who?").await?;
    Ok(format!("Hello, {name}!"))
}
