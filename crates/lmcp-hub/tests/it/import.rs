//! Configurations as the clients write them, with the edits that users make in them.

use std::{path::Path, time::Duration};

use lmcp_hub::{Reach, ServerConfig, Servers, import, jsonc, to_toml};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_slice(&jsonc::plain(text)).expect("it is JSON, but for comments")
}

/// Imports the servers and the notes, and checks that the servers survive our own format.
fn imported(configuration: &Value, folder: Option<&str>) -> (Servers, String) {
    #[derive(serde::Deserialize)]
    struct Ours {
        servers: Servers,
    }
    let (servers, notes) = import(configuration, folder.map(Path::new));
    let text = to_toml(&servers);
    if !servers.is_empty() {
        let ours: Ours = toml::from_str(&text).expect("it is our own form");
        assert_eq!(ours.servers, servers, "{text}");
    }
    (servers, notes.join("\n"))
}

fn names(servers: &Servers) -> Vec<&str> {
    servers.keys().map(String::as_str).collect()
}

/// The words of a command, and the folder it works in.
fn command(config: &ServerConfig) -> (String, Option<&Path>) {
    match &config.reach {
        Reach::Command {
            command, args, cwd, ..
        } => {
            let words: Vec<_> = [command].into_iter().chain(args).cloned().collect();
            (words.join(" "), cwd.as_deref())
        }
        other => panic!("no command: {other:?}"),
    }
}

fn env<'a>(config: &'a ServerConfig, name: &str) -> Option<&'a str> {
    match &config.reach {
        Reach::Command { env, .. } => env.get(name).map(String::as_str),
        other => panic!("no command: {other:?}"),
    }
}

/// Returns the address, and the value of a header.
fn url<'a>(config: &'a ServerConfig, header: &str) -> (&'a str, Option<&'a str>) {
    match &config.reach {
        Reach::Url { url, headers, .. } => (url, headers.get(header).map(String::as_str)),
        other => panic!("no URL: {other:?}"),
    }
}

#[test]
fn claude_code() {
    let configuration = json(
        r#"{
      "numStartups": 184, "installMethod": "native", "autoUpdates": false,
      "mcpServers": {
        "github": { "type": "http", "url": "https://api.example.com/mcp/", "headers": { "Authorization": "Bearer ${GITHUB_PAT}" } },
        "linear": { "type": "sse", "url": "https://linear.example/sse" },
        "memory": { "type": "stdio", "command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"], "env": {} },
        "helped": { "type": "http", "url": "https://helped.example/mcp", "headersHelper": "/opt/token.sh" }
      },
      "projects": {
        "/home/ann/shop": {
          "allowedTools": [], "history": [{ "display": "fix it", "pastedContents": {} }], "mcpContextUris": [],
          "mcpServers": {
            "db": { "type": "stdio", "command": "./tools/db-mcp", "args": ["--readonly"], "env": { "PGPASSWORD": "${PGPASSWORD:-dev}" } },
            "old": { "type": "stdio", "command": "uvx", "args": ["old-server"], "env": {} },
            "memory": { "type": "stdio", "command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"], "env": {} }
          },
          "enabledMcpjsonServers": [], "disabledMcpjsonServers": [], "disabledMcpServers": ["old"], "hasTrustDialogAccepted": true
        },
        "/home/ann/empty": { "allowedTools": [], "mcpServers": {} }
      }
    }"#,
    );
    let (servers, notes) = imported(&configuration, None);
    assert_eq!(
        names(&servers),
        ["db", "github", "helped", "linear", "memory", "old"]
    );
    let project = Path::new("/home/ann/shop");
    assert_eq!(
        command(&servers["db"]),
        ("./tools/db-mcp --readonly".to_owned(), Some(project))
    );
    assert_eq!(
        env(&servers["db"], "PGPASSWORD"),
        Some("${PGPASSWORD:-dev}")
    );
    assert_eq!(command(&servers["memory"]).1, None);
    let github = url(&servers["github"], "Authorization");
    assert_eq!(github.1, Some("Bearer ${GITHUB_PAT}"));
    assert!(servers["old"].disabled && !servers["db"].disabled);
    assert!(notes.contains("`helped`: its `headersHelper`"), "{notes}");
    assert_eq!(notes.lines().count(), 1, "{notes}");
}

