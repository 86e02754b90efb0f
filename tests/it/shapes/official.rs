//! The official schema of a revision, with its objects closed.

use std::{collections::BTreeMap, fs, path::Path};

use jsonschema::Validator;
use serde_json::{Value, json};

pub(crate) struct Schema {
    revision: String,
    /// As published: for envelopes, whose contents are looked at by themselves.
    open: Definitions,
    closed: Definitions,
}

impl Schema {
    /// `None`, and a word about it, where the schemas are not there: they lie beside the checkout, never in it.
    #[expect(
        clippy::print_stderr,
        reason = "whoever runs the tests must see that this one looked at nothing"
    )]
    pub(crate) fn of(revision: &str) -> Option<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/schemas");
        let path = folder.join(format!("{revision}.json"));
        let Ok(text) = fs::read_to_string(&path) else {
            let path = path.display();
            eprintln!("no official schema at {path}: this check was skipped");
            return None;
        };
        let schema: Value = serde_json::from_str(&text).expect("the schema is JSON");
        let mut closed = schema.clone();
        let place = place(&closed);
        let definitions = closed[place].as_object_mut();
        definitions
            .expect("the schema has definitions")
            .values_mut()
            .for_each(close);
        Some(Self {
            revision: revision.into(),
            open: Definitions::new(schema),
            closed: Definitions::new(closed),
        })
    }

    /// What is wrong with the answer to a request.
    pub(crate) fn response_faults(&mut self, method: &str, message: &Value) -> Vec<String> {
        let newest = self.revision == "2025-11-25";
        if message.get("error").is_some() {
            let name = if newest {
                "JSONRPCErrorResponse"
            } else {
                "JSONRPCError"
            };
            return told(method, message, self.closed.faults(name, message));
        }
        let name = if newest {
            "JSONRPCResultResponse"
        } else {
            "JSONRPCResponse"
        };
        let mut faults = self.open.faults(name, message);
        let members = message.as_object().into_iter().flatten();
        let more =
            members.filter(|(name, _)| !["jsonrpc", "id", "result"].contains(&name.as_str()));
        faults.extend(more.map(|(name, _)| format!("`{name}` beside the result")));
        let (_, name) = RESULTS
            .iter()
            .find(|(of, _)| *of == method)
            .expect("every request of this test has a result");
        faults.extend(self.closed.faults(name, &message["result"]));
        told(method, message, faults)
    }

    /// What is wrong with a request or a notification of the server.
    pub(crate) fn message_faults(&mut self, method: &str, message: &Value) -> Vec<String> {
        let Some((_, name)) = MESSAGES.iter().find(|(of, _)| *of == method) else {
            return vec![format!("`{method}` is no message of a server: {message}")];
        };
        let envelope = match message.get("id") {
            Some(_) => "JSONRPCRequest",
            None => "JSONRPCNotification",
        };
        let mut faults = self.open.faults(envelope, message);
        let mut contents = message.clone();
        // Until 2025-11-25 the envelope is no part of a message's definition.
        if self.revision != "2025-11-25"
            && let Some(members) = contents.as_object_mut()
        {
            members.remove("jsonrpc");
            members.remove("id");
        }
        faults.extend(self.closed.faults(name, &contents));
        told(method, message, faults)
    }
}

struct Definitions {
    schema: Value,
    validators: BTreeMap<String, Validator>,
}

impl Definitions {
    fn new(schema: Value) -> Self {
        Self {
            schema,
            validators: BTreeMap::new(),
        }
    }

    fn faults(&mut self, name: &str, value: &Value) -> Vec<String> {
        let place = place(&self.schema);
        if self.schema[place].get(name).is_none() {
            return vec![format!("this revision has no `{name}`")];
        }
        let schema = &self.schema;
        let validator = self.validators.entry(name.into()).or_insert_with(|| {
            let schema = json!({
                "$schema": schema["$schema"],
                "$ref": format!("#/{place}/{name}"),
                place: schema[place],
            });
            let built = jsonschema::options().build(&schema);
            built.expect("a definition of the official schema is a schema")
        });
        let faults = validator.iter_errors(value);
        faults
            .map(|fault| format!("at `{}`: {fault}", fault.instance_path()))
            .collect()
    }
}

