//! The hosts in the configuration. Nothing is connected here.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use serde::Deserialize;

use crate::limits::{CONNECT, DOWN_MAX, DOWN_MIN, HOSTS, LOOK_UP, LOOKING, SILENCE};
use crate::pushed::PushedFolder;

/// Hosts by their names.
pub type Hosts = BTreeMap<String, HostConfig>;

/// One host: the ways to it, its groups, and the limits for calls there.
///
/// In TOML it is a table `[hosts.NAME]`, which refuses unknown keys.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Table")]
#[non_exhaustive]
pub struct HostConfig {
    /// The address of its `lmcp serve --http`.
    pub url: Option<String>,
    /// The host is a hub, and stands for the hosts of that hub.
    pub hub: bool,
    /// The host connects to the hub itself.
    pub join: bool,
    /// The file with the token for the host, or with the token that the host joins with.
    pub token_file: Option<PathBuf>,
    /// The token itself, from a registry.
    pub token: Option<Token>,
    /// Sends the token over plain HTTP to another machine.
    pub plain_secrets: bool,
    /// A destination as ssh takes it.
    pub ssh: Option<String>,
    /// The configuration file for ssh, instead of the user's own.
    pub ssh_config: Option<PathBuf>,
    /// The name of the program `lmcp` on the host, over ssh.
    pub lmcp: String,
    /// The folder of the program that was pushed to the host. The program is run if `lmcp` is not found there: see
    /// [`Pushed`](crate::Pushed).
    pub pushed: Option<PushedFolder>,
    /// The groups of the host.
    pub groups: Vec<String>,
    /// The folders that the tools are confined to, over ssh. A server behind `url` has its own setting.
    pub roots: Vec<String>,
    /// Only tools that change nothing are called on the host.
    pub read_only: bool,
    /// How long a call may be silent while the host is up.
    pub timeout: Duration,
    /// The host is not used.
    pub disabled: bool,
}

/// A table as it is written in the file.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Table {
    url: Option<String>,
    hub: bool,
    join: bool,
    token_file: Option<PathBuf>,
    plain_secrets: bool,
    ssh: Option<String>,
    ssh_config: Option<PathBuf>,
    lmcp: Option<String>,
    groups: Vec<String>,
    roots: Vec<String>,
    read_only: bool,
    timeout: Option<f64>,
    disabled: bool,
}

impl TryFrom<Table> for HostConfig {
    type Error = String;

    fn try_from(table: Table) -> Result<Self, String> {
        let host = Self {
            url: table.url,
            hub: table.hub,
            join: table.join,
            token_file: table.token_file,
            token: None,
            plain_secrets: table.plain_secrets,
            ssh: table.ssh,
            ssh_config: table.ssh_config,
            lmcp: table.lmcp.unwrap_or_else(|| LMCP.to_owned()),
            pushed: None,
            groups: table.groups,
            roots: table.roots,
            read_only: table.read_only,
            timeout: match table.timeout {
                Some(seconds) => seconds_of(seconds)?,
                None => SILENCE,
            },
            disabled: table.disabled,
        };
        host.expect_sound()?;
        Ok(host)
    }
}

impl HostConfig {
    /// Returns a host without any ways.
    pub(crate) fn new() -> Self {
        Self {
            url: None,
            hub: false,
            join: false,
            token_file: None,
            token: None,
            plain_secrets: false,
            ssh: None,
            ssh_config: None,
            lmcp: LMCP.to_owned(),
            pushed: None,
            groups: Vec::new(),
            roots: Vec::new(),
            read_only: false,
            timeout: SILENCE,
            disabled: false,
        }
    }

    /// Returns a host behind ssh, with defaults for all other settings.
    ///
    /// # Errors
    /// The text is not a destination of ssh.
    pub fn over_ssh(destination: &str) -> Result<Self, String> {
        let host = Self {
            ssh: Some(destination.to_owned()),
            ..Self::new()
        };
        host.expect_sound()?;
        Ok(host)
    }

    /// Returns whether `lmcp` has its usual name on the host.
    pub fn has_usual_name(&self) -> bool {
        self.lmcp == LMCP
    }

    /// Returns the paths in the configuration, so that a caller can resolve relative ones.
    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        [&mut self.token_file, &mut self.ssh_config]
            .into_iter()
            .flatten()
    }

    /// Refuses a host without a way, and texts that ssh would read as an option.
    pub(crate) fn expect_sound(&self) -> Result<(), String> {
        if self.url.is_none() && self.ssh.is_none() && !self.join {
            return Err("a host needs `url`, `ssh`, both, or `join`".to_owned());
        }
        if self.hub && (self.url.is_none() || self.ssh.is_some()) {
            return Err("a `hub` is reached by its `url` alone".to_owned());
        }
        if self.join && self.url.is_some() {
            return Err(
                "a host has `url` or `join`: its `token_file` is for one of them".to_owned(),
            );
        }
        if self.join && self.token_file.is_none() {
            return Err("`join` needs the `token_file` that the host joins with".to_owned());
        }
        if self.url.is_none() && self.token_file.is_some() && !self.join {
            return Err("`token_file` goes with `url` or `join`".to_owned());
        }
        if self.url.is_none() && self.plain_secrets {
            return Err("`plain_secrets` goes with `url`".to_owned());
        }
        if self.ssh.is_none() && (self.ssh_config.is_some() || !self.roots.is_empty()) {
            return Err("`ssh_config` and `roots` go with `ssh`".to_owned());
        }
        if let Some(destination) = &self.ssh {
            expect_destination(destination)?;
        }
        if self.lmcp.is_empty() || self.lmcp.starts_with('-') || has_control(&self.lmcp) {
            return Err(format!("`lmcp = {:?}` names no program", self.lmcp));
        }
        if let Some(root) = self.roots.iter().find(|root| !is_root(root)) {
            return Err(format!(
                "root {root:?} is no folder there: write it from `/` on"
            ));
        }
        match self.groups.iter().find(|group| !is_name(group)) {
            Some(group) => Err(format!("group `{group}` {NAMES}")),
            None => Ok(()),
        }
    }
}

