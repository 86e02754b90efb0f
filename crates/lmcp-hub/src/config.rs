//! What a configuration says of servers: ours, or the `mcpServers` that clients have. Nothing is started here.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    time::Duration,
};

use lmcp_client::{HeaderMap, Route};
use lmcp_upstream::{command, socket, url};
use lmcp_wire::RpcError;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    jsonc,
    limits::{IDLE_STOP, START_TIMEOUT, TIMEOUT},
    names::slug,
};

/// Servers by their names.
pub type Servers = BTreeMap<String, ServerConfig>;

/// One server: how it is reached, what of it is offered, and how long it may take.
///
/// In TOML it is a table `[servers.NAME]`, and what such a table does not know it refuses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Table")]
#[non_exhaustive]
pub struct ServerConfig {
    /// How it is reached.
    pub reach: Reach,
    /// What its names and URIs begin with instead of its name; with the empty text they stay as they are.
    pub prefix: Option<String>,
    /// The tools that are offered: these, or all but those with a `-` in front. None: all.
    pub tools: Vec<String>,
    /// Other labels of tools, by the names that the server has for them.
    pub rename: BTreeMap<String, String>,
    /// Who shares it.
    pub isolate: Isolate,
    /// How long it may be silent while it answers a call.
    pub timeout: Duration,
    /// How long it may take to be there.
    pub start_timeout: Duration,
    /// After how long without a call it is stopped; `None`: never.
    pub idle_stop: Option<Duration>,
    /// Only what somebody has seen is shown of it; `None`: as the hub has it ([`Hub::pin`](crate::Hub::pin)).
    pub pin: Option<bool>,
    /// It is not used.
    pub disabled: bool,
}

/// Who shares a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Isolate {
    /// All clients.
    #[default]
    None,
    /// Everybody who is the same caller, by token, role or user: every caller has a server of its own. Callers of whom nothing
    /// is known are served as with `Session`.
    Caller,
    /// Nobody: every connection, and every session over HTTP, has a server of its own; requests that stand alone over HTTP
    /// share one for each caller.
    Session,
}

/// How a server is reached. In texts, `${NAME}` and `${NAME:-default}` are taken from the environment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Reach {
    /// A program that is started.
    Command {
        /// The program.
        command: String,
        /// What it is told.
        args: Vec<String>,
        /// Beside the environment of this program.
        env: BTreeMap<String, String>,
        /// Where it works.
        cwd: Option<PathBuf>,
    },
    /// By HTTP.
    Url {
        /// Where.
        url: String,
        /// Sent with every request.
        headers: BTreeMap<String, String>,
        /// Where the token is.
        token_file: Option<PathBuf>,
    },
    /// On a unix socket.
    Socket(PathBuf),
}

/// A table as it is written.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Table {
    command: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    url: Option<String>,
    headers: BTreeMap<String, String>,
    token_file: Option<PathBuf>,
    socket: Option<PathBuf>,
    prefix: Option<String>,
    tools: Vec<String>,
    rename: BTreeMap<String, String>,
    isolate: Isolate,
    timeout: Option<f64>,
    start_timeout: Option<f64>,
    idle_stop: Option<f64>,
    pin: Option<bool>,
    disabled: bool,
}

impl TryFrom<Table> for ServerConfig {
    type Error = String;

    fn try_from(table: Table) -> Result<Self, String> {
        let is_mixed = (table.command.is_none()
            && (!table.args.is_empty() || !table.env.is_empty() || table.cwd.is_some()))
            || (table.url.is_none() && (!table.headers.is_empty() || table.token_file.is_some()));
        let reach = match (table.command, table.url, table.socket) {
            (Some(command), None, None) => Reach::Command {
                command,
                args: table.args,
                env: table.env,
                cwd: table.cwd,
            },
            (None, Some(url), None) => Reach::Url {
                url,
                headers: table.headers,
                token_file: table.token_file,
            },
            (None, None, Some(path)) => Reach::Socket(path),
            (None, None, None) => {
                return Err("a server needs `command`, `url` or `socket`".to_owned());
            }
            _ => {
                return Err("a server has one of `command`, `url` and `socket`".to_owned());
            }
        };
        if is_mixed {
            let words =
                "`args`, `env` and `cwd` go with `command`, `headers` and `token_file` with `url`";
            return Err(words.to_owned());
        }
        let [takes, leaves] = [false, true].map(|is_left| {
            let mut tools = table.tools.iter();
            tools.any(|tool| tool.starts_with('-') == is_left)
        });
        if takes && leaves {
            return Err("`tools` names those to offer, or those not to, each with `-`".to_owned());
        }
        Ok(Self {
            reach,
            prefix: table.prefix,
            tools: table.tools,
            rename: table.rename,
            isolate: table.isolate,
            timeout: seconds(table.timeout)?.unwrap_or(TIMEOUT),
            start_timeout: seconds(table.start_timeout)?.unwrap_or(START_TIMEOUT),
            idle_stop: match table.idle_stop {
                Some(0.0) => None,
                other => Some(seconds(other)?.unwrap_or(IDLE_STOP)),
            },
            pin: table.pin,
            disabled: table.disabled,
        })
    }
}

