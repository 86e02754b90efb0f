//! Questions from the middle of a handler, written as if the answer were a call away. What clients get wrong about
//! them is in `ask_wrong`.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use lmcp_core::{
    Client, Cx, NoArgs, Prompt, Resource, Tool, ToolResult,
    ask::{Form, Link, Roots, Sample},
};
use lmcp_wire::{ClientCapabilities, input::InputRequest, sampling::CreateMessageParams};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{server, text};

#[tokio::test]
async fn a_question_is_answered_in_the_middle_of_a_handler() {
    let client = server()
        .tool(Tool::new("erase", erase).destructive())
        .start()
        .unwrap()
        .client();
    for (yes, expected) in [(true, "erased a"), (false, "kept a")] {
        let client = client.clone().answering(move |key, question| {
            assert_eq!(key, "sure");
            let InputRequest::Elicit(form) = question else {
                panic!("{question:?}")
            };
            assert_eq!(form.message, "Erase a?");
            let schema = form.requested_schema.as_ref().unwrap();
            assert_eq!(schema["properties"]["yes"]["type"], "boolean");
            assert_eq!(
                schema["properties"]["yes"]["description"],
                "Really erase it?"
            );
            assert_eq!(schema["required"], json!(["yes"]));
            json!({ "action": "accept", "content": { "yes": yes } })
        });
        assert_eq!(
            text(&client, "erase", json!({ "path": "a" })).await,
            expected
        );
    }
}

/// A client of a tool that asks whether it may erase something, and says what it was told.
fn confirming() -> Client {
    async fn erase(_: NoArgs, cx: Cx) -> ToolResult<String> {
        Ok(cx.confirm("sure", "Erase it?").await?.to_string())
    }
    let server = server().tool(Tool::new("erase", erase).destructive());
    server.start().expect("the server is sound").client()
}

#[tokio::test]
async fn a_confirmation_is_yes_only_if_the_user_says_so() {
    let client = confirming();
    for (answer, expected) in [
        (
            json!({ "action": "accept", "content": { "yes": true } }),
            "true",
        ),
        (
            json!({ "action": "accept", "content": { "yes": false } }),
            "false",
        ),
        (json!({ "action": "decline" }), "false"),
        (json!({ "action": "cancel" }), "false"),
    ] {
        let client = client.clone().answering(move |key, question| {
            assert_eq!(key, "sure");
            assert!(matches!(question, InputRequest::Elicit(form) if form.message == "Erase it?"));
            answer.clone()
        });
        assert_eq!(text(&client, "erase", json!({})).await, expected);
    }
}

#[tokio::test]
async fn a_client_that_accepts_without_an_answer_confirms_nothing() {
    let client = confirming().answering(|_, _| json!({ "action": "accept", "content": {} }));
    // The question is put again and again, until the client gives up.
    client.call_tool("erase", json!({})).await.unwrap_err();
}

#[tokio::test]
async fn a_refusal_is_told_to_the_model() {
    let client = server()
        .tool(Tool::new("erase", erase).destructive())
        .start()
        .unwrap()
        .client();
    for (action, expected) in [
        ("decline", "the user declined to answer `sure`"),
        ("cancel", "the user dismissed the question `sure`"),
    ] {
        let client = client
            .clone()
            .answering(move |_, _| json!({ "action": action }));
        let result = client
            .call_tool("erase", json!({ "path": "a" }))
            .await
            .unwrap();
        assert!(result.is_error);
        assert_eq!(result.content[0].as_text(), Some(expected));
    }
}

#[tokio::test]
async fn a_refusal_may_be_an_answer() {
    async fn maybe(_: NoArgs, cx: Cx) -> ToolResult<String> {
        let word: Option<Word> = cx.ask_opt("word", "A word?").await?;
        Ok(word.map_or("no word".into(), |word| word.word))
    }
    let client = server()
        .tool(Tool::new("maybe", maybe).read_only())
        .start()
        .unwrap()
        .client();
    for (answer, expected) in [
        (accept("yes"), "yes"),
        (json!({ "action": "decline" }), "no word"),
        (json!({ "action": "cancel" }), "no word"),
    ] {
        let client = client.clone().answering(move |_, _| answer.clone());
        assert_eq!(text(&client, "maybe", json!({})).await, expected);
    }
}

