//! The tools of a host, for another host that has no server of its own: their definitions, their arguments, and answers in
//! the same words.
//!
//! A tool is made with the `define` of its module and a function that does the work there. The code that answers for this
//! host then builds the answer from what was found there:
//!
//! - **Files** are copied into a [`Mirror`], a folder that stands for the other host's `/`. The tools on files work on it as
//!   they would there, and answer as they would there. The code that copied the files writes changed ones back.
//! - **Commands** are described by a [`Job`] and a record of their output ([`copy_output`]).
//!
//! ```
//! use std::sync::Arc;
//! use lmcp_core::{Cx, Server, ToolError, ToolResult, ToolSet};
//! use lmcp_tools::{Answer, elsewhere::shell};
//!
//! struct Far;
//!
//! async fn run(_far: Arc<Far>, _args: shell::Args, _cx: Cx) -> ToolResult<Answer<shell::Ran>> {
//!     Err(ToolError::new("nobody is there"))
//! }
//!
//! let server = Server::new("far", "0").tools(ToolSet::new(Arc::new(Far)).tool(shell::define(run)));
//! ```

mod mirror;

pub use crate::process::elsewhere::{
    Command, End, Job, LOOKED_AT, Mark, Outputs, Pieces, Reading, Stop, copy_output, ended,
    expect_id, handed_over, listed, new_id, no_job, started, stopped,
};
pub use crate::process::environment::quiet;
pub use crate::process::typing::{Typed, Typing};
pub use mirror::Mirror;

/// `shell`.
pub mod shell {
    pub use crate::process::shell::{Args, Ran, define};
}

/// `shell_bg`.
pub mod shell_bg {
    pub use crate::process::background::{Args, Started, define};
}

/// `jobs`.
pub mod jobs {
    pub use crate::process::jobs::{Args, Jobs, Listed, define};
}

/// `job_output`.
pub mod job_output {
    pub use crate::process::output::{Args, Output, define};
}

/// `job_input`.
pub mod job_input {
    pub use crate::process::input::{Args, Sent, define};
}

/// `job_stop`.
pub mod job_stop {
    pub use crate::process::stop::{Args, Stopped, define};
}

/// `read_file`.
pub mod read_file {
    pub use crate::files::read::{Args, Files, define};
}

/// `write_file`.
pub mod write_file {
    pub use crate::files::write::{Args, Written, define};
}

/// The types for copying files in a fleet that both ends of a copy know.
pub mod copy {
    pub use crate::files::copy::{Entry, Kind, MOST_ENTRIES, PART_BYTES, is_same_stamp};
}

/// `copy_out`: the end that a copy comes from.
pub mod copy_out {
    pub use crate::files::copy::out::{Args, What, changed, define};
}

/// `copy_in`: the end that a copy goes to.
pub mod copy_in {
    pub use crate::files::copy::into::{Args, What, already_there, define};
}

/// `edit_file`.
pub mod edit_file {
    pub use crate::files::edit::{Args, Edits, define};
}

/// `list_dir`.
pub mod list_dir {
    pub use crate::files::list::{Args, Listing, define};
}

/// `search_files`.
pub mod search_files {
    pub use crate::files::search::{Args, SearchResult, define};
}

/// `systeminfo`.
pub mod systeminfo {
    pub use crate::host::systeminfo::{Args, FILES_TO_COPY, SystemInfo, define};
}
