//! A hub among the hosts of a hub.

use serde_json::{Value, json};

use super::{DEAD, Hub, Place, json_of, url};
use crate::support::lmcp;

/// Returns the table of a host that is a hub.
fn hub_table(name: &str, hub: &Hub) -> String {
    let address = &hub.address;
    format!("[hosts.{name}]\nurl = 'http://{address}/mcp'\nhub = true\n")
}

/// Starts a second hub for the same test, with a folder of its own.
fn inner_hub(place: &Place, config: &str) -> Hub {
    let config = place.write("inner.toml", config, 0o600);
    let inner = Place(place.0.join("inner"));
    std::fs::create_dir_all(&inner.0).expect("tests may write here");
    let mut command = lmcp(&["hub", "-v", "--http", "0", "--config"]);
    command.arg(config);
    Hub::start(&inner, command)
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().expect("it is text")
}

#[test]
fn hosts_of_a_hub_are_called_through_it() {
    let place = Place::new("hubs-through");
    let (_one, first) = place.host("one", "one-state", "0");
    let (_two, second) = place.host("two", "two-state", "0");
    let inner = inner_hub(&place, &format!("{}{DEAD}", url("one", &first)));
    inner.structured("remote_jobs", &json!({ "host": "one", "host_wait": 60 }));
    let tokens = "[[token]]\nname = 'all'\nsecret = 'token-of-all'\n\
                  [[token]]\nname = 'ann'\nsecret = 'token-of-ann'\non_hosts = { hosts = ['two'] }\n";
    let table = hub_table("inner", &inner);
    let hub = place.hub(&format!("{tokens}{table}{}", url("two", &second)));
    let called = |who: &str, tool: &str, arguments: &Value| {
        let mut command = hub.calling(tool, arguments);
        command.env("LMCP_TOKEN", format!("token-of-{who}"));
        json_of(&command.output().expect("the binary was built"))
    };
    let shell = |host: &str| {
        let arguments = json!({ "host": host, "command": "echo hi", "host_wait": 60 });
        called("all", "remote_shell", &arguments)
    };
    let said = &shell("inner/one")["structuredContent"];
    let found = (&said["stdout"], &said["host"], &said["via"]);
    let expected = (&json!("hi\n"), &json!("inner/one"), &json!("http/http"));
    assert_eq!(found, expected, "{said}");
    // The inner hub reads the pattern after its name. The name alone means all its hosts.
    let arguments = json!({ "host": "inner/o*", "command": "echo hi" });
    let result = called("all", "remote_shell", &arguments);
    assert!(text(&result).contains("== 1 of 1 hosts did it"), "{result}");
    let arguments = json!({ "host": "inner", "command": "echo hi" });
    let result = called("all", "remote_shell", &arguments);
    assert!(text(&result).contains("== 1 of 2 hosts did it"), "{result}");
    let arguments = json!({ "host": "inner/one,two", "command": "echo hi" });
    let result = called("all", "remote_shell", &arguments);
    assert!(text(&result).contains("== 2 of 2 hosts did it"), "{result}");
    // Each failure names the hub where it happened.
    let result = shell("inner/nobody");
    assert!(
        text(&result).contains("there is no host `nobody`"),
        "{result}"
    );
    let arguments = json!({ "host": "inner/dead", "command": "true" });
    let result = called("all", "remote_shell", &arguments);
    assert_eq!(result["structuredContent"]["host"], "inner/dead");
    assert_eq!(result["structuredContent"]["error"]["began"], false);
    assert!(text(&result).contains("dead: down for"), "{result}");
    let result = shell("two/x");
    assert!(text(&result).contains("is no hub"), "{result}");
    let listed = called("all", "remote_list_hosts", &json!({}));
    let names = |listed: &Value| {
        let hosts = listed["structuredContent"]["hosts"].as_array().cloned();
        let hosts = hosts.expect("it is a list");
        let names = hosts.iter().map(|host| host["host"].clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&listed), ["inner", "inner/dead", "inner/one", "two"]);
    let listed = called("all", "remote_list_hosts", &json!({ "host": "inner/o*" }));
    assert_eq!(names(&listed), ["inner", "inner/one"]);
    // A token that may not use the inner hub reaches none of its hosts.
    let arguments = json!({ "host": "inner/one", "command": "true" });
    let result = called("ann", "remote_shell", &arguments);
    assert!(text(&result).contains("there is no host"), "{result}");
    assert_eq!(
        names(&called("ann", "remote_list_hosts", &json!({}))),
        ["two"]
    );
    drop(inner);
    let arguments = json!({ "host": "inner/one", "command": "true" });
    let result = called("all", "remote_shell", &arguments);
    assert!(text(&result).contains("the hub `inner`: "), "{result}");
    assert_eq!(result["structuredContent"]["error"]["began"], false);
}

#[test]
fn a_hub_that_names_itself_refuses_what_comes_back() {
    let place = Place::new("hubs-loop");
    let (_one, first) = place.host("one", "one-state", "0");
    let hub = place.hub(&url("one", &first));
    let config = format!("{}{}", url("one", &first), hub_table("me", &hub));
    place.write("hub.toml", &config, 0o600);
    let arguments = json!({ "host": "me/one", "command": "true", "host_wait": 60 });
    let result = loop {
        let result = hub.call("remote_shell", &arguments);
        // The hub checks its file every second.
        if !text(&result).contains("there is no host `me`") {
            break result;
        }
    };
    assert_eq!(result["isError"], true, "{result}");
    assert!(text(&result).contains("leads back to it"), "{result}");
}

#[test]
fn a_server_that_is_no_hub_is_told_from_one() {
    let place = Place::new("hubs-none");
    let (_one, first) = place.host("one", "one-state", "0");
    let hub = place.hub(&format!("{}hub = true\n", url("one", &first)));
    let status = hub.look("one");
    assert_eq!(status["state"], "down", "{status}");
    let words = status["reason"].as_str().expect("it is text");
    assert!(words.contains("it is no hub"), "{words}");
}