#[tokio::test]
async fn a_second_question_may_depend_on_the_first_answer() {
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let tool = Tool::new("talk", move |_: NoArgs, cx: Cx| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            let first: Word = cx.ask("first", "One?").await?;
            let message = format!("After {}?", first.word);
            let second: Word = cx.ask("second", message).await?;
            ToolResult::Ok(format!("{} {}", first.word, second.word))
        }
    });
    let client = server().tool(tool.read_only()).start().unwrap().client();
    let client = client.answering(|key, question| {
        let InputRequest::Elicit(form) = question else {
            panic!("{question:?}")
        };
        match key {
            "first" => accept("one"),
            "second" => {
                assert_eq!(form.message, "After one?");
                accept("two")
            }
            other => panic!("{other}"),
        }
    });
    assert_eq!(text(&client, "talk", json!({})).await, "one two");
    assert_eq!(
        runs.load(Ordering::Relaxed),
        3,
        "once per round, from the top"
    );
}

#[tokio::test]
async fn questions_put_together_are_asked_together() {
    async fn all(_: NoArgs, cx: Cx) -> ToolResult<String> {
        let (word, none, said, roots) = cx
            .ask_all((
                Form::<Word>::new("word", "A word?"),
                Form::<Word>::new("none", "Another?").or_none(),
                Sample::new("said", CreateMessageParams::ask("Say something.", 10)),
                Roots::new("roots"),
            ))
            .await?;
        let said = said.content.as_slice()[0]
            .as_text()
            .unwrap_or_default()
            .to_owned();
        Ok(format!(
            "{} {} {said} {}",
            word.word,
            none.is_none(),
            roots[0].uri
        ))
    }
    let client = server()
        .tool(Tool::new("all", all).read_only())
        .start()
        .unwrap()
        .client();
    let declared = json!({ "elicitation": {}, "sampling": {}, "roots": {} });
    let asking = client.clone().capabilities(capabilities(declared));
    let result = asking
        .request("tools/call", json!({ "name": "all" }))
        .await
        .unwrap();
    let keys: Vec<_> = result["inputRequests"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    assert_eq!(keys, ["none", "roots", "said", "word"]);
    let answering = client.answering(|key, _| match key {
        "word" => accept("w"),
        "none" => json!({ "action": "decline" }),
        "said" => json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "hm" } }),
        _ => json!({ "roots": [{ "uri": "file:///home" }] }),
    });
    assert_eq!(
        text(&answering, "all", json!({})).await,
        "w true hm file:///home"
    );
}

#[tokio::test]
async fn links_models_and_roots_can_be_asked_for_alone() {
    async fn link(_: NoArgs, cx: Cx) -> ToolResult<&'static str> {
        cx.ask_link("sign-in", "Please sign in.", "https://example.com/in")
            .await?;
        Ok("signed in")
    }
    async fn sample(_: NoArgs, cx: Cx) -> ToolResult<String> {
        let result = cx
            .sample("think", CreateMessageParams::ask("2+2?", 5))
            .await?;
        Ok(result.model)
    }
    async fn roots(_: NoArgs, cx: Cx) -> ToolResult<String> {
        Ok(cx.roots().await?.len().to_string())
    }
    let client = server()
        .tool(Tool::new("link", link).read_only())
        .tool(Tool::new("sample", sample).read_only())
        .tool(Tool::new("roots", roots).read_only())
        .start()
        .unwrap()
        .client()
        .answering(
            |key, question| match (key, serde_json::to_value(question).unwrap()) {
                ("sign-in", question) => {
                    assert_eq!(question["params"]["mode"], "url");
                    assert_eq!(question["params"]["url"], "https://example.com/in");
                    json!({ "action": "accept" })
                }
                ("think", question) => {
                    assert_eq!(question["method"], "sampling/createMessage");
                    assert_eq!(question["params"]["maxTokens"], 5);
                    json!({ "role": "assistant", "model": "m", "content": [] })
                }
                (_, question) => {
                    assert_eq!(question, json!({ "method": "roots/list", "params": {} }));
                    json!({ "roots": [] })
                }
            },
        );
    for (tool, expected) in [("link", "signed in"), ("sample", "m"), ("roots", "0")] {
        assert_eq!(text(&client, tool, json!({})).await, expected);
    }
}

