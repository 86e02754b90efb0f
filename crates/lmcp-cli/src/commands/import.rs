//! `lmcp hub import`: writes the servers of this user's clients as a configuration of ours.

use std::{
    env, fs,
    io::{self, Read as _, Write as _, stdout},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use clap::Args;
use lmcp::{
    hub::{Reach, ServerConfig, Servers, add, import, jsonc, to_toml},
    wire::hidden::unhidden,
};
use rustix::fs::OFlags;
use serde_json::Value;

use crate::report::{self, Failure};

/// The options of `lmcp hub import`.
#[derive(Debug, Args)]
pub(crate) struct ImportOptions {
    /// Configurations to read. [default: those of Claude Code, Claude
    /// Desktop, Cursor, VS Code, Codex, Gemini and OpenCode that are there;
    /// in the current folder, only files that nobody else can have written]
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
        // The file may belong to another user, and neither its name nor its words must look like a line of ours.
        let shown = unhidden(&path.display().to_string());
        let read = match read(path, !is_asked && path.is_relative()) {
            Ok(read) => read,
            Err(Unread::Absent) if !is_asked => continue,
            Err(Unread::Absent) => {
                return Err(Failure::misuse(format!("there is no {shown}")));
            }
            Err(Unread::Broken(why)) => {
                report::note(&format!("{shown}: {why}"));
                continue;
            }
        };
        let (found, notes) = import(&read, project(path).as_deref());
        // A file without servers is only reported if it was named on the command line.
        if is_asked || !found.is_empty() || !notes.is_empty() {
            report::note(&format!("{shown}: {} servers", found.len()));
        }
        for note in notes {
            report::note(&format!("{shown}: {}", unhidden(&note)));
        }
        for (name, config) in found {
            add(&mut servers, &name, config);
        }
    }
    if servers.is_empty() {
        return Err(Failure::of("no servers were found"));
    }
    if servers.values().any(may_have_secrets) {
        report::note(
            "what clients have in `env` and `headers` is now in this file: keep it to yourself (chmod 600)",
        );
    }
    let written = stdout().write_all(to_toml(&servers).as_bytes());
    written.map_err(|err| Failure::new("cannot write the configuration", err))
}

/// Returns the folder of the project that a file belongs to. `None`: the file is for all projects.
fn project(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    let home = env::var_os("HOME").map(PathBuf::from);
    let folder = path.parent()?;
    let is_hidden = folder.file_name().is_some_and(|name| {
        [".cursor", ".vscode", ".gemini", ".codex", ".opencode"]
            .iter()
            .any(|known| name == *known)
    });
    let folder = if is_hidden { folder.parent()? } else { folder };
    // OpenCode's usual place is in a folder with its name.
    let is_of_all = folder.file_name().is_some_and(|name| name == "opencode");
    let is_of_project =
        is_hidden || !is_of_all && IN_PROJECTS.iter().any(|name| path.ends_with(name));
    (is_of_project && home.as_deref() != Some(folder)).then(|| folder.to_owned())
}

fn may_have_secrets(config: &ServerConfig) -> bool {
    match &config.reach {
        Reach::Command { env, .. } => !env.is_empty(),
        Reach::Url { headers, .. } => !headers.is_empty(),
        _ => false,
    }
}

enum Unread {
    Absent,
    Broken(String),
}

/// Reads a configuration, in JSON or TOML by its name. No part of it is shown, because there may be tokens in it. A file in
/// the current folder that was not named must be trusted: the folder may belong to another user, and servers are programs to
/// start.
fn read(path: &Path, must_be_trusted: bool) -> Result<Value, Unread> {
    let broken = |err: io::Error| match err.kind() {
        io::ErrorKind::NotFound => Unread::Absent,
        _ => Unread::Broken(format!("it cannot be read: {err}")),
    };
    let file = match must_be_trusted {
        true => {
            // A pipe of another user must not block us.
            let flags = OFlags::NONBLOCK.bits().cast_signed();
            let opened = fs::OpenOptions::new()
                .read(true)
                .custom_flags(flags)
                .open(path);
            let file = opened.map_err(broken)?;
            let left_out = |err| {
                Unread::Broken(format!(
                    "it is left out: {err}; `lmcp hub import FILE` reads it all the same"
                ))
            };
            lmcp_private::expect_trusted(&file, path).map_err(left_out)?;
            file
        }
        false => fs::File::open(path).map_err(broken)?,
    };
    let mut text = String::new();
    file.take(MOST).read_to_string(&mut text).map_err(broken)?;
    if path.extension().is_some_and(|kind| kind == "toml") {
        return toml::from_str(&text).map_err(|err: toml::de::Error| {
            let start = err.span().map_or(0, |span| span.start);
            let before = text.get(..start).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            Unread::Broken(format!("line {line}: it is no TOML"))
        });
    }
    serde_json::from_slice(&jsonc::plain(&text))
        .map_err(|err| Unread::Broken(format!("line {}: it is no JSON", err.line())))
}

/// Returns the places where clients keep their servers: in the home, and in the current folder.
fn places() -> Vec<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from);
    let set = |name: &str| env::var_os(name).map(PathBuf::from);
    let config = set("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
    let mut all = Vec::new();
    for (folder, files) in [
        (&set("CLAUDE_CONFIG_DIR"), &[".claude.json"][..]),
        (&home, &AT_HOME),
        (&config, &IN_CONFIG),
        (&set("CODEX_HOME"), &["config.toml"]),
        (&Some(PathBuf::new()), &HERE),
    ] {
        let folder = folder.iter();
        all.extend(folder.flat_map(|folder| files.iter().map(|file| folder.join(file))));
    }
    all
}

const AT_HOME: [&str; 7] = [
    ".claude.json",
    "Library/Application Support/Claude/claude_desktop_config.json",
    ".cursor/mcp.json",
    "Library/Application Support/Code/User/mcp.json",
    "Library/Application Support/Code/User/settings.json",
    ".codex/config.toml",
    ".gemini/settings.json",
];

const IN_CONFIG: [&str; 5] = [
    "Claude/claude_desktop_config.json",
    "Code/User/mcp.json",
    "Code/User/settings.json",
    "opencode/opencode.json",
    "opencode/opencode.jsonc",
];

const HERE: [&str; 7] = [
    ".mcp.json",
    ".cursor/mcp.json",
    ".vscode/mcp.json",
    ".codex/config.toml",
    ".gemini/settings.json",
    "opencode.json",
    "opencode.jsonc",
];

/// Files that are in the folder of a project itself.
const IN_PROJECTS: [&str; 3] = [".mcp.json", "opencode.json", "opencode.jsonc"];

/// The length of the longest file: some clients keep their history beside their servers.
const MOST: u64 = 64 << 20;
