//! What a command finds in its environment: that of the server, without its secrets, with the tool chain of the session, and
//! with everything switched off that waits for a person.

use std::collections::BTreeMap;

use lmcp_core::workplace::is_of_session;

/// Switched off where there is no terminal.
const QUIET: &[(&str, &str)] = &[
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("CLICOLOR", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
];

/// Nobody turns pages, terminal or not.
const ALWAYS: &[(&str, &str)] = &[
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GH_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("SYSTEMD_PAGER", "cat"),
];

/// What a command without a terminal finds in its environment on any host, before its caller adds something.
pub fn quiet() -> impl Iterator<Item = (&'static str, &'static str)> {
    ALWAYS.iter().chain(QUIET).copied()
}

/// Where the server is, and not the command.
const FOLDERS: &[&str] = &["PWD", "OLDPWD"];

/// The environment of a command of a session, with what its caller adds. A session whose tool chain is not known has that
/// of the server.
pub(crate) fn of(
    session: Option<&BTreeMap<String, String>>,
    added: &BTreeMap<String, String>,
    terminal: bool,
) -> BTreeMap<String, String> {
    let inherited = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let mut all: BTreeMap<_, _> = inherited.filter(|(name, _)| !is_ours(name)).collect();
    if let Some(session) = session {
        // A virtual environment that the server was started in is none of this session's. Without PATH nothing runs.
        all.retain(|name, _| !is_of_session(name) || name == "PATH");
        let own = session.iter();
        all.extend(own.map(|(name, value)| (name.clone(), value.clone())));
    }
    let mut set = |pairs: &[(&str, &str)]| {
        for (name, value) in pairs {
            all.insert((*name).to_owned(), (*value).to_owned());
        }
    };
    set(ALWAYS);
    set(if terminal {
        &[("TERM", "xterm-256color")]
    } else {
        QUIET
    });
    if !all.contains_key("LANG") && !all.contains_key("LC_ALL") {
        all.insert("LANG".to_owned(), "C.UTF-8".to_owned());
    }
    all.extend(
        added
            .iter()
            .map(|(name, value)| (name.clone(), value.clone())),
    );
    all
}

/// The server's own settings, its token among them, are none of a command's business; nor is where the server is.
fn is_ours(name: &str) -> bool {
    name.starts_with("LMCP_") || FOLDERS.contains(&name)
}
