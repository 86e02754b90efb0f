//! The commands and options of the command line.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
};

use clap::{ArgAction, Args, Parser, Subcommand};

use crate::{
    child::STEP,
    client::{self, CallOptions, PingOptions, PromptOptions, ReadOptions, ToolsOptions},
    commands::{bridge, hub, proxy},
    options::Options,
};

/// Serves tools to AI agents over the Model Context Protocol (MCP).
#[derive(Debug, Parser)]
#[command(name = "lmcp", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Log more on stderr; -vv logs all. RUST_LOG selects by module.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the tools of this machine over HTTP, a unix socket or stdio.
    ///
    /// Without options it serves HTTP on 127.0.0.1:8080, for your own programs.
    #[command(after_help = AFTER)]
    Serve(Box<Options>),

    /// Give a client on stdio a server that may be restarted.
    ///
    /// A client starts its server once, and never again. The proxy stays while the
    /// server is restarted or killed: it connects again, and repeats to the new
    /// server what the client had agreed on with the old one.
    #[command(alias = proxy::ALIAS, after_help = proxy::AFTER, verbatim_doc_comment)]
    Proxy(proxy::Options),

    /// Start an agent with an identity and the tools of this machine.
    ///
    /// The agent finds the server as if its own configuration named it; the
    /// configuration is not changed. When the agent ends, the server and its jobs
    /// end, too, and all temporary files are removed.
    #[command(after_help = AFTER_RUN, verbatim_doc_comment)]
    Run(RunOptions),

    /// Serve any MCP server on another transport and in every revision.
    ///
    /// All clients share the server. The bridge starts it, or connects to it, with
    /// the first call, and again when it is lost.
    #[command(after_help = bridge::AFTER, verbatim_doc_comment)]
    Bridge(bridge::Options),

    /// Serve many MCP servers as one.
    ///
    /// The hub starts a server when somebody calls it, stops it when nobody needs
    /// it, and shares it among all clients. A server that fails disturbs no other.
    #[command(after_help = hub::AFTER, verbatim_doc_comment)]
    Hub(Box<hub::HubOptions>),

    /// List the tools of a server, or describe one of them.
    #[command(after_help = client::AFTER)]
    Tools(ToolsOptions),

    /// Call a tool of a server.
    #[command(after_help = client::AFTER_CALL)]
    Call(CallOptions),

    /// Read a resource of a server, or list all resources.
    #[command(after_help = client::AFTER)]
    Read(ReadOptions),

    /// Fill in a prompt of a server, or list all prompts.
    #[command(after_help = client::AFTER)]
    Prompt(PromptOptions),

    /// Check whether a server answers.
    #[command(after_help = client::AFTER)]
    Ping(PingOptions),

    /// What `run` starts, to become the command.
    #[command(name = STEP, hide = true)]
    RunChild {
        parent: i32,
        #[arg(last = true)]
        command: Vec<OsString>,
    },
}

impl Command {
    /// Returns whether the command is a server, whose stderr is a log. The stderr of other commands is a terminal where a
    /// person works.
    pub(crate) fn serves(&self) -> bool {
        match self {
            Self::Serve(_) | Self::Bridge(_) => true,
            Self::Hub(options) => options.command.is_none(),
            Self::Proxy(_)
            | Self::Run(_)
            | Self::Tools(_)
            | Self::Call(_)
            | Self::Read(_)
            | Self::Prompt(_)
            | Self::Ping(_)
            | Self::RunChild { .. } => false,
        }
    }
}

/// The options of `run`. Those about tools are those of `serve`.
#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// The role of the agent in the configuration file, which limits its
    /// tools. [default: agent]
    #[arg(long, value_name = "NAME", verbatim_doc_comment)]
    pub(crate) role: Option<String>,

    /// The name of the agent for people. [default: the name of the command]
    #[arg(long, value_name = "NAME")]
    label: Option<String>,

    /// How the command gets its configuration: claude, codex, gemini,
    /// opencode, or a preset of the configuration file.
    /// [default: by the name of the command]
    #[arg(long, value_name = "NAME", verbatim_doc_comment)]
    pub(crate) preset: Option<String>,

    /// Start a server of its own, even below a program that has one for this
    /// process.
    #[arg(long, verbatim_doc_comment)]
    pub(crate) own: bool,

    /// The process that is the command already, for a version of this program
    /// that goes on where another one was.
    #[arg(long, hide = true, value_name = "PROCESS", verbatim_doc_comment)]
    pub(crate) running: Option<i32>,

    /// Only check that the command could go on with these options.
    #[arg(long, hide = true)]
    pub(crate) check: bool,

    /// Confine the tools to this folder; may be given several times.
    #[arg(long, value_name = "DIR")]
    root: Vec<PathBuf>,

    /// Offer only tools that change nothing.
    #[arg(long)]
    read_only: bool,

    /// Offer only these tools: NAME,NAME; or all but these: -NAME,-NAME.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    tools: Vec<String>,

    /// Read options from this TOML file: those of `serve`, roles and presets.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The command, with its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub(crate) command: Vec<OsString>,
}

impl RunOptions {
    /// Returns the options of a server that are given here.
    pub(crate) fn options(&self) -> Options {
        Options {
            root: self.root.clone(),
            read_only: self.read_only.then_some(true),
            tools: self.tools.clone(),
            config: self.config.clone(),
            ..Options::default()
        }
    }

    /// Returns an option that is given here and only makes sense for a server of its own.
    pub(crate) fn of_a_server(&self) -> Option<&'static str> {
        let said = [
            ("--root", !self.root.is_empty()),
            ("--read-only", self.read_only),
            ("--tools", !self.tools.is_empty()),
            ("--config", self.config.is_some()),
        ];
        said.into_iter()
            .find_map(|(name, is_said)| is_said.then_some(name))
    }

    pub(crate) fn program(&self) -> &OsStr {
        self.command
            .first()
            .map_or(OsStr::new(""), OsString::as_os_str)
    }

    pub(crate) fn label(&self) -> String {
        let program = std::path::Path::new(self.program());
        let name = program.file_name().unwrap_or(program.as_os_str());
        let label = self.label.clone();
        label.unwrap_or_else(|| name.to_string_lossy().into_owned())
    }
}

const AFTER_RUN: &str = "\
Examples:
  lmcp run -- claude
  lmcp run --root ~/src --role reviewer -- codex exec 'review this'
`lmcp run` ends with the exit code of the command. On SIGUSR2 it becomes the
version of lmcp that is installed by then, and the command goes on.";

const AFTER: &str = "\
SIGTERM, SIGHUP and Ctrl-C let running calls end; a second one stops at once.
The command line wins over the environment, and the environment over --config.";
