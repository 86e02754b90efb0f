//! The options, the places where they can be set, and the values that are refused.

use serde_json::json;

use crate::support::{file, lmcp, post, refusal, start, tool_names};

const SERVE: [&str; 4] = ["serve", "--demo", "--http", "127.0.0.1:0"];

#[test]
fn only_the_tools_that_were_picked_are_there() {
    for (picks, expected) in [
        ("echo,add", &["add", "echo"][..]),
        ("-wait", &["add", "echo", "greet"]),
        ("-wait,-greet", &["add", "echo"]),
        ("echo,add,-add", &["echo"]),
    ] {
        let mut command = lmcp(&SERVE);
        command.args(["--tools", picks]);
        let (_running, address, _) = start(command);
        assert_eq!(tool_names(&address), expected, "{picks}");
        let params = json!({ "name": "wait", "arguments": { "seconds": 0 } });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let (_, answer) = post(&address, "", &call);
        assert!(
            answer["error"].is_object(),
            "it cannot be called either: {answer}"
        );
    }
}

#[test]
fn an_unknown_tool_is_refused_with_the_known_ones() {
    for picks in ["ecko", "-ecko", "echo,ecko", "echo,", "--demo"] {
        let mut command = lmcp(&SERVE);
        command.args(["--tools", picks]);
        let said = refusal(command);
        assert!(said.contains("there is no tool `"), "{said}");
        assert!(
            said.contains("hint: there are add, echo, greet, wait"),
            "{said}"
        );
    }
}

