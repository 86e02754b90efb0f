//! The options of `serve`. They have the same names on the command line, in the environment and in a file.
//!
//! The command line wins over the environment, and the environment over the file. An option that is not set gets its default
//! where it is used.

mod environment;
mod file;
mod values;

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
};

use clap::Args;
use lmcp::hub::{Groups, Servers};
use lmcp_fleet::{Hosts, Rights};
use serde::Deserialize;

pub(crate) use file::{parse_file, read_servers};
pub(crate) use values::{Address, HostName, Origin, Prefix, Secret, ServerName};

use lmcp_wiring::Presets;

use crate::report::Failure;

/// Stands for the user's own socket, instead of a path.
pub(crate) const OWN_SOCKET: &str = "own";

/// Means that nothing is kept, instead of a folder.
pub(crate) const NO_STATE: &str = "none";

/// Headings of the help.
pub(crate) const TOOLS: &str = "Tools";
const LISTEN: &str = "Where to listen";
const ACCESS: &str = "Who may call";
const REST: &str = "Other options";

/// The options of `serve`. Every field is also a key of the configuration file.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[command(next_line_help = true)]
pub(crate) struct Options {
    /// Confine the tools to this folder; may be given several times. Without
    /// it, the tools reach every file that you can.
    /// [env: LMCP_ROOT, with `:`]
    #[arg(long, value_name = "DIR", help_heading = TOOLS, verbatim_doc_comment)]
    #[serde(deserialize_with = "values::some")]
    pub(crate) root: Vec<PathBuf>,

    /// Offer only tools that change nothing. [env: LMCP_READ_ONLY]
    #[arg(long, value_name = "BOOL", help_heading = TOOLS, verbatim_doc_comment,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    pub(crate) read_only: Option<bool>,

    /// Also read and change files below a root that have a second name (a
    /// hard link), which may lie outside of the root.
    #[arg(long, value_name = "BOOL", help_heading = TOOLS, verbatim_doc_comment,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    pub(crate) allow_hard_links: Option<bool>,

