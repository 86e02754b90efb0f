//! Servers out of the configurations of clients, and our own configuration of them. No I/O.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;
use serde_json::Value;

use crate::config::{Entry, Isolate, Reach, ServerConfig, Servers};

/// The servers in the configuration of a client, as JSON or TOML that was read already: below `mcpServers`, `servers`, `mcp` or
/// `mcp_servers`, also of single projects. What makes no sense is left out, and said in the list behind.
pub fn import(configuration: &Value) -> (Servers, Vec<String>) {
    let (mut servers, mut notes) = (Servers::new(), Vec::new());
    let projects = configuration["projects"].as_object();
    let projects = projects.into_iter().flat_map(serde_json::Map::values);
    for place in [configuration].into_iter().chain(projects) {
        for member in ["mcpServers", "servers", "mcp", "mcp_servers"] {
            let Some(entries) = place[member].as_object() else {
                continue;
            };
            for (name, entry) in entries {
                match read(entry) {
                    Ok(config) => add(&mut servers, name, config),
                    Err(why) => notes.push(format!("server `{name}` is left out: {why}")),
                }
            }
        }
    }
    (servers, notes)
}

fn read(entry: &Value) -> Result<ServerConfig, String> {
    // The words of the decoder would show values, and there may be a token in one.
    let entry: Entry = serde_json::from_value(entry.clone())
        .map_err(|_| "it is not written as servers are".to_owned())?;
    entry.config()
}

/// Adds a server; one that is there already is not there twice, and another of its name gets a number.
pub fn add(servers: &mut Servers, name: &str, config: ServerConfig) {
    let mut free = name.to_owned();
    for number in 2.. {
        match servers.get(&free) {
            Some(known) if *known == config => return,
            Some(_) => free = format!("{name}-{number}"),
            None => break,
        }
    }
    servers.insert(free, config);
}

/// Servers as our configuration has them.
pub fn to_toml(servers: &Servers) -> String {
    let tables: Vec<_> = servers
        .iter()
        .map(|(name, config)| table(name, config))
        .collect();
    tables.join("\n")
}

fn table(name: &str, config: &ServerConfig) -> String {
    let mut text = format!("[servers.{}]\n", key(name));
    let mut line = |key: &str, value: String| {
        let _ = writeln!(text, "{key} = {value}");
    };
    match &config.reach {
        Reach::Command {
            command,
            args,
            env,
            cwd,
        } => {
            line("command", string(command));
            if !args.is_empty() {
                let args: Vec<_> = args.iter().map(string).collect();
                line("args", format!("[{}]", args.join(", ")));
            }
            if !env.is_empty() {
                line("env", map(env));
            }
            if let Some(folder) = cwd {
                line("cwd", string(folder));
            }
        }
        Reach::Url {
            url,
            headers,
            token_file,
        } => {
            line("url", string(url));
            if !headers.is_empty() {
                line("headers", map(headers));
            }
            if let Some(path) = token_file {
                line("token_file", string(path));
            }
        }
        Reach::Socket(path) => line("socket", string(path)),
    }
    let usual = ServerConfig::new(config.reach.clone());
    if let Some(prefix) = &config.prefix {
        line("prefix", string(prefix));
    }
    if !config.tools.is_empty() {
        let tools: Vec<_> = config.tools.iter().map(string).collect();
        line("tools", format!("[{}]", tools.join(", ")));
    }
    if !config.rename.is_empty() {
        line("rename", map(&config.rename));
    }
    if config.isolate != Isolate::None {
        line("isolate", string(config.isolate));
    }
    if config.timeout != usual.timeout {
        line("timeout", config.timeout.as_secs_f64().to_string());
    }
    if config.start_timeout != usual.start_timeout {
        line(
            "start_timeout",
            config.start_timeout.as_secs_f64().to_string(),
        );
    }
    if config.idle_stop != usual.idle_stop {
        let time = config.idle_stop.unwrap_or_default();
        line("idle_stop", time.as_secs_f64().to_string());
    }
    if let Some(pin) = config.pin {
        line("pin", pin.to_string());
    }
    if config.disabled {
        line("disabled", "true".to_owned());
    }
    text
}

fn map(map: &BTreeMap<String, String>) -> String {
    let all = map
        .iter()
        .map(|(name, value)| format!("{} = {}", key(name), string(value)));
    format!("{{ {} }}", all.collect::<Vec<_>>().join(", "))
}

fn key(name: &str) -> String {
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    match !name.is_empty() && name.chars().all(is_bare) {
        true => name.to_owned(),
        false => string(name),
    }
}

