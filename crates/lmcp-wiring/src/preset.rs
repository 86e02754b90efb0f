//! A preset: the way in which one program takes an MCP server. Its form in TOML is in `preset_toml.rs`.

use std::{collections::BTreeMap, path::PathBuf};

use serde::Deserialize;
use toml::Table;

/// A preset: how an agent takes an MCP server.
#[derive(Clone, Debug)]
pub struct Preset {
    pub(crate) kind: Kind,
    /// Additional variables for the program, unless the user has set them.
    pub(crate) env: BTreeMap<String, String>,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// The program gets only the variables of the entry.
    Variables,
    /// A flag names a file that is made for the program.
    Flag {
        flag: String,
        place: Position,
        shape: Shape,
    },
    /// Words on the command line change single settings.
    Override {
        words: Vec<String>,
        format: Format,
        place: Position,
        own: Option<OwnFile>,
    },
    /// A variable holds a configuration.
    Env { var: String, shape: Shape },
    /// A variable names a configuration file.
    EnvFile {
        var: String,
        path: Option<String>,
        shape: Shape,
    },
    /// The program gets a home of its own, with a copy of the user's file in it.
    Copy {
        home: Home,
        path: PathBuf,
        shape: Shape,
    },
}

/// The form of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) format: Format,
    /// The place of the servers in it.
    pub(crate) merge_key: Vec<String>,
    pub(crate) entry: Table,
}

/// The home with the user's files of a program: the value of the variable, else the path.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    pub(crate) var: String,
    pub(crate) path: String,
}

/// The user's own configuration, which is only read.
#[derive(Clone, Debug)]
pub(crate) struct OwnFile {
    pub(crate) home: Home,
    pub(crate) path: PathBuf,
    pub(crate) merge_key: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// Comments and trailing commas are accepted.
    #[default]
    #[serde(alias = "jsonc")]
    Json,
    Toml,
}

/// The place of words on the command line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Position {
    /// After this number of words; the command is the first.
    After(usize),
    /// At the end, but before a `--`.
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
