//! Files and folders that belong to one user alone: state, sockets, keys, credentials.
//!
//! | file | what lives there |
//! |---|---|
//! | `walk` | is every step of a path out of the hands of other users? |
//! | `folders` | folders and files that must be private, made or checked |
//! | `usual` | where the folders of a user are, whatever the environment says |
//!
//! Everything that is trusted because of where it lies goes through here, so that there is one place to get it right.

mod folders;
mod usual;
mod walk;

pub use folders::{
    expect_private, expect_safe, expect_safe_name, expect_trusted, make_or_mend, make_own,
    make_private, mend, mend_file, open_secret, remove_default_acl,
};
pub use usual::{first_usable, fixed_folders, outer_folders, runtime_folder, spare_folder};
