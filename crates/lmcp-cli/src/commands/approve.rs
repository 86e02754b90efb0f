//! `lmcp hub approve`: shows the definitions that have changed at the servers of a hub, and approves them.

use std::{
    fmt::Write as _,
    io::{self, Write as _, stdout},
    path::PathBuf,
};

use clap::Args;
use lmcp::{
    hub::{Approvals, Change},
    wire::hidden::unhidden,
};

use crate::{options::Options as Serving, report::Failure, state};

/// The options of `lmcp hub approve`.
#[derive(Debug, Args)]
pub(crate) struct ApproveOptions {
    /// Names to approve: a server with all that it offers, or single tools of
    /// it, by its own names. Without any, what has changed is shown.
    #[arg(value_name = "SERVER[/TOOL]", verbatim_doc_comment)]
    names: Vec<String>,

    /// Where the hub keeps things, as it was told.
    /// [env: LMCP_STATE_DIR]
    #[arg(long, value_name = "DIR", verbatim_doc_comment)]
    state_dir: Option<PathBuf>,

    /// The file of the hub, if it says where things are kept.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(crate) const AFTER: &str = "\
A running hub notices within a second. You approve what the server said last;
if that changes again, it waits for approval again.";

pub(crate) fn run(options: ApproveOptions) -> Result<(), Failure> {
    let serving = Serving {
        state_dir: options.state_dir,
        config: options.config,
        ..Serving::default()
    };
    let serving = serving.settle_with_servers()?;
    let Some(folder) = state::directory(&serving)? else {
        let failure = Failure::misuse("nothing is kept here, so there is nothing to approve");
        return Err(failure.hint("name the folder of the hub with --state-dir"));
    };
    let approvals = Approvals::in_folder(folder.join(super::hub::FOLDER));
    let failed = |err| Failure::new("what was approved cannot be read or kept", err);
    if options.names.is_empty() {
        let changes = approvals.changes().or_else(|err| match err.kind() {
            // No hub has kept anything yet.
            io::ErrorKind::NotFound => Ok(Vec::new()),
            _ => Err(failed(err)),
        })?;
        return show(&changes, "nothing has changed", "");
    }
    let known = approvals.servers().map_err(failed)?;
    let mut wanted: Vec<(&str, Option<&str>)> = Vec::new();
    for name in &options.names {
        wanted.push(meant(name, &known)?);
    }
    // All are approved or none: a mistake in the last word must not leave the first approved.
    for (server, tool) in &wanted {
        let Some(tool) = tool else { continue };
        let changes = approvals.of(server).map_err(failed)?;
        let mut changed = changes.iter().filter_map(|change| change.tool.as_deref());
        if !changed.any(|changed| changed == *tool) {
            let words = format!("`{tool}` of server `{server}` has not changed");
            return Err(Failure::misuse(words).hint("`lmcp hub approve` shows what has"));
        }
    }
    let mut approved = Vec::new();
    for (server, tool) in wanted {
        let tool = tool.map(|tool| [tool.to_owned()]);
        let tools = tool.as_ref().map(<[String; 1]>::as_slice);
        let changes = approvals.approve(server, tools).map_err(failed)?;
        approved.push((server.to_owned(), changes));
    }
    approved.retain(|(_, changes)| !changes.is_empty());
    show(&approved, "nothing has changed", "approved ")
}

/// Returns the server, and perhaps the tool, that a word names. Both names may contain a `/`.
fn meant<'a>(name: &'a str, servers: &[String]) -> Result<(&'a str, Option<&'a str>), Failure> {
    let is_known = |name: &str| servers.iter().any(|server| server == name);
    if is_known(name) {
        return Ok((name, None));
    }
    let mut slashes = name.match_indices('/');
    let split = slashes.find_map(|(at, _)| {
        let (server, tool) = (name.get(..at)?, name.get(at + 1..)?);
        is_known(server).then_some((server, Some(tool)))
    });
    split.ok_or_else(|| {
        let failure = Failure::misuse(format!("no hub has seen a server for `{name}`"));
        failure.hint(match servers {
            [] => "no hub has kept anything here; --state-dir names another folder".to_owned(),
            _ => format!("there are {}", servers.join(", ")),
        })
    })
}

/// Shows the changes, each with the old and the new text. A server wrote them: they must not control the terminal, and
/// nothing in them may be invisible.
fn show(all: &[(String, Vec<Change>)], none: &str, verb: &str) -> Result<(), Failure> {
    let mut text = String::new();
    for (server, changes) in all {
        for change in changes {
            let name = match &change.tool {
                Some(tool) => format!("{server}/{tool}"),
                None => server.clone(),
            };
            let name = unhidden(&name);
            let new = if change.is_new() { " (new)" } else { "" };
            let _ = writeln!(text, "{verb}{name}{new}");
            for part in &change.parts {
                let _ = writeln!(text, "  {}", part.part);
                for (sign, value) in [('-', &part.before), ('+', &part.now)] {
                    let lines = value.iter().flat_map(|value| value.lines());
                    for line in lines {
                        let _ = writeln!(text, "    {sign} {}", unhidden(line));
                    }
                }
            }
        }
    }
    if text.is_empty() {
        let _ = writeln!(text, "{none}");
    }
    let written = stdout().write_all(text.as_bytes());
    written.map_err(|err| Failure::new("cannot write what has changed", err))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stands_for_a_server_or_a_tool_of_it() {
        let servers = ["db", "a/b"].map(str::to_owned);
        let meant = |name| meant(name, &servers).ok();
        assert_eq!(meant("db"), Some(("db", None)));
        assert_eq!(meant("db/query/all"), Some(("db", Some("query/all"))));
        assert_eq!(meant("a/b"), Some(("a/b", None)));
        assert_eq!(meant("a/b/c"), Some(("a/b", Some("c"))));
        assert_eq!(meant("a/c"), None);
    }
}
