//! Finds the owner of a thing by the number that the kernel gives for its user.
//!
//! In a user namespace, one number (`overflowuid`) stands for all users without a number there. Several users share it, and it
//! may also be the number of this process. So nothing is trusted because of this number.

use std::{
    fs, io,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::process::geteuid;

use crate::Whose;

/// Returns the owner of a file, a process or a socket by the number of its user.
pub fn whose(user: u32) -> Whose {
    if USERS.is_shared(user) {
        Whose::Unknown
    } else if user == geteuid().as_raw() {
        Whose::Ours
    } else if user == 0 {
        Whose::Roots
    } else {
        Whose::Others
    }
}

/// Whether this is certainly the user of this process.
pub fn is_ours(user: u32) -> bool {
    whose(user) == Whose::Ours
}

/// Whether this is certainly the user of this process or root.
pub fn is_ours_or_roots(user: u32) -> bool {
    matches!(whose(user), Whose::Ours | Whose::Roots)
}

/// Whether this process can tell its own user from others.
pub fn knows_own_user() -> bool {
    is_ours(geteuid().as_raw())
}

/// Whether this number stands for all groups without one in this user namespace.
pub(crate) fn is_shared_group(group: u32) -> bool {
    GROUPS.is_shared(group)
}

static USERS: Numbers = Numbers {
    map: "/proc/self/uid_map",
    overflow: "/proc/sys/kernel/overflowuid",
    knows_all: AtomicBool::new(false),
};

static GROUPS: Numbers = Numbers {
    map: "/proc/self/gid_map",
    overflow: "/proc/sys/kernel/overflowgid",
    knows_all: AtomicBool::new(false),
};

/// The numbers of users, or of groups, in the namespace of this process.
struct Numbers {
    map: &'static str,
    overflow: &'static str,
    /// Whether all users have numbers here. A map is written once, so this stays true.
    knows_all: AtomicBool,
}

impl Numbers {
    fn is_shared(&self, number: u32) -> bool {
        if self.knows_all.load(Ordering::Relaxed) {
            return false;
        }
        let map = match fs::read_to_string(self.map) {
            Ok(map) => Some(map),
            // A kernel without user namespaces has no maps, and all users have numbers.
            Err(err) if err.kind() == io::ErrorKind::NotFound && has_proc() => Some(ALL.to_owned()),
            Err(_) => None,
        };
        if map.as_deref().is_some_and(knows_all) {
            self.knows_all.store(true, Ordering::Relaxed);
        }
        let overflow = fs::read_to_string(self.overflow).ok();
        is_shared(number, map.as_deref(), overflow.as_deref())
    }
}

/// The map of a namespace in which all users have their outer numbers.
const ALL: &str = "0 0 4294967295";

/// The number that the kernel uses unless root has set another.
const USUAL_OVERFLOW: u32 = 65_534;

fn has_proc() -> bool {
    Path::new("/proc/self/status").exists()
}

fn knows_all(map: &str) -> bool {
    map.split_ascii_whitespace()
        .eq(ALL.split_ascii_whitespace())
}

/// Whether this number stands for all users without a number in the namespace. This holds even if the map gives the number to a
/// user. If a file cannot be read, the answer is yes for the usual number.
fn is_shared(number: u32, map: Option<&str>, overflow: Option<&str>) -> bool {
    let overflow = overflow.and_then(|text| text.trim().parse().ok());
    let overflow = overflow.unwrap_or(USUAL_OVERFLOW);
    number == overflow && !map.is_some_and(knows_all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_without_a_number_are_told_from_users() {
        let all = Some("         0          0 4294967295\n");
        let one = Some("      1000       1000          1\n");
        let nobody = Some("     65534       1000          1\n");
        let usual = Some("65534\n");
        assert!(is_shared(65_534, one, usual));
        assert!(is_shared(65_534, nobody, usual), "and others as well");
        assert!(is_shared(65_534, Some(""), usual), "nobody has a number");
        assert!(!is_shared(1000, one, usual));
        assert!(!is_shared(65_534, one, Some("99\n")));
        assert!(is_shared(99, one, Some("99\n")));
        assert!(!is_shared(65_534, all, usual), "there it is a user");
        assert!(is_shared(65_534, None, None), "nobody can tell");
        assert!(!is_shared(1000, None, None));
    }
}
