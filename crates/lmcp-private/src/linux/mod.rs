//! What Linux tells about users, files and processes, by `/proc`, access lists and the kernel's table of sockets.
//!
//! | file | what lives there |
//! |---|---|
//! | `walk` | is every step of a path out of the hands of other users? |
//! | `folders` | folders and files that must be private, made or checked |
//! | `above` | folders of the user that hold those: their modes are put right |
//! | `users` | whose something is, as far as the numbers of users tell |
//! | `sockets` | whose socket is at the other end of a TCP connection |
//! | [`guards`] | whose command a socket may be of, of those that are confined |
//! | [`processes`] | all processes, and which hold a socket |
//! | `usual` | where the folders of a user are, whatever the environment says |

mod above;
#[cfg(test)]
mod fixtures;
mod folders;
pub mod guards;
pub mod mark;
pub mod processes;
mod sockets;
mod users;
mod usual;
mod walk;

pub use above::mend_way;
pub use folders::{
    expect_private, expect_safe, expect_safe_name, expect_secret, expect_trusted, make_or_mend,
    make_own, make_private, mend, mend_file, open_secret, remove_default_acl, restore,
    restore_folder_of,
};
pub use sockets::{expect_own_server, tcp_socket, tells_tcp_users};
pub use users::{is_ours, is_ours_or_roots, knows_own_user, whose};
pub use usual::{first_usable, fixed_folders, outer_folders, runtime_folder, spare_folder};
