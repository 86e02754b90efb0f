//! A host without lmcp: a POSIX shell at the other end of a command, for example `ssh HOST sh`, does the work of its tools.
//!
//! The tools are those of `lmcp-tools`, with the same arguments, results and errors. For files, the shell brings the files
//! that a tool needs, the tool itself works on these copies here, and the shell writes back the changes, if nobody else has
//! changed the files meanwhile. For commands, the shell reports the end and the output, and the tool turns the report into
//! its result. So no tool is written twice, and the programs of BusyBox are enough on the host. A call that a shell cannot
//! do is refused, with a hint.
//!
//! | file | what lives there |
//! |---|---|
//! | `pool`, `link` | connections, each with one call at a time |
//! | `quote`, `parts` | the texts for a shell, and its answers |
//! | `facts` | the programs and folders of the host |
//! | `copies` | files of the host, in a folder that stands for its `/` |
//! | `read`, `write`, `list`, `search`, `system` | the tools on files |
//! | `copy` | a file or folder on its way to another host, or from one |
//! | `start`, `run`, `jobs`, `output` | the tools on commands |
//! | `far/*.sh` | the scripts that run on the host |

mod copies;
mod copy;
mod facts;
mod jobs;
mod link;
mod list;
mod output;
mod parts;
mod pool;
mod quote;
mod read;
mod run;
mod search;
mod start;
mod system;
mod write;

use std::{ffi::OsString, pin::Pin, sync::Arc};

use lmcp_core::{Error, Handle, Replies, Request, Server, Service, ToolSet};
use lmcp_tools::elsewhere::{
    Outputs, copy_in, copy_out, edit_file, job_input, job_output, job_stop, jobs as jobs_tool,
    list_dir, read_file, search_files, shell, shell_bg, systeminfo, write_file,
};

use lmcp_wire::{CallToolResult, RpcError, method::request};
use tokio::sync::Mutex;

use link::Way;
use pool::Pool;
pub(crate) use quote::quoted;

/// A host behind a shell, as a service with the tools of a host.
///
/// ```
/// use lmcp_core::Endpoint;
/// use lmcp_fleet::script::ScriptHost;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let host = ScriptHost::new(["sh"])?;
/// let client = Endpoint::new(host).client();
/// let result = client.call_tool("shell", serde_json::json!({ "command": "echo hello" })).await.unwrap();
/// assert_eq!(result.structured_content.unwrap()["stdout"], "hello\n");
/// # Ok::<(), lmcp_core::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct ScriptHost {
    tools: Handle,
    far: Arc<Far>,
}

/// The state that the tools share.
#[derive(Debug)]
struct Far {
    pool: Pool,
    outputs: Outputs,
    /// Held while files are written on the host.
    saving: Mutex<()>,
}

impl ScriptHost {
    /// Returns a host behind this program and its arguments, which start a shell there that reads its standard input. The
    /// program is started with the first call.
    ///
    /// # Errors
    /// No program is named.
    pub fn new(command: impl IntoIterator<Item = impl Into<OsString>>) -> Result<Self, Error> {
        let mut words = command.into_iter().map(Into::into);
        let program = words
            .next()
            .ok_or_else(|| Error::config("no program is named that gives a shell of the host"))?;
        let way = Way {
            program,
            args: words.collect(),
        };
        let far = Arc::new(Far {
            pool: Pool::new(way),
            outputs: Outputs::default(),
            saving: Mutex::default(),
        });
        let set = ToolSet::new(Arc::clone(&far))
            .tool(shell::define(run::shell))
            .tool(shell_bg::define(start::shell_bg))
            .tool(jobs_tool::define(jobs::jobs))
            .tool(job_output::define(output::job_output))
            .tool(job_input::define(output::job_input))
            .tool(job_stop::define(jobs::job_stop))
            .tool(read_file::define(read::read_file))
            .tool(write_file::define(write::write_file))
            .tool(copy_out::define(copy::copy_out))
            .tool(copy_in::define(copy::copy_in))
            .tool(edit_file::define(write::edit_file))
            .tool(list_dir::define(list::list_dir))
            .tool(search_files::define(search::search_files))
            .tool(systeminfo::define(system::systeminfo));
        let server = Server::new("lmcp-script", env!("CARGO_PKG_VERSION")).tools(set);
        Ok(Self {
            tools: server.start()?,
            far,
        })
    }
}

impl Service for ScriptHost {
    fn call(&self, request: Request) -> Replies {
        let is_fetch = request.method() == request::TOOLS_CALL
            && request.target().is_ok_and(|tool| tool == "fetch");
        match is_fetch {
            true => Replies::done(CallToolResult::error(NO_FETCH)),
            false => self.tools.call(request),
        }
    }

    fn close(&self) {
        Service::close(&self.tools);
    }

    fn hang_up(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.far.pool.close();
        Box::pin(std::future::ready(()))
    }

    fn ping(&self) -> Pin<Box<dyn Future<Output = Result<(), RpcError>> + Send + '_>> {
        Box::pin(async {
            let lease = self.far.pool.lease_for_ourselves().await;
            lease
                .map(pool::Lease::done)
                .map_err(|err| RpcError::internal(err.to_string()))
        })
    }

    fn is_idle(&self) -> bool {
        self.tools.is_idle()
    }
}

/// The hint for the one tool that a shell does not do.
const NO_FETCH: &str = "nothing is fetched over a shell\nhint: `curl` or `wget` in a command may do; `lmcp hub push HOST` puts lmcp there, which can";