    /// Offer only these tools: NAME,NAME; or all but these: -NAME,-NAME.
    /// [env: LMCP_TOOLS]
    #[arg(long, value_name = "NAMES", help_heading = TOOLS, verbatim_doc_comment,
        value_delimiter = ',', allow_hyphen_values = true)]
    #[serde(deserialize_with = "values::some")]
    pub(crate) tools: Vec<String>,

    /// Run commands that begin with these words. The user is then asked about
    /// all others. Of --allow, --ask and --deny the longest match decides.
    #[arg(long, value_name = "COMMAND", help_heading = TOOLS, verbatim_doc_comment)]
    #[serde(deserialize_with = "values::some")]
    pub(crate) allow: Vec<Prefix>,

    /// Ask the user before running commands that begin with these words. If
    /// the client cannot ask, the commands do not run.
    #[arg(long, value_name = "COMMAND", help_heading = TOOLS, verbatim_doc_comment)]
    pub(crate) ask: Vec<Prefix>,

    /// Never run commands that begin with these words.
    #[arg(long, value_name = "COMMAND", help_heading = TOOLS, verbatim_doc_comment)]
    pub(crate) deny: Vec<Prefix>,

    /// Let commands read this folder outside of the roots, such as the folder
    /// of a tool chain.
    #[arg(long, value_name = "DIR", help_heading = TOOLS, verbatim_doc_comment)]
    pub(crate) also_read: Vec<PathBuf>,

    /// The shell that runs command lines. [default: bash, else sh]
    #[arg(long, value_name = "PROGRAM", help_heading = TOOLS, verbatim_doc_comment)]
    pub(crate) shell: Option<PathBuf>,

    /// Report a command with a non-zero exit code as an error. Without this,
    /// only a command that could not run, or that was stopped, is an error.
    #[arg(long, value_name = "BOOL", help_heading = TOOLS, verbatim_doc_comment,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    pub(crate) exit_code_is_error: Option<bool>,

    /// The address of the SearXNG instance that web_search asks.
    /// [env: LMCP_SEARXNG_URL]
    #[arg(long, value_name = "URL", help_heading = TOOLS, verbatim_doc_comment)]
    pub(crate) searxng_url: Option<String>,

    /// The engine that web_search asks: searxng, duckduckgo, tavily or brave.
    /// The keys of the last two are in LMCP_TAVILY_KEY and LMCP_BRAVE_KEY.
    /// [env: LMCP_SEARCH_BACKEND]
    #[arg(long, value_name = "NAME", help_heading = TOOLS, verbatim_doc_comment)]
    pub(crate) search_backend: Option<String>,

    /// Let fetch reach this address beside the public internet: a host, a
    /// host with a port, or a network such as 10.0.0.0/8; may be given
    /// several times. [env: LMCP_FETCH_ALLOW, with `,`]
    #[arg(long, value_name = "WHERE", help_heading = TOOLS, verbatim_doc_comment)]
    pub(crate) fetch_allow: Vec<String>,

    /// Offer tools to try a client with, in the place of all others: echo,
    /// add, wait and greet. These tools do not touch this machine.
    #[arg(long, value_name = "BOOL", help_heading = TOOLS, verbatim_doc_comment,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    pub(crate) demo: Option<bool>,

    /// Serve HTTP at this address, at the path /mcp: ADDRESS:PORT, :PORT or
    /// PORT. Without an address: 127.0.0.1. Port 0 takes a free one.
    /// [env: LMCP_HTTP, or LMCP_HOST and LMCP_PORT]
    #[arg(long, value_name = "ADDRESS", help_heading = LISTEN, verbatim_doc_comment)]
    pub(crate) http: Option<Address>,

    /// Serve on a unix socket that only you can open, one message a line.
    /// Without a path, or with `own`: $XDG_RUNTIME_DIR/lmcp/serve.sock, where
    /// `lmcp proxy` looks. A socket that systemd hands over is used first.
    /// [env: LMCP_UNIX]
    #[arg(long, value_name = "PATH", help_heading = LISTEN, verbatim_doc_comment,
        num_args = 0..=1, default_missing_value = OWN_SOCKET)]
    pub(crate) unix: Option<PathBuf>,

    /// Stop when no client was connected to the unix socket for this time.
    #[arg(long, value_name = "SECONDS", help_heading = LISTEN, verbatim_doc_comment)]
    pub(crate) idle_exit: Option<values::Count>,

    /// Leave the terminal and the folder it was started in, as `lmcp proxy`
    /// has it do.
    #[arg(long, hide = true)]
    #[serde(skip)]
    pub(crate) detach: bool,

    /// Serve on stdin and stdout, until stdin ends.
    /// [env: LMCP_TRANSPORT=stdio]
    #[arg(long, help_heading = LISTEN, conflicts_with_all = ["http", "unix"], verbatim_doc_comment)]
    pub(crate) stdio: bool,

    /// Connect to the hub at this URL and serve as one of its hosts, for
    /// machines that the hub cannot reach. Without a path in the URL: /join.
    #[arg(long, value_name = "URL", help_heading = LISTEN, verbatim_doc_comment)]
    pub(crate) join: Option<String>,

    /// The file with the token for the hub, which only you can read. Without
    /// --http, --token-file may name it, too.
    #[arg(long, value_name = "FILE", help_heading = LISTEN, verbatim_doc_comment)]
    pub(crate) join_token_file: Option<PathBuf>,

    /// Send that token over plain http, too. Others on the way can read it,
    /// and a program of another user on this machine may receive it.
    #[arg(long, value_name = "BOOL", help_heading = LISTEN, verbatim_doc_comment,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    pub(crate) plain_secrets: Option<bool>,

    /// Also serve HTTP+SSE, the transport of 2024-11-05, at /sse and
    /// /messages.
    #[arg(long, value_name = "BOOL", help_heading = LISTEN, verbatim_doc_comment,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    pub(crate) legacy_sse: Option<bool>,

    /// The most connections at once, open streams included. [default: 1024]
    /// [env: LMCP_CONNECTIONS]
    #[arg(long, value_name = "COUNT", help_heading = LISTEN, verbatim_doc_comment)]
    pub(crate) connections: Option<values::Count>,

    /// The memory that all callers together may use: bytes, or a number with
    /// K, M or G. A call that does not fit waits a moment, and then fails.
    /// The server itself needs a few megabytes more. [default: 64M]
    /// [env: LMCP_MEMORY]
    #[arg(long, value_name = "SIZE", help_heading = LISTEN, verbatim_doc_comment)]
    pub(crate) memory: Option<values::Size>,

    /// Serve only HTTP requests with the token in this file, which only you
    /// can read. [env: LMCP_TOKEN_FILE, or the token itself in LMCP_TOKEN]
    #[arg(long, value_name = "FILE", help_heading = ACCESS, verbatim_doc_comment)]
    pub(crate) token_file: Option<PathBuf>,

    /// `[[token]]` of the file.
    #[arg(skip)]
    pub(crate) token: Vec<NamedToken>,

    /// `[presets.NAME]` of the file, for `run`.
    #[arg(skip)]
    pub(crate) presets: Presets,

    /// `[servers.NAME]` of the file, for `hub`.
    #[arg(skip)]
    pub(crate) servers: Servers,

    /// `[groups]` of the file, for `hub`.
    #[arg(skip)]
    pub(crate) groups: Groups,

    /// `[hosts.NAME]` of the file, for `hub`.
    #[arg(skip)]
    pub(crate) hosts: Hosts,

    /// `hosts_file` of the file or `LMCP_HUB_BACKENDS`, for `hub`: more hosts, in columns.
    #[arg(skip)]
    pub(crate) hosts_file: Option<PathBuf>,

    /// `hosts_plain_secrets` of the file: the tokens of that file may travel over plain HTTP.
    #[arg(skip)]
    pub(crate) hosts_plain_secrets: bool,

    /// `pin` of the file, for `hub`.
    #[arg(skip)]
    pub(crate) pin: Option<bool>,

    /// `LMCP_TOKEN`.
    #[arg(skip)]
    #[serde(skip)]
    pub(crate) secret: Option<Secret>,

    /// `LMCP_CONF`.
    #[arg(skip)]
    #[serde(skip)]
    pub(crate) conf: Option<PathBuf>,

    /// Also serve requests to this name: HOST or HOST:PORT, as in their URL.
    /// [env: LMCP_ALLOW_HOST, with `,`]
    #[arg(long, value_name = "HOST", help_heading = ACCESS, verbatim_doc_comment)]
    pub(crate) allow_host: Vec<HostName>,

    /// Also serve requests of web pages of this origin: SCHEME://HOST or
    /// SCHEME://HOST:PORT. [env: LMCP_ALLOW_ORIGIN, with `,`]
    #[arg(long, value_name = "ORIGIN", help_heading = ACCESS, verbatim_doc_comment)]
    pub(crate) allow_origin: Vec<Origin>,

    /// Without a token, serve every user of this machine over HTTP. By
    /// default only your own programs and those of root are served.
    #[arg(long, value_name = "BOOL", help_heading = ACCESS, verbatim_doc_comment,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    pub(crate) any_local_user: Option<bool>,

    /// Serve other machines without a token, because a proxy in front of this
    /// server checks who they are. With a token, this option is not needed.
    #[arg(long, value_name = "BOOL", help_heading = ACCESS, verbatim_doc_comment,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    pub(crate) allow_remote: Option<bool>,

    /// `[roles.NAME]` of the file.
    #[arg(skip)]
    pub(crate) roles: BTreeMap<String, Role>,

    /// The name of the server for clients. [default: lmcp] [env: LMCP_NAME]
    #[arg(long, value_name = "NAME", help_heading = REST, verbatim_doc_comment)]
    pub(crate) name: Option<ServerName>,

    /// The folder for what outlives the server: the key of sessions, jobs,
    /// changes that can be undone. With `none` nothing is kept, and jobs end
    /// with the server. [default: $XDG_STATE_HOME/lmcp, ~/.local/state/lmcp]
    /// [env: LMCP_STATE_DIR]
    #[arg(long, value_name = "DIR", help_heading = REST, verbatim_doc_comment)]
    pub(crate) state_dir: Option<PathBuf>,

    /// How many changes of files can be undone, of all callers together.
    /// [default: 500]
    #[arg(long, value_name = "COUNT", help_heading = REST, verbatim_doc_comment)]
    pub(crate) changes_kept: Option<values::Number>,

    /// The most that these changes take on disk: bytes, or a number with K, M
    /// or G. A change that needs more than a fourth of it cannot be undone.
    /// [default: 64M]
    #[arg(long, value_name = "SIZE", help_heading = REST, verbatim_doc_comment)]
    pub(crate) change_bytes_kept: Option<values::Size>,

    /// Read options from this TOML file. Its keys have `_` for `-`.
    /// [env: LMCP_CONFIG]
    #[arg(long, value_name = "FILE", help_heading = REST, verbatim_doc_comment)]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,
}

