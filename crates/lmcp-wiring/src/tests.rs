//! The exact plan for each program.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{Entry, Presets, Step, User, Wiring, plan};

pub(crate) fn entry() -> Entry {
    Entry {
        name: "lmcp".into(),
        command: "/opt/lm cp/lmcp".into(),
        args: vec!["proxy".into()],
        env: BTreeMap::from([("LMCP_IDENTITY_FILE".into(), "/run/x y/id".into())]),
    }
}

/// A list of the user's variables, or of files with their texts.
type Has<'a> = &'a [(&'a str, &'a str)];

fn wire(preset: &str, argv: &[&str], variables: Has<'_>, files: Has<'_>) -> Wiring {
    try_wire(preset, argv, variables, files).unwrap_or_else(|words| panic!("{words}"))
}

/// Returns the plan for a built-in preset, or for one in TOML.
fn try_wire(
    preset: &str,
    argv: &[&str],
    variables: Has<'_>,
    files: Has<'_>,
) -> Result<Wiring, String> {
    let argv: Vec<_> = argv.iter().map(OsString::from).collect();
    let find = |has: Has<'_>, name: &OsStr| {
        let found = has.iter().find(|(key, _)| OsStr::new(key) == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let user = User {
        variable: &|name| find(variables, name.as_ref()).map(OsString::from),
        read: &|path| Ok::<_, io::Error>(find(files, path.as_os_str())),
    };
    let presets: Presets = match preset.contains('=') {
        true => toml::from_str(&format!("[test]\n{preset}")).unwrap(),
        false => Presets::built_in(),
    };
    let name = if preset.contains('=') { "test" } else { preset };
    let (preset, _) = presets.choose(Some(name), "x".as_ref()).unwrap();
    plan(&preset, &argv, &entry(), &user, Path::new("/scratch"))
        .map_err(|failure| failure.to_string())
}

fn words(wiring: &Wiring) -> Vec<&str> {
    wiring
        .argv
        .iter()
        .map(|word| word.to_str().unwrap())
        .collect()
}

/// Returns the only file, and its text.
fn file(wiring: &Wiring) -> (PathBuf, String) {
    let files = wiring.steps.iter().filter_map(|step| match step {
        Step::File { path, text } => Some((path.clone(), text.clone())),
        Step::Folder(_) | Step::Links { .. } => None,
    });
    let mut files: Vec<_> = files.collect();
    assert_eq!(files.len(), 1);
    files.remove(0)
}

fn parsed(text: impl AsRef<OsStr>) -> Value {
    serde_json::from_str(text.as_ref().to_str().unwrap()).unwrap()
}

#[test]
fn claude_reads_a_file_and_every_word_of_the_user_stays_behind_it() {
    let user = [
        "--mcp-config",
        "mine.json",
        "-p",
        "say \"it's\" $HOME",
        "--",
        "--x",
    ];
    let wiring = wire("claude", &[&["claude"][..], &user].concat(), &[], &[]);
    let expected = [&["claude", "--mcp-config=/scratch/mcp.json"][..], &user].concat();
    assert_eq!(words(&wiring), expected);
    let (path, text) = file(&wiring);
    assert_eq!(path, Path::new("/scratch/mcp.json"));
    let server = json!({
        "type": "stdio", "command": "/opt/lm cp/lmcp", "args": ["proxy"],
        "env": { "LMCP_IDENTITY_FILE": "/run/x y/id" },
    });
    assert_eq!(parsed(text), json!({ "mcpServers": { "lmcp": server } }));
    assert_eq!(wiring.env["LMCP_IDENTITY_FILE"], "/run/x y/id");
}

#[test]
fn codex_reads_overrides_before_its_subcommand() {
    let wiring = wire(
        "codex",
        &["codex", "exec", "-c", "model=\"x\"", "hi there"],
        &[("HOME", "/home/a")],
        &[],
    );
    let expected = [
        "codex",
        "-c",
        r#"mcp_servers.lmcp.command="/opt/lm cp/lmcp""#,
        "-c",
        r#"mcp_servers.lmcp.args=["proxy"]"#,
        "-c",
        r#"mcp_servers.lmcp.env={"LMCP_IDENTITY_FILE"="/run/x y/id"}"#,
        "-c",
        "mcp_servers.lmcp.enabled=true",
        "-c",
        "mcp_servers.lmcp.tool_timeout_sec=3600",
        "exec",
        "-c",
        "model=\"x\"",
        "hi there",
    ];
    assert_eq!(words(&wiring), expected);
    assert!(wiring.steps.is_empty() && wiring.notes.is_empty());
}

#[test]
fn a_server_of_the_same_name_in_codex_is_not_mixed_with_ours() {
    let own = "[mcp_servers.lmcp]\nurl = 'http://127.0.0.1:8080/mcp'";
    for (variables, path) in [
        (&[("HOME", "/home/a")][..], "/home/a/.codex/config.toml"),
        (
            &[("HOME", "/home/a"), ("CODEX_HOME", "/else")],
            "/else/config.toml",
        ),
    ] {
        let wiring = wire("codex", &["codex"], variables, &[(path, own)]);
        assert!(
            words(&wiring)
                .iter()
                .any(|word| word.starts_with("mcp_servers.lmcp_run.command="))
        );
        assert!(
            !words(&wiring)
                .iter()
                .any(|word| word.starts_with("mcp_servers.lmcp."))
        );
        assert!(wiring.notes[0].contains("`lmcp_run`"));
    }
    let other = (
        "/home/a/.codex/config.toml",
        "[mcp_servers.other]\ncommand = 'x'",
    );
    let wiring = wire("codex", &["codex"], &[("HOME", "/home/a")], &[other]);
    assert!(wiring.notes.is_empty());
}

#[test]
fn opencode_keeps_what_its_variable_says() {
    let own = r#"{ "theme": "x", /* mine */ "mcp": { "a": { "type": "remote" } }, }"#;
    let wiring = wire(
        "opencode",
        &["opencode", "run", "hi"],
        &[("OPENCODE_CONFIG_CONTENT", own)],
        &[],
    );
    assert_eq!(words(&wiring), ["opencode", "run", "hi"]);
    let server = json!({
        "type": "local", "command": ["/opt/lm cp/lmcp", "proxy"], "enabled": true, "timeout": 3_600_000,
        "environment": { "LMCP_IDENTITY_FILE": "/run/x y/id" },
    });
    let said = parsed(&wiring.env["OPENCODE_CONFIG_CONTENT"]);
    assert_eq!(
        said,
        json!({ "theme": "x", "mcp": { "a": { "type": "remote" }, "lmcp": server } })
    );
}

#[test]
fn an_empty_variable_says_nothing_and_a_broken_one_is_named() {
    let wiring = wire(
        "opencode",
        &["opencode"],
        &[("OPENCODE_CONFIG_CONTENT", "")],
        &[],
    );
    assert!(parsed(&wiring.env["OPENCODE_CONFIG_CONTENT"])["mcp"]["lmcp"].is_object());
    let said = try_wire(
        "opencode",
        &["opencode"],
        &[("OPENCODE_CONFIG_CONTENT", "{")],
        &[],
    )
    .unwrap_err();
    assert!(
        said.starts_with("`OPENCODE_CONFIG_CONTENT` cannot be added to"),
        "{said}"
    );
}

#[test]
fn gemini_gets_a_home_with_a_copy_of_its_settings() {
    let own =
        r#"{"security": {"auth": {"selectedType": "x"}}, "mcpServers": {"a": {"command": "a"}}}"#;
    let files = [("/home/a/.gemini/settings.json", own)];
    let wiring = wire(
        "gemini",
        &["gemini", "-p", "hi"],
        &[("HOME", "/home/a")],
        &files,
    );
    assert_eq!(words(&wiring), ["gemini", "-p", "hi"]);
    assert_eq!(wiring.env["GEMINI_CLI_HOME"], "/scratch/home");
    let trusted = "/home/a/.gemini/trustedFolders.json";
    assert_eq!(wiring.env["GEMINI_CLI_TRUSTED_FOLDERS_PATH"], trusted);
    let (path, text) = file(&wiring);
    assert_eq!(path, Path::new("/scratch/home/.gemini/settings.json"));
    let read = parsed(text);
    assert_eq!(read["security"]["auth"]["selectedType"], "x");
    assert_eq!(read["mcpServers"]["a"], json!({ "command": "a" }));
    assert_eq!(read["mcpServers"]["lmcp"]["timeout"], 3_600_000);
}

#[test]
fn a_variable_of_the_user_stays_as_it_is() {
    let said = [
        ("HOME", "/home/a"),
        ("GEMINI_CLI_TRUSTED_FOLDERS_PATH", "/t"),
    ];
    let wiring = wire("gemini", &["gemini"], &said, &[]);
    assert!(!wiring.env.contains_key("GEMINI_CLI_TRUSTED_FOLDERS_PATH"));
}

#[test]
fn a_file_that_a_variable_names_is_merged_into_a_new_one() {
    let preset = "kind = 'env_file'\nvar = 'X_CONFIG'\npath = '~/.x.toml'\nformat = 'toml'\nmerge_key = 'm.s'";
    let files = [("/home/a/.x.toml", "a = 1"), ("/other", "b = 2")];
    for (variables, key) in [
        (&[("HOME", "/home/a")][..], "a"),
        (&[("X_CONFIG", "/other")], "b"),
    ] {
        let wiring = wire(preset, &["x"], variables, &files);
        let (path, text) = file(&wiring);
        assert_eq!(wiring.env["X_CONFIG"], path.as_os_str());
        let read: toml::Table = text.parse().unwrap();
        assert!(
            read.contains_key(key) && read["m"]["s"]["lmcp"].is_table(),
            "{text}"
        );
    }
}

#[test]
fn words_go_where_the_preset_says() {
    for (place, argv, expected) in [
        (
            "1",
            &["npx", "x", "hi"][..],
            &["npx", "-m", "F", "x", "hi"][..],
        ),
        ("2", &["npx", "x", "hi"], &["npx", "x", "-m", "F", "hi"]),
        ("9", &["x"], &["x", "-m", "F"]),
        (
            "'last'",
            &["x", "a", "--", "b"],
            &["x", "a", "-m", "F", "--", "b"],
        ),
        ("'last'", &["x", "a"], &["x", "a", "-m", "F"]),
    ] {
        let preset = format!("kind = 'flag'\nflag = '-m'\nplace = {place}");
        let wiring = wire(&preset, argv, &[], &[]);
        let file = "/scratch/mcp.json";
        let found: Vec<_> = words(&wiring)
            .into_iter()
            .map(|word| if word == file { "F" } else { word })
            .collect();
        assert_eq!(found, expected, "{place}");
    }
}

#[test]
fn a_home_that_nobody_has_is_said() {
    let said = try_wire("gemini", &["gemini"], &[], &[]).unwrap_err();
    assert_eq!(said, "cannot find `~`: HOME is not set");
    let preset = "kind = 'variables'\nenv = { A = '{home}/x' }";
    let said = try_wire(preset, &["x"], &[("HOME", "/home/a")], &[]).unwrap_err();
    assert!(said.contains("the preset has none"), "{said}");
}
