//! The headers that a correct client sends with a message, and how a transcript changes them.

use serde_json::{Value, json};

use super::Agreed;
use crate::transcript::{HeaderEdit, HttpPart};

/// Names and values, as they are written.
pub(crate) type Headers = Vec<(String, String)>;

/// Which arguments of which tools are mirrored: tool, argument, header.
pub(crate) struct Mirrors(Vec<(String, String, String)>);

impl Mirrors {
    /// As a client learns it: from the list of tools.
    pub(crate) async fn ask(server: &lmcp::Handle) -> Result<Self, String> {
        let (client, mut params, mut found) = (server.client(), json!({}), Vec::new());
        loop {
            let page = client.request("tools/list", params).await;
            let page = page.map_err(|err| err.to_string())?;
            for tool in page["tools"].as_array().into_iter().flatten() {
                let name = tool["name"].as_str().unwrap_or_default();
                let properties = tool["inputSchema"]["properties"].as_object();
                for (argument, schema) in properties.into_iter().flatten() {
                    if let Some(header) = schema["x-mcp-header"].as_str() {
                        found.push((name.into(), argument.clone(), format!("Mcp-Param-{header}")));
                    }
                }
            }
            let Some(cursor) = page.get("nextCursor") else {
                return Ok(Self(found));
            };
            params = json!({ "cursor": cursor });
        }
    }
}

/// All headers of one request. `agreed` is for one of an older revision, which has none of the modern headers.
pub(crate) fn of(
    message: Option<&Value>,
    mirrors: &Mirrors,
    part: &HttpPart,
    host: &str,
    agreed: Option<&Agreed>,
) -> Headers {
    let mut headers: Headers = vec![
        ("Host".into(), host.into()),
        ("Content-Type".into(), "application/json".into()),
        (
            "Accept".into(),
            "application/json, text/event-stream".into(),
        ),
    ];
    match agreed {
        Some(agreed) => headers.extend(of_session(message, agreed)),
        None => headers.extend(of_modern(message, mirrors)),
    }
    for edit in &part.headers {
        change(&mut headers, edit);
    }
    headers
}

fn of_modern(message: Option<&Value>, mirrors: &Mirrors) -> Headers {
    let version = message
        .and_then(|message| {
            message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str()
        })
        .unwrap_or("2026-07-28");
    let mut headers = vec![("MCP-Protocol-Version".into(), version.into())];
    headers.extend(
        message
            .into_iter()
            .flat_map(|message| mirrored(message, mirrors)),
    );
    headers
}

/// A handshake belongs to no session yet.
fn of_session(message: Option<&Value>, agreed: &Agreed) -> Headers {
    let mut headers = Headers::new();
    if message.is_some_and(|message| message["method"] == "initialize") {
        return headers;
    }
    if let Some(session) = agreed.sessions.last() {
        headers.push(("Mcp-Session-Id".into(), session.clone()));
    }
    // Earlier revisions do not have the header.
    if let Some(version) = agreed
        .version
        .as_ref()
        .filter(|version| ***version >= *"2025-06-18")
    {
        headers.push(("MCP-Protocol-Version".into(), version.clone()));
    }
    headers
}

fn mirrored(message: &Value, mirrors: &Mirrors) -> Headers {
    let mut headers = Headers::new();
    let params = &message["params"];
    let Some(method) = message["method"].as_str() else {
        return headers;
    };
    headers.push(("Mcp-Method".into(), method.into()));
    let name = match method {
        "tools/call" | "prompts/get" => &params["name"],
        "resources/read" => &params["uri"],
        "tasks/get" | "tasks/update" | "tasks/cancel" => &params["taskId"],
        _ => &Value::Null,
    };
    if let Some(name) = name.as_str() {
        headers.push(("Mcp-Name".into(), encoded(name)));
    }
    for (tool, argument, header) in &mirrors.0 {
        let value = &params["arguments"][argument];
        if name == tool.as_str() && !value.is_null() {
            let text = value.as_str().map_or_else(|| value.to_string(), Into::into);
            headers.push((header.clone(), encoded(&text)));
        }
    }
    headers
}

fn encoded(text: &str) -> String {
    lmcp::wire::header::encode(text).into_owned()
}

fn change(headers: &mut Headers, edit: &HeaderEdit) {
    match edit {
        HeaderEdit::Set(name, value) => {
            remove(headers, name);
            headers.push((name.clone(), value.clone()));
        }
        HeaderEdit::Add(name, value) => headers.push((name.clone(), value.clone())),
        HeaderEdit::Remove(name) => remove(headers, name),
    }
}

fn remove(headers: &mut Headers, name: &str) {
    headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
}
