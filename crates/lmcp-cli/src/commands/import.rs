//! `lmcp hub import`: the servers that the clients of this user have, as a configuration of ours.

use std::{
    env, fs,
    io::{self, Read as _, Write as _, stdout},
    path::{Path, PathBuf},
};

use clap::Args;
use lmcp::hub::{Servers, add, import, jsonc, to_toml};
use serde_json::Value;

use crate::report::{self, Failure};

/// What can be said to it.
#[derive(Debug, Args)]
pub(crate) struct ImportOptions {
    /// Configurations to read. [default: those of Claude Code, Claude
    /// Desktop, Cursor, VS Code, Codex, Gemini and OpenCode that are there]
    #[arg(value_name = "FILE", verbatim_doc_comment)]
    files: Vec<PathBuf>,
}

pub(crate) fn run(options: &ImportOptions) -> Result<(), Failure> {
    let mut servers = Servers::new();
    let is_asked = !options.files.is_empty();
    let files = match is_asked {
        true => options.files.clone(),
        false => places(),
    };
    for path in &files {
        let read = match read(path) {
            Ok(read) => read,
            Err(Unread::Absent) if !is_asked => continue,
            Err(Unread::Absent) => {
                return Err(Failure::misuse(format!("there is no {}", path.display())));
            }
            Err(Unread::Broken(why)) => {
                report::note(&format!("{}: {why}", path.display()));
                continue;
            }
        };
        let (found, notes) = import(&read);
        report::note(&format!("{}: {} servers", path.display(), found.len()));
        for note in notes {
            report::note(&format!("{}: {note}", path.display()));
        }
        for (name, config) in found {
            add(&mut servers, &name, config);
        }
    }
    if servers.is_empty() {
        return Err(Failure::of("no servers were found"));
    }
    let written = stdout().write_all(to_toml(&servers).as_bytes());
    written.map_err(|err| Failure::new("cannot write the configuration", err))
}

enum Unread {
    Absent,
    Broken(String),
}

/// A configuration, in JSON or TOML by its name. No part of it is shown: there may be tokens in it.
fn read(path: &Path) -> Result<Value, Unread> {
    let broken = |err: io::Error| match err.kind() {
        io::ErrorKind::NotFound => Unread::Absent,
        _ => Unread::Broken(format!("it cannot be read: {err}")),
    };
    let file = fs::File::open(path).map_err(broken)?;
    let mut text = String::new();
    file.take(MOST).read_to_string(&mut text).map_err(broken)?;
    if path.extension().is_some_and(|kind| kind == "toml") {
        let none = |_| Unread::Broken("it is no TOML".to_owned());
        return toml::from_str(&text).map_err(none);
    }
    serde_json::from_slice(&jsonc::plain(&text))
        .map_err(|err| Unread::Broken(format!("line {}: it is no JSON", err.line())))
}

/// Where clients have their servers: in the home, and in the folder that somebody works in.
fn places() -> Vec<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from);
    let at_home = home
        .iter()
        .flat_map(|home| AT_HOME.map(|path| home.join(path)));
    at_home.chain(HERE.map(PathBuf::from)).collect()
}

const AT_HOME: [&str; 10] = [
    ".claude.json",
    ".config/Claude/claude_desktop_config.json",
    "Library/Application Support/Claude/claude_desktop_config.json",
    ".cursor/mcp.json",
    ".config/Code/User/mcp.json",
    "Library/Application Support/Code/User/mcp.json",
    ".codex/config.toml",
    ".gemini/settings.json",
    ".config/opencode/opencode.json",
    ".config/opencode/opencode.jsonc",
];

const HERE: [&str; 5] = [
    ".mcp.json",
    ".cursor/mcp.json",
    ".vscode/mcp.json",
    ".gemini/settings.json",
    "opencode.json",
];

/// Some clients keep their history beside their servers.
const MOST: u64 = 64 << 20;
