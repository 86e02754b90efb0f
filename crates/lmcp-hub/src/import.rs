//! Reads servers from the configurations of clients, and writes them as our own configuration. No I/O.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::{Path, PathBuf},
};

use lmcp_wire::hidden::is_hidden;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    config::{Isolate, Reach, ServerConfig, Servers},
    foreign::Entry,
};

/// Reads the servers in the configuration of a client, as JSON or TOML that was already parsed: below `mcpServers`,
/// `servers`, `mcp` or `mcp_servers`, also of single projects. Paths relative to a project are relative to `folder`, or to
/// the project that the configuration names. Entries that make no sense are left out. The second list names them, and says
/// what a person has to do.
pub fn import(configuration: &Value, folder: Option<&Path>) -> (Servers, Vec<String>) {
    let mut found = Found::default();
    found.place(configuration, folder);
    for (path, project) in configuration["projects"].as_object().into_iter().flatten() {
        found.place(project, Some(Path::new(path)));
    }
    (found.servers, found.notes)
}

#[derive(Default)]
struct Found {
    servers: Servers,
    notes: Vec<String>,
}

impl Found {
    /// Reads a configuration, or the part of it for one project.
    fn place(&mut self, place: &Value, folder: Option<&Path>) {
        let off = names(&place["disabledMcpServers"]);
        // Gemini keeps settings for all servers in the place where OpenCode keeps servers.
        let allowed = place["mcp"]["allowed"]
            .is_array()
            .then(|| names(&place["mcp"]["allowed"]));
        let excluded = names(&place["mcp"]["excluded"]);
        let is_off = |name: &str| {
            let is_allowed = allowed
                .as_ref()
                .is_none_or(|allowed| allowed.contains(name));
            off.contains(name) || excluded.contains(name) || !is_allowed
        };
        for member in ["mcpServers", "servers", "mcp_servers"] {
            let entries = place[member].as_object();
            self.entries(entries, folder, &is_off);
        }
        // VS Code once kept its servers among all other settings, one level deeper.
        match place["mcp"]["servers"].as_object() {
            Some(servers) if servers.values().all(Value::is_object) && !is_server(servers) => {
                self.entries(Some(servers), folder, &is_off);
            }
            _ => {
                let mut servers = place["mcp"].as_object().cloned().unwrap_or_default();
                servers.retain(|_, entry| entry.is_object());
                self.entries(Some(&servers), folder, &is_off);
            }
        }
    }

    fn entries(
        &mut self,
        entries: Option<&Map<String, Value>>,
        folder: Option<&Path>,
        is_off: &dyn Fn(&str) -> bool,
    ) {
        for (name, entry) in entries.into_iter().flatten() {
            match read(entry) {
                Ok(mut config) => {
                    config.disabled |= is_off(name);
                    self.settle(name, &mut config, folder);
                    self.note_what_is_lost(name, entry);
                    add(&mut self.servers, name, config);
                }
                Err(why) => self
                    .notes
                    .push(format!("server `{name}` is left out: {why}")),
            }
        }
    }

    /// Translates all texts, so that they mean the same here as in the client.
    fn settle(&mut self, name: &str, config: &mut ServerConfig, folder: Option<&Path>) {
        let mut wanted = BTreeSet::new();
        let mut change = |text: &mut String| *text = translated(text, folder, &mut wanted);
        match &mut config.reach {
            Reach::Command {
                command,
                args,
                env,
                cwd,
            } => {
                change(command);
                args.iter_mut().for_each(&mut change);
                env.values_mut().for_each(&mut change);
                if let Some(path) = cwd {
                    let mut text = path.to_string_lossy().into_owned();
                    change(&mut text);
                    *path =
                        folder.map_or_else(|| PathBuf::from(&text), |folder| folder.join(&text));
                }
                if cwd.is_none() && needs_folder(command, args) {
                    *cwd = folder.map(Path::to_owned);
                }
            }
            Reach::Url {
                url,
                headers,
                token_file,
            } => {
                let file = headers.get("Authorization").and_then(|value| {
                    let path = value.strip_prefix("Bearer {file:")?.strip_suffix('}')?;
                    Some(PathBuf::from(path))
                });
                if let Some(path) = file.filter(|path| path.is_absolute()) {
                    headers.remove("Authorization");
                    *token_file = Some(path);
                }
                change(url);
                headers.values_mut().for_each(&mut change);
            }
            Reach::Socket(_) => {}
        }
        for what in wanted {
            self.notes.push(format!("server `{name}`: {what}"));
        }
    }

