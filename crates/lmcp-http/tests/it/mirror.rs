//! Arguments that clients repeat in headers.

use lmcp_core::{Cx, Server, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{Post, request, serve, server};

#[tokio::test]
async fn a_mirrored_argument_must_say_what_its_header_says() {
    let running = serve(mirroring()).await;
    for tool in ["typed", "raw"] {
        for (arguments, headers, status) in [
            (
                json!({ "region": "eu" }),
                vec![("mcp-param-region", "eu")],
                200,
            ),
            (
                json!({ "region": "eu" }),
                vec![("mcp-param-region", "  eu  ")],
                200,
            ),
            (
                json!({ "region": "eu" }),
                vec![("mcp-param-region", "=?base64?ZXU=?=")],
                200,
            ),
            (
                json!({ "region": "é" }),
                vec![("mcp-param-region", "=?base64?w6k=?=")],
                200,
            ),
            (json!({ "region": "eu" }), vec![], 400),
            (
                json!({ "region": "eu" }),
                vec![("mcp-param-region", "us")],
                400,
            ),
            (
                json!({ "region": "eu" }),
                vec![("mcp-param-region", "EU")],
                400,
            ),
            (
                json!({ "region": "eu" }),
                vec![("mcp-param-region", "=?base64?ZXU?=")],
                400,
            ),
            (
                json!({ "region": "eu", "count": 42 }),
                vec![("mcp-param-region", "eu"), ("mcp-param-count", "42.0")],
                200,
            ),
            (
                json!({ "region": "eu", "count": null }),
                vec![("mcp-param-region", "eu")],
                200,
            ),
            (
                json!({ "region": "eu" }),
                vec![("mcp-param-region", "eu"), ("mcp-param-count", "1")],
                400,
            ),
        ] {
            let mut post = call(tool, &arguments);
            for (name, value) in &headers {
                post = post.with(name, value);
            }
            let answer = running.ask(&post).await;
            assert_eq!(
                answer.head.status, status,
                "{tool} {arguments} {headers:?}: {}",
                answer.body
            );
            if status == 400 {
                assert_eq!(answer.json()["error"]["code"], -32020);
            }
        }
    }
}

#[tokio::test]
async fn a_mirrored_integer_is_one_that_every_client_can_write() {
    let running = serve(mirroring()).await;
    // Beyond 2^53 a double no longer tells two integers apart.
    for (count, fails) in [
        (9_007_199_254_740_991_i64, false),
        (9_007_199_254_740_993, true),
    ] {
        for tool in ["typed", "raw"] {
            let post = call(tool, &json!({ "region": "eu", "count": count }))
                .with("mcp-param-region", "eu")
                .with("mcp-param-count", &count.to_string());
            let answer = running.ask(&post).await.json();
            let result = &answer["result"];
            let failed = result["content"].is_null() || result["isError"] == true;
            assert_eq!(failed, fails, "{tool}: {answer}");
        }
    }
}

fn mirroring() -> Server {
    #[derive(Deserialize, JsonSchema)]
    struct Place {
        region: String,
        #[expect(dead_code, reason = "only mirrored")]
        count: Option<i64>,
    }
    async fn typed(args: Place, _: Cx) -> String {
        args.region
    }
    let schema = json!({ "type": "object", "properties": {
        "region": { "type": "string", "x-mcp-header": "Region" },
        "count": { "type": "integer", "x-mcp-header": "Count" },
    }});
    let raw = Tool::raw("raw", schema, |args: Value, _: Cx| async move {
        args.to_string()
    });
    let typed = Tool::new("typed", typed)
        .mirror("region", "Region")
        .mirror("count", "Count");
    server().tool(typed.read_only()).tool(raw.read_only())
}

fn call(tool: &str, arguments: &Value) -> Post {
    request(
        "tools/call",
        json!({ "name": tool, "arguments": arguments }),
    )
    .with("mcp-name", tool)
}
