//! Every message to a client of an older revision is one that the official schema of that revision knows, to the last
//! member: schemas let other members pass, clients with strict types do not.
//!
//! | file | what is there |
//! |---|---|
//! | `official` | the schemas, closed |
//! | `rich` | what is added to the fixture: things with all their members set |

mod official;
mod rich;

use std::collections::BTreeSet;

use official::Schema;
use serde_json::{Value, json};

use crate::link::{lines::Lines, server};

#[tokio::test]
async fn messages_of_2024_11_05_have_its_shape() {
    check("2024-11-05", &[]).await;
}

#[tokio::test]
async fn messages_of_2025_03_26_have_its_shape() {
    check("2025-03-26", &[]).await;
}

#[tokio::test]
async fn messages_of_2025_06_18_have_its_shape() {
    check("2025-06-18", &["elicitation/create"]).await;
}

#[tokio::test]
async fn messages_of_2025_11_25_have_its_shape() {
    check("2025-11-25", &["elicitation/create"]).await;
}

/// Goes through everything, in one revision. `more` is what the server asks there besides.
async fn check(revision: &str, more: &[&str]) {
    let Some(schema) = Schema::of(revision) else {
        return;
    };
    let server = rich::add(lmcp_tests::fixture()).start();
    let lines = server::memory_of(server.expect("the fixture is right"));
    let mut talk = Talk {
        lines,
        schema,
        requests: 0,
        heard: BTreeSet::new(),
        faults: Vec::new(),
    };
    talk.through(revision).await;
    let Talk { heard, faults, .. } = talk;
    assert!(
        faults.is_empty(),
        "{} faults\n{}",
        faults.len(),
        faults.join("\n")
    );
    // Or the check would pass for want of messages.
    for method in MESSAGES.iter().chain(more) {
        assert!(heard.contains(*method), "`{method}` was never sent");
    }
}

/// What a server sends of its own accord in every revision.
const MESSAGES: [&str; 8] = [
    "notifications/message",
    "notifications/progress",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/tools/list_changed",
    "roots/list",
    "sampling/createMessage",
];

struct Talk {
    lines: Lines,
    schema: Schema,
    requests: i64,
    /// Methods of what the server sent.
    heard: BTreeSet<String>,
    faults: Vec<String>,
}

impl Talk {
    async fn through(&mut self, revision: &str) {
        let capabilities = json!({
            "roots": { "listChanged": true },
            "sampling": { "tools": {}, "context": {} },
            "elicitation": { "form": {}, "url": {} },
        });
        let info = json!({ "name": "shapes", "version": "1" });
        let opening = json!({ "protocolVersion": revision, "capabilities": capabilities, "clientInfo": info });
        self.ask("initialize", opening).await;
        self.tell("notifications/initialized").await;
        self.ask("ping", json!({})).await;
        self.ask("logging/setLevel", json!({ "level": "debug" }))
            .await;
        let watched = json!({ "uri": "text://static" });
        self.ask("resources/subscribe", watched.clone()).await;
        self.lists().await;
        self.calls().await;
        self.reads().await;
        self.changes().await;
        self.ask("resources/unsubscribe", watched).await;
        self.mistakes().await;
    }

    async fn lists(&mut self) {
        for method in [
            "tools/list",
            "prompts/list",
            "resources/list",
            "resources/templates/list",
        ] {
            let mut params = json!({});
            while let Some(cursor) = self.ask(method, params).await["result"].get("nextCursor") {
                params = json!({ "cursor": cursor });
            }
        }
    }

    async fn calls(&mut self) {
        let no_arguments = [
            "ask_all",
            "ask_first",
            "ask_form",
            "ask_link",
            "ask_opt",
            "ask_several",
            "ask_twice",
            "contents",
            "fail",
            "late",
            "list",
            "logs",
            "meta",
            "null",
            "panics",
            "refuse",
            "rich",
            "rich_sample",
            "roots",
            "sample",
            "sample_tools",
            "task",
            "task_asks",
            "task_only",
        ];
        for name in no_arguments {
            self.call(name, json!({})).await;
        }
        self.call("add", json!({ "a": 1, "b": 2 })).await;
        self.call("add", json!({ "a": i64::MAX, "b": 2 })).await;
        self.call("ask", json!({ "word": "hello" })).await;
        self.call("echo", json!({ "text": "a" })).await;
        self.call("echo", json!({ "text": 5 })).await;
        self.call("steps", json!({ "done": [1, 2, 3] })).await;
    }

