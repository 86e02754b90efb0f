//! Servers that are started separately for every caller.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::Path,
};

use super::{Place, counted, demo, json_of};
use crate::support::{lmcp, post, refusal, start, tool_names};
use serde_json::{Value, json};

/// Returns how often the server was started.
fn starts(place: &Place) -> usize {
    let text = fs::read_to_string(place.0.join("starts"));
    text.map_or(0, |text| text.lines().count())
}

fn private(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("it is ours");
}

#[test]
fn a_caller_has_a_server_of_its_own_for_all_its_sessions() {
    let place = Place::new("hub-callers");
    let tokens = "[[token]]\nname = 'ann'\nsecret = 'anns-token'\n[[token]]\nname = 'bob'\nsecret = 'bobs-token'\n";
    let text = format!("{tokens}{}isolate = 'caller'\n", counted("db", &place.0));
    let config = place.write("hub.toml", &text);
    private(&config);
    let socket = place.0.join("hub.sock");
    let mut command = place.hub(&config, &["--http", "0", "--unix"]);
    command.arg(&socket);
    let (_running, address, _) = start(command);
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "db__echo", "arguments": { "text": "x" } } });
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let ann = "authorization: Bearer anns-token\r\n";
    assert_eq!(post(&address, ann, &list).0, 200);
    let listed = starts(&place);
    for (token, servers) in [("anns", 1), ("bobs", 2), ("anns", 2), ("bobs", 2)] {
        let header = format!("authorization: Bearer {token}-token\r\n");
        let (_, answer) = post(&address, &header, &call);
        assert_eq!(answer["result"]["content"][0]["text"], "x", "{answer}");
        assert_eq!(starts(&place) - listed, servers, "after a call of {token}");
    }
    // All connections of one user are one caller.
    for _ in 0..2 {
        let mut command = lmcp(&["call", "db__echo", "text=x", "--json", "--at"]);
        let output = command.arg(&socket).output();
        let output = output.expect("the binary was built for this test");
        assert_eq!(json_of(&output)["content"][0]["text"], "x");
        assert_eq!(starts(&place) - listed, 3);
    }
}

#[test]
fn strangers_share_a_server_only_where_they_are_one_user() {
    let place = Place::new("hub-strangers");
    let config = place.write("hub.toml", &format!("{}isolate = 'caller'\n", demo("one")));
    for option in ["--any-local-user", "--allow-remote"] {
        let said = refusal(place.hub(&config, &["--http", "0", option]));
        assert!(said.contains("nobody knows who calls"), "{said}");
        assert!(said.contains("[[token]]"), "{said}");
    }
    let (_running, address) = place.http(&config);
    assert_eq!(tool_names(&address).len(), 4);
}