/// A string of JSON is one of TOML, but for one character that TOML wants escaped.
fn string(text: impl Serialize) -> String {
    let text = serde_json::to_string(&text).unwrap_or_else(|_| "\"\"".to_owned());
    text.replace('\u{7f}', "\\u007F")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(serde::Deserialize)]
    struct Ours {
        servers: Servers,
    }

    fn names(servers: &Servers) -> Vec<&str> {
        servers.keys().map(String::as_str).collect()
    }

    #[test]
    fn the_files_of_clients_are_understood() {
        let claude = json!({ "mcpServers": { "a": { "type": "stdio", "command": "x", "args": [], "env": {} } },
            "projects": { "/p": { "mcpServers": { "b": { "type": "http", "url": "https://b" } }, "history": [] } } });
        assert_eq!(names(&import(&claude).0), ["a", "b"]);
        let code = json!({ "servers": { "a": { "type": "stdio", "command": "x", "env": { "K": "${env:K}" } } }, "inputs": [] });
        assert_eq!(names(&import(&code).0), ["a"]);
        let gemini = json!({ "mcpServers": { "a": { "httpUrl": "https://a", "timeout": 5000, "trust": true } } });
        assert_eq!(import(&gemini).0["a"].timeout.as_secs(), 5);
        let opencode = json!({ "mcp": {
            "a": { "type": "local", "command": ["npx", "-y", "x"], "environment": { "K": "v" }, "enabled": false },
            "b": { "type": "remote", "url": "https://b", "headers": { "H": "v" } } } });
        let (servers, notes) = import(&opencode);
        assert!(notes.is_empty() && servers["a"].disabled, "{notes:?}");
        let Reach::Command {
            command, args, env, ..
        } = &servers["a"].reach
        else {
            panic!("{servers:?}");
        };
        assert_eq!((&**command, args.len(), &*env["K"]), ("npx", 2, "v"));
        let codex = "[mcp_servers.a]\ncommand = 'x'\nstartup_timeout_sec = 20\n[mcp_servers.b]\nurl = 'https://b'\nbearer_token_env_var = 'TOKEN'\n";
        let (servers, _) = import(&toml::from_str(codex).unwrap());
        let Reach::Url { headers, .. } = &servers["b"].reach else {
            panic!("{servers:?}");
        };
        assert_eq!(headers["Authorization"], "Bearer ${TOKEN}");
    }

    #[test]
    fn what_makes_no_sense_is_left_out_and_shown_without_its_values() {
        let broken = json!({ "mcpServers": { "a": { "command": 12345 }, "b": "hush", "c": {}, "d": { "command": "x" } } });
        let (servers, notes) = import(&broken);
        assert_eq!(names(&servers), ["d"]);
        assert_eq!(notes.len(), 3);
        let notes = notes.join(" ");
        assert!(
            !notes.contains("hush") && !notes.contains("12345"),
            "{notes}"
        );
        for nothing in [
            json!(null),
            json!([]),
            json!({ "mcpServers": [] }),
            json!({ "projects": 1 }),
        ] {
            assert!(import(&nothing).0.is_empty());
        }
    }

    #[test]
    fn a_server_is_there_once_and_another_of_its_name_beside_it() {
        let server = |path: &str| ServerConfig::new(Reach::Socket(path.into()));
        let mut servers = Servers::new();
        for path in ["/1", "/2", "/1", "/2"] {
            add(&mut servers, "a", server(path));
        }
        assert_eq!(names(&servers), ["a", "a-2"]);
    }

    #[test]
    fn what_is_written_is_read_as_the_same() {
        let all = json!({ "mcpServers": {
            "plain": { "command": "x", "args": ["a b", "\"\\\u{7f}\n", "ä"], "env": { "A.B": "c" }, "cwd": "/" },
            "with space": { "url": "https://x", "headers": { "H": "v" }, "timeout": 1.5, "disabled": true } } });
        let (mut servers, notes) = import(&all);
        assert!(notes.is_empty(), "{notes:?}");
        let plain = servers.get_mut("plain").unwrap();
        plain.prefix = Some(String::new());
        plain.tools = vec!["-x".to_owned()];
        plain.rename = [("a".to_owned(), "b".to_owned())].into();
        plain.isolate = Isolate::Session;
        plain.idle_stop = None;
        let text = to_toml(&servers);
        let read: Ours = toml::from_str(&text).unwrap_or_else(|err| panic!("{err}: {text}"));
        assert_eq!(read.servers, servers, "{text}");
    }
}
