//! Ready-made tools that let an agent work on a host, on the public API of the engine only.
//!
//! | module | content |
//! |---|---|
//! | [`settings`] | the operator's decisions, which no tool can change |
//! | `roots` | the folders that the file tools may use, as the kernel resolves them |
//! | `here` | the folder in which relative paths of a call begin |
//! | `page_cache` | finds files that can be read without waiting |
//! | `room` | how much fits into one result |
//! | `answer` | the result of a tool: a structured value, a short text, more content |
//! | `files` | `read_file`, `write_file`, `edit_file`, `file_history`, `list_dir`, `search_files`; `copy` for fleets |
//! | `process` | `shell`, `shell_bg`, `jobs` and the other tools on jobs |
//! | `web` | `fetch`, `web_search` |
//! | `image` | checks which pictures clients can show |
//! | `host` | `systeminfo` |
//! | `schemas` | the schemas of all tools, as text |
//! | [`elsewhere`] | the same tools for another host: their definitions, and their answers about what happened there |
//! | `instructions` | the words that a model gets before its first call |

mod answer;
mod blocking;
pub mod elsewhere;
mod files;
#[doc(hidden)]
pub mod fuzz;
mod giving_way;
mod here;
mod host;
mod image;
mod instructions;
mod memory;
mod page_cache;
mod pattern;
mod process;
mod room;
mod roots;
mod schemas;
pub mod settings;
mod time;
mod web;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use lmcp_core::{
    Caller, Error, Server, Terms, Tool, ToolError, ToolResult, ToolSet,
    transport::{CheckingLocalPeer, LocalPeer, Peer},
};
use lmcp_wire::RpcError;
use rustix::process::Pid;

pub use answer::Answer;
pub use process::helper::Helper;
pub use settings::Settings;

use files::{history::History, locks::Locks};
use process::{
    commands::Commands,
    holders::Holders,
    owner::Owner,
    peers::{self, Gate, Known},
    reach,
    rights::Rights,
};
use roots::{HardLinks, Roots};

/// The names of the tools, including those that settings may leave out.
pub const NAMES: [&str; 15] = [
    "edit_file",
    "fetch",
    "file_history",
    "job_input",
    "job_output",
    "job_stop",
    "jobs",
    "list_dir",
    "read_file",
    "search_files",
    "shell",
    "shell_bg",
    "systeminfo",
    "web_search",
    "write_file",
];

/// The tools of a host, with everything the operator decided about them.
#[derive(Debug)]
pub struct HostTools {
    host: Arc<Host>,
}

/// The state that the tools share.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) settings: Settings,
    pub(crate) roots: Roots,
    /// The rights that the settings and roots give to tools and commands.
    rights: Rights,
    pub(crate) locks: Locks,
    /// `None` without a folder to keep it in, and where nothing may be changed.
    pub(crate) history: Option<History>,
    pub(crate) web: web::State,
    /// `None` without a helper program, and where nothing may be changed.
    commands: Option<Commands>,
}

impl HostTools {
    /// Checks the settings, and opens the folders that they name.
    ///
    /// # Errors
    /// A root cannot be opened, or this kernel cannot enforce a setting.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let host = Arc::new(Host::new(settings)?);
        Ok(Self { host })
    }

    /// Returns the folders of PATH from which commands cannot run anything, because they are outside of the roots and of the
    /// folders that commands may also read. Meant for a hint to the operator.
    pub fn path_outside(&self) -> Vec<PathBuf> {
        let runs = self.host.commands.is_some();
        let fence = self.host.rights.fence().filter(|_| runs);
        fence.map(reach::path_outside).unwrap_or_default()
    }

    /// Returns three lines for [`Server::instructions_for`]: the host and the caller's folder, what the tools may touch, and
    /// what is special about them.
    pub fn instructions(&self) -> impl Fn(&Caller) -> String + Send + Sync + use<> {
        let host = Arc::clone(&self.host);
        move |caller| host.instructions(caller)
    }

    /// Adds these tools to a server.
    pub fn add_to(self, server: Server) -> Server {
        let (writes, runs) = (!self.host.settings.read_only, self.host.commands.is_some());
        let (admit, admit_local) = checks(self.host.rights.clone());
        let mut set = ToolSet::new(self.host)
            .tool(files::list::tool())
            .tool(files::read::tool())
            .tool(files::copy::out::tool())
            .tool(files::search::tool())
            .tool(host::systeminfo::tool())
            .tool(web::fetch::tool())
            .tool(web::search::tool());
        if writes {
            set = set
                .tool(files::write::tool())
                .tool(files::copy::into::tool())
                .tool(files::edit::tool())
                .tool(files::history::tool());
        }
        if runs {
            set = set
                .tool(process::shell::tool())
                .tool(process::background::tool())
                .tool(process::jobs::tool())
                .tool(process::output::tool())
                .tool(process::input::tool())
                .tool(process::stop::tool())
                .resource(process::resource::output());
        }
        server
            .admit_peers(admit)
            .admit_local_peers(admit_local)
            .tools(set)
    }
}

