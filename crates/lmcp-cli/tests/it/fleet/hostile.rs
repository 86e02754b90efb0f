//! A host in wrong hands gets only its own token, cannot ask callers anything, and cannot speak for another host.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use super::{Place, read, token};
use crate::support::{Running, post};

/// Starts the host, and returns the table that leads to it.
fn hostile(place: &Place, name: &str, more: &[&str]) -> (Running, String) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/fleet/hostile.py");
    let mut command = Command::new("python3");
    command.args([script, &place.path(&format!("{name}.seen"))]);
    let child = command.args(more).stdout(Stdio::piped()).spawn();
    let mut running = Running(child.expect("there is python3"));
    let said = running.0.stdout.take().expect("stdout is a pipe");
    let mut port = String::new();
    let read = BufReader::new(said).read_line(&mut port);
    read.expect("it says where it listens");
    place.write(&format!("{name}.token"), &format!("token-of-{name}"), 0o600);
    let address = format!("127.0.0.1:{}", port.trim());
    (running, super::url(name, &address))
}

/// Calls `remote_shell` with the token of the hub, as a client that declares every capability. Returns the answer.
fn called(address: &str, command: &str) -> Value {
    let arguments = json!({ "host": "far", "command": command, "host_wait": 60 });
    let can = json!({ "elicitation": { "form": {}, "url": {} }, "sampling": {}, "roots": {} });
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": can,
    });
    let params = json!({ "name": "remote_shell", "arguments": arguments, "_meta": meta });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let headers = "accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n\
                   mcp-method: tools/call\r\nmcp-name: remote_shell\r\nmcp-param-host: far\r\n\
                   authorization: Bearer token-of-ann\r\n";
    let (status, answer) = post(address, headers, &message);
    assert_eq!(status, 200, "{answer}");
    answer["result"].clone()
}

#[test]
fn a_host_in_wrong_hands_learns_no_token_and_asks_nobody() {
    let place = Place::new("fleet-hostile");
    let (_far, table) = hostile(&place, "far", &[]);
    let hub = place.hub(&format!("{}{table}", token("ann", "")));
    for command in ["ask", "task"] {
        let result = called(&hub.address, command);
        assert_eq!(result["isError"], true, "{result}");
        assert_eq!(result["resultType"], "complete", "{result}");
        assert!(!result.to_string().contains("password"), "{result}");
    }
    let result = called(&hub.address, "lie");
    let place_said = &result["structuredContent"];
    assert_eq!(place_said, &json!({ "host": "far", "via": "http" }));
    let last = result["content"].as_array().and_then(|all| all.last());
    assert_eq!(last.expect("it is a list")["text"], "[far via http]");
    let seen = read(&place.0.join("far.seen"));
    assert!(seen.contains("Bearer token-of-far"), "{seen}");
    assert!(!seen.contains("token-of-ann"), "{seen}");
    // The host does not learn the name of the caller, or its capabilities either.
    assert!(
        !seen.contains("ann") && !seen.contains("elicitation"),
        "{seen}"
    );
}

#[test]
fn the_reason_of_one_host_is_no_line_about_another() {
    let place = Place::new("fleet-reason");
    let reason = "gone)\nnear: UP for 5 s, via http";
    let (_far, table) = hostile(&place, "far", &[reason]);
    let hub = place.hub(&table);
    while hub.look("far")["state"] != "down" {}
    let listed = hub.call("remote_list_hosts", &json!({}));
    let text = listed["content"][0]["text"].as_str().expect("it is text");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("near: UP"), "{text}");
}