    async fn reads(&mut self) {
        for uri in [
            "text://static",
            "binary://static",
            "several://all",
            "broken://always",
            "asks://name",
            "item://5/data",
            "rich://one",
            "nothing://here",
        ] {
            self.ask("resources/read", json!({ "uri": uri })).await;
        }
        for name in ["plain", "dialogue", "broken", "asks", "rich"] {
            self.ask("prompts/get", json!({ "name": name })).await;
        }
        let arguments = json!({ "code": "a" });
        self.ask(
            "prompts/get",
            json!({ "name": "review", "arguments": arguments }),
        )
        .await;
        let argument = json!({ "name": "language", "value": "lang" });
        let prompt = json!({ "type": "ref/prompt", "name": "review" });
        self.ask(
            "completion/complete",
            json!({ "ref": prompt, "argument": argument }),
        )
        .await;
        let argument = json!({ "name": "id", "value": "9" });
        let template = json!({ "type": "ref/resource", "uri": "item://{id}/data" });
        self.ask(
            "completion/complete",
            json!({ "ref": template, "argument": argument }),
        )
        .await;
    }

    async fn changes(&mut self) {
        for list in ["tools", "prompts", "resources"] {
            self.call("change", json!({ "list": list, "name": "added" }))
                .await;
            self.hear(&format!("notifications/{list}/list_changed"))
                .await;
        }
        self.call("touch", json!({ "uri": "text://static" })).await;
        self.hear("notifications/resources/updated").await;
    }

    async fn mistakes(&mut self) {
        self.ask("no/such", json!({})).await;
        self.ask("tools/list", json!({ "cursor": "x" })).await;
        self.ask("logging/setLevel", json!({ "level": "loud" }))
            .await;
        self.ask("completion/complete", json!({})).await;
        self.ask("tools/call", json!({ "name": "none" })).await;
        self.ask("prompts/get", json!({ "name": "none" })).await;
        self.ask("server/discover", json!({})).await;
    }

    async fn call(&mut self, name: &str, arguments: Value) -> Value {
        let meta = json!({ "progressToken": name });
        let params = json!({ "name": name, "arguments": arguments, "_meta": meta });
        self.ask("tools/call", params).await
    }

    /// Sends a request, and answers what the server asks until its answer is there.
    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.requests += 1;
        let id = self.requests;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await;
        loop {
            let message = self.next().await;
            if message.get("method").is_none() {
                assert_eq!(message["id"], id, "{message}");
                self.faults
                    .extend(self.schema.response_faults(method, &message));
                return message;
            }
            self.take(&message).await;
        }
    }

    async fn hear(&mut self, method: &str) {
        while !self.heard.contains(method) {
            let message = self.next().await;
            self.take(&message).await;
        }
    }

    /// A message of the server's own.
    async fn take(&mut self, message: &Value) {
        let method = message["method"].as_str().unwrap_or_default();
        self.heard.insert(method.into());
        self.faults
            .extend(self.schema.message_faults(method, message));
        if let Some(id) = message.get("id") {
            let result = answer(method, &message["params"]);
            self.send(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
                .await;
        }
    }

    async fn tell(&mut self, method: &str) {
        self.send(json!({ "jsonrpc": "2.0", "method": method }))
            .await;
    }

    async fn send(&mut self, message: Value) {
        let sent = self.lines.send(message.to_string().as_bytes()).await;
        sent.expect("the server reads");
    }

    async fn next(&mut self) -> Value {
        let message = self.lines.next().await;
        message
            .expect("the server writes lines of JSON")
            .expect("the connection stays open")
    }
}

/// What a willing client says.
fn answer(method: &str, params: &Value) -> Value {
    match method {
        "elicitation/create" => {
            let content = match params.pointer("/requestedSchema/properties/colour") {
                Some(_) => json!({ "colour": "red" }),
                None => json!({ "name": "Ann" }),
            };
            json!({ "action": "accept", "content": content })
        }
        "sampling/createMessage" => {
            let content = json!({ "type": "text", "text": "a" });
            json!({ "role": "assistant", "model": "m", "content": content })
        }
        _ => json!({ "roots": [{ "uri": "file:///a" }] }),
    }
}
