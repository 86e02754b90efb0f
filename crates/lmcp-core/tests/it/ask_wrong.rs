//! Clients that cannot be asked, answer something else, or send a state that is not theirs.

use lmcp_core::{Caller, CallerTransport, Cx, Handle, NoArgs, Server, Tool, ToolResult};
use lmcp_wire::ClientCapabilities;
use serde_json::{Value, json};

use crate::{
    ask::{Word, accept, capabilities, erase},
    support::{server, text},
};

#[tokio::test]
async fn who_cannot_be_asked_is_told_what_is_missing() {
    async fn link(_: NoArgs, cx: Cx) -> ToolResult<&'static str> {
        cx.ask_link("l", "Open", "https://example.com").await?;
        Ok("opened")
    }
    async fn careful(_: NoArgs, cx: Cx) -> ToolResult<&'static str> {
        match cx.ask::<Word>("w", "A word?").await {
            Err(error) if error.is_missing_capability() => Ok("without asking"),
            Err(error) => Err(error),
            Ok(_) => Ok("asked"),
        }
    }
    let server = server()
        .tool(Tool::new("erase", erase).destructive())
        .tool(Tool::new("link", link).read_only())
        .tool(Tool::new("careful", careful).read_only())
        .start()
        .unwrap();
    for (tool, declared, needed) in [
        ("erase", json!({}), json!({ "elicitation": { "form": {} } })),
        (
            "erase",
            json!({ "elicitation": { "url": {} } }),
            json!({ "elicitation": { "form": {} } }),
        ),
        (
            "link",
            json!({ "elicitation": {} }),
            json!({ "elicitation": { "url": {} } }),
        ),
    ] {
        let client = server.client().capabilities(capabilities(declared));
        let error = client
            .call_tool(tool, json!({ "path": "a" }))
            .await
            .unwrap_err();
        assert_eq!(
            (
                error.code,
                &error.data.as_ref().unwrap()["requiredCapabilities"]
            ),
            (-32021, &needed)
        );
    }
    assert_eq!(
        text(&server.client(), "careful", json!({})).await,
        "without asking"
    );
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_asked_for_again() {
    let client = eraser(server())
        .start()
        .unwrap()
        .client()
        .capabilities(forms());
    for answer in [
        json!({ "action": "accept" }),
        json!({ "action": "accept", "content": { "yes": "perhaps" } }),
        json!({ "action": "shrug" }),
        json!(12345),
        Value::Null,
    ] {
        let params = json!({ "name": "erase", "arguments": { "path": "a" }, "inputResponses": { "sure": answer } });
        let result = client.request("tools/call", params).await.unwrap();
        assert_eq!(result["resultType"], "input_required", "{answer}");
    }
    let params = json!({ "name": "erase", "arguments": { "path": "a" }, "inputResponses": { "other": accept("x") } });
    let result = client.request("tools/call", params).await.unwrap();
    assert_eq!(
        result["resultType"], "input_required",
        "unknown keys are ignored"
    );
    for responses in [json!([]), json!("sure"), json!(1)] {
        let params =
            json!({ "name": "erase", "arguments": { "path": "a" }, "inputResponses": responses });
        let result = client.request("tools/call", params).await;
        assert!(
            result.is_err_and(|error| error.code == -32602),
            "{responses}"
        );
    }
}

#[tokio::test]
async fn a_state_is_good_for_its_request_its_caller_and_its_key_only() {
    let first = eraser(server()).key([7; 32]).start().unwrap();
    let twin = eraser(server()).key([7; 32]).start().unwrap();
    let stranger = eraser(server()).start().unwrap();
    let arguments = json!({ "path": "a" });
    let state = {
        let params = json!({ "name": "erase", "arguments": arguments });
        let client = first.client().capabilities(forms());
        client.request("tools/call", params).await.unwrap()["requestState"].clone()
    };
    let retry = async |server: &Handle, caller: &str, arguments: &Value, state: &Value| {
        let mut client = server.client().capabilities(forms());
        if !caller.is_empty() {
            let known = Caller::new(CallerTransport::Memory).known_as(caller);
            client = client.caller(known);
        }
        let answer = json!({ "action": "accept", "content": { "yes": true } });
        let params = json!({ "name": "erase", "arguments": arguments, "inputResponses": { "sure": answer }, "requestState": state });
        client.request("tools/call", params).await
    };
    for server in [&first, &twin] {
        let result = retry(server, "", &arguments, &state).await.unwrap();
        assert_eq!(result["content"][0]["text"], "erased a");
    }
    let tampered = json!(format!("{}-TAMPERED", state.as_str().unwrap()));
    for (server, caller, arguments, state, words) in [
        (
            &first,
            "",
            &json!({ "path": "b" }),
            &state,
            "belongs to another request",
        ),
        (
            &first,
            "eve",
            &arguments,
            &state,
            "belongs to another request",
        ),
        (
            &first,
            "",
            &arguments,
            &tampered,
            "was not made by this server",
        ),
        (
            &first,
            "",
            &arguments,
            &json!(""),
            "was not made by this server",
        ),
        (&first, "", &arguments, &json!(7), "must be a string"),
        (
            &stranger,
            "",
            &arguments,
            &state,
            "was not made by this server",
        ),
    ] {
        let error = retry(server, caller, arguments, state).await.unwrap_err();
        assert_eq!(error.code, -32602);
        assert!(error.message.contains(words), "{error}");
    }
}

fn eraser(server: Server) -> Server {
    server.tool(Tool::new("erase", erase).destructive())
}

fn forms() -> ClientCapabilities {
    capabilities(json!({ "elicitation": {} }))
}
