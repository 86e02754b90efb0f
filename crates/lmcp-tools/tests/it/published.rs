//! What clients are shown of the tools: nothing that a model's provider refuses, and few words.

use std::path::Path;

use lmcp_core::{Caller, CallerTransport, Workplace, streams};
use lmcp_tools::{HostTools, NAMES};
use lmcp_wire::Content;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use crate::{
    picture::png,
    site::{Site, client, loopback},
    support::{Host, settings, text},
};

/// All tools, as a client sees them that nobody knows.
async fn tools(host: &Host) -> Vec<Value> {
    let list = host
        .client()
        .request("tools/list", json!({}))
        .await
        .unwrap();
    list["tools"].as_array().unwrap().clone()
}

#[tokio::test]
async fn no_provider_or_converter_refuses_a_schema() {
    let tools = tools(&Host::new()).await;
    assert_eq!(tools.len(), NAMES.len());
    for tool in tools {
        let (name, schema) = (&tool["name"], &tool["inputSchema"]);
        assert_eq!(schema["type"], "object", "{name}");
        check(name.as_str().unwrap(), schema);
        for required in schema["required"].as_array().into_iter().flatten() {
            let known = schema["properties"].get(required.as_str().unwrap());
            assert!(known.is_some(), "{name}: {required}");
        }
    }
}

/// Walks through a schema; what the members of `properties` are called is nobody's business.
fn check(at: &str, schema: &Value) {
    let object = schema
        .as_object()
        .unwrap_or_else(|| panic!("{at}: {schema} is no object"));
    for (keyword, value) in object {
        let at = format!("{at}/{keyword}");
        match keyword.as_str() {
            "properties" => {
                for (name, schema) in value.as_object().unwrap() {
                    check(&format!("{at}/{name}"), schema);
                }
            }
            "items" => check(&at, value),
            // Gemini and OpenAPI 3.0: one type, and null is none.
            "type" => assert!(value.is_string() && value != "null", "{at}: {value}"),
            // Gemini: a request with an empty value in an enum is refused.
            "enum" => {
                let fits = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
                assert!(value.as_array().unwrap().iter().all(fits), "{at}: {value}");
            }
            "description" | "required" | "minimum" | "maximum" | "minItems" | "maxItems" => {}
            // google-genai fails at a boolean `additionalProperties`; the strict modes of OpenAI and Anthropic refuse
            // `default`, `minLength`, `format`, `oneOf` and the like.
            other => panic!("{at}: `{other}` is refused somewhere"),
        }
    }
    // A strict mode makes an object without members of one whose members are not named.
    if object.get("type").is_some_and(|name| name == "object") {
        assert!(object.contains_key("properties"), "{at}: {schema}");
    }
    if object.get("type").is_some_and(|name| name == "array") {
        assert!(object.contains_key("items"), "{at}: {schema}");
    }
}

#[tokio::test]
async fn what_a_model_must_always_say_is_required() {
    let tools = tools(&Host::new()).await;
    for (name, required) in [
        ("read_file", json!(["path"])),
        ("write_file", json!(["path", "content"])),
        ("edit_file", json!(["path", "old_string", "new_string"])),
        ("search_files", json!(["pattern"])),
        ("shell", json!(["command"])),
        ("job_output", json!(["id"])),
        ("fetch", json!(["url"])),
    ] {
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
        assert_eq!(tool["inputSchema"]["required"], required, "{name}");
    }
}