fn seconds(said: Option<f64>) -> Result<Option<Duration>, String> {
    let Some(seconds) = said else {
        return Ok(None);
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() && seconds < 1e8 => Ok(Some(time)),
        _ => Err(format!("{seconds} is no number of seconds")),
    }
}

impl ServerConfig {
    /// A server that is reached so, with all else as usual.
    pub fn new(reach: Reach) -> Self {
        Self {
            reach,
            prefix: None,
            tools: Vec::new(),
            rename: BTreeMap::new(),
            isolate: Isolate::None,
            timeout: TIMEOUT,
            start_timeout: START_TIMEOUT,
            idle_stop: Some(IDLE_STOP),
            pin: None,
            disabled: false,
        }
    }

    /// Does the same server do for both?
    pub(crate) fn runs_as(&self, other: &Self) -> bool {
        self.reach == other.reach
            && self.prefix == other.prefix
            && self.isolate == other.isolate
            // Servers for single clients know their time from when they are made.
            && (self.isolate == Isolate::None || self.idle_stop == other.idle_stop)
            && self.disabled == other.disabled
    }

    /// The paths in it, for those who know what they are relative to.
    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let path = match &mut self.reach {
            Reach::Command { cwd, .. } => cwd.as_mut(),
            Reach::Url { token_file, .. } => token_file.as_mut(),
            Reach::Socket(path) => Some(path),
        };
        path.into_iter()
    }

    /// Is this tool of the server offered?
    pub(crate) fn offers(&self, tool: &str) -> bool {
        let is_left = |named: &String| named.strip_prefix('-') == Some(tool);
        if self.tools.iter().any(|named| named.starts_with('-')) {
            return !self.tools.iter().any(is_left);
        }
        self.tools.is_empty() || self.tools.iter().any(|named| named == tool)
    }

    /// What the tool is to be called.
    pub(crate) fn label<'a>(&'a self, tool: &'a str) -> &'a str {
        self.rename.get(tool).map_or(tool, String::as_str)
    }

    /// The way to it.
    pub(crate) fn route(&self) -> Result<Route, RpcError> {
        let wrong = |words: String| {
            RpcError::internal(words).with_data(json!({ "retriable": false, "fault": "transport" }))
        };
        let fill = |text: &str| {
            let look = |name: &str| std::env::var(name).ok();
            filled(text, &look).map_err(wrong)
        };
        match &self.reach {
            Reach::Command {
                command: program,
                args,
                env,
                cwd,
            } => {
                let mut target = command(fill(program)?);
                for arg in args {
                    target = target.arg(fill(arg)?);
                }
                for (name, value) in env {
                    target = target.env(name, fill(value)?);
                }
                if let Some(folder) = cwd {
                    target = target.current_dir(folder);
                }
                Ok(target.route())
            }
            Reach::Url {
                url: place,
                headers,
                token_file,
            } => {
                let mut all = HashMap::new();
                for (name, value) in headers {
                    all.insert(name.clone(), fill(value)?);
                }
                let headers = HeaderMap::try_from(&all)
                    .map_err(|err| wrong(format!("a header cannot be sent: {err}")))?;
                let mut target = url(fill(place)?).from_env().headers(headers);
                if let Some(path) = token_file {
                    target = target.token_file(path);
                }
                target.route().map_err(|err| wrong(err.message.to_string()))
            }
            Reach::Socket(path) => Ok(socket(path).route()),
        }
    }
}

