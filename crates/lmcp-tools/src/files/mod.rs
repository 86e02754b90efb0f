//! Tools on files, all of them within the roots.

mod atomic;
mod below;
mod charset;
pub(crate) mod copy;
mod draft;
pub(crate) mod edit;
mod escape;
mod exchange;
mod hash;
pub(crate) mod history;
mod hold;
mod ignore;
mod kind;
pub(crate) mod list;
pub(crate) mod locks;
mod meter;
mod notebook;
pub(crate) mod read;
pub(crate) mod search;
mod target;
mod text;
mod turn;
pub(crate) mod write;

/// Names that models give to a `path` out of habit.
pub(crate) const PATH_NAMES: [&str; 6] = [
    "file_path",
    "file",
    "filename",
    "absolute_path",
    "relative_path",
    "target_file",
];
/// Names that models give to the path of a folder.
pub(crate) const FOLDER_NAMES: [&str; 5] =
    ["dir", "directory", "dir_path", "folder", "target_directory"];