#[test]
fn an_unknown_option_or_value_stops_the_start() {
    for (words, why) in [
        (
            ["--raed-only", "--read-only"],
            "unexpected argument '--raed-only'",
        ),
        (["--memory", "much"], "invalid value 'much' for '--memory "),
        (["--changes-kept", "-1"], "unexpected argument '-1'"),
        (
            ["--change-bytes-kept", "1K"],
            "invalid value '1K' for '--change-bytes-kept ",
        ),
        (
            ["--shell", "no-such-shell"],
            "there is no shell `no-such-shell`",
        ),
        (
            ["--search-backend", "google"],
            "there is no search backend `google`",
        ),
        (
            ["--tools", "shell,-read_file"],
            "`-read_file` leaves out a tool that --tools does not offer",
        ),
    ] {
        let mut command = lmcp(&["serve", "--http", "127.0.0.1:0"]);
        command.args(words);
        let said = refusal(command);
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn a_file_says_what_the_command_line_can_and_no_more() {
    let config = file(
        "options-file",
        "name = 'boxes'\ndemo = true\nhttp = ':0'\ntools = ['-wait']\n",
        0o644,
    );
    let mut command = lmcp(&["serve", "--config"]);
    command.arg(&config);
    let (_running, address, _) = start(command);
    assert_eq!(tool_names(&address), ["add", "echo", "greet"]);
    assert_eq!(name(&address), "boxes");
    let mut command = lmcp(&["serve", "--name", "line", "--config"]);
    command.arg(&config).env("LMCP_NAME", "environment");
    let (_running, address, _) = start(command);
    assert_eq!(name(&address), "line");
    let mut command = lmcp(&["serve"]);
    command
        .env("LMCP_CONFIG", &config)
        .env("LMCP_NAME", "environment");
    let (_running, address, _) = start(command);
    assert_eq!(name(&address), "environment");
}

#[test]
fn a_mistake_in_a_file_is_named_with_its_line() {
    let config = file("options-mistake", "demo = true\nread-only = true\n", 0o644);
    let mut command = lmcp(&SERVE);
    command.arg("--config").arg(&config);
    let said = refusal(command);
    assert!(
        said.contains(&format!(
            "{}:2: unknown field `read-only`",
            config.display()
        )),
        "{said}"
    );
    let mut command = lmcp(&SERVE);
    command.args(["--config", "/nowhere"]);
    assert!(refusal(command).contains("cannot read /nowhere"));
}

#[test]
fn a_mistake_in_the_environment_is_named_with_its_variable() {
    for (variable, value) in [
        ("LMCP_HOST", "nonsense"),
        ("LMCP_PORT", "99999"),
        ("LMCP_TRANSPORT", "tcp"),
        ("LMCP_NAME", ""),
        ("LMCP_SEARXNG_URL", ""),
        ("LMCP_STATE_DIR", ""),
    ] {
        let mut command = lmcp(&["serve", "--demo"]);
        command.env(variable, value);
        let said = refusal(command);
        assert!(
            said.starts_with(&format!("error: {variable} is ")),
            "{said}"
        );
    }
}

#[test]
fn a_misspelt_variable_stops_the_start() {
    for command in [&["serve", "--demo"][..], &["run", "--", "true"]] {
        let mut command = lmcp(command);
        command.env("LMCP_READONLY", "true");
        let said = refusal(command);
        assert!(
            said.starts_with("error: LMCP_READONLY is set, and there is no such variable"),
            "{said}"
        );
    }
    // Variables of other programs of the family are ignored.
    let mut command = lmcp(&["serve", "--demo", "--stdio"]);
    for name in ["LMCP_HUB_LOG", "LMCP_TOOLS_DIR", "LMCP_IDENTITY_FILE"] {
        command.env(name, "/nowhere");
    }
    command.stdin(std::process::Stdio::null());
    assert!(command.output().unwrap().status.success());
}

#[test]
fn the_variables_of_the_seed_say_where_to_listen() {
    let mut command = lmcp(&["serve", "--demo"]);
    command.env("LMCP_HOST", "127.0.0.2").env("LMCP_PORT", "0");
    let (_running, address, _) = start(command);
    assert!(address.starts_with("127.0.0.2:"), "{address}");
    assert_eq!(name(&address), "lmcp");
    let mut command = lmcp(&["serve", "--demo"]);
    command
        .env("LMCP_TRANSPORT", "stdio")
        .stdin(std::process::Stdio::null());
    assert!(command.output().unwrap().status.success());
}

#[test]
fn addresses_may_be_short() {
    for address in ["localhost:0", ":0", "0"] {
        let (_running, address, _) = start(lmcp(&["serve", "--demo", "--http", address]));
        assert!(address.starts_with("127.0.0.1:"), "{address}");
    }
}

#[test]
fn what_browsers_never_send_is_refused() {
    for (option, value) in [
        ("--allow-origin", "*"),
        ("--allow-origin", "app.example"),
        ("--allow-origin", "https://app.example/"),
        ("--allow-host", "http://app.example"),
        ("--http", "app.example:80"),
    ] {
        let mut command = lmcp(&SERVE[..2]);
        command.args([option, value]);
        let said = refusal(command);
        assert!(
            said.contains(&format!("invalid value '{value}' for '{option} ")),
            "{said}"
        );
    }
}

#[test]
fn without_demo_the_tools_of_the_host_are_served() {
    let (_running, address, _) = start(lmcp(&["serve", "--http", ":0"]));
    let names = tool_names(&address);
    for name in [
        "shell",
        "jobs",
        "read_file",
        "edit_file",
        "search_files",
        "fetch",
        "systeminfo",
    ] {
        assert!(names.contains(&name.to_owned()), "{names:?}");
    }
    assert!(!names.contains(&"echo".to_owned()));
}

#[test]
fn a_root_must_be_there() {
    let said = refusal(lmcp(&["serve", "--http", ":0", "--root", "/nowhere"]));
    assert!(said.contains("cannot open the root /nowhere"), "{said}");
}

#[test]
fn the_help_fits_a_terminal() {
    let proxy = &["proxy", "--help"][..];
    for arguments in [
        &["--help"][..],
        &["serve", "--help"],
        &["serve", "-h"],
        proxy,
        &["run", "--help"],
        &["bridge", "--help"],
        &["hub", "--help"],
        &["hub", "status", "--help"],
        &["hub", "import", "--help"],
        &["hub", "approve", "--help"],
        &["hub", "push", "--help"],
    ] {
        let output = lmcp(arguments).output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        if arguments[0] == "serve" {
            for heading in [
                "Tools:",
                "Where to listen:",
                "Who may call:",
                "Other options:",
            ] {
                assert!(help.contains(&format!("\n{heading}\n")), "{help}");
            }
        }
    }
}

/// Returns the name of the server.
fn name(address: &str) -> String {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
    let open = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let (_, answer) = post(address, "", &open);
    let name = answer["result"]["serverInfo"]["name"].as_str();
    name.expect("a server has a name").to_owned()
}

/// docs/configuration.md is the reference for users.
#[test]
fn every_option_and_variable_is_documented() {
    let page = include_str!("../../../../docs/configuration.md");
    let output = lmcp(&["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let words =
        help.split(|letter: char| !letter.is_ascii_alphanumeric() && !"-_".contains(letter));
    let named = words.filter(|word| word.starts_with("--") || word.starts_with("LMCP_"));
    for word in named.filter(|word| !["--help", "--verbose"].contains(word)) {
        let known =
            page.split(|letter: char| !letter.is_ascii_alphanumeric() && !"-_".contains(letter));
        assert!(known.into_iter().any(|known| known == word), "{word}");
    }
}