/// A text with what the environment has in the places of `${NAME}` and `${NAME:-default}`.
fn filled(text: &str, look: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut parts = text.split("${");
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let Some((named, rest)) = part.split_once('}') else {
            whole.push_str("${");
            whole.push_str(part);
            continue;
        };
        let (name, default) = match named.split_once(":-") {
            Some((name, default)) => (name, Some(default.to_owned())),
            None => (named, None),
        };
        // Some clients write `${env:NAME}`.
        let name = name.strip_prefix("env:").unwrap_or(name);
        let value = look(name).or(default);
        whole.push_str(&value.ok_or_else(|| format!("the variable `{name}` is not set"))?);
        whole.push_str(rest);
    }
    Ok(whole)
}

/// Refuses servers whose names would lead to two of them.
pub(crate) fn expect_apart(servers: &Servers) -> Result<(), String> {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for (name, config) in servers.iter().filter(|(_, config)| !config.disabled) {
        let prefix = config.prefix.as_deref().unwrap_or(name);
        if let Some(other) = seen.insert(slug(prefix), name) {
            return Err(format!(
                "servers `{other}` and `{name}` have the same prefix, `{prefix}`"
            ));
        }
    }
    Ok(())
}

/// Is this the JSON of some client, and not TOML?
pub fn is_json(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    text.starts_with('{') || text.starts_with("//") || text.starts_with("/*")
}

/// The servers in the JSON of a client: those below `mcpServers` or `servers`. Comments and a comma too many are taken, and
/// members that nobody knows here are passed over.
///
/// # Errors
/// Which line makes no sense, and why; or which server. A value is never shown: there may be a token in it.
pub fn from_json(text: &str) -> Result<Servers, String> {
    #[derive(Deserialize)]
    struct File {
        #[serde(alias = "servers", rename = "mcpServers")]
        servers: BTreeMap<String, Entry>,
    }
    let plain = jsonc::plain(text);
    // Lines of the plain text are those of the file but for comments; errors of JSON name a line of it.
    let file: File = serde_json::from_slice(&plain).map_err(|err| {
        let kind = match err.classify() {
            serde_json::error::Category::Data => {
                "it has no `mcpServers` with servers as they should be"
            }
            _ => "it is no JSON",
        };
        format!("line {}: {kind}", err.line())
    })?;
    let servers = file.servers.into_iter();
    let read = servers.map(|(name, entry)| {
        let config = entry.config();
        let config = config.map_err(|why| format!("server `{name}`: {why}"))?;
        Ok((name, config))
    });
    read.collect()
}

/// A server in the configuration of a client.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Entry {
    command: Words,
    args: Vec<String>,
    #[serde(alias = "environment")]
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    #[serde(alias = "serverUrl", alias = "httpUrl")]
    url: Option<String>,
    #[serde(alias = "http_headers")]
    headers: BTreeMap<String, String>,
    bearer_token_env_var: Option<String>,
    /// Seconds for some clients, milliseconds for others.
    timeout: Option<f64>,
    disabled: bool,
    enabled: Option<bool>,
}

/// A program, for some clients with all that it is told.
#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Words {
    #[default]
    None,
    One(String),
    Many(Vec<String>),
}

