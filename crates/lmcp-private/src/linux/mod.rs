//! The checks on Linux: `/proc`, access lists and the kernel's table of sockets tell about users, files and processes.
//!
//! | file | contents |
//! |---|---|
//! | `walk` | checks that no other user can change any step of a path |
//! | `folders` | makes and checks folders and files that must be private |
//! | `above` | corrects the modes of the user's folders that contain them |
//! | `insist` | goes on while a confined command changes modes without pause |
//! | `users` | the owner of a thing, as far as the numbers of users tell |
//! | `sockets` | the owner of the socket at the other end of a TCP connection |
//! | [`guards`] | checks whether a confined command may hold a socket |
//! | [`processes`] | all processes, and those that hold a socket |
//! | `queue` | waits for a place in the queue of a unix socket |
//! | `usual` | the folders of a user, whatever the environment says |

mod above;
#[cfg(test)]
mod fixtures;
mod folders;
pub mod guards;
mod insist;
pub mod mark;
pub mod processes;
mod queue;
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
pub use insist::{Insistence, insist};
pub use queue::connect_in_turn;
pub use sockets::{expect_own_server, tcp_socket, tells_tcp_users};
pub use users::{is_ours, is_ours_or_roots, knows_own_user, whose};
pub use usual::{first_usable, fixed_folders, outer_folders, runtime_folder, spare_folder};