/// Where definitions stand: the word changed with the draft.
fn place(schema: &Value) -> &'static str {
    match schema.get("$defs") {
        Some(_) => "$defs",
        None => "definitions",
    }
}

/// Lets no members pass but those that are named.
fn close(schema: &mut Value) {
    let Some(keywords) = schema.as_object_mut() else {
        return;
    };
    if let Some(named) = keywords
        .get_mut("properties")
        .and_then(Value::as_object_mut)
    {
        let closed = named
            .iter_mut()
            .filter(|(name, _)| !OPEN.contains(&name.as_str()));
        closed.for_each(|(_, property)| close(property));
        let names_some = !named.is_empty();
        let rest = keywords.get("additionalProperties");
        if names_some && rest.is_none_or(|rest| *rest == json!({})) {
            keywords.insert("additionalProperties".into(), json!(false));
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(schema) = keywords.get_mut(keyword) {
            close(schema);
        }
    }
    // The parts of an `allOf` say nothing of each other's members; only tasks have it, which are not served.
    for keyword in ["anyOf", "oneOf"] {
        let schemas = keywords.get_mut(keyword).and_then(Value::as_array_mut);
        schemas.into_iter().flatten().for_each(close);
    }
}

fn told(method: &str, message: &Value, faults: Vec<String>) -> Vec<String> {
    let message: String = message.to_string().chars().take(300).collect();
    let told = faults.into_iter();
    told.map(|fault| format!("{method}: {fault}\n    in {message}"))
        .collect()
}

/// Members that hold what others make up.
const OPEN: [&str; 7] = [
    "_meta",
    "arguments",
    "experimental",
    "inputSchema",
    "metadata",
    "outputSchema",
    "structuredContent",
];

const RESULTS: [(&str, &str); 13] = [
    ("completion/complete", "CompleteResult"),
    ("initialize", "InitializeResult"),
    ("logging/setLevel", "EmptyResult"),
    ("ping", "EmptyResult"),
    ("prompts/get", "GetPromptResult"),
    ("prompts/list", "ListPromptsResult"),
    ("resources/list", "ListResourcesResult"),
    ("resources/read", "ReadResourceResult"),
    ("resources/subscribe", "EmptyResult"),
    ("resources/templates/list", "ListResourceTemplatesResult"),
    ("resources/unsubscribe", "EmptyResult"),
    ("tools/call", "CallToolResult"),
    ("tools/list", "ListToolsResult"),
];

const MESSAGES: [(&str, &str); 10] = [
    ("elicitation/create", "ElicitRequest"),
    ("notifications/cancelled", "CancelledNotification"),
    ("notifications/message", "LoggingMessageNotification"),
    ("notifications/progress", "ProgressNotification"),
    (
        "notifications/prompts/list_changed",
        "PromptListChangedNotification",
    ),
    (
        "notifications/resources/list_changed",
        "ResourceListChangedNotification",
    ),
    (
        "notifications/resources/updated",
        "ResourceUpdatedNotification",
    ),
    (
        "notifications/tools/list_changed",
        "ToolListChangedNotification",
    ),
    ("roots/list", "ListRootsRequest"),
    ("sampling/createMessage", "CreateMessageRequest"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_of_a_later_revision_is_found_out() {
        let Some(mut schema) = Schema::of("2025-03-26") else {
            return;
        };
        let tool = json!({ "name": "a", "inputSchema": { "type": "object" }, "title": "A" });
        let message = json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": [tool] } });
        assert_eq!(schema.response_faults("tools/list", &message).len(), 1);
        let message = json!({ "jsonrpc": "2.0", "id": 1, "result": { "resultType": "complete" } });
        assert_eq!(schema.response_faults("ping", &message).len(), 1);
    }
}
