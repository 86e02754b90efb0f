//! What tools return and lists hold, as clients of older revisions get it.

use lmcp_core::{Cx, Json, NoArgs, Resource, Server, Tool, ToolError, ToolResult};
use lmcp_wire::{CallToolResult, Content};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::support::{Peer, Serving, connect, limits, server};

const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

// L33
#[tokio::test]
async fn a_structured_result_is_no_content_block_whatever_its_members() {
    #[derive(Serialize, JsonSchema)]
    struct Odd {
        r#type: &'static str,
        text: &'static str,
    }
    async fn odd(_: NoArgs, _: Cx) -> Json<Odd> {
        Json(Odd {
            r#type: "text",
            text: "not a block",
        })
    }
    let same = json!({ "type": "text", "text": "not a block" });
    for version in REVISIONS {
        let (mut peer, _serving) =
            opened(server().tool(Tool::new("odd", odd).read_only()), version).await;
        let result = call(&mut peer, json!({ "name": "odd" })).await["result"].clone();
        let text = result["content"][0]["text"].as_str().unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(text).unwrap(),
            same,
            "{version}"
        );
        assert_eq!(result["content"].as_array().unwrap().len(), 1, "{version}");
        let structured = result.get("structuredContent");
        let has_them = version >= "2025-06-18";
        assert_eq!(structured, has_them.then_some(&same), "{version}");
    }
}

// L32, L33
#[tokio::test]
async fn every_kind_of_result_can_be_said() {
    for version in REVISIONS {
        let (mut peer, _serving) = opened(outputs(), version).await;
        for (name, blocks, failed) in [
            ("several", 2, None),
            ("bad", 1, Some(true)),
            ("fails", 1, Some(true)),
            ("none", 0, None),
        ] {
            let result = call(&mut peer, json!({ "name": name })).await["result"].clone();
            assert_eq!(
                result["content"].as_array().unwrap().len(),
                blocks,
                "{version} {name}"
            );
            assert_eq!(
                result["isError"].as_bool().filter(|failed| *failed),
                failed,
                "{version} {name}"
            );
            assert_eq!(result.get("structuredContent"), None);
        }
    }
}

// L33
#[tokio::test]
async fn mistakes_in_a_call_are_told_to_who_can_mend_them() {
    for version in REVISIONS {
        let (mut peer, _serving) = opened(outputs(), version).await;
        let unknown = call(&mut peer, json!({ "name": "nobody" })).await;
        assert_eq!(unknown["error"]["code"], -32602, "{version}");
        for arguments in [
            json!({}),
            json!({ "count": "three" }),
            json!({ "count": -1 }),
        ] {
            let wrong = call(
                &mut peer,
                json!({ "name": "count", "arguments": arguments }),
            )
            .await;
            assert_eq!(
                wrong["result"]["isError"], true,
                "{version} {arguments}: {wrong}"
            );
        }
        let right = call(
            &mut peer,
            json!({ "name": "count", "arguments": { "count": 3 } }),
        )
        .await;
        assert_eq!(right["result"]["content"][0]["text"], "3");
    }
}

// L32
#[tokio::test]
async fn a_tool_without_arguments_has_the_schema_of_an_object() {
    for version in REVISIONS {
        let (mut peer, _serving) = opened(outputs(), version).await;
        peer.ask(1, "tools/list", json!({})).await;
        for tool in peer.receive().await["result"]["tools"].as_array().unwrap() {
            assert_eq!(tool["inputSchema"]["type"], "object", "{version}");
            let properties = tool["inputSchema"].get("properties");
            assert!(properties.is_none_or(Value::is_object), "{version}: {tool}");
        }
    }
}

// L34
#[tokio::test]
async fn a_list_is_walked_to_its_end_in_a_stable_order() {
    for version in REVISIONS {
        let mut many = server().limits(limits(|limits| limits.list_page = 50));
        for number in 0..120 {
            let uri = format!("test://{number:03}");
            many = many.resource(Resource::text(uri.clone(), uri, "text"));
        }
        let (mut peer, _serving) = opened(many, version).await;
        let mut walks = Vec::new();
        for _ in 0..2 {
            let (mut seen, mut params) = (Vec::new(), json!({}));
            loop {
                peer.ask(1, "resources/list", params).await;
                let page = peer.receive().await["result"].clone();
                let uris = page["resources"].as_array().unwrap().iter();
                seen.extend(uris.map(|resource| resource["uri"].as_str().unwrap().to_owned()));
                let Some(cursor) = page.get("nextCursor") else {
                    break;
                };
                params = json!({ "cursor": cursor });
            }
            assert_eq!(seen.len(), 120, "{version}");
            walks.push(seen);
        }
        assert_eq!(walks[0], walks[1]);
        for cursor in [json!("x"), json!(""), json!("MA=="), json!(0)] {
            peer.ask(2, "resources/list", json!({ "cursor": cursor }))
                .await;
            let answer = peer.receive().await;
            assert_eq!(
                answer["error"]["code"], -32602,
                "{version} {cursor}: {answer}"
            );
        }
    }
}

// L10
#[tokio::test]
async fn a_template_takes_one_name_and_no_path() {
    #[derive(Deserialize, JsonSchema)]
    struct Name {
        name: String,
    }
    async fn read(args: Name, _: Cx) -> String {
        args.name
    }
    for version in REVISIONS {
        let server = server().resource(Resource::template("test://files/{name}", "files", read));
        let (mut peer, _serving) = opened(server, version).await;
        for (uri, found) in [
            ("test://files/a", true),
            ("test://files/a/b", false),
            ("test://files/..", false),
            ("test://files/%2e%2e", false),
            ("test://files/a%2fb", false),
            ("test://files/%2e%2e%2fsecret", false),
        ] {
            peer.ask(1, "resources/read", json!({ "uri": uri })).await;
            let answer = peer.receive().await;
            assert_eq!(
                answer["result"].is_object(),
                found,
                "{version} {uri}: {answer}"
            );
        }
    }
}

fn outputs() -> Server {
    #[derive(Deserialize, JsonSchema)]
    struct Count {
        count: u8,
    }
    async fn several(_: NoArgs, _: Cx) -> Vec<Content> {
        vec![Content::text("a"), Content::image(b"hi", "image/png")]
    }
    async fn bad(_: NoArgs, _: Cx) -> CallToolResult {
        CallToolResult::error("said, not thrown")
    }
    async fn fails(_: NoArgs, _: Cx) -> ToolResult<String> {
        Err(ToolError::new("it failed"))
    }
    async fn none(_: NoArgs, _: Cx) -> Vec<Content> {
        Vec::new()
    }
    async fn count(args: Count, _: Cx) -> String {
        args.count.to_string()
    }
    server()
        .tool(Tool::new("several", several).read_only())
        .tool(Tool::new("bad", bad).read_only())
        .tool(Tool::new("fails", fails).read_only())
        .tool(Tool::new("none", none).read_only())
        .tool(Tool::new("count", count).read_only())
}

async fn opened(server: Server, version: &str) -> (Peer, Serving) {
    let (mut peer, serving) = connect(&server.start().expect("it is right"));
    peer.shake_hands(version).await;
    (peer, serving)
}

async fn call(peer: &mut Peer, params: Value) -> Value {
    peer.ask(1, "tools/call", params).await;
    peer.receive().await
}
