//! A service that is no server of this crate: its answers are JSON that nobody here understands.

use lmcp_core::{Outcome, Payload, ProgressReport, Replies, Reply, Request, Service, ask::Asks};
use lmcp_wire::{
    CallToolResult, Content, LoggingLevel, RpcError,
    elicit::ElicitParams,
    input::{InputRequest, InputRequiredResult},
    logging::LoggingMessageParams,
};
use serde_json::{Value, json, value::to_raw_value};

/// Answers like a server of 2026-07-28 that has members of its own everywhere.
pub(crate) struct Foreign;

impl Service for Foreign {
    fn call(&self, request: Request) -> Replies {
        match request.method() {
            "server/discover" | "initialize" => raw(&json!({
                "supportedVersions": ["2099-01-01"],
                "capabilities": { "tools": {}, "extensions": { "x/y": {} }, "x-more": 1 },
                "x-own": [1.0, "one"],
                "_meta": {
                    "io.modelcontextprotocol/serverInfo": { "name": "far", "version": "9", "icons": [] },
                    "x/y": "z",
                },
            })),
            "tools/list" => raw(&json!({ "tools": [tool()], "x-own": true })),
            "tools/call" => match request.target().as_deref() {
                Ok("raw") => raw(&json!({
                    "resultType": "complete",
                    "content": [{ "type": "text", "text": "far", "x-own": { "b": 1, "a": 2 } }],
                    "structuredContent": [1, 2],
                    "x-own": null,
                    "_meta": { "x/y": 1 },
                })),
                Ok("speaks") => speak(&request),
                Ok("asks") => ask(request),
                _ => {
                    Replies::error(RpcError::new(-7, "far away").with_data(json!({ "far": true })))
                }
            },
            method => Replies::error(RpcError::method_not_found(method)),
        }
    }
}

/// A tool with what older revisions do not know, and with what nobody knows.
fn tool() -> Value {
    json!({
        "name": "raw",
        "title": "Raw",
        "icons": [{ "src": "data:," }],
        "inputSchema": {
            "type": "object",
            "properties": { "b": { "type": "string", "x-mcp-header": "B" }, "a": true },
        },
        "outputSchema": { "type": "array" },
        "x-own": { "z": 1, "a": 2 },
    })
}

fn raw(result: &Value) -> Replies {
    Replies::done(Outcome::from(to_raw_value(result).expect("it is JSON")))
}

fn speak(request: &Request) -> Replies {
    let wants_progress = request.wants_progress();
    Replies::speaking(async move |say| {
        for step in [1.0, 2.0] {
            let mut report = ProgressReport::new(step);
            report.message = Some(format!("step {step}"));
            say.say(Reply::Progress(report)).await;
        }
        for level in [LoggingLevel::Debug, LoggingLevel::Error] {
            let params = LoggingMessageParams::new(level, json!({ "far": level }));
            say.say(Reply::Log(params)).await;
        }
        say.say(Reply::notify("notifications/x-own", &json!({ "far": [] })))
            .await;
        let text = format!("progress: {wants_progress}");
        Ok(CallToolResult::new(vec![Content::text(text)]).into())
    })
}

/// Asks in the way that the client of the request can be asked.
fn ask(request: Request) -> Replies {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    let question = InputRequest::Elicit(ElicitParams::form("Who?", schema));
    let hello = |answer: &Value| {
        let name = answer["content"]["name"].as_str().unwrap_or("nobody");
        let text = format!("Hello, {name}!");
        Outcome::from(CallToolResult::new(vec![Content::text(text)]))
    };
    match request.asks() {
        Asks::Inline => Replies::speaking(async move |say| {
            let (asked, answer) = request.ask(question)?;
            say.say(asked).await;
            let answer = answer.await?;
            Ok(hello(
                &serde_json::from_str(answer.get()).unwrap_or_default(),
            ))
        }),
        Asks::ByRetry => {
            let params: Value = request.params().unwrap_or_default();
            let answer = &params["inputResponses"]["name"];
            if answer.is_object() {
                return Replies::done(hello(answer));
            }
            let questions = [("name".to_owned(), question)].into_iter().collect();
            let missing = InputRequiredResult::new(questions, "far state".into());
            Replies::done(Payload::InputRequired(missing))
        }
        _ => Replies::error(RpcError::invalid_request("nobody can be asked")),
    }
}
