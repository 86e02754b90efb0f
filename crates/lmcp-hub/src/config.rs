//! The servers in our own configuration. Nothing is started here; the formats of clients are in `foreign`.

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
    limits::{IDLE_STOP, START_TIMEOUT, TIMEOUT},
    names::{head, slug},
};

/// Servers by their names.
pub type Servers = BTreeMap<String, ServerConfig>;

/// One server: how it is reached, which of its tools are offered, and how long it may take.
///
/// In TOML it is a table `[servers.NAME]`, which refuses unknown keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Table")]
#[non_exhaustive]
pub struct ServerConfig {
    /// How the server is reached.
    pub reach: Reach,
    /// The beginning of its names and URIs, instead of the name of the server. With an empty text, names and URIs stay as
    /// they are.
    pub prefix: Option<String>,
    /// The tools that are offered: these, or all except those with a `-` in front. Empty: all.
    pub tools: Vec<String>,
    /// Other labels of tools, by the names that the server has for them.
    pub rename: BTreeMap<String, String>,
    /// Which clients share the server.
    pub isolate: Isolate,
    /// How long the server may be silent while it answers a call.
    pub timeout: Duration,
    /// How long the server may take to start.
    pub start_timeout: Duration,
    /// The server is stopped after this time without a call; `None`: never.
    pub idle_stop: Option<Duration>,
    /// Shows only definitions that somebody has seen; `None`: the setting of the hub counts ([`Hub::pin`](crate::Hub::pin)).
    pub pin: Option<bool>,
    /// The server is not used.
    pub disabled: bool,
}

/// Which clients share a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Isolate {
    /// All clients share the server.
    #[default]
    None,
    /// Every caller, by token, role or user, has a server of its own. Unknown callers are served as with `Session`.
    Caller,
    /// Every connection, and every session over HTTP, has a server of its own. Requests over HTTP without a session share
    /// one server for each caller.
    Session,
}

/// How a server is reached. In all texts, `${NAME}` and `${NAME:-default}` are replaced by values of the environment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Reach {
    /// The hub starts a program.
    Command {
        /// The program.
        command: String,
        /// The arguments of the program.
        args: Vec<String>,
        /// Variables that are added to the environment of the hub.
        env: BTreeMap<String, String>,
        /// The working folder of the program.
        cwd: Option<PathBuf>,
    },
    /// The hub calls the server over HTTP.
    Url {
        /// The address of the server.
        url: String,
        /// Headers that are sent with every request.
        headers: BTreeMap<String, String>,
        /// The file with the token.
        token_file: Option<PathBuf>,
    },
    /// The hub connects to a unix socket.
    Socket(PathBuf),
}

/// A table as it is written in the file.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Table {
    pub(crate) command: Option<String>,
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) url: Option<String>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) prefix: Option<String>,
    pub(crate) tools: Vec<String>,
    pub(crate) rename: BTreeMap<String, String>,
    pub(crate) isolate: Isolate,
    pub(crate) timeout: Option<f64>,
    pub(crate) start_timeout: Option<f64>,
    pub(crate) idle_stop: Option<f64>,
    pub(crate) pin: Option<bool>,
    pub(crate) disabled: bool,
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
    /// Returns a server that is reached in this way, with defaults for all other settings.
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

    /// Returns whether a server that runs for `self` can go on with the settings `other`.
    pub(crate) fn runs_as(&self, other: &Self) -> bool {
        self.reach == other.reach
            && self.prefix == other.prefix
            && self.isolate == other.isolate
            // A server for single clients reads its idle time only when it is made.
            && (self.isolate == Isolate::None || self.idle_stop == other.idle_stop)
            && self.disabled == other.disabled
    }

    /// Returns the paths in the configuration, so that a caller can resolve relative ones.
    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let path = match &mut self.reach {
            Reach::Command { cwd, .. } => cwd.as_mut(),
            Reach::Url { token_file, .. } => token_file.as_mut(),
            Reach::Socket(path) => Some(path),
        };
        path.into_iter()
    }

    /// Returns whether this tool of the server is offered.
    pub(crate) fn offers(&self, tool: &str) -> bool {
        let is_left = |named: &String| named.strip_prefix('-') == Some(tool);
        if self.tools.iter().any(|named| named.starts_with('-')) {
            return !self.tools.iter().any(is_left);
        }
        self.tools.is_empty() || self.tools.iter().any(|named| named == tool)
    }

    /// Returns the label of a tool.
    pub(crate) fn label<'a>(&'a self, tool: &'a str) -> &'a str {
        self.rename.get(tool).map_or(tool, String::as_str)
    }

    /// Returns the route to the server.
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

/// Replaces `${NAME}` and `${NAME:-default}` in a text by values of the environment.
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

/// Refuses servers with equal prefixes, because a name would then lead to two servers.
pub(crate) fn expect_apart(servers: &Servers) -> Result<(), String> {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for (name, config) in servers.iter().filter(|(_, config)| !config.disabled) {
        let prefix = config.prefix.as_deref().unwrap_or(name);
        // Both forms are compared: the first is used for URIs, the second for names.
        let both = [
            format!("uri {}", slug(prefix)),
            format!("name {}", head(prefix)),
        ];
        let others = both.map(|one| seen.insert(one, name));
        if let Some(other) = others.into_iter().flatten().next() {
            return Err(format!(
                "servers `{other}` and `{name}` have the same prefix, `{prefix}`"
            ));
        }
    }
    Ok(())
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
    fn variables_are_filled_in() {
        let look = |name: &str| (name == "A").then(|| "1".to_owned());
        let fill = |text| filled(text, &look);
        assert_eq!(fill("x${A}y${B:-2}z${env:A}").unwrap(), "x1y2z1");
        assert_eq!(fill("plain $A ${open").unwrap(), "plain $A ${open");
        assert!(fill("${B}").unwrap_err().contains("`B`"));
    }
}