impl Entry {
    pub(crate) fn config(self) -> Result<ServerConfig, String> {
        let timeout = self.timeout.filter(|timeout| *timeout > 0.0);
        let (command, first) = match self.command {
            Words::None => (None, Vec::new()),
            Words::One(command) => (Some(command), Vec::new()),
            Words::Many(words) => {
                let mut words = words.into_iter();
                (words.next(), words.collect())
            }
        };
        let mut headers = self.headers;
        if let Some(name) = self.bearer_token_env_var {
            headers.insert("Authorization".to_owned(), format!("Bearer ${{{name}}}"));
        }
        let is_program = command.is_some();
        let is_remote = self.url.is_some() && !is_program;
        // Some write all members, whatever a server has; a program comes first.
        ServerConfig::try_from(Table {
            args: match is_program {
                true => [first, self.args].concat(),
                false => Vec::new(),
            },
            env: if is_program {
                self.env
            } else {
                BTreeMap::new()
            },
            cwd: self.cwd.filter(|_| is_program),
            headers: if is_remote { headers } else { BTreeMap::new() },
            command,
            url: self.url.filter(|_| is_remote),
            timeout: timeout.map(|time| if time >= 1000.0 { time / 1000.0 } else { time }),
            disabled: self.disabled || self.enabled == Some(false),
            ..Table::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Result<ServerConfig, String> {
        toml::from_str(text).map_err(|err| err.message().to_owned())
    }

    #[test]
    fn a_server_is_reached_in_one_way() {
        let program = table("command = 'x'\nargs = ['a']\nenv = { A = 'b' }\ncwd = '/'").unwrap();
        assert!(matches!(program.reach, Reach::Command { .. }));
        let remote = table("url = 'http://x'\nheaders = { a = 'b' }\ntoken_file = '/t'").unwrap();
        assert!(matches!(remote.reach, Reach::Url { .. }));
        assert_eq!(
            table("socket = '/x'").unwrap().reach,
            Reach::Socket("/x".into())
        );
        for (text, words) in [
            ("", "needs `command`"),
            ("command = 'x'\nurl = 'y'", "one of"),
            ("url = 'x'\nargs = ['y']", "go with"),
            ("command = 'x'\ntimeout = -1", "no number of seconds"),
            ("command = 'x'\ntools = ['a', '-b']", "names those to offer"),
            ("command = 'x'\ncomand = 'y'", "unknown field `comand`"),
        ] {
            let said = table(text).unwrap_err();
            assert!(said.contains(words), "{text}: {said}");
        }
    }

    #[test]
    fn two_servers_with_one_prefix_are_refused() {
        let servers = |text: &str| toml::from_str::<Servers>(text).unwrap();
        let text = "[a]\ncommand = 'x'\nprefix = ''\n[b]\ncommand = 'x'\nprefix = 'c'\n[c]\ncommand = 'x'\n";
        let said = expect_apart(&servers(text)).unwrap_err();
        assert!(said.contains("`b` and `c`"), "{said}");
        let text = format!("{text}disabled = true\n");
        expect_apart(&servers(&text)).unwrap();
    }

    #[test]
    fn tools_are_picked_and_renamed() {
        let config = table("command = 'x'\ntools = ['a']\nrename = { a = 'b' }").unwrap();
        assert!(config.offers("a") && !config.offers("c"));
        assert_eq!((config.label("a"), config.label("c")), ("b", "c"));
        let config = table("command = 'x'\ntools = ['-a']").unwrap();
        assert!(!config.offers("a") && config.offers("c"));
    }

    #[test]
    fn the_files_of_clients_are_read_as_they_are() {
        let text = r#"{
            // a comment
            "mcpServers": {
                "files": { "type": "stdio", "command": "npx", "args": ["-y", "x"], "autoApprove": [], },
                "remote": { "url": "https://x/mcp", "headers": { "A": "b" }, "timeout": 60000 },
                "off": { "command": "x", "disabled": true },
            }
        }"#;
        assert!(is_json(text) && !is_json("[servers.x]\ncommand = 'y'"));
        let servers = from_json(text).unwrap();
        assert_eq!(servers.len(), 3);
        assert_eq!(servers["remote"].timeout, Duration::from_secs(60));
        assert!(servers["off"].disabled);
    }

    #[test]
    fn a_broken_file_says_where_and_shows_no_value() {
        for (text, words) in [
            ("{\n\"mcpServers\": {\n\"a\": hush }}", "line 3"),
            ("{}", "line 1"),
            (
                "{\"mcpServers\": {\n\"a\": {\n\"command\": 12345 }}}",
                "line 3",
            ),
            ("{\"mcpServers\": {\"a\": {}}}", "server `a`"),
        ] {
            let said = from_json(text).unwrap_err();
            assert!(said.contains(words), "{text}: {said}");
            assert!(!said.contains("hush") && !said.contains("12345"), "{said}");
        }
    }

    #[test]
    fn variables_are_filled_in() {
        let look = |name: &str| (name == "A").then(|| "1".to_owned());
        let fill = |text| filled(text, &look);
        assert_eq!(fill("x${A}y${B:-2}z${env:A}").unwrap(), "x1y2z1");
        assert_eq!(fill("plain $A ${open").unwrap(), "plain $A ${open");
        assert!(fill("${B}").unwrap_err().contains("`B`"));
    }
}