    /// Notes settings that a client would obey and a hub does not.
    fn note_what_is_lost(&mut self, name: &str, entry: &Value) {
        for (member, words) in [
            (
                "envFile",
                "set the variables of its `envFile` where the hub is started",
            ),
            ("headersHelper", "its `headersHelper` is not run"),
            ("oauth", "the hub does not log in with `oauth`"),
        ] {
            if entry
                .get(member)
                .is_some_and(|value| !value.is_null() && *value != false)
            {
                self.notes.push(format!("server `{name}`: {words}"));
            }
        }
    }
}

/// Returns whether the folder in which a server of a project is started may matter. Clients start the server in the folder
/// of the project. A program that is fetched by name is the same everywhere, unless an argument names something in the
/// folder. Several projects then share one server.
fn needs_folder(command: &str, args: &[String]) -> bool {
    let program = command.rsplit('/').next().unwrap_or(command);
    !FETCHERS.contains(&program) || args.iter().any(|text| is_relative(text))
}

/// Returns whether a text is a path that begins in some folder. If in doubt, returns true.
fn is_relative(text: &str) -> bool {
    let text = match text.split_once('=') {
        Some((option, value)) if option.starts_with('-') => value,
        _ => text,
    };
    let is_elsewhere = text.starts_with(['/', '~', '$', '@', '-']) || text.contains("://");
    matches!(text, "." | "..") || text.contains('/') && !is_elsewhere
}

fn names(list: &Value) -> BTreeSet<String> {
    let all = list.as_array().into_iter().flatten();
    all.filter_map(|name| name.as_str().map(str::to_owned))
        .collect()
}

/// Returns whether this is one server, and not a list of servers.
fn is_server(members: &Map<String, Value>) -> bool {
    ["command", "url", "type"]
        .iter()
        .any(|member| members.contains_key(*member))
}

/// Replaces the placeholders of clients by ours. Adds to `wanted` what a person has to do for that.
fn translated(text: &str, folder: Option<&Path>, wanted: &mut BTreeSet<String>) -> String {
    if let Some(name) = text
        .strip_prefix("Bearer $")
        .or_else(|| text.strip_prefix('$'))
        && is_variable(name)
    {
        // Gemini writes variables without braces.
        return text.replace(&format!("${name}"), &format!("${{{name}}}"));
    }
    let mut done = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['$', '{']) {
        let (before, here) = rest.split_at(at);
        done += before;
        let Some(end) = here
            .find('}')
            .filter(|_| here.starts_with("${") || here.starts_with('{'))
        else {
            done.push_str(here.get(..1).unwrap_or_default());
            rest = here.get(1..).unwrap_or_default();
            continue;
        };
        let whole = here.get(..=end).unwrap_or_default();
        let is_dollar = whole.starts_with('$');
        let inner = whole
            .trim_start_matches('$')
            .trim_start_matches('{')
            .trim_end_matches('}');
        match (is_dollar, inner.split_once(':').unwrap_or((inner, ""))) {
            (true, ("workspaceFolder" | "workspaceRoot", _)) => match folder {
                Some(folder) => done += &folder.to_string_lossy(),
                None => {
                    wanted.insert(format!("put a folder in the place of `{whole}`"));
                    done += whole;
                }
            },
            (true, ("userHome", _)) => done += "${HOME}",
            (true, ("pathSeparator" | "/", _)) => done.push('/'),
            (true, ("input", id)) => {
                let name = variable_of(id);
                wanted.insert(format!(
                    "set the variable {name}, for which the client asks you (`{id}`)"
                ));
                done += &format!("${{{name}}}");
            }
            // The form of OpenCode.
            (false, ("env", name)) => done += &format!("${{{name}}}"),
            (false, ("file", path)) => {
                let name = variable_of(path.rsplit('/').next().unwrap_or(path));
                wanted.insert(format!("set the variable {name} to what is in {path}"));
                done += &format!("${{{name}}}");
            }
            _ => done += whole,
        }
        rest = here.get(end + 1..).unwrap_or_default();
    }
    done + rest
}

fn is_variable(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_uppercase() || letter == '_';
    name.starts_with(is_letter)
        && name
            .chars()
            .all(|letter| is_letter(letter) || letter.is_ascii_digit())
}

