//! The environment of a command: that of the server, without its secrets, with the tool chain of the session, and with
//! everything switched off that waits for a person.

use std::collections::BTreeMap;

use lmcp_core::workplace::is_of_session;

/// Set where there is no terminal: switches colours and questions off.
const QUIET: &[(&str, &str)] = &[
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("CLICOLOR", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
];

/// Set with or without a terminal, because nobody turns pages.
const ALWAYS: &[(&str, &str)] = &[
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GH_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("SYSTEMD_PAGER", "cat"),
];

/// Returns the variables that every command without a terminal gets on any host, before its caller adds some.
pub fn quiet() -> impl Iterator<Item = (&'static str, &'static str)> {
    ALWAYS.iter().chain(QUIET).copied()
}

/// The variables that name the server's folder, which is not the command's.
const FOLDERS: &[&str] = &["PWD", "OLDPWD"];

/// Returns the environment of a command of a session, with the variables that its caller adds. A session whose tool chain is
/// not known has that of the server.
pub(crate) fn of(
    session: Option<&BTreeMap<String, String>>,
    added: &BTreeMap<String, String>,
    terminal: bool,
) -> BTreeMap<String, String> {
    let inherited = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let mut all: BTreeMap<_, _> = inherited.filter(|(name, _)| !is_ours(name)).collect();
    if let Some(session) = session {
        // The server may have been started in a virtual environment, which is not this session's. PATH stays: without it
        // nothing runs.
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

/// Returns whether commands must not see the variable: the server's own settings, its token among them, and the server's
/// folder.
fn is_ours(name: &str) -> bool {
    lmcp_private::is_own_variable(name) || FOLDERS.contains(&name)
}
