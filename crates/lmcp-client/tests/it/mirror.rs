//! Arguments that are repeated in headers. Our server requires them.

use lmcp_client::{Endpoint, Settings};
use lmcp_core::{Cx, Tool};
use serde_json::{Value, json};

use crate::support::{Client, MODERN, serve, server, text};

#[tokio::test]
async fn arguments_are_mirrored_once_the_tools_were_listed_and_on_the_next_link_too() {
    let schema = json!({ "type": "object", "properties": {
        "region": { "type": "string", "x-mcp-header": "Region" },
        "count": { "type": "integer", "x-mcp-header": "Count" },
    }});
    let raw = Tool::raw("raw", schema, |args: Value, _: Cx| async move {
        args["region"].to_string()
    });
    let running = serve(server().tool(raw.read_only())).await;
    let endpoint = Endpoint::new(Settings::new(running.url())).unwrap();
    let params =
        |region: &str| json!({ "name": "raw", "arguments": { "region": region, "count": 5 } });
    let mut client = Client::at(&endpoint, MODERN).await;
    client.ask("tools/list", json!({})).await;
    for region in ["eu", "été ", "=?base64?ZXU=?=", ""] {
        let answer = client.ask("tools/call", params(region)).await;
        assert_eq!(text(&answer), &json!(region).to_string(), "{answer}");
    }
    let mut next = Client::at(&endpoint, MODERN).await;
    let answer = next.ask("tools/call", params("eu")).await;
    assert_eq!(text(&answer), "\"eu\"", "{answer}");
}
