//! Every request reaches the server that it is for, and ids in the answer lead back to that server.

use lmcp_core::{
    Caller, CallerTransport, Endpoint, Server, Tool, admit, bytes::Bytes, client::Event,
};
use lmcp_hub::Hub;
use lmcp_wire::{Incoming, completion::Reference, meta};
use serde_json::json;

use crate::{hub, notes};

#[tokio::test(start_paused = true)]
async fn a_call_in_the_first_moment_waits_until_its_server_is_known() {
    // Nobody has listed anything yet.
    let (_, client) = hub(&[("one", notes())]);
    let result = client.call_tool("one__count", json!({})).await.unwrap();
    assert_eq!(result.content[0].as_text(), Some("three"));
    let (_, client) = hub(&[("one", notes())]);
    let arguments = json!({ "name": "x" });
    client.get_prompt("one__sum", &arguments).await.unwrap();
}

#[tokio::test]
async fn the_tools_of_all_are_one_list_and_each_is_called_at_its_server() {
    let say = |words: &'static str| {
        let tool = Tool::new(
            "say",
            move |_: lmcp_core::NoArgs, _: lmcp_core::Cx| async move { words },
        );
        Server::new(words, "1")
            .tool(tool.read_only())
            .start()
            .unwrap()
    };
    let (_, client) = hub(&[("one", say("first")), ("two", say("second"))]);
    let tools = client.list_tools().await.unwrap();
    let names: Vec<_> = tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["one__say", "two__say"]);
    for (name, words) in [("one__say", "first"), ("two__say", "second")] {
        let result = client.call_tool(name, json!({})).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some(words));
    }
    for name in ["say", "three__say", "one__says", "one_say"] {
        let error = client.call_tool(name, json!({})).await.unwrap_err();
        assert!(error.message.contains(name), "{error}");
    }
}

#[tokio::test]
async fn arguments_keep_the_order_that_their_server_gave_them() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Args {
        zebra: u32,
        apple: u32,
    }
    let add = |args: Args, _: lmcp_core::Cx| async move { (args.zebra + args.apple).to_string() };
    let server = Server::new("x", "1").tool(Tool::new("add", add).read_only());
    let (hub, client) = hub(&[("x", server.start().unwrap())]);
    client.list_tools().await.unwrap();
    let text = raw(hub, "tools/list").await;
    let [zebra, apple] = ["\"zebra\":", "\"apple\":"].map(|name| text.find(name).unwrap());
    assert!(zebra < apple, "{text}");
    let result = client.call_tool("x__add", json!({ "zebra": 1, "apple": 2 }));
    assert_eq!(result.await.unwrap().content[0].as_text(), Some("3"));
}

/// Returns an answer as it is written.
async fn raw(hub: Hub, method: &str) -> String {
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "_meta": {
        meta::PROTOCOL_VERSION: "2026-07-28", meta::CLIENT_CAPABILITIES: {}, meta::CLIENT_INFO: { "name": "x", "version": "1" },
    }}});
    let message = Bytes::from(message.to_string());
    let Ok(Incoming::Request { id, method, params }) = Incoming::parse(&message) else {
        panic!("it is a request");
    };
    let caller = Caller::new(CallerTransport::Memory);
    let request = admit(&message, id, &method, params, caller, None).expect("it is valid");
    let answer = Endpoint::new(hub)
        .start(request)
        .response()
        .await
        .expect("it is answered");
    String::from_utf8(answer.json().to_vec()).expect("JSON is text")
}

#[tokio::test]
async fn resources_lead_back_to_their_server_wherever_they_are_named() {
    let (_, client) = hub(&[("one", notes()), ("two_", notes())]);
    let listed = client.list_resources().await.unwrap();
    assert_eq!(listed[0].uri, "one+note://about");
    assert_eq!(listed.len(), 2);
    for resource in &listed {
        let read = client.read(&resource.uri).await.unwrap();
        assert_eq!(read.contents[0].text.as_deref(), Some("two notes"));
        assert_eq!(read.contents[0].uri, resource.uri);
    }
    let templates = client.list_templates().await.unwrap();
    assert_eq!(templates[0].uri_template, "one+note://{name}");
    let result = client.call_tool("one__link", json!({})).await.unwrap();
    let lmcp_wire::Content::ResourceLink(link) = &result.content[0] else {
        panic!("{result:?}");
    };
    let read = client.read(&link.uri).await.unwrap();
    assert_eq!(read.contents[0].text.as_deref(), Some("about garden"));
    for uri in ["note://about", "three+note://about", "one+other://x"] {
        let error = client.read(uri).await.unwrap_err();
        assert_eq!(error.data.as_ref().unwrap()["uri"], uri, "{error}");
    }
}