/// The rights of callers with a role: never more than the other options allow.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Role {
    /// As `--tools`.
    #[serde(deserialize_with = "values::some")]
    pub(crate) tools: Vec<String>,
    /// As `--read-only`.
    pub(crate) read_only: bool,
}

/// A token of one caller.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamedToken {
    /// The name of the caller.
    pub(crate) name: String,
    /// The file that holds the token, or none if `secret` is set.
    pub(crate) file: Option<PathBuf>,
    /// The token itself.
    pub(crate) secret: Option<Secret>,
    /// The rights of the token on the hosts of a hub. A token without this has all rights there.
    pub(crate) on_hosts: Option<Rights>,
}

impl Options {
    /// Completes these options of the command line with those of the environment and of the file.
    pub(crate) fn settle(self) -> Result<Self, Failure> {
        self.settle_with(file::read)
    }

    /// Does the same for a hub, whose file may be that of a client.
    pub(crate) fn settle_with_servers(self) -> Result<Self, Failure> {
        self.settle_with(read_servers)
    }

    fn settle_with(self, read: fn(&Path) -> Result<Self, Failure>) -> Result<Self, Failure> {
        let environment = environment::read(&|name| env::var_os(name), &self)?;
        if let Some(name) = environment::unknown(env::vars_os().map(|(name, _)| name)).first() {
            let failure = Failure::misuse(format!("{name} is set, and there is no such variable"));
            return Err(failure.hint(
                "`lmcp serve --help` names those there are; unset it if it is for another program",
            ));
        }
        let said = self.over(environment);
        let Some(path) = &said.config else {
            return Ok(said);
        };
        let file = read(path)?;
        Ok(said.over(file))
    }

