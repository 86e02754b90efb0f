//! Servers of which every caller has one of its own.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use super::{Place, counted, demo, json_of};
use crate::support::{lmcp, post, refusal, start, tool_names};
use serde_json::json;

/// How often the server was started.
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
    // Connections of one user are one caller, too.
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