/// Returns the definitions of all tools, as a host without restrictions lists them: for a program that offers the tools of
/// other hosts.
pub fn definitions() -> Vec<lmcp_wire::Tool> {
    all_tools().iter().map(Tool::definition).collect()
}

/// Returns all tools that a host without restrictions lists.
fn all_tools() -> [Tool<Host>; NAMES.len()] {
    [
        files::edit::tool(),
        web::fetch::tool(),
        files::history::tool(),
        process::input::tool(),
        process::output::tool(),
        process::stop::tool(),
        process::jobs::tool(),
        files::list::tool(),
        files::read::tool(),
        files::search::tool(),
        process::shell::tool(),
        process::background::tool(),
        host::systeminfo::tool(),
        web::search::tool(),
        files::write::tool(),
    ]
}

/// Returns the folder of the system, if there is one, that contains this path and that commands behind every fence can read.
/// No secret belongs there. The path must have no links in it.
pub fn readable_by_all_commands(real: &Path) -> Option<&'static Path> {
    process::fence::lets_all_read(real)
}

/// Returns terms that refuse every process that a confined command started: a service that may do more than the command
/// would be its way past the fence.
pub fn outside_of_fences(terms: Terms) -> Terms {
    let (admit, admit_local) = checks(Rights::default());
    terms.admit_peers(admit).admit_local_peers(admit_local)
}

/// Returns checks that refuse processes with fewer rights than these, or of named callers: on unix sockets, and on loopback.
fn checks(
    rights: Rights,
) -> (
    impl Fn(&Peer) -> Result<(), RpcError> + Send + Sync + 'static,
    impl Fn(LocalPeer) -> CheckingLocalPeer + Send + Sync + 'static,
) {
    let over_http = Gate::of_server(rights.clone(), Owner::Anyone);
    let holders = Arc::new(Holders::new(over_http));
    let gate = Gate::of_server(rights, Owner::User);
    let known = Known::default();
    let admit = move |peer: &Peer| {
        let pid = peer.process().pid.and_then(Pid::from_raw);
        peers::admit(&gate, &known, pid, peer.socket()).map_err(RpcError::from)
    };
    (admit, move |peer| holders.clone().check(peer))
}

impl Host {
    fn new(settings: Settings) -> Result<Self, Error> {
        let roots = Roots::open(&settings.roots)?;
        let paths: Vec<_> = roots.paths().map(Into::into).collect();
        let rights = Rights::of(&settings, &paths)?;
        let helper = settings.helper.clone().filter(|_| !settings.read_only);
        let commands = helper
            .map(|helper| Commands::new(helper, &settings, &paths, rights.clone()))
            .transpose()?;
        let history = History::for_settings(&settings, &paths, &rights);
        Ok(Self {
            web: web::State::new(&settings.web),
            settings,
            rights,
            roots,
            locks: Locks::default(),
            history,
            commands,
        })
    }

    pub(crate) fn commands(&self) -> ToolResult<&Commands> {
        let commands = self.commands.as_ref();
        commands.ok_or_else(|| ToolError::new("this server runs no commands"))
    }

    /// Returns the operator's decision about files with several names.
    pub(crate) fn hard_links(&self) -> HardLinks {
        if self.settings.allow_hard_links {
            HardLinks::Allow
        } else {
            HardLinks::Refuse
        }
    }
}
