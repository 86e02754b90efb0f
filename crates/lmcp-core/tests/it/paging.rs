//! Lists that are longer than a page.

use lmcp_core::{Cx, NoArgs, Prompt, Resource, Server, Tool};
use serde_json::json;

use crate::support::{limits, server};

#[tokio::test]
async fn a_list_is_walked_page_by_page() {
    for (count, pages) in [(1, 1), (3, 1), (4, 2), (9, 3), (10, 4)] {
        let client = many(count).start().unwrap().client();
        for (method, member, key) in [
            ("tools/list", "tools", "name"),
            ("prompts/list", "prompts", "name"),
            ("resources/list", "resources", "uri"),
            (
                "resources/templates/list",
                "resourceTemplates",
                "uriTemplate",
            ),
        ] {
            let (mut keys, mut turned, mut params) = (Vec::new(), 0, json!({}));
            loop {
                let page = client.request(method, params.clone()).await.unwrap();
                let items = page[member].as_array().unwrap();
                assert!(items.len() <= 3);
                keys.extend(
                    items
                        .iter()
                        .map(|item| item[key].as_str().unwrap().to_owned()),
                );
                turned += 1;
                match page.get("nextCursor") {
                    Some(cursor) => params = json!({ "cursor": cursor }),
                    None => break,
                }
            }
            assert_eq!((keys.len(), turned), (count, pages), "{method}");
            assert!(keys.is_sorted(), "{method}: {keys:?}");
        }
    }
}

#[tokio::test]
async fn a_cursor_survives_changes_and_belongs_to_its_list() {
    let server = many(6).start().unwrap();
    let client = server.client();
    let page = client.request("tools/list", json!({})).await.unwrap();
    let cursor = &page["nextCursor"];
    server.remove_tool("t2");
    server.remove_tool("t4");
    let page = client
        .request("tools/list", json!({ "cursor": cursor }))
        .await
        .unwrap();
    let names: Vec<_> = page["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| &tool["name"])
        .collect();
    assert_eq!(names, ["t3", "t5"]);
    for (method, cursor) in [
        ("prompts/list", cursor.clone()),
        ("tools/list", json!("")),
        ("tools/list", json!("made up")),
        ("tools/list", json!(3)),
    ] {
        let error = client
            .request(method, json!({ "cursor": cursor }))
            .await
            .unwrap_err();
        assert_eq!(error.code, -32602, "{method} {cursor}");
    }
}

#[tokio::test]
async fn the_first_page_follows_every_change() {
    let server = many(2).start().unwrap();
    let count = async || {
        let page = server
            .client()
            .request("tools/list", json!({}))
            .await
            .unwrap();
        page["tools"].as_array().unwrap().len()
    };
    assert_eq!(count().await, 2);
    server
        .add_tool(Tool::new("more", nothing).read_only())
        .unwrap();
    assert_eq!(count().await, 3);
    server.remove_tool("more");
    assert_eq!(count().await, 2);
}

async fn nothing(_: NoArgs, _: Cx) -> String {
    String::new()
}

/// A server with so many of everything, three to a page.
fn many(count: usize) -> Server {
    let server = server().limits(limits(|limits| limits.list_page = 3));
    (0..count).fold(server, |server, number| {
        server
            .tool(Tool::new(format!("t{number}"), nothing).read_only())
            .prompt(Prompt::new(format!("p{number}"), nothing))
            .resource(Resource::text(format!("r:{number}"), "r", "text"))
            .resource(Resource::template(
                format!("t{number}:{{name}}"),
                "t",
                nothing,
            ))
    })
}