/// Makes a name that a variable may have.
fn variable_of(id: &str) -> String {
    let letters = id
        .chars()
        .map(|letter| match letter.is_ascii_alphanumeric() {
            true => letter.to_ascii_uppercase(),
            false => '_',
        });
    letters.collect::<String>().trim_matches('_').to_owned()
}

fn read(entry: &Value) -> Result<ServerConfig, String> {
    // The message of the decoder would show values, and one of them may be a token.
    let entry: Entry = serde_json::from_value(entry.clone())
        .map_err(|_| "it is not written as servers are".to_owned())?;
    entry.config()
}

/// Adds a server. An equal server is not added twice, and another server with the same name gets a number.
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

/// Writes servers as our configuration.
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

/// Writes a string as JSON, which is also valid TOML. Invisible characters are escaped, because a person reads the file
/// before it is used.
fn string(text: impl Serialize) -> String {
    let text = serde_json::to_string(&text).unwrap_or_else(|_| "\"\"".to_owned());
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match is_hidden(letter) {
            true => shown += &format!("\\U{:08X}", u32::from(letter)),
            false => shown.push(letter),
        }
    }
    shown
}

/// Programs that fetch a server by its name and start it.
const FETCHERS: [&str; 6] = ["npx", "bunx", "uvx", "pipx", "docker", "podman"];

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
        assert_eq!(names(&import(&claude, None).0), ["a", "b"]);
        let code = json!({ "servers": { "a": { "type": "stdio", "command": "x", "env": { "K": "${env:K}" } } }, "inputs": [] });
        assert_eq!(names(&import(&code, None).0), ["a"]);
        let gemini = json!({ "mcpServers": { "a": { "httpUrl": "https://a", "timeout": 5000, "trust": true } } });
        assert_eq!(import(&gemini, None).0["a"].timeout.as_secs(), 5);
        let opencode = json!({ "mcp": {
            "a": { "type": "local", "command": ["npx", "-y", "x"], "environment": { "K": "v" }, "enabled": false },
            "b": { "type": "remote", "url": "https://b", "headers": { "H": "v" } } } });
        let (servers, notes) = import(&opencode, None);
        assert!(notes.is_empty() && servers["a"].disabled, "{notes:?}");
        let Reach::Command {
            command, args, env, ..
        } = &servers["a"].reach
        else {
            panic!("{servers:?}");
        };
        assert_eq!((&**command, args.len(), &*env["K"]), ("npx", 2, "v"));
        let codex = "[mcp_servers.a]\ncommand = 'x'\nstartup_timeout_sec = 20\n[mcp_servers.b]\nurl = 'https://b'\nbearer_token_env_var = 'TOKEN'\n";
        let (servers, _) = import(&toml::from_str(codex).unwrap(), None);
        let Reach::Url { headers, .. } = &servers["b"].reach else {
            panic!("{servers:?}");
        };
        assert_eq!(headers["Authorization"], "Bearer ${TOKEN}");
    }

    #[test]
    fn what_makes_no_sense_is_left_out_and_shown_without_its_values() {
        let broken = json!({ "mcpServers": { "a": { "command": 12345 }, "b": "hush", "c": {}, "d": { "command": "x" } } });
        let (servers, notes) = import(&broken, None);
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
            assert!(import(&nothing, None).0.is_empty());
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
            "plain": { "command": "x", "args": ["a b", "\"\\\u{7f}\n", "ä", "a\u{202e}b\u{200b}"], "env": { "A.B": "c" }, "cwd": "/" },
            "with space": { "url": "https://x", "headers": { "H": "v" }, "timeout": 1.5, "disabled": true } } });
        let (mut servers, notes) = import(&all, None);
        assert!(notes.is_empty(), "{notes:?}");
        let plain = servers.get_mut("plain").unwrap();
        plain.prefix = Some(String::new());
        plain.tools = vec!["-x".to_owned()];
        plain.rename = [("a".to_owned(), "b".to_owned())].into();
        plain.isolate = Isolate::Session;
        plain.idle_stop = None;
        let text = to_toml(&servers);
        assert!(text.contains(r"a\U0000202Eb\U0000200B"), "{text}");
        let read: Ours = toml::from_str(&text).unwrap_or_else(|err| panic!("{err}: {text}"));
        assert_eq!(read.servers, servers, "{text}");
    }
}