    /// Makes all paths absolute, for a server that leaves the folder in which it was started.
    pub(crate) fn make_paths_absolute(&mut self) {
        for path in file::paths(self) {
            *path = std::path::absolute(&*path).unwrap_or_else(|_| path.clone());
        }
    }

    /// Refuses a path below a root, or where commands may read, for a file that only the operator may read or change.
    pub(crate) fn expect_outside(&self, path: &Path) -> Result<(), Failure> {
        // Without roots, commands can read everything anyway.
        if self.root.is_empty() {
            return Ok(());
        }
        let path = real(path);
        let is_in = |folder: &&PathBuf| path.starts_with(real(folder));
        let root = self.root.iter().find(is_in).map(|it| ("the root", it));
        let also_read = || {
            let found = self.also_read.iter().find(is_in);
            found.map(|it| ("--also-read", it))
        };
        let named = root
            .or_else(also_read)
            .map(|(what, it)| (what, it.as_path()));
        // The folders of programs, such as /usr and /opt.
        let system = || lmcp_tools::readable_by_all_commands(&path);
        let Some((what, folder)) = named.or_else(|| Some(("what commands may read,", system()?)))
        else {
            return Ok(());
        };
        let words = format!("{} is below {what} {}", path.display(), folder.display());
        Err(Failure::misuse(words).hint("every client could read it; keep it somewhere else"))
    }

