//! Argument types: the schema that clients see, the values that are taken, and the words for those that are not.

use std::collections::BTreeMap;

use lmcp_core::{Cx, Json, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::support::{server, text};

#[tokio::test]
async fn null_and_absent_are_both_none() {
    let client = server().tool(tool()).start().unwrap().client();
    for (arguments, expected) in [
        (json!({ "name": "a" }), "a None None None"),
        (json!({ "name": "a", "limit": null }), "a None None None"),
        (
            json!({ "name": "a", "limit": null, "size": null, "place": null, "tags": null }),
            "a None None None",
        ),
        (json!({ "name": "a", "limit": 3 }), "a Some(3) None None"),
        (
            json!({ "name": "a", "size": "small", "place": { "city": "b" } }),
            "a None Some(Small) Some(Place { city: \"b\" })",
        ),
    ] {
        assert_eq!(
            text(&client, "find", arguments.clone()).await,
            expected,
            "{arguments}"
        );
    }
}

#[tokio::test]
async fn the_published_schema_is_plain() {
    let schema = published().await["inputSchema"].clone();
    assert_eq!(schema["type"], "object");
    assert_eq!(schema["required"], json!(["name"]));
    assert_eq!(schema["properties"]["limit"]["type"], "integer");
    assert_eq!(
        schema["properties"]["name"]["description"],
        "What to look for."
    );
    assert_eq!(
        schema["properties"]["place"]["properties"]["city"]["type"],
        "string"
    );
    walk(&schema, &mut |key, value| {
        assert!(
            !(key == "type" && value.is_array()),
            "a list of types: {value}"
        );
        assert!(
            !matches!(key, "$ref" | "$defs" | "$schema"),
            "{key}: {value}"
        );
        assert!(key != "format", "a format no client knows: {value}");
        assert!(key != "default" || !value.is_null(), "a default of null");
        assert!(
            *value != json!({ "type": "null" }),
            "null as an alternative"
        );
    });
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_told_to_the_model() {
    let client = server().tool(tool()).start().unwrap().client();
    for (arguments, parts) in [
        (json!({}), vec!["name", "required"]),
        (
            json!({ "name": 5 }),
            vec!["`/name`", "expected string", "got number 5"],
        ),
        (
            json!({ "name": "a", "limit": "ten" }),
            vec!["`/limit`", "integer", "\"ten\""],
        ),
        (
            json!({ "name": "a", "limit": -1 }),
            vec!["`/limit`", "0", "-1"],
        ),
        (
            json!({ "name": "a", "limit": 1.5 }),
            vec!["`/limit`", "1.5"],
        ),
        (
            json!({ "name": "a", "size": "smal" }),
            vec!["`/size`", "\"small\"", "\"large\"", "got \"smal\""],
        ),
        (
            json!({ "name": "a", "place": { "city": [] } }),
            vec!["`/place/city`", "expected string"],
        ),
        (
            json!({ "name": "a", "tags": { "k": "v" } }),
            vec!["`/tags/k`", "integer", "\"v\""],
        ),
    ] {
        let result = client.call_tool("find", arguments.clone()).await.unwrap();
        let words = result.content[0].as_text().unwrap();
        assert!(result.is_error, "{arguments}");
        assert!(
            words.starts_with("the arguments of `find` do not fit: "),
            "{words}"
        );
        for part in parts {
            assert!(words.contains(part), "{arguments}: no {part} in: {words}");
        }
    }
}

#[tokio::test]
async fn several_mistakes_are_told_at_once() {
    let client = server().tool(tool()).start().unwrap().client();
    let arguments = json!({ "limit": "x", "size": 1 });
    let result = client.call_tool("find", arguments).await.unwrap();
    let words = result.content[0].as_text().unwrap();
    for part in ["name", "`/limit`", "`/size`"] {
        assert!(words.contains(part), "{words}");
    }
}

#[tokio::test]
async fn a_rule_that_only_the_type_knows_is_told_too() {
    #[derive(Deserialize, JsonSchema)]
    struct Even {
        #[serde(deserialize_with = "even")]
        number: u32,
    }
    fn even<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
        let number = u32::deserialize(deserializer)?;
        if number % 2 == 0 {
            Ok(number)
        } else {
            Err(serde::de::Error::custom(format!("{number} is odd")))
        }
    }
    async fn halve(args: Even, _: Cx) -> String {
        (args.number / 2).to_string()
    }
    let tool = Tool::new("halve", halve).read_only();
    let client = server().tool(tool).start().unwrap().client();
    assert_eq!(text(&client, "halve", json!({ "number": 8 })).await, "4");
    let result = client
        .call_tool("halve", json!({ "number": 7 }))
        .await
        .unwrap();
    assert!(result.is_error);
    assert_eq!(
        result.content[0].as_text(),
        Some("the arguments do not fit: 7 is odd")
    );
}

#[tokio::test]
async fn no_arguments_may_be_sent_in_any_way() {
    let tool = Tool::new("none", |_: lmcp_core::NoArgs, _: Cx| async { "none" });
    let client = server().tool(tool.read_only()).start().unwrap().client();
    for params in [
        json!({ "name": "none" }),
        json!({ "name": "none", "arguments": {} }),
        json!({ "name": "none", "arguments": null }),
        json!({ "name": "none", "arguments": { "stray": 1 } }),
    ] {
        let result = client.request("tools/call", params.clone()).await;
        assert_eq!(result.unwrap()["content"][0]["text"], "none", "{params}");
    }
    for arguments in [json!([]), json!("none"), json!(1)] {
        let params = json!({ "name": "none", "arguments": arguments });
        let error = client.request("tools/call", params).await.unwrap_err();
        assert_eq!(error.code, -32602);
    }
}

#[tokio::test]
async fn the_schema_of_a_structured_result_keeps_its_null() {
    #[derive(Serialize, JsonSchema)]
    struct Found {
        line: Option<u32>,
    }
    async fn find(_: lmcp_core::NoArgs, _: Cx) -> Json<Found> {
        Json(Found { line: None })
    }
    let client = server()
        .tool(Tool::new("find", find).read_only())
        .start()
        .unwrap()
        .client();
    let list = client.request("tools/list", json!({})).await.unwrap();
    let schema = list["tools"][0]["outputSchema"].clone();
    let result = client.call_tool("find", json!({})).await.unwrap();
    let value = result.structured_content.unwrap();
    assert_eq!(value, json!({ "line": null }));
    let schema = lmcp_schema::Schema::compile(&schema).unwrap();
    assert!(schema.is_valid(&value));
}

fn tool() -> Tool {
    async fn find(args: Find, _: Cx) -> String {
        let Find {
            name,
            limit,
            size,
            place,
            tags: _,
        } = args;
        format!("{name} {limit:?} {size:?} {place:?}")
    }
    Tool::new("find", find).about("Find something.").read_only()
}

async fn published() -> Value {
    let server = server().tool(tool()).start().expect("it is right");
    let list = server.client().request("tools/list", json!({})).await;
    list.expect("tools are listed")["tools"][0].clone()
}

fn walk(value: &Value, visit: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                visit(key, member);
                walk(member, visit);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[derive(Deserialize, JsonSchema)]
struct Find {
    /// What to look for.
    name: String,
    limit: Option<u32>,
    size: Option<Size>,
    #[serde(default)]
    place: Option<Place>,
    #[serde(default)]
    #[expect(dead_code, reason = "only its schema and its mismatches matter here")]
    tags: Option<BTreeMap<String, i64>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Size {
    Small,
    Large,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Place {
    #[expect(dead_code, reason = "shown by Debug")]
    city: String,
}