/// What a model reads first is what it has to say. The order is that of the line: JSON that was read has none here.
#[tokio::test]
async fn what_must_be_said_is_shown_first() {
    let host = Host::new();
    let (near, far) = tokio::io::duplex(64 << 10);
    let (reader, writer) = tokio::io::split(far);
    let caller = Caller::new(CallerTransport::Memory);
    let (reading, mut asking) = tokio::io::split(near);
    let ask = async {
        let request = lmcp_testkit::request(1, "tools/list", json!({}));
        let line = format!("{request}\n");
        asking.write_all(line.as_bytes()).await.unwrap();
        BufReader::new(reading).lines().next_line().await.unwrap()
    };
    let shown = tokio::select! {
        served = host.server.serve(streams(reader, writer, caller)) => panic!("{served:?}"),
        line = ask => line.unwrap(),
    };
    for tool in tools(&host).await {
        let list: Vec<Value> = tool["inputSchema"]["required"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let names = list.iter().map(|name| format!("{name}:{{"));
        let begin = shown.find(&format!("\"name\":{}", tool["name"])).unwrap();
        let mut rest = shown[begin..].split_once("\"properties\":{").unwrap().1;
        for name in names {
            assert!(rest.starts_with(&name), "{}: {rest}", tool["name"]);
            rest = rest.split_once("},").map_or("", |(_, rest)| rest);
        }
    }
}

/// Clients read the whole list at every start, schemas of results included; `clients/tokens` bounds what of it a model reads.
#[tokio::test]
async fn the_whole_list_is_small() {
    let list = Value::from(tools(&Host::new()).await).to_string();
    assert!(list.len() < 28_000, "{} bytes", list.len());
}

#[tokio::test]
async fn schemas_of_results_are_small_and_without_words() {
    for tool in tools(&Host::new()).await {
        let schema = tool["outputSchema"].to_string();
        assert!(!schema.contains("\"description\":\""), "{schema}");
        assert!(
            schema.len() < 2000,
            "{}: {} bytes",
            tool["name"],
            schema.len()
        );
    }
}

/// One call of each tool that needs neither the network nor a job.
fn calls(dir: &Path) -> Vec<(&'static str, Value)> {
    let file = dir.join("file.txt").display().to_string();
    std::fs::write(&file, "one\ntwo\n").unwrap();
    vec![
        ("read_file", json!({ "path": file })),
        (
            "write_file",
            json!({ "path": file, "content": "one\ntwo\n" }),
        ),
        (
            "edit_file",
            json!({ "path": file, "old_string": "two", "new_string": "three" }),
        ),
        ("list_dir", json!({ "path": dir })),
        ("search_files", json!({ "pattern": "one", "path": file })),
        ("shell", json!({ "command": "true" })),
        ("jobs", json!({})),
        ("systeminfo", json!({ "sections": ["os"] })),
    ]
}

#[tokio::test]
async fn an_unset_argument_may_be_null_or_empty_or_absent() {
    let (host, dir) = (Host::new(), tempfile::tempdir().unwrap());
    let tools = tools(&host).await;
    for (name, call) in calls(dir.path()) {
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
        let unset: Vec<_> = tool["inputSchema"]["properties"]
            .as_object()
            .unwrap()
            .iter()
            .filter(|(argument, _)| call.get(argument.as_str()).is_none())
            .collect();
        let empty = |schema: &Value| match schema["type"].as_str() {
            Some("string") => json!(""),
            Some("array") => json!([]),
            Some("object") => json!({}),
            _ => Value::Null,
        };
        let all = |value: &dyn Fn(&Value) -> Value| {
            let mut call = call.clone();
            for (argument, schema) in &unset {
                call[argument.as_str()] = value(schema);
            }
            call
        };
        for call in [
            call.clone(),
            all(&|_| Value::Null),
            all(&empty),
            all(&|_| json!("")),
        ] {
            std::fs::write(dir.path().join("file.txt"), "one\ntwo\n").unwrap();
            let result = host.call(name, call.clone()).await;
            assert!(!result.is_error, "{name} {call}: {}", text(&result));
        }
    }
}

/// Strict converters give every argument that they know of a value. The test above leaves out the tools that need a job,
/// and arguments that are taken and not shown.
#[tokio::test]
async fn an_empty_value_is_absent_also_where_the_argument_is_not_shown() {
    let (host, dir) = (Host::new(), tempfile::tempdir().unwrap());
    let file = dir.path().join("file.txt");
    let started = json!({ "command": "sleep 300", "argv": [], "cwd": "", "log": "", "env": [] });
    let id = host.value("shell_bg", started).await["id"].clone();
    for (name, call) in [
        ("shell", json!({ "command": "true", "argv": [], "cwd": "" })),
        ("shell", json!({ "command": "", "argv": ["true"] })),
        ("list_dir", json!({ "path": dir.path(), "cursor": "" })),
        (
            "edit_file",
            json!({ "path": file, "old_string": "one", "new_string": "1", "edits": [], "if_hash": "" }),
        ),
        (
            "edit_file",
            json!({ "path": "", "old_string": "", "new_string": "", "edits": [{ "path": file, "old_string": "one", "new_string": "1" }] }),
        ),
        (
            "write_file",
            json!({ "path": file, "content": "x", "if_hash": "" }),
        ),
        ("read_file", json!({ "path": file, "paths": [] })),
        ("read_file", json!({ "path": "", "paths": [file] })),
        (
            "search_files",
            json!({ "pattern": "one", "query": "", "path": file, "cursor": "" }),
        ),
        (
            "job_output",
            json!({ "id": id, "wait_for": "", "search": "", "view": "" }),
        ),
        ("job_stop", json!({ "id": id, "signal": "" })),
    ] {
        std::fs::write(&file, "one\ntwo\n").unwrap();
        let result = host.call(name, call.clone()).await;
        assert!(!result.is_error, "{name} {call}: {}", text(&result));
    }
}

#[tokio::test]
async fn what_models_send_to_other_tools_is_understood() {
    let (host, dir) = (Host::new(), tempfile::tempdir().unwrap());
    let file = dir.path().join("file.txt").display().to_string();
    std::fs::write(&file, "one\ntwo\n").unwrap();
    for (name, call, part) in [
        (
            "read_file",
            json!({ "file_path": file, "limit": "1" }),
            "one",
        ),
        (
            "read_file",
            json!({ "absolute_path": file, "offset": 0 }),
            "two",
        ),
        (
            "shell",
            json!({ "command": "echo hi", "description": "Says hi", "timeout": "10" }),
            "hi",
        ),
        (
            "shell",
            json!({ "cmd": "pwd", "workdir": dir.path(), "env": {} }),
            dir.path().to_str().unwrap(),
        ),
        (
            "shell",
            json!({ "command": "echo $A$B", "env": ["A=1", "B=2=3"] }),
            "12=3",
        ),
        (
            "shell",
            json!({ "command": "echo $A", "env": { "A": 8080 } }),
            "8080",
        ),
        (
            "shell",
            json!({ "command": "echo $A", "env": "{\"A\": \"x\"}" }),
            "x",
        ),
        (
            "shell",
            json!({ "command": "sleep 5", "run_in_background": true }),
            "job",
        ),
        (
            "edit_file",
            json!({ "file_path": file, "old_str": "one", "new_str": "1" }),
            ": changed line",
        ),
        (
            "edit_file",
            json!({ "path": file, "edits": "[{\"oldText\": \"two\", \"newText\": \"2\"}]" }),
            ": changed line",
        ),
        (
            "edit_file",
            json!({ "path": file, "old_string": "1", "new_string": "one", "edits": [{ "old_string": "2", "new_string": "two" }] }),
            " in 2 places",
        ),
        (
            "search_files",
            json!({ "query": "one", "path": file, "glob": "*.txt", "-C": 1 }),
            "one",
        ),
        ("list_dir", json!({ "directory": dir.path() }), "file.txt"),
        ("read_file", json!({ "path": file, "paths": [file] }), "one"),
    ] {
        let result = host.call(name, call.clone()).await;
        assert!(
            !result.is_error && text(&result).contains(part),
            "{name} {call}: {}",
            text(&result)
        );
    }
}

#[tokio::test]
async fn other_names_of_tools_lead_to_ours() {
    let client = Host::new().client();
    for (name, meant) in [
        ("bash", "shell"),
        ("Bash", "shell"),
        ("execute_command", "shell"),
        ("Read", "read_file"),
        ("str_replace", "edit_file"),
        ("MultiEdit", "edit_file"),
        ("Write", "write_file"),
        ("Grep", "search_files"),
        ("Glob", "search_files"),
        ("LS", "list_dir"),
        ("WebFetch", "fetch"),
        ("WebSearch", "web_search"),
        ("BashOutput", "job_output"),
        ("KillShell", "job_stop"),
    ] {
        let error = client.call_tool(name, json!({})).await.unwrap_err();
        let words = format!("there is no tool `{name}`; did you mean `{meant}`?");
        assert_eq!(error.message, words);
    }
}

#[tokio::test]
async fn instructions_are_three_lines_that_name_the_place() {
    let (state, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut settings = settings(state.path());
    settings.roots = vec![root.path().to_owned()];
    settings.shell = Some("/bin/sh".into());
    let tell = HostTools::new(settings).unwrap().instructions();
    let inside = root.path().canonicalize().unwrap().join("inside");
    std::fs::create_dir(&inside).unwrap();
    let caller = Caller::new(CallerTransport::Unix).working_at(Workplace::new(&inside));
    assert!(tell(&caller).contains(inside.to_str().unwrap()));
    let instructions = tell(&Caller::new(CallerTransport::Memory));
    assert_eq!(instructions.lines().count(), 3, "{instructions}");
    for part in [
        root.path().to_str().unwrap(),
        "sh",
        "nothing outside of",
        "jobs",
    ] {
        assert!(instructions.contains(part), "{part}: {instructions}");
    }
}

#[tokio::test]
async fn clients_that_show_structure_alone_get_text_with_real_line_ends() {
    let (host, dir) = (Host::new(), tempfile::tempdir().unwrap());
    let file = dir.path().join("file.txt");
    std::fs::write(&file, "one\ntwo\n").unwrap();
    for name in ["claude-code", "codex-mcp-client"] {
        let client = host.client().named(name);
        for (tool, call) in [
            ("read_file", json!({ "path": file })),
            ("shell", json!({ "command": "printf 'one\\ntwo\\n'" })),
            (
                "search_files",
                json!({ "pattern": "one|two", "path": file }),
            ),
        ] {
            let result = client.call_tool(tool, call).await.unwrap();
            assert_eq!(result.structured_content, None, "{name} {tool}");
            let said = text(&result);
            assert!(
                said.contains("one\n") && said.contains("two"),
                "{name} {tool}: {said}"
            );
        }
    }
}

#[tokio::test]
async fn clients_that_show_structure_alone_get_pictures() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("picture.png");
    std::fs::write(&file, png(3, 4, 60)).unwrap();
    let site = Site::of("image/png", png(3, 4, 60));
    for name in ["claude-code", "codex-mcp-client"] {
        let client = client(loopback()).named(name);
        for (tool, call) in [
            ("read_file", json!({ "path": file })),
            ("fetch", json!({ "url": site.url("/") })),
        ] {
            let result = client.call_tool(tool, call).await.unwrap();
            assert_eq!(result.structured_content, None, "{name} {tool}");
            let Some(Content::Image(image)) = result.content.get(1) else {
                panic!("{name} {tool}: {result:?}");
            };
            assert_eq!(image.mime_type, "image/png");
        }
    }
}