#[tokio::test]
async fn prompts_and_completions_are_routed() {
    let (_, client) = hub(&[("one", notes())]);
    let prompts = client.list_prompts().await.unwrap();
    assert_eq!(prompts[0].name, "one__sum");
    let arguments = json!({ "name": "garden" });
    let prompt = client.get_prompt("one__sum", &arguments).await.unwrap();
    assert_eq!(prompt.messages[0].content.as_text(), Some("about garden"));
    let references = [
        json!({ "type": "ref/prompt", "name": "one__sum" }),
        json!({ "type": "ref/resource", "uri": "one+note://{name}" }),
    ];
    for reference in references {
        let text = reference.to_string();
        let reference: Reference<'_> = serde_json::from_str(&text).unwrap();
        let completed = client.complete(&reference, "name", "gar").await.unwrap();
        assert_eq!(completed.values, ["garden"]);
    }
}

#[tokio::test]
async fn progress_and_questions_pass_both_ways() {
    let (_, client) = hub(&[("one", notes())]);
    client.list_tools().await.unwrap();
    let mut call = client.start_tool("one__count", json!({}));
    let mut steps = 0;
    while let Some(event) = call.next().await {
        match event {
            Event::Progress(_) => steps += 1,
            Event::Done(result) => {
                result.unwrap();
            }
            _ => {}
        }
    }
    assert!(steps > 0);
    let client =
        client.answering(|_, _| json!({ "action": "accept", "content": { "name": "Ada" } }));
    let result = client.call_tool("one__ask", json!({})).await.unwrap();
    assert_eq!(result.content[0].as_text(), Some("Ada"));
}

#[tokio::test]
async fn a_hub_behind_a_hub_is_a_server_like_any_other() {
    let (inner, _) = hub(&[("one", notes())]);
    let outer = Hub::new("outer", "1");
    outer.mount("in", inner);
    let client = Endpoint::new(outer).client();
    let tools = client.list_tools().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "in__one__link"));
    let result = client.call_tool("in__one__link", json!({})).await.unwrap();
    let lmcp_wire::Content::ResourceLink(link) = &result.content[0] else {
        panic!("{result:?}");
    };
    assert_eq!(link.uri, "in+one+note://garden");
    client.read(&link.uri).await.unwrap();
    let said = client.instructions().await.unwrap().unwrap();
    assert_eq!(said, "in: one: Notes about the garden.");
}

#[tokio::test]
async fn lazily_three_tools_stand_for_all() {
    let (hub, client) = hub(&[("one", notes())]);
    hub.offer_lazily();
    let tools = client.list_tools().await.unwrap();
    let names: Vec<_> = tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["find_tools", "describe_tool", "call_tool"]);
    let call = async |name: &str, arguments| {
        let result = client.call_tool(name, arguments).await.unwrap();
        let text = result.content[0].as_text().unwrap_or_default().to_owned();
        (result.is_error, text)
    };
    let (_, found) = call("find_tools", json!({ "words": "COUNT" })).await;
    assert!(found.starts_with("one__count: "), "{found}");
    let (_, all) = call("describe_tool", json!({ "name": "one__count" })).await;
    assert!(all.contains("\"inputSchema\""), "{all}");
    let called = call("call_tool", json!({ "name": "one__count" })).await;
    assert_eq!(called, (false, "three".to_owned()));
    for wrong in ["describe_tool", "call_tool"] {
        let (is_error, words) = call(wrong, json!({ "name": "one__cuont" })).await;
        assert!(is_error && words.contains("find_tools"), "{words}");
    }
}

#[test]
fn a_search_for_tools_holds_up_no_other_caller() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        let (hub, client) = hub(&[("one", notes())]);
        hub.offer_lazily();
        client.call_tool("find_tools", json!({})).await.unwrap();
        // The only thread beside that of all callers is busy: the search waits, and nobody else does.
        let (free, busy) = std::sync::mpsc::channel::<()>();
        let work = tokio::task::spawn_blocking(move || busy.recv());
        let mut search =
            std::pin::pin!(client.call_tool("find_tools", json!({ "words": "count" })));
        tokio::select! {
            biased;
            found = &mut search => panic!("{found:?}"),
            listed = client.list_tools() => assert_eq!(listed.unwrap().len(), 3),
        }
        drop(free);
        assert!(work.await.unwrap().is_err());
        let found = search.await.unwrap();
        assert!(
            found.content[0]
                .as_text()
                .unwrap()
                .starts_with("one__count")
        );
    });
}

#[tokio::test]
async fn a_search_for_too_many_words_is_refused_in_words_for_the_model() {
    let (hub, client) = hub(&[("one", notes())]);
    hub.offer_lazily();
    let find = async |words: String| {
        let found = client.call_tool("find_tools", json!({ "words": words }));
        let result = found.await.unwrap();
        let text = result.content[0].as_text().unwrap_or_default().to_owned();
        (result.is_error, text)
    };
    let (is_error, found) = find("count ".repeat(32)).await;
    assert!(!is_error && found.starts_with("one__count"), "{found}");
    for words in ["count ".repeat(33), "c".repeat(1025)] {
        let (is_error, said) = find(words).await;
        assert!(
            is_error && said.contains("32 words and 1024 bytes"),
            "{said}"
        );
    }
}