#[test]
fn claude_desktop() {
    let configuration = json(
        r#"{
      "mcpServers": {
        "filesystem": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/ann/My Documents"] },
        "time": { "command": "/usr/bin/docker", "args": ["run", "-i", "--rm", "mcp/time"], "env": { "TZ": "UTC" } }
      },
      "preferences": { "menuBarEnabled": false }
    }"#,
    );
    let (servers, notes) = imported(&configuration, None);
    assert_eq!((names(&servers), &*notes), (vec!["filesystem", "time"], ""));
    assert!(command(&servers["filesystem"]).0.ends_with("My Documents"));
    assert_eq!(env(&servers["time"], "TZ"), Some("UTC"));
}

#[test]
fn cursor() {
    let configuration = json(
        r#"{
      // of this project
      "mcpServers": {
        "tests": { "command": "node", "args": ["${workspaceFolder}/mcp/index.js"], "env": { "KEY": "${env:TEST_KEY}" }, "envFile": ".env" },
        "docs": { "url": "https://docs.example/mcp", "headers": { "X-Key": "${env:DOCS_KEY}" }, },
      },
    }"#,
    );
    let (servers, notes) = imported(&configuration, Some("/p"));
    assert_eq!(command(&servers["tests"]).0, "node /p/mcp/index.js");
    assert_eq!(env(&servers["tests"], "KEY"), Some("${env:TEST_KEY}"));
    assert_eq!(url(&servers["docs"], "X-Key").1, Some("${env:DOCS_KEY}"));
    assert!(notes.contains("`envFile`"), "{notes}");
    // Without a known folder, the placeholder stays.
    let (_, notes) = imported(&configuration, None);
    assert!(notes.contains("`${workspaceFolder}`"), "{notes}");
}

#[test]
fn vs_code() {
    let configuration = json(
        r#"{
      "inputs": [{ "type": "promptString", "id": "perplexity-key", "description": "API key", "password": true }],
      "servers": {
        "Perplexity": { "type": "stdio", "command": "npx", "args": ["-y", "server-perplexity-ask"],
          "env": { "PERPLEXITY_API_KEY": "${input:perplexity-key}", "PORT": 8080, "DEBUG": true, "EMPTY": null } },
        "fetch": { "type": "stdio", "command": "uvx", "args": ["mcp-server-fetch"], "cwd": "${workspaceFolder}/sub", "dev": { "watch": "x" } },
        "remote": { "type": "http", "url": "https://api.example/mcp", "gallery": true, "version": "1" }
      }
    }"#,
    );
    let (servers, notes) = imported(&configuration, Some("/p"));
    assert_eq!(names(&servers), ["Perplexity", "fetch", "remote"]);
    let asked = &servers["Perplexity"];
    assert_eq!(env(asked, "PERPLEXITY_API_KEY"), Some("${PERPLEXITY_KEY}"));
    assert_eq!(
        (env(asked, "PORT"), env(asked, "DEBUG"), env(asked, "EMPTY")),
        (Some("8080"), Some("true"), None)
    );
    assert_eq!(command(&servers["fetch"]).1, Some(Path::new("/p/sub")));
    assert!(notes.contains("set the variable PERPLEXITY_KEY"), "{notes}");
    // VS Code wrote this before servers had a file of their own.
    let settings = json(
        r#"{ "editor.fontSize": 14, "mcp": { "inputs": [], "servers": { "a": { "command": "x" } } } }"#,
    );
    let (servers, notes) = imported(&settings, None);
    assert_eq!((names(&servers), &*notes), (vec!["a"], ""));
}