/// Refuses names that the argument `host` could not hold, and too many hosts.
pub(crate) fn expect_named(hosts: &Hosts) -> Result<(), String> {
    if let Some(name) = hosts.keys().find(|name| !is_name(name)) {
        return Err(format!("host `{name}` {NAMES}"));
    }
    match hosts.len() > HOSTS {
        true => Err(format!("there are more than {HOSTS} hosts")),
        false => Ok(()),
    }
}

/// Returns whether a text is a name, and not a glob, a list or an option.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let begins_well = name.starts_with(|letter: char| letter.is_ascii_alphanumeric());
    begins_well && name.len() <= 128 && name.chars().all(is_plain)
}

fn expect_destination(destination: &str) -> Result<(), String> {
    let is_strange = |letter: char| {
        letter.is_whitespace() || letter.is_control() || "\"'`$;|&<>(){}\\*?".contains(letter)
    };
    match destination.is_empty() || destination.starts_with('-') || destination.contains(is_strange)
    {
        true => Err(format!(
            "`ssh = {destination:?}` is no destination: write a host, USER@HOST, ssh://USER@HOST:PORT or a name of your ssh configuration"
        )),
        false => Ok(()),
    }
}

fn is_root(root: &str) -> bool {
    root.starts_with('/') && !has_control(root)
}

fn has_control(text: &str) -> bool {
    text.contains(char::is_control)
}

pub(crate) fn seconds_of(seconds: f64) -> Result<Duration, String> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() && seconds < 1e8 => Ok(time),
        _ => Err(format!("{seconds} is no number of seconds")),
    }
}

/// The default name of the program.
const LMCP: &str = "lmcp";

const NAMES: &str = "begins with a letter or digit, and has letters, digits, `-`, `_` and `.`";

/// A token that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Makes a token, without the space around it.
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// How often hosts are checked, and how long a check may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Times {
    /// The time between two checks of a host that is up.
    pub up: Duration,
    /// The first pause after which a host that is down is tried again.
    pub down_min: Duration,
    /// The longest such pause.
    pub down_max: Duration,
    /// How long a caller waits that wants all hosts checked now.
    pub budget: Duration,
    /// How long ssh may take to connect.
    pub connect: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            up: LOOK_UP,
            down_min: DOWN_MIN,
            down_max: DOWN_MAX,
            budget: LOOKING,
            connect: CONNECT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Result<HostConfig, String> {
        toml::from_str(text).map_err(|err| err.message().to_owned())
    }

    #[test]
    fn a_host_has_a_way_to_it_and_nothing_that_goes_with_another() {
        let both = host("url = 'http://x'\ntoken_file = 't'\nssh = 'x'\nroots = ['/srv']").unwrap();
        assert!(both.url.is_some() && both.ssh.is_some());
        for (text, words) in [
            ("", "needs `url`, `ssh`"),
            ("ssh = 'x'\ntoken_file = 't'", "goes with `url` or `join`"),
            ("ssh = 'x'\nplain_secrets = true", "goes with `url`"),
            ("ssh = 'x'\nhub = true", "by its `url` alone"),
            ("join = true", "needs the `token_file`"),
            ("join = true\ntoken_file = 't'\nurl = 'x'", "one of them"),
            ("url = 'x'\nroots = ['/srv']", "go with `ssh`"),
            ("ssh = '-oProxyCommand=x'", "is no destination"),
            ("ssh = 'a b'", "is no destination"),
            ("ssh = 'a;b'", "is no destination"),
            ("ssh = ''", "is no destination"),
            ("ssh = 'x'\nroots = ['srv']", "from `/` on"),
            ("ssh = 'x'\nlmcp = '-x'", "names no program"),
            ("ssh = 'x'\ngroups = ['a*']", "group `a*`"),
            ("ssh = 'x'\ntimeout = 0", "no number of seconds"),
            ("ssh = 'x'\nshh = 'y'", "unknown field `shh`"),
        ] {
            let said = host(text).unwrap_err();
            assert!(said.contains(words), "{text}: {said}");
        }
    }

    #[test]
    fn names_cannot_be_taken_for_anything_else() {
        for (name, is_good) in [
            ("web-1.example", true),
            ("7", true),
            ("-web", false),
            ("@web", false),
            ("a,b", false),
            ("a*", false),
            ("", false),
        ] {
            let hosts: Hosts = [(name.to_owned(), HostConfig::new())].into();
            assert_eq!(expect_named(&hosts).is_ok(), is_good, "{name}");
        }
    }
}
