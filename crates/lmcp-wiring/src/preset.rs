//! A preset: how one program takes an MCP server. How that is written in TOML is in `said.rs`.

use std::{collections::BTreeMap, path::PathBuf};

use serde::Deserialize;
use toml::Table;

use super::preset_toml::Said;

/// A preset: how an agent takes an MCP server.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Said")]
pub struct Preset {
    pub(crate) kind: Kind,
    /// Variables that it gets besides, unless the user has set them.
    pub(crate) env: BTreeMap<String, String>,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// It is told nothing but the variables of the entry.
    Variables,
    /// A file of its own that a flag names.
    Flag {
        flag: String,
        place: Position,
        shape: Shape,
    },
    /// Words that change single settings.
    Override {
        words: Vec<String>,
        format: Format,
        place: Position,
        own: Option<OwnFile>,
    },
    /// A variable that holds a configuration.
    Env { var: String, shape: Shape },
    /// A variable that names a configuration file.
    EnvFile {
        var: String,
        path: Option<String>,
        shape: Shape,
    },
    /// A home of its own, with a copy of the user's file in it.
    Copy {
        home: Home,
        path: PathBuf,
        shape: Shape,
    },
}

/// What a configuration looks like.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) format: Format,
    /// Where the servers are in it.
    pub(crate) merge_key: Vec<String>,
    pub(crate) entry: Table,
}

/// Where a program keeps what is the user's: what the variable says, else a path.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    pub(crate) var: String,
    pub(crate) path: String,
}

/// The user's own configuration, to be looked at only.
#[derive(Clone, Debug)]
pub(crate) struct OwnFile {
    pub(crate) home: Home,
    pub(crate) path: PathBuf,
    pub(crate) merge_key: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// Comments and last commas are understood.
    #[default]
    #[serde(alias = "jsonc")]
    Json,
    Toml,
}

/// Where words go on the command line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Position {
    /// Behind so many words, the command being the first.
    After(usize),
    /// Behind all of them, but before a `--`.
    Last,
}

impl Format {
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Toml => "toml",
        }
    }
}
