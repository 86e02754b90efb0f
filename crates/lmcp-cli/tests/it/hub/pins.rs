//! `lmcp hub --pin` and `lmcp hub approve`.

use std::fs;

use serde_json::json;

use super::{Place, demo, status};
use crate::support::{lmcp, post, refusal, start, tool_names};

/// Makes a hub that has seen the server `one` with another description of `echo` than it has now.
fn seen_otherwise(name: &str) -> (Place, std::path::PathBuf) {
    let place = Place::new(name);
    let config = place.write("hub.toml", &demo("one"));
    let (running, address) = place.http(&config);
    assert_eq!(tool_names(&address).len(), 4);
    drop(running);
    let path = place.0.join("state/hub/one.seen");
    let seen = fs::read_to_string(&path).expect("it is kept before anybody is told");
    let mut seen: serde_json::Value = serde_json::from_str(&seen).expect("it is JSON");
    seen["tools"]["echo"]["description"] = json!("Did \u{200b}something else.");
    place.write("state/hub/one.seen", &seen.to_string());
    (place, config)
}

fn approve(place: &Place, words: &[&str]) -> String {
    let mut command = lmcp(&["hub", "approve"]);
    command
        .args(words)
        .env("LMCP_STATE_DIR", place.0.join("state"));
    let output = command
        .output()
        .expect("the binary was built for this test");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_changed_tool_is_refused_until_it_is_approved_on_the_running_hub() {
    let (place, config) = seen_otherwise("hub-pins");
    let (_running, address, _) = start(place.hub(&config, &["--http", "0", "--pin"]));
    let names = tool_names(&address);
    assert_eq!(names, ["one__add", "one__greet", "one__wait"]);
    let changed = json!([{ "tool": "echo", "parts": ["description"], "held": true }]);
    assert_eq!(status(&address, "one")["changed"], changed);
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "one__echo", "arguments": { "text": "x" } } });
    let (_, refused) = post(&address, "", &call);
    let words = refused["error"]["message"].as_str().unwrap_or_default();
    for part in ["description", "`lmcp hub approve one/echo`"] {
        assert!(words.contains(part), "{refused}");
    }
    let shown = approve(&place, &[]);
    for part in [
        "one/echo",
        "  description",
        r"- Did \u{200b}something else.",
        "+ ",
    ] {
        assert!(shown.contains(part), "{shown}");
    }
    assert_eq!(tool_names(&address).len(), 3, "to look is not to approve");
    let done = approve(&place, &["one/echo"]);
    assert!(done.contains("approved one/echo"), "{done}");
    // The hub notices the approval by itself.
    while tool_names(&address).len() < 4 {
        std::thread::yield_now();
    }
    let (_, answer) = post(&address, "", &call);
    assert_eq!(answer["result"]["content"][0]["text"], "x", "{answer}");
    assert_eq!(status(&address, "one").get("changed"), None);
    assert!(approve(&place, &[]).contains("nothing has changed"));
}

#[test]
fn without_a_pin_a_changed_tool_is_only_marked() {
    let (place, config) = seen_otherwise("hub-unpinned");
    let (_running, address) = place.http(&config);
    assert_eq!(tool_names(&address).len(), 4);
    let changed = &status(&address, "one")["changed"][0];
    assert_eq!(
        (&changed["tool"], &changed["held"]),
        (&json!("echo"), &json!(false))
    );
}

#[test]
fn the_file_pins_all_servers_or_single_ones() {
    let (place, _) = seen_otherwise("hub-pin-file");
    for (text, count) in [
        (format!("pin = true\n{}", demo("one")), 3),
        (format!("{}pin = true\n", demo("one")), 3),
        (format!("pin = true\n{}pin = false\n", demo("one")), 4),
    ] {
        let config = place.write("hub.toml", &text);
        let (_running, address) = place.http(&config);
        assert_eq!(tool_names(&address).len(), count, "{text}");
    }
}

#[test]
fn nothing_is_pinned_or_approved_where_nothing_is_kept() {
    let place = Place::new("hub-pin-nowhere");
    let config = place.write("hub.toml", &demo("one"));
    let mut command = place.hub(&config, &["--http", "0", "--pin"]);
    command.env("LMCP_STATE_DIR", "none");
    let said = refusal(command);
    assert!(said.contains("--state-dir"), "{said}");
    let mut command = lmcp(&["hub", "approve", "one"]);
    command.env("LMCP_STATE_DIR", "none");
    let said = refusal(command);
    assert!(said.contains("nothing is kept"), "{said}");
    let (_running, address) = place.http(&config);
    assert_eq!(tool_names(&address).len(), 4);
    let mut command = lmcp(&["hub", "approve", "two"]);
    command.env("LMCP_STATE_DIR", place.0.join("state"));
    let said = refusal(command);
    assert!(
        said.contains("`two`") && said.contains("there are one"),
        "{said}"
    );
}
