//! The operator's decisions. No tool can change any of them.

use std::{path::PathBuf, time::Duration};

use crate::process::helper::Helper;

pub use crate::process::rules::{Decision, Rule};
pub use crate::web::{
    allow::Allow,
    settings::{Backend, Search, Secret, Web},
};

/// The settings of the tools. Start from [`Settings::default`] and change what you must.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The folders that the file tools are confined to, and commands, too. Empty: the whole file system, as far as the
    /// user of this process may go.
    pub roots: Vec<PathBuf>,
    /// Folders outside of the roots that commands may read: tool chains in a home, say.
    pub also_read: Vec<PathBuf>,
    /// Files below a root that have another name somewhere, perhaps outside of it: refused unless this is said.
    pub allow_hard_links: bool,
    /// Only tools that change nothing.
    pub read_only: bool,
    /// What the tools on the web may do.
    pub web: Web,

    /// The program that guards commands. Without it there are no tools that run any.
    pub helper: Option<Helper>,
    /// Makes this process adopt what a guard leaves behind that was killed, to end it: for programs that start no processes
    /// of their own, because every child that is no guard is taken for such an orphan. False: orphans are then found by
    /// their session alone, which a command can leave.
    pub adopt_orphans: bool,
    /// Where jobs are kept, so that they and their output outlive the server. Without it they end with it, and no history of
    /// changed files is kept.
    pub state_dir: Option<PathBuf>,
    /// Which commands may run. None: all.
    pub rules: Vec<Rule>,
    /// The shell for lines; bash where there is one, else sh.
    pub shell: Option<String>,
    /// Tells a command that failed as an error, but for exit code 1 of `grep`, `diff`, `test` and their like. False: a command
    /// that ran is an answer, and only one that could not be run or was ended by the server is an error.
    pub exit_code_is_error: bool,
    /// The longest a command may ask for. 1 hour: longer work is a job.
    pub most_timeout: Duration,
    /// From asking a command to end to ending it. 2 seconds: enough to tidy up.
    pub grace_ms: u64,
    /// Commands at once that somebody waits for. 256; more are refused. A caller that has a name may hold at most twice as
    /// many as stay free for others: two thirds if it is alone. The same holds for jobs.
    pub commands_at_once: usize,
    /// Jobs at once. 64, shared between callers like commands; more are refused, and a command that would be handed over
    /// goes on as a call.
    pub jobs_at_once: usize,
    /// Output recorded of one command, in bytes. 256 MiB; of more, the first quarter and the end.
    pub output_bytes_kept: u64,
    /// Jobs kept that have ended. 64; of more, the oldest of the caller that keeps most is forgotten.
    pub jobs_kept: usize,
    /// Their output, together, in bytes. 1 GiB; of more, the oldest of the caller that keeps most is forgotten.
    pub job_bytes_kept: u64,
    /// And for how long. 7 days.
    pub jobs_kept_for: Duration,
    /// Changes of files that can be undone. 500, of all callers together and for as long as jobs; of more, the oldest are
    /// forgotten. 0: none.
    pub changes_kept: usize,
    /// Their content, together, in bytes. 64 MiB; of more, the oldest are forgotten, and a change of more than a fourth of it
    /// is not kept.
    pub change_bytes_kept: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            also_read: Vec::new(),
            allow_hard_links: false,
            read_only: false,
            web: Web::default(),
            helper: None,
            adopt_orphans: false,
            state_dir: None,
            rules: Vec::new(),
            shell: None,
            exit_code_is_error: false,
            most_timeout: Duration::from_secs(60 * 60),
            grace_ms: 2000,
            commands_at_once: 256,
            jobs_at_once: 64,
            output_bytes_kept: 256 * 1024 * 1024,
            jobs_kept: 64,
            job_bytes_kept: 1024 * 1024 * 1024,
            jobs_kept_for: Duration::from_secs(7 * 24 * 60 * 60),
            changes_kept: 500,
            change_bytes_kept: 64 * 1024 * 1024,
        }
    }
}
