//! Tools on processes: `shell`, `shell_bg`, `jobs`, `job_output`, `job_input`, `job_stop`.
//!
//! Every command has a [`guard`], a process of its own between the server and the command. `commands` is the
//! server's side of a guard; `store` reads the records that commands leave on disk.

mod attend;
pub(crate) mod background;
pub(crate) mod commands;
pub(crate) mod dir;
pub(crate) mod elsewhere;
mod enter;
pub(crate) mod environment;
mod exit;
pub(crate) mod fence;
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
mod filter;
mod follow;
mod forget;
mod guard;
pub(crate) mod helper;
pub(crate) mod holders;
pub(crate) mod input;
pub(crate) mod jobs;
mod link;
mod long;
pub(crate) mod output;
pub(crate) mod owner;
mod page;
mod passing;
mod pattern;
pub(crate) mod peers;
mod places;
mod plain;
mod program;
mod protocol;
pub(crate) mod reach;
mod reads;
mod remove;
pub(crate) mod resource;
pub(crate) mod rights;
pub(crate) mod rules;
mod screen;
mod search;
mod searches;
pub(crate) mod shell;
mod show;
mod spool;
pub(crate) mod stop;
pub(crate) mod store;
mod tree;
pub(crate) mod typing;
mod unwatched;
mod variables;
mod wait;

/// Names that models give to the `id` of a job out of habit.
const ID_NAMES: [&str; 5] = ["job_id", "bash_id", "shell_id", "task_id", "session_id"];
/// Names that models give to the folder of a command.
const FOLDER_NAMES: [&str; 6] = [
    "workdir",
    "working_dir",
    "working_directory",
    "directory",
    "dir",
    "dir_path",
];
