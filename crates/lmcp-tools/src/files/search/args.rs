//! The arguments of `search_files`.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Arguments of `search_files`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Regular expression; in mode `names` a glob.
    #[schemars(length(max = 32768))]
    pattern: String,
    /// Folder or file.
    #[schemars(length(min = 1))]
    #[serde(default = "here")]
    pub(super) path: String,
    /// `files`: those with a match; `count`: matches per file; `names`: files whose name fits.
    #[serde(default)]
    pub(super) mode: Mode,
    /// Plain text.
    #[serde(default)]
    pub(super) literal: bool,
    /// Default: sensitive.
    #[serde(default)]
    pub(super) case: Case,
    /// A match may span lines.
    #[serde(default)]
    pub(super) multiline: bool,
    /// Only such files: `src/**`; `!*.md` leaves out.
    #[serde(default)]
    #[schemars(length(max = 100), inner(length(max = 1024)))]
    pub(super) globs: Vec<String>,
    /// Only these types, by ripgrep's names: `rust`, `py`, `js`.
    #[serde(default)]
    #[schemars(length(max = 100), inner(length(max = 64)))]
    pub(super) types: Vec<String>,
    /// Lines before and after each match.
    #[serde(default)]
    #[schemars(range(max = 20))]
    context: usize,
    /// Lines to show before each match.
    #[serde(default)]
    #[schemars(range(max = 20))]
    before: Option<usize>,
    /// Lines to show after each match.
    #[serde(default)]
    #[schemars(range(max = 20))]
    after: Option<usize>,
    /// Also dot files.
    #[serde(default)]
    pub(super) hidden: bool,
    /// Also what `.gitignore` leaves out.
    #[serde(default)]
    pub(super) ignored: bool,
    /// Results at most.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10000))]
    pub(super) limit: Option<usize>,
    /// Stop after this time and return what was found; the cursor goes on from there.
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 300))]
    pub(super) max_seconds: u32,
    /// `next_cursor`, to go on.
    #[serde(default)]
    #[schemars(length(min = 1, max = 16384))]
    pub(super) cursor: Option<String>,
}

/// What the result is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    #[default]
    Content,
    Files,
    Count,
    Names,
}

/// Whether upper and lower case differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Case {
    #[default]
    Sensitive,
    Insensitive,
    Smart,
}

impl Args {
    /// Returns the pattern to search for.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// Returns the folder or file.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns whether dot files are searched.
    pub fn is_hidden(&self) -> bool {
        self.hidden
    }

    /// Returns whether the pattern is plain text.
    pub fn is_literal(&self) -> bool {
        self.literal
    }

    /// Returns whether files are searched by their names alone.
    pub fn is_by_name(&self) -> bool {
        self.mode == Mode::Names
    }

    /// Returns whether upper and lower case may differ.
    pub fn is_any_case(&self) -> bool {
        self.case != Case::Sensitive
    }

    /// Returns the longest time the search may take.
    pub fn most_time(&self) -> Duration {
        Duration::from_secs(self.max_seconds.into())
    }

    /// Returns what to try if nothing is found.
    pub(super) fn hint(&self) -> Option<String> {
        let pattern = self.pattern();
        let is_name = !pattern.contains(['*', '?', '[', '{', '/']);
        (self.mode == Mode::Names && is_name).then(|| {
            format!("no file is called `{pattern}`; `*{pattern}*` finds names that contain it")
        })
    }

    /// Returns the lines of context before a match.
    pub(super) fn before(&self) -> usize {
        self.before.unwrap_or(self.context)
    }

    /// Returns the lines of context after a match.
    pub(super) fn after(&self) -> usize {
        self.after.unwrap_or(self.context)
    }

    /// Returns a path for people, from a name in the folder that is searched.
    pub(super) fn shown(&self, below: &[u8]) -> String {
        let below = String::from_utf8_lossy(below);
        let folder = self.path.trim_end_matches('/');
        match (folder, &*below) {
            (_, "") => self.path.clone(),
            ("." | "", _) if !self.path.starts_with('/') => below.into_owned(),
            _ => format!("{folder}/{below}"),
        }
    }

    /// Returns a number that differs where the results differ: a cursor belongs to one search.
    pub(super) fn fingerprint(&self) -> u32 {
        let mut hasher = DefaultHasher::new();
        (
            &self.pattern,
            &self.path,
            self.mode,
            self.literal,
            self.case,
            self.multiline,
        )
            .hash(&mut hasher);
        (&self.globs, &self.types, self.hidden, self.ignored).hash(&mut hasher);
        (hasher.finish() >> 32) as u32
    }
}

fn here() -> String {
    ".".into()
}

fn twenty() -> u32 {
    20
}