    /// Refuses a socket that commands could remove, in order to listen in its place.
    pub(crate) fn expect_socket_outside(&self, socket: &Path) -> Result<(), Failure> {
        let as_said = std::path::absolute(socket).unwrap_or_else(|_| socket.to_owned());
        // A link in the path can be replaced, too.
        let folder = as_said.parent().map(real).unwrap_or_default();
        let ways = [real(socket), folder, as_said];
        let is_in = |root: &&PathBuf| ways.iter().any(|way| way.starts_with(real(root)));
        let Some(root) = self.root.iter().find(is_in) else {
            return Ok(());
        };
        let words = format!(
            "the socket {} is below the root {}",
            socket.display(),
            root.display()
        );
        Err(Failure::misuse(words).hint(
            "commands could put another in its place and hear what clients say; keep it somewhere else",
        ))
    }

    /// Returns the name of the server.
    pub(crate) fn name(&self) -> &str {
        self.name.as_ref().map_or("lmcp", |name| &name.0)
    }

    /// Returns whether the options say where to listen.
    pub(crate) fn listens(&self) -> bool {
        self.stdio || self.http.is_some() || self.unix.is_some() || self.join.is_some()
    }

    /// Returns the file with the token for the joined hub.
    pub(crate) fn join_token(&self) -> Option<&Path> {
        let shared = self.token_file.as_ref().filter(|_| self.http.is_none());
        self.join_token_file
            .as_ref()
            .or(shared)
            .map(PathBuf::as_path)
    }

    /// Returns whether nothing is to be kept.
    pub(crate) fn keeps_nothing(&self) -> bool {
        let named = self.state_dir.as_ref();
        named.is_some_and(|named| named.as_os_str() == NO_STATE)
    }

