//! What models and clients send beside what a tool publishes.

use lmcp_core::{Client, Cx, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{connect, server, text};

/// A tool as strict as they come.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The file.
    path: String,
    #[serde(default)]
    deep: bool,
    limit: Option<u8>,
    #[schemars(length(min = 1))]
    cursor: Option<String>,
    note: Option<String>,
    size: Option<Size>,
    #[serde(default)]
    edits: Vec<Edit>,
    secret: Option<u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
enum Size {
    Small,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "shown by `Debug`")]
struct Edit {
    old_string: String,
    count: Option<u8>,
}

async fn show(args: Args, _cx: Cx) -> String {
    let Args {
        path,
        deep,
        limit,
        cursor,
        note,
        size,
        edits,
        secret,
    } = args;
    format!("{path} {deep} {limit:?} {cursor:?} {note:?} {size:?} {edits:?} {secret:?}")
}

fn tool() -> Tool {
    Tool::new("show_file", show)
        .alias("path", ["file_path", "filename"])
        .alias("old_string", ["old_str"])
        .ignore(["description"])
        .unlisted(["secret"])
        .ask_for(["limit"])
        .also_called(["cat", "Read"])
        .read_only()
}

fn client() -> Client {
    let server = server().tool(tool()).start();
    server.expect("the tool is right").client()
}

const NOTHING: &str = "a false None None None None [] None";

#[tokio::test]
async fn null_and_empty_values_mean_absent_for_every_optional_argument() {
    let client = client();
    for empty in [json!(null), json!(""), json!([]), json!({})] {
        for argument in ["deep", "limit", "cursor", "size"] {
            let arguments = json!({ "path": "a", argument: empty });
            assert_eq!(
                text(&client, "show_file", arguments.clone()).await,
                NOTHING,
                "{arguments}"
            );
        }
    }
    let all = json!({ "path": "a", "deep": null, "limit": null, "cursor": null, "note": null, "size": null, "edits": null, "secret": null });
    assert_eq!(text(&client, "show_file", all).await, NOTHING);
    // What the type gives a meaning keeps it.
    let note = json!({ "path": "", "note": "" });
    assert_eq!(
        text(&client, "show_file", note).await,
        " false None None Some(\"\") None [] None"
    );
}

#[tokio::test]
async fn habits_of_models_are_understood() {
    let client = client();
    for arguments in [
        json!({ "file_path": "a" }),
        json!({ "filePath": "a", "description": "Shows a file" }),
        json!({ "filename": "a", "deep": "false" }),
    ] {
        assert_eq!(
            text(&client, "show_file", arguments.clone()).await,
            NOTHING,
            "{arguments}"
        );
    }
    let edits = json!({ "path": "a", "edits": "[{\"old_str\": \"x\", \"count\": \"2\"}]", "limit": "7", "secret": 3 });
    assert_eq!(
        text(&client, "show_file", edits).await,
        "a false Some(7) None None None [Edit { old_string: \"x\", count: Some(2) }] Some(3)"
    );
}

#[tokio::test]
async fn what_cannot_be_understood_is_refused_in_words() {
    let client = client();
    for (arguments, words) in [
        (
            json!({ "path": null }),
            "`/path`: expected string, got null",
        ),
        (
            json!({ "path": "a", "limit": "many" }),
            "`/limit`: expected integer, got string \"many\"",
        ),
        (
            json!({ "path": "a", "edits": 5 }),
            "`/edits`: expected array, got number 5",
        ),
        (
            json!({ "path": "a", "pth": "b" }),
            "`/pth` is not known; known: ",
        ),
        (
            json!({ "path": "a", "crsor": "b" }),
            "`/crsor` is not known; did you mean `cursor`?",
        ),
    ] {
        let result = client
            .call_tool("show_file", arguments.clone())
            .await
            .unwrap();
        let said = result.content[0].as_text().unwrap();
        assert!(
            result.is_error && said.contains(words),
            "{arguments}: {said}"
        );
    }
}

#[tokio::test]
async fn a_raw_tool_reads_its_arguments_likewise() {
    async fn raw(arguments: Value, _cx: Cx) -> String {
        arguments.to_string()
    }
    let schema = json!({
        "type": "object",
        "properties": { "path": { "type": "string" }, "limit": { "type": "integer" } },
        "required": ["path"],
    });
    let tool = Tool::raw("raw", schema.clone(), raw)
        .alias("path", ["file_path"])
        .read_only();
    let client = server().tool(tool).start().unwrap().client();
    let arguments = json!({ "file_path": "a", "limit": null, "other": 1 });
    assert_eq!(
        text(&client, "raw", arguments).await,
        r#"{"other":1,"path":"a"}"#
    );
    // What its author wrote is shown as it is.
    let list = client.request("tools/list", json!({})).await.unwrap();
    assert_eq!(list["tools"][0]["inputSchema"], schema);
}

#[tokio::test]
async fn none_of_it_is_published() {
    let list = client().request("tools/list", json!({})).await.unwrap();
    let shown = list["tools"][0]["inputSchema"].to_string();
    for hidden in [
        "file_path",
        "old_str\"",
        "description\":\"Shows",
        "secret",
        "cat",
        "additionalProperties",
        "null",
    ] {
        assert!(!shown.contains(hidden), "{hidden}: {shown}");
    }
    assert_eq!(
        list["tools"][0]["inputSchema"]["required"],
        json!(["path", "limit"])
    );
    let (mut peer, _serving) = connect(&server().tool(tool()).start().unwrap());
    peer.request(1, "tools/list", json!({})).await;
    let shown = peer.finish().await;
    let order: Vec<_> = ["path", "deep", "limit", "cursor", "note", "size", "edits"]
        .map(|name| shown.find(&format!("\"{name}\":{{")).unwrap())
        .into();
    assert!(
        order.is_sorted(),
        "not in the order they were written in: {shown}"
    );
}

#[tokio::test]
async fn who_calls_a_tool_by_another_name_is_told_the_right_one() {
    let client = client();
    for (name, near) in [
        ("cat", true),
        ("read", true),
        ("Read", true),
        ("show_fiel", true),
        ("showFile", true),
        ("mcp__files__show_file", true),
        ("files.cat", true),
        ("dance", false),
    ] {
        let error = client.call_tool(name, json!({})).await.unwrap_err();
        let hint = if near {
            "; did you mean `show_file`?"
        } else {
            ""
        };
        assert_eq!(error.message, format!("there is no tool `{name}`{hint}"));
    }
}

#[tokio::test]
async fn another_name_for_nothing_is_a_mistake_of_the_author() {
    let wrong = |tool: Tool| server().tool(tool).start().unwrap_err().to_string();
    let nothing = wrong(Tool::new("t", show).alias("pth", ["file"]).read_only());
    assert!(nothing.contains("`pth`, which is no argument"), "{nothing}");
    let twice = wrong(Tool::new("t", show).alias("path", ["cursor"]).read_only());
    assert!(twice.contains("`cursor` is an argument"), "{twice}");
}