#[test]
fn codex() {
    let configuration = toml::from_str(
        r#"
model = "o4"
approval_policy = "on-request"

[mcp_servers.docs]
command = "npx"
args = ["-y", "docs-mcp"]
env = { "API_KEY" = "value" }
env_vars = ["LOCAL_TOKEN"]
cwd = "/home/ann"
startup_timeout_sec = 20
tool_timeout_sec = 45.5
enabled_tools = ["open", "search", "close"]
disabled_tools = ["close"]

[mcp_servers.figma]
url = "https://figma.example/mcp"
bearer_token_env_var = "FIGMA_TOKEN"
http_headers = { "X-Region" = "eu" }
env_http_headers = { "X-User" = "FIGMA_USER" }
enabled = false

[mcp_servers.slow]
command = "slow"
startup_timeout_ms = 90000
disabled_tools = ["drop"]

[projects."/home/ann/shop"]
trust_level = "trusted"
"#,
    );
    let (servers, notes) = imported(&configuration.expect("it is TOML"), None);
    assert_eq!(
        (names(&servers), &*notes),
        (vec!["docs", "figma", "slow"], "")
    );
    let docs = &servers["docs"];
    assert_eq!(docs.start_timeout, Duration::from_secs(20));
    assert_eq!(docs.timeout, Duration::from_millis(45500));
    assert_eq!(docs.tools, ["open", "search"]);
    assert_eq!(command(docs).1, Some(Path::new("/home/ann")));
    let figma = &servers["figma"];
    assert!(figma.disabled);
    for (header, value) in [
        ("Authorization", "Bearer ${FIGMA_TOKEN}"),
        ("X-Region", "eu"),
        ("X-User", "${FIGMA_USER}"),
    ] {
        assert_eq!(url(figma, header).1, Some(value));
    }
    assert_eq!(servers["slow"].start_timeout, Duration::from_secs(90));
    assert_eq!(servers["slow"].tools, ["-drop"]);
}

#[test]
fn gemini() {
    let configuration = json(
        r#"{
      "security": { "auth": { "selectedType": "oauth-personal" } },
      "mcp": { "allowed": ["python", "both", "remote", "off"], "excluded": ["off"], "serverCommand": "x" },
      "mcpServers": {
        "python": { "command": "python", "args": ["-m", "my_server"], "cwd": "./mcp", "timeout": 15000, "trust": true,
          "env": { "DB": "$DB_URL", "PRICE": "$5" }, "includeTools": ["safe"], "excludeTools": ["unsafe"] },
        "both": { "url": "https://a.example/sse", "httpUrl": "https://a.example/mcp", "headers": { "Authorization": "Bearer $A_TOKEN" } },
        "remote": { "url": "https://b.example/sse", "timeout": 30 },
        "off": { "command": "x" },
        "unlisted": { "command": "y" }
      }
    }"#,
    );
    let (servers, notes) = imported(&configuration, Some("/p"));
    assert_eq!(
        names(&servers),
        ["both", "off", "python", "remote", "unlisted"]
    );
    assert_eq!(notes, "");
    let python = &servers["python"];
    assert_eq!(command(python).1, Some(Path::new("/p/./mcp")));
    assert_eq!(python.timeout, Duration::from_secs(15));
    assert_eq!(python.tools, ["safe"]);
    assert_eq!(
        (env(python, "DB"), env(python, "PRICE")),
        (Some("${DB_URL}"), Some("$5"))
    );
    let both = url(&servers["both"], "Authorization");
    assert_eq!(both, ("https://a.example/mcp", Some("Bearer ${A_TOKEN}")));
    assert!(servers["off"].disabled && servers["unlisted"].disabled);
    assert!(!servers["remote"].disabled && !python.disabled);
}

