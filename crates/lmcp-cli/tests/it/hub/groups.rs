//! Groups of servers, each at a path of its own.

use std::{fs, io::BufReader, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use super::{Place, demo, until};
use crate::support::{ask, refusal, start, tool_names};

const GROUPS: &str = "[groups]\nweb = ['one']\ndata = ['two']\nboth = ['one', 'two']\n";

/// Returns the status, the headers and the JSON of a request at a path.
fn post_at(address: &str, path: &str, headers: &str, message: &Value) -> (u16, String, Value) {
    let body = message.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{headers}",
        body.len()
    );
    let (status, answer) = ask(address, &head, &body);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let json = serde_json::from_str(body).unwrap_or_default();
    (status, head.to_owned(), json)
}

fn names_at(address: &str, path: &str) -> Vec<String> {
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let (_, _, answer) = post_at(address, path, "", &list);
    let tools = answer["result"]["tools"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let names = tools.iter().filter_map(|tool| tool["name"].as_str());
    names.map(str::to_owned).collect()
}

fn call(tool: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": tool, "arguments": { "text": "x" } } })
}

fn place(name: &str, more: &str) -> (Place, std::path::PathBuf) {
    let place = Place::new(name);
    let text = format!("{more}{}{}{GROUPS}", demo("one"), demo("two"));
    let config = place.write("hub.toml", &text);
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).expect("it is ours");
    (place, config)
}

#[test]
fn a_group_shows_and_reaches_its_own_servers_and_no_other() {
    let (place, config) = place("hub-groups", "");
    let (_running, address) = place.http(&config);
    assert_eq!(tool_names(&address).len(), 8);
    for (path, count, first) in [
        ("/mcp/web", 4, "one__add"),
        ("/mcp/data/", 4, "two__add"),
        ("/mcp/both", 8, "one__add"),
    ] {
        let names = names_at(&address, path);
        assert_eq!((names.len(), &*names[0]), (count, first), "{path}");
    }
    for (path, tool, is_there) in [
        ("/mcp/web", "one__echo", true),
        ("/mcp/web", "two__echo", false),
        ("/mcp/data", "two__echo", true),
        ("/mcp", "two__echo", true),
    ] {
        let (_, _, answer) = post_at(&address, path, "", &call(tool));
        assert_eq!(
            answer.get("result").is_some(),
            is_there,
            "{path} {tool}: {answer}"
        );
    }
}

#[test]
fn a_session_is_good_at_its_own_path_alone() {
    let (place, config) = place("hub-group-sessions", "");
    let (_running, address) = place.http(&config);
    let open = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } });
    let paths = ["/mcp", "/mcp/web", "/mcp/data"];
    for opened_at in paths {
        let (_, head, _) = post_at(&address, opened_at, "", &open);
        let id = head
            .lines()
            .find_map(|line| line.strip_prefix("mcp-session-id: "));
        let session = format!(
            "mcp-protocol-version: 2025-06-18\r\nmcp-session-id: {}\r\n",
            id.expect("it opens a session")
        );
        for used_at in paths {
            let ping = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });
            let (status, ..) = post_at(&address, used_at, &session, &ping);
            let expected = if used_at == opened_at { 200 } else { 404 };
            assert_eq!(status, expected, "opened at {opened_at}, used at {used_at}");
        }
    }
}

#[test]
fn a_group_that_is_not_there_is_told_of_to_those_who_may_call() {
    let (place, config) = place(
        "hub-no-group",
        "[[token]]\nname = 'ann'\nsecret = 'anns-token'\n",
    );
    let (_running, address) = place.http(&config);
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let ann = "authorization: Bearer anns-token\r\n";
    let (status, _, answer) = post_at(&address, "/mcp/nope", ann, &list);
    assert_eq!(status, 404);
    let words = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(words.contains("no group `nope`"), "{answer}");
    for path in ["/mcp/nope", "/mcp/web"] {
        assert_eq!(post_at(&address, path, "", &list).0, 401, "{path}");
    }
    assert_eq!(post_at(&address, "/mcp/web", ann, &list).0, 200);
    assert_eq!(post_at(&address, "/other", ann, &list).0, 404);
}

#[test]
fn groups_choose_servers_and_change_with_the_file() {
    let (place, config) = place("hub-only-group", "");
    let (mut running, address, _) = start(place.hub(&config, &["--http", "0", "--only", "web"]));
    assert_eq!(names_at(&address, "/mcp").len(), 4);
    assert_eq!(names_at(&address, "/mcp/both").len(), 4);
    let mut said = BufReader::new(running.0.stderr.take().expect("stderr is a pipe"));
    place.write(
        "hub.toml",
        &format!("{}[groups]\nweb = ['one']\n", demo("one")),
    );
    until(&mut said, "1 servers now");
    assert_eq!(names_at(&address, "/mcp/web").len(), 4);
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    assert_eq!(post_at(&address, "/mcp/both", "", &list).0, 404);
    for (groups, words) in [
        ("web = ['none']", "group `web` names `none`"),
        ("'a/b' = ['one']", "group `a/b` cannot be part of a path"),
    ] {
        let text = format!("{}[groups]\n{groups}\n", demo("one"));
        let said = refusal(place.hub(&place.write("hub.toml", &text), &["--http", "0"]));
        assert!(said.contains(words), "{said}");
    }
}