    /// Returns an option of this machine's tools on the command line: only `serve` has them.
    pub(crate) fn tool_option(&self) -> Option<&'static str> {
        let said = [
            ("--root", !self.root.is_empty()),
            ("--read-only", self.read_only.is_some()),
            ("--allow-hard-links", self.allow_hard_links.is_some()),
            ("--tools", !self.tools.is_empty()),
            ("--allow", !self.allow.is_empty()),
            ("--ask", !self.ask.is_empty()),
            ("--deny", !self.deny.is_empty()),
            ("--also-read", !self.also_read.is_empty()),
            ("--shell", self.shell.is_some()),
            ("--exit-code-is-error", self.exit_code_is_error.is_some()),
            ("--searxng-url", self.searxng_url.is_some()),
            ("--search-backend", self.search_backend.is_some()),
            ("--fetch-allow", !self.fetch_allow.is_empty()),
            ("--demo", self.demo.is_some()),
            ("--changes-kept", self.changes_kept.is_some()),
            ("--change-bytes-kept", self.change_bytes_kept.is_some()),
            ("--join", self.join.is_some()),
            ("--join-token-file", self.join_token_file.is_some()),
            ("--plain-secrets", self.plain_secrets.is_some()),
        ];
        let found = said.into_iter().find(|(_, is_said)| *is_said);
        found.map(|(name, _)| name)
    }

    /// Returns whether the options name a token.
    pub(crate) fn has_token(&self) -> bool {
        self.token_file.is_some()
            || self.secret.is_some()
            || self.conf.is_some()
            || !self.token.is_empty()
    }

    /// Puts these options over those below. The places to listen are one decision, and the valid tokens are another: if one
    /// of them is set here, no part of it comes from below.
    fn over(self, below: Self) -> Self {
        let (mut listening, mut knowing) = (below.clone(), below.clone());
        if self.listens() {
            listening = self.clone();
        }
        if self.has_token() {
            knowing = self.clone();
        }
        Self {
            root: or_list(self.root, below.root),
            read_only: self.read_only.or(below.read_only),
            allow_hard_links: self.allow_hard_links.or(below.allow_hard_links),
            tools: or_list(self.tools, below.tools),
            // A command line does not remove a prohibition of the file.
            allow: [self.allow, below.allow].concat(),
            ask: [self.ask, below.ask].concat(),
            deny: [self.deny, below.deny].concat(),
            also_read: or_list(self.also_read, below.also_read),
            shell: self.shell.or(below.shell),
            exit_code_is_error: self.exit_code_is_error.or(below.exit_code_is_error),
            searxng_url: self.searxng_url.or(below.searxng_url),
            search_backend: self.search_backend.or(below.search_backend),
            fetch_allow: or_list(self.fetch_allow, below.fetch_allow),
            demo: self.demo.or(below.demo),
            http: listening.http,
            unix: listening.unix,
            idle_exit: self.idle_exit.or(below.idle_exit),
            detach: self.detach,
            stdio: listening.stdio,
            join: listening.join,
            join_token_file: self.join_token_file.or(below.join_token_file),
            plain_secrets: self.plain_secrets.or(below.plain_secrets),
            legacy_sse: self.legacy_sse.or(below.legacy_sse),
            connections: self.connections.or(below.connections),
            memory: self.memory.or(below.memory),
            token_file: knowing.token_file,
            token: knowing.token,
            secret: knowing.secret,
            // Only a file can set these.
            presets: below.presets,
            servers: below.servers,
            groups: below.groups,
            hosts: below.hosts,
            hosts_file: self.hosts_file.or(below.hosts_file),
            hosts_plain_secrets: below.hosts_plain_secrets,
            pin: below.pin,
            conf: knowing.conf,
            allow_host: or_list(self.allow_host, below.allow_host),
            allow_origin: or_list(self.allow_origin, below.allow_origin),
            allow_remote: self.allow_remote.or(below.allow_remote),
            any_local_user: self.any_local_user.or(below.any_local_user),
            roles: below.roles.into_iter().chain(self.roles).collect(),
            name: self.name.or(below.name),
            state_dir: self.state_dir.or(below.state_dir),
            changes_kept: self.changes_kept.or(below.changes_kept),
            change_bytes_kept: self.change_bytes_kept.or(below.change_bytes_kept),
            config: self.config.or(below.config),
        }
    }
}

/// Returns a path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut there = absolute.ancestors();
    there
        .find_map(|ancestor| {
            let found = ancestor.canonicalize().ok()?;
            Some(found.join(absolute.strip_prefix(ancestor).ok()?))
        })
        .unwrap_or(absolute)
}

fn or_list<T>(here: Vec<T>, below: Vec<T>) -> Vec<T> {
    if here.is_empty() { below } else { here }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Options {
        file::parse(text).unwrap()
    }

    #[test]
    fn what_is_said_above_wins_and_the_rest_comes_from_below() {
        let above = said("name = 'above'\nread_only = false\nroot = ['/a']");
        let below = said("name = 'below'\nread_only = true\nroot = ['/b', '/c']\ndemo = true");
        let options = above.over(below);
        assert_eq!(options.name.unwrap().0, "above");
        assert_eq!((options.read_only, options.demo), (Some(false), Some(true)));
        assert_eq!(options.root, [PathBuf::from("/a")]);
    }

    #[test]
    fn where_to_listen_and_who_may_are_decided_as_a_whole() {
        let options = said("unix = '/x'").over(said("http = '8080'\nstdio = true"));
        assert_eq!((options.http.is_some(), options.stdio), (false, false));
        let options = said("token_file = '/x'").over(said("[[token]]\nname = 'a'\nfile = '/y'"));
        assert!(options.token.is_empty());
    }

    #[test]
    fn rules_add_up() {
        let options = said("allow = ['git']").over(said("allow = ['ls']\ndeny = ['rm']"));
        assert_eq!((options.allow.len(), options.deny.len()), (2, 1));
    }
}