#[tokio::test]
async fn what_is_remembered_is_recalled_in_the_next_round() {
    async fn draw(_: NoArgs, cx: Cx) -> ToolResult<String> {
        let drawn = match cx.recall::<Vec<u32>>() {
            Some(drawn) => drawn,
            None => vec![4, 2],
        };
        cx.remember(&[&drawn[..], &[7]].concat())?;
        let _: Word = cx.ask("word", "Ready?").await?;
        Ok(format!("{drawn:?}"))
    }
    let client = server()
        .tool(Tool::new("draw", draw).read_only())
        .start()
        .unwrap()
        .client();
    let client = client.answering(|_, _| accept("yes"));
    assert_eq!(text(&client, "draw", json!({})).await, "[4, 2, 7]");
}

#[tokio::test]
async fn resources_and_prompts_may_ask_too() {
    async fn asks(_: NoArgs, cx: Cx) -> ToolResult<String> {
        Ok(cx.ask::<Word>("word", "A word?").await?.word)
    }
    let client = server()
        .resource(Resource::new("x://asks", "asks", asks))
        .prompt(Prompt::new("asks", asks))
        .start()
        .unwrap()
        .client()
        .answering(|_, _| accept("w"));
    let read = client
        .request("resources/read", json!({ "uri": "x://asks" }))
        .await
        .unwrap();
    assert_eq!(read["contents"][0]["text"], "w");
    let prompt = client
        .request("prompts/get", json!({ "name": "asks" }))
        .await
        .unwrap();
    assert_eq!(prompt["messages"][0]["content"]["text"], "w");
}

#[tokio::test]
async fn a_question_of_any_make_can_be_put() {
    async fn raw(_: NoArgs, cx: Cx) -> ToolResult<String> {
        let schema =
            json!({ "type": "object", "properties": { "n": { "type": "integer", "minimum": 1 } } });
        let (form, ()) = cx
            .ask_all((
                Form::raw("form", "A number?", schema),
                Link::new("link", "Read.", "https://example.com"),
            ))
            .await?;
        Ok(form["n"].to_string())
    }
    let client = server()
        .tool(Tool::new("raw", raw).read_only())
        .start()
        .unwrap()
        .client();
    let client = client.answering(|key, question| {
        if let (InputRequest::Elicit(form), "form") = (question, key) {
            assert_eq!(
                form.requested_schema.as_ref().unwrap()["properties"]["n"]["minimum"],
                1
            );
        }
        json!({ "action": "accept", "content": { "n": 3 } })
    });
    assert_eq!(text(&client, "raw", json!({})).await, "3");
}

pub(crate) async fn erase(args: Erase, cx: Cx) -> ToolResult<String> {
    let sure: Sure = cx.ask("sure", format!("Erase {}?", args.path)).await?;
    let done = if sure.yes { "erased" } else { "kept" };
    Ok(format!("{done} {}", args.path))
}

pub(crate) fn accept(word: &str) -> Value {
    json!({ "action": "accept", "content": { "word": word } })
}

pub(crate) fn capabilities(declared: Value) -> ClientCapabilities {
    serde_json::from_value(declared).expect("these are capabilities")
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Erase {
    path: String,
}

#[derive(Deserialize, JsonSchema)]
struct Sure {
    /// Really erase it?
    yes: bool,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Word {
    pub(crate) word: String,
}