/// A server with one tool that starts a task. It lets every caller reach the task.
const TASK: &str = r#"
import json, sys
task = {"taskId": "1", "status": "working", "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": None}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method = message["method"]
    if method == "server/discover":
        result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}}
    elif method == "tools/list":
        result = {"tools": [{"name": "wait", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call" and message["params"].get("arguments", {}).get("end"):
        sys.exit()
    elif method == "tools/call":
        result = {"resultType": "task", **task}
    elif method.startswith("tasks/"):
        result = {"resultType": "complete", **task}
    else:
        result = {}
    result["_meta"] = {"io.modelcontextprotocol/serverInfo": {"name": "task", "version": "1"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

/// Returns a request of a client that knows tasks.
fn modern(method: &str, params: Value) -> Value {
    let mut message = lmcp_testkit::request(1, method, params);
    let declared = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = declared;
    message
}

/// Returns the answer on a unix socket, where the caller is the user of this test.
fn on_socket(path: &Path, message: &Value) -> Value {
    let mut stream = UnixStream::connect(path).expect("it listens");
    writeln!(stream, "{message}").expect("it reads");
    let mut line = String::new();
    let read = BufReader::new(stream).read_line(&mut line);
    read.expect("it answers");
    serde_json::from_str(&line).expect("it is JSON")
}

#[test]
fn a_bridge_and_a_hub_give_nobody_the_task_of_another() {
    let place = Place::new("hub-owners");
    let script = place.write("task.py", TASK);
    let script = script.display().to_string();
    let server = format!("[servers.one]\ncommand = 'python3'\nargs = ['{script}']\n");
    let config = place.write("hub.toml", &server);
    let token = place.write("token", "a-token-of-somebody-else\n");
    private(&token);
    for (way, tool) in [("hub", "one__wait"), ("bridge", "wait")] {
        let socket = place.0.join(format!("{way}.sock"));
        let mut command = match way {
            "hub" => place.hub(&config, &[]),
            _ => lmcp(&["bridge"]),
        };
        command.args(["--http", ":0", "--unix"]).arg(&socket);
        command.arg("--token-file").arg(&token);
        if way == "bridge" {
            command.args(["--", "python3", &script]);
        }
        let (_running, address, _) = start(command);
        let call = modern("tools/call", json!({ "name": tool, "arguments": {} }));
        let headers = |method: &str, name: &str| {
            format!(
                "authorization: Bearer a-token-of-somebody-else\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: \
                 {method}\r\nmcp-name: {name}\r\naccept: application/json, text/event-stream\r\n"
            )
        };
        let (_, answer) = post(&address, &headers("tools/call", tool), &call);
        let id = answer["result"]["taskId"].as_str();
        let id = id.unwrap_or_else(|| panic!("{way}: {answer}"));
        let get = modern("tasks/get", json!({ "taskId": id }));
        let (_, answer) = post(&address, &headers("tasks/get", id), &get);
        assert_eq!(answer["result"]["status"], "working", "{way}: {answer}");
        for method in ["tasks/get", "tasks/cancel"] {
            let answer = on_socket(&socket, &modern(method, json!({ "taskId": id })));
            assert_eq!(answer["error"]["code"], -32602, "{way}: {answer}");
        }
    }
}

/// Asks a bridge or a hub, as a caller with a token.
fn asked(address: &str, method: &str, name: &str, params: Value) -> Value {
    let headers = format!(
        "authorization: Bearer a-token-of-somebody-else\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: \
         {method}\r\nmcp-name: {name}\r\naccept: application/json, text/event-stream\r\n"
    );
    post(address, &headers, &modern(method, params)).1
}

#[test]
fn the_task_of_another_bridge_or_hub_or_of_an_earlier_process_is_unknown() {
    let place = Place::new("hub-starts");
    let script = place.write("task.py", TASK);
    let script = script.display().to_string();
    let token = place.write("token", "a-token-of-somebody-else\n");
    private(&token);
    let server = format!("[servers.one]\ncommand = 'python3'\nargs = ['{script}']\n");
    for (way, tool) in [("hub", "one__wait"), ("bridge", "wait")] {
        let run = |name: &str| {
            let mut command = match way {
                "hub" => place.hub(&place.write(name, &server), &[]),
                _ => lmcp(&["bridge"]),
            };
            command.env("XDG_STATE_HOME", place.0.join("state"));
            command.args(["--http", ":0", "--token-file"]).arg(&token);
            if way == "bridge" {
                command.args(["--", "python3", &script]);
            }
            start(command)
        };
        let ((_one, one, _), (_two, two, _)) = (run("one.toml"), run("two.toml"));
        let begin = |address: &str| {
            let params = json!({ "name": tool, "arguments": {} });
            let answer = asked(address, "tools/call", tool, params);
            let id = answer["result"]["taskId"].as_str();
            id.unwrap_or_else(|| panic!("{way}: {answer}")).to_owned()
        };
        let get =
            |address: &str, id: &str| asked(address, "tasks/get", id, json!({ "taskId": id }));
        let (own, foreign) = (begin(&one), begin(&two));
        assert_eq!(get(&one, &own)["result"]["status"], "working", "{way}");
        assert_eq!(
            get(&one, &foreign)["error"]["code"],
            -32602,
            "{way}: another"
        );
        let end = json!({ "name": tool, "arguments": { "end": true } });
        let ended = asked(&one, "tools/call", tool, end);
        assert!(ended["error"].is_object(), "{way}: {ended}");
        assert_eq!(
            get(&one, &own)["error"]["code"],
            -32602,
            "{way}: while it is gone"
        );
        // The new process gives the id of the old one again.
        let again = begin(&one);
        assert_eq!(get(&one, &again)["result"]["status"], "working", "{way}");
        assert_eq!(
            get(&one, &own)["error"]["code"],
            -32602,
            "{way}: an earlier start"
        );
    }
}
