//! The user's own server gives up umask, limits and priority of the process that started it, because it serves other
//! sessions, too.
//!
//! Signals need no such step: every server accepts them, and every guard gives its command the defaults.

use rustix::{
    fs::Mode,
    process::{
        Resource, Rlimit, getegid, geteuid, getpriority_process, getrlimit, setpriority_process,
        setrlimit, umask,
    },
};

use crate::report;

/// The limits that are raised, each with a name for people. Open files are raised where connections need them; the limits of
/// stacks and core files do no harm.
const RAISED: [(Resource, &str); 5] = [
    (Resource::Fsize, "size of files"),
    (Resource::Cpu, "time on the processor"),
    (Resource::As, "memory"),
    (Resource::Data, "data in memory"),
    (Resource::Nproc, "number of processes"),
];

/// Sets umask, limits and priority to the values of a server that belongs to no session. Logs what cannot be set.
pub(crate) fn stand_apart() {
    umask(Mode::from_raw_mode(widest_umask()));
    for (resource, what) in RAISED {
        let Rlimit { maximum, .. } = getrlimit(resource);
        let raised = Rlimit {
            current: maximum,
            maximum,
        };
        // If this fails, the limit stays as it was, and the check below sees that.
        let _ = setrlimit(resource, raised);
        let limit = getrlimit(resource).current;
        // Users have a bound on their processes almost everywhere.
        if let Some(limit) = limit.filter(|_| !matches!(resource, Resource::Nproc)) {
            report::note(&format!(
                "warning: who started this server limited the {what} to {limit}, and that holds for all sessions"
            ));
        }
    }
    if getpriority_process(None).is_ok_and(|priority| priority != 0)
        && setpriority_process(None, 0).is_err()
    {
        report::note(
            "warning: who started this server had a low priority, which holds for the commands of all sessions",
        );
    }
}

/// The umask of the server: other users may not write new files. A session narrows it by its own umask, unless the kernel does
/// not tell the server which umask the session has. The group may write where its number says that only this user is in it.
fn widest_umask() -> u32 {
    let user = geteuid();
    if !user.is_root() && user.as_raw() == getegid().as_raw() {
        0o002
    } else {
        0o022
    }
}
