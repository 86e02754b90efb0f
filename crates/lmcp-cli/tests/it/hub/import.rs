//! `lmcp hub import`: the files of all clients on one machine, some of them broken. Their formats are tested in lmcp-hub.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Output};

use serde_json::json;

use super::Place;
use crate::support::{lmcp, tool_names};

/// Makes a home with files of all clients.
fn home(name: &str) -> Place {
    let place = Place::new(name);
    let demo =
        json!({ "command": env!("CARGO_BIN_EXE_lmcp"), "args": ["serve", "--demo", "--stdio"] });
    let other = json!({ "command": "other", "env": { "TOKEN": "hush" } });
    for (path, text) in [
        (
            ".claude.json",
            json!({ "mcpServers": { "demo": demo }, "projects": { "/p": { "mcpServers": { "bad": "hush" } } } }).to_string(),
        ),
        (
            "config/Claude/claude_desktop_config.json",
            json!({ "mcpServers": { "demo": demo } }).to_string(),
        ),
        (
            ".cursor/mcp.json",
            format!("// mine\n{}", json!({ "mcpServers": { "demo": other } })),
        ),
        (
            "config/Code/User/mcp.json",
            json!({ "servers": { "code": { "url": "https://x", "headers": { "K": "${input:key}" } } } }).to_string(),
        ),
        ("config/Code/User/settings.json", "{}".to_owned()),
        (
            ".codex/config.toml",
            "model = 'x'\n[mcp_servers.codex]\ncommand = hush\n".to_owned(),
        ),
        (
            ".gemini/settings.json",
            "{\n\"mcpServers\": {\n\"a\": { \"command\": hush } } }".to_owned(),
        ),
        (
            "config/opencode/opencode.jsonc",
            json!({ "mcp": { "open": { "type": "local", "command": ["open", "it"], "enabled": false } } }).to_string(),
        ),
    ] {
        let path = place.0.join(path);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("tests may write here");
        fs::write(path, text).expect("tests may write here");
    }
    place
}

fn import(place: &Place, words: &[&str]) -> Output {
    let mut command = lmcp(&["hub", "import"]);
    command.args(words).env("HOME", &place.0);
    command.env("XDG_CONFIG_HOME", place.0.join("config"));
    fs::create_dir_all(place.0.join("work")).expect("tests may write here");
    command.current_dir(place.0.join("work"));
    command
        .output()
        .expect("the binary was built for this test")
}

#[test]
fn all_clients_are_read_and_broken_ones_cost_nobody_else() {
    let place = home("hub-import-all");
    let output = import(&place, &[]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let tables: Vec<_> = text.lines().filter(|line| line.starts_with('[')).collect();
    let expected = ["code", "demo", "demo-2", "open"].map(|name| format!("[servers.{name}]"));
    assert_eq!(tables, expected, "{text}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    for words in [
        "`bad` is left out",
        "config.toml: line 3: it is no TOML",
        "settings.json: line 3: it is no JSON",
        "set the variable KEY",
        "chmod 600",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("hush"), "{said}");
    // A file without servers is not reported.
    assert!(!said.contains("Code/User/settings.json"), "{said}");
    let config = place.write("hub.toml", &format!("{text}\n[groups]\nmine = ['demo']\n"));
    let (_running, address, _) =
        crate::support::start(place.hub(&config, &["--http", "0", "--only", "mine"]));
    assert_eq!(tool_names(&address).len(), 4);
}

#[test]
fn a_file_that_is_named_must_be_there() {
    let place = home("hub-import-named");
    let output = import(&place, &["none.json"]);
    assert_eq!(output.status.code(), Some(2));
    let output = import(&place, &["../.gemini/settings.json"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("no servers were found"), "{said}");
    let output = import(&place, &["../config/opencode/opencode.jsonc"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("[servers.open]") && text.contains("disabled = true"),
        "{text}"
    );
}

#[test]
fn the_name_of_a_file_makes_no_line_of_ours() {
    let place = home("hub-import-lines");
    let work = place.0.join("work");
    fs::create_dir_all(&work).expect("tests may write here");
    let name = "a\nlmcp: all is well.json";
    let server = json!({ "mcpServers": { "a": { "command": "a" }, "b": 1 } });
    fs::write(work.join(name), server.to_string()).expect("tests may write here");
    for name in [name, "none\nlmcp: all is well"] {
        let output = import(&place, &[name]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("\\u{a}lmcp: all"), "{said}");
        assert!(!said.contains("\nlmcp: all"), "{said}");
    }
}

#[test]
fn files_of_the_current_folder_are_read_only_if_nobody_else_can_have_written_them() {
    let place = home("hub-import-here");
    let work = place.0.join("work");
    fs::create_dir_all(&work).expect("tests may write here");
    let file = work.join(".mcp.json");
    let server = json!({ "mcpServers": { "strange": { "command": "/strange" } } });
    fs::write(&file, server.to_string()).expect("tests may write here");
    let run = |mode: (u32, u32), words: &[&str]| {
        for (path, mode) in [(&work, mode.0), (&file, mode.1)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
        }
        let output = import(&place, words);
        let [text, said] = [&output.stdout, &output.stderr].map(|out| String::from_utf8_lossy(out));
        (text.contains("[servers.strange]"), said.into_owned())
    };
    let (is_read, said) = run((0o755, 0o644), &[]);
    assert!(is_read && said.contains(".mcp.json: 1 servers"), "{said}");
    for mode in [(0o755, 0o666), (0o777, 0o644)] {
        let (is_read, said) = run(mode, &[]);
        assert!(!is_read, "{mode:?}: {said}");
        assert!(said.contains(".mcp.json: it is left out"), "{said}");
        // A file that was named on the command line is trusted.
        let (is_read, said) = run(mode, &[".mcp.json"]);
        assert!(is_read, "{mode:?}: {said}");
    }
}
