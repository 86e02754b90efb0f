//! Reads servers in the formats of clients: Claude Code, Claude Desktop, Cursor, VS Code, Codex, Gemini and OpenCode. Each
//! client has its own words for the same things, and no word means different things in two clients. No I/O.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::{
    config::{ServerConfig, Servers, Table},
    jsonc,
};

/// Returns whether a text is the JSON of a client, and not TOML.
pub fn is_json(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    text.starts_with('{') || text.starts_with("//") || text.starts_with("/*")
}

/// Reads the servers in the JSON of a client, below `mcpServers` or `servers`. Comments and a comma too many are accepted,
/// and unknown members are ignored.
///
/// # Errors
/// The line or the server that cannot be read, and the reason. A value is never shown, because there may be a token in it.
pub fn from_json(text: &str) -> Result<Servers, String> {
    #[derive(Deserialize)]
    struct File {
        #[serde(alias = "servers", rename = "mcpServers")]
        servers: BTreeMap<String, Entry>,
    }
    let plain = jsonc::plain(text);
    // The plain text has the same lines as the file, only without comments, so the line of a JSON error is a line of the
    // file.
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

/// A server in the configuration of a client. Unknown members are ignored.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Entry {
    /// Only OpenCode uses `local` and `remote`.
    r#type: Option<String>,
    command: Words,
    args: Vec<String>,
    #[serde(deserialize_with = "texts")]
    env: BTreeMap<String, String>,
    /// Used by OpenCode.
    #[serde(deserialize_with = "texts")]
    environment: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    url: Option<String>,
    /// Used by Gemini, beside or instead of `url`.
    #[serde(rename = "httpUrl")]
    http_url: Option<String>,
    #[serde(rename = "serverUrl")]
    server_url: Option<String>,
    #[serde(deserialize_with = "texts")]
    headers: BTreeMap<String, String>,
    /// Used by Codex, as the next five members.
    #[serde(deserialize_with = "texts")]
    http_headers: BTreeMap<String, String>,
    /// Headers whose values are in variables.
    env_http_headers: BTreeMap<String, String>,
    bearer_token_env_var: Option<String>,
    startup_timeout_sec: Option<f64>,
    startup_timeout_ms: Option<f64>,
    tool_timeout_sec: Option<f64>,
    /// Some clients mean seconds, others milliseconds.
    timeout: Option<f64>,
    #[serde(alias = "enabled_tools", rename = "includeTools")]
    include_tools: Vec<String>,
    #[serde(alias = "disabled_tools", rename = "excludeTools")]
    exclude_tools: Vec<String>,
    disabled: bool,
    enabled: Option<bool>,
}

/// A program. Some clients write its arguments into the same list.
#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Words {
    #[default]
    None,
    One(String),
    Many(Vec<String>),
}

/// Reads texts, which some clients let people write as numbers. A `null` is left out.
fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let all: BTreeMap<String, Value> = BTreeMap::deserialize(deserializer)?;
    let mut texts = BTreeMap::new();
    for (name, value) in all {
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            Value::Bool(is_so) => is_so.to_string(),
            Value::Array(_) | Value::Object(_) => {
                return Err(serde::de::Error::custom("a text is expected"));
            }
        };
        texts.insert(name, text);
    }
    Ok(texts)
}

impl Entry {
    pub(crate) fn config(self) -> Result<ServerConfig, String> {
        let timeout = self
            .timeout
            .map(|time| if time >= 1000.0 { time / 1000.0 } else { time });
        let start_timeout = self.startup_timeout_sec;
        let start_timeout = start_timeout.or(self.startup_timeout_ms.map(|time| time / 1000.0));
        // The timeout of OpenCode is for the start alone: a call may take longer.
        let is_of_start = matches!(self.r#type.as_deref(), Some("local" | "remote"));
        let (timeout, start_timeout) = match is_of_start {
            true => (None, timeout),
            false => (self.tool_timeout_sec.or(timeout), start_timeout),
        };
        let (command, first) = match self.command {
            Words::None => (None, Vec::new()),
            Words::One(command) => (Some(command), Vec::new()),
            Words::Many(words) => {
                let mut words = words.into_iter();
                (words.next(), words.collect())
            }
        };
        let mut headers = self.headers;
        headers.extend(self.http_headers);
        let variables = self.env_http_headers.into_iter();
        headers.extend(variables.map(|(header, name)| (header, format!("${{{name}}}"))));
        if let Some(name) = self.bearer_token_env_var {
            headers.insert("Authorization".to_owned(), format!("Bearer ${{{name}}}"));
        }
        let left = self
            .exclude_tools
            .into_iter()
            .map(|tool| format!("-{tool}"));
        let tools = match self.include_tools.is_empty() {
            true => left.collect(),
            // A tool in both lists is left out.
            false => {
                let left: Vec<_> = left.collect();
                let mut tools = self.include_tools;
                tools.retain(|tool| !left.contains(&format!("-{tool}")));
                tools
            }
        };
        let mut env = self.env;
        env.extend(self.environment);
        let url = self.http_url.or(self.url).or(self.server_url);
        let is_program = command.is_some();
        // Some clients write all members for every server. If there is a program, the URL is not used.
        ServerConfig::try_from(Table {
            args: match is_program {
                true => [first, self.args].concat(),
                false => Vec::new(),
            },
            env: if is_program { env } else { BTreeMap::new() },
            cwd: self.cwd.filter(|_| is_program),
            headers: if is_program || url.is_none() {
                BTreeMap::new()
            } else {
                headers
            },
            command,
            url: url.filter(|_| !is_program),
            tools,
            timeout: timeout.filter(|time| *time > 0.0),
            start_timeout: start_timeout.filter(|time| *time > 0.0),
            disabled: self.disabled || self.enabled == Some(false),
            ..Table::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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
}