#[test]
fn opencode() {
    let configuration = json(
        r#"{
      "$schema": "https://opencode.example/config.json",
      "model": "x/y",
      "mcp": {
        "local": { "type": "local", "command": ["bun", "x", "my-mcp"], "enabled": true, "environment": { "K": "{env:MY_KEY}" }, "timeout": 10000 },
        "remote": { "type": "remote", "url": "https://r.example/mcp", "enabled": false, "headers": { "Authorization": "Bearer {env:R_KEY}" } },
        "secret": { "type": "remote", "url": "https://s.example/mcp", "oauth": false, "headers": { "Authorization": "Bearer {file:/run/s.token}" } },
        "odd": { "type": "remote", "url": "https://o.example/mcp", "headers": { "X-Key": "{file:~/.keys/odd-key}" } },
        "inherited": { "enabled": false }
      }
    }"#,
    );
    let (servers, notes) = imported(&configuration, None);
    assert_eq!(names(&servers), ["local", "odd", "remote", "secret"]);
    let local = &servers["local"];
    assert_eq!(command(local).0, "bun x my-mcp");
    assert_eq!(env(local, "K"), Some("${MY_KEY}"));
    assert_eq!(local.start_timeout, Duration::from_secs(10));
    assert_eq!(
        local.timeout,
        Duration::from_secs(300),
        "calls may take longer"
    );
    assert!(servers["remote"].disabled);
    assert_eq!(
        url(&servers["remote"], "Authorization").1,
        Some("Bearer ${R_KEY}")
    );
    let Reach::Url {
        token_file,
        headers,
        ..
    } = &servers["secret"].reach
    else {
        panic!("{:?}", servers["secret"]);
    };
    assert_eq!(token_file.as_deref(), Some(Path::new("/run/s.token")));
    assert!(headers.is_empty());
    assert_eq!(url(&servers["odd"], "X-Key").1, Some("${ODD_KEY}"));
    for words in ["`odd`: set the variable ODD_KEY", "`inherited` is left out"] {
        assert!(notes.contains(words), "{notes}");
    }
    assert_eq!(notes.lines().count(), 2, "{notes}");
}

#[test]
fn what_is_broken_costs_one_server_and_shows_no_secret() {
    let configuration = json(
        r#"{ "mcpServers": {
      "args": { "command": "x", "args": "hush" },
      "arg": { "command": "x", "args": ["a", { "hush": 1 }] },
      "env": { "command": "x", "env": { "KEY": ["hush"] } },
      "headers": { "url": "https://x", "headers": "hush" },
      "timeout": { "command": "x", "timeout": "hush" },
      "flag": { "command": "x", "disabled": "hush" },
      "list": ["hush"],
      "text": "hush",
      "null": null,
      "empty": {},
      "words": { "command": [] },
      "never": { "command": "x", "timeout": 1e300 },
      "negative": { "command": "x", "timeout": -1 },
      "good": { "command": "x", "unknown": { "hush": true } }
    } }"#,
    );
    let (servers, notes) = imported(&configuration, None);
    assert_eq!(names(&servers), ["good", "negative"]);
    assert_eq!(notes.lines().count(), 12, "{notes}");
    assert!(!notes.contains("hush"), "{notes}");
    for none in [
        "{}",
        "[]",
        "null",
        "1",
        r#"{ "mcp": 1, "mcpServers": [], "servers": "x", "projects": [1] }"#,
    ] {
        let (servers, notes) = imported(&json(none), None);
        assert_eq!((names(&servers), &*notes), (Vec::new(), ""), "{none}");
    }
}

#[test]
fn servers_of_a_project_work_in_its_folder_unless_they_are_fetched_and_name_nothing_in_it() {
    for (words, is_in_folder) in [
        (&["python", "tools/server.py"][..], true),
        (&["python", "server.py"], true),
        (&["python", "-m", "server"], true),
        (&["node", "--config=conf/a.json", "/opt/a.js"], true),
        (&["bin/server"], true),
        (&["npm", "run", "mcp"], true),
        (&["npx", "-y", "tsx", "src/server.ts"], true),
        (&["uvx", "mcp-server-git", "--repository", "."], true),
        (&["npx", "-y", "@scope/server"], false),
        (&["uvx", "--from", "git+https://example.org/a", "a"], false),
        (&["/usr/bin/npx", "-y", "server", "/srv", "~/notes"], false),
    ] {
        let entry = serde_json::json!({ "command": words[0], "args": words[1..] });
        let configuration = serde_json::json!({ "mcpServers": { "a": entry } });
        let (servers, _) = imported(&configuration, Some("/p"));
        let expected = is_in_folder.then_some(Path::new("/p"));
        assert_eq!(command(&servers["a"]).1, expected, "{words:?}");
        // A server for all projects has no known folder.
        let (servers, _) = imported(&configuration, None);
        assert_eq!(command(&servers["a"]).1, None, "{words:?}");
    }
}
