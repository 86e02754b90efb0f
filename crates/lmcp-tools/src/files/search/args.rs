//! What the model says.

use std::hash::{DefaultHasher, Hash, Hasher};

use lmcp_core::{ToolError, ToolResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Arguments of `search_files`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Required. What to look for: a regular expression of Rust's `regex`, or in mode `names` a glob such as `*.rs` or
    /// `src/**/test_*`.
    #[serde(default)]
    #[schemars(length(max = 32768))]
    pattern: Option<String>,
    /// Another name for `pattern`.
    #[serde(default)]
    #[schemars(length(max = 32768))]
    query: Option<String>,
    /// The folder or file to search.
    #[serde(default = "here")]
    pub(super) path: String,
    /// `content`: matching lines. `files`: paths of files with a match. `count`: matching lines per file. `names`: paths
    /// of files whose whole name fits the glob in `pattern`, so `*spawn*` for names with `spawn` in them; with a `/` in
    /// it, the path below `path` must fit.
    #[serde(default)]
    pub(super) mode: Mode,
    /// Take `pattern` as it is, not as a regular expression.
    #[serde(default)]
    pub(super) literal: bool,
    /// Whether upper and lower case differ. `smart`: only if `pattern` has an upper case letter.
    #[serde(default)]
    pub(super) case: Case,
    /// Let a match span lines; `.` then matches line ends too.
    #[serde(default)]
    pub(super) multiline: bool,
    /// Only files that fit one of these globs, such as `*.rs` or `src/**`; those after a `!` are left out.
    #[serde(default)]
    #[schemars(length(max = 100), inner(length(max = 1024)))]
    pub(super) globs: Vec<String>,
    /// Only files of these types, by ripgrep's names: `rust`, `py`, `js`, `md`; those after a `!` are left out.
    #[serde(default)]
    #[schemars(length(max = 100), inner(length(max = 64)))]
    pub(super) types: Vec<String>,
    /// Lines to show before and after each match.
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
    /// Also search what begins with a dot, `.git` too.
    #[serde(default)]
    pub(super) hidden: bool,
    /// Also search what `.gitignore`, `.ignore` and `.rgignore` leave out.
    #[serde(default)]
    pub(super) ignored: bool,
    /// At most this many results in all, however many files they are in. Without it, as many as fit into an answer.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10000))]
    pub(super) limit: Option<usize>,
    /// Stop after this time and return what was found; the cursor goes on from there.
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 300))]
    pub(super) max_seconds: u32,
    /// Go on after an earlier answer: its `next_cursor`. All other arguments stay as they were.
    #[serde(default)]
    #[schemars(length(max = 16384))]
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
    /// What to look for.
    pub(super) fn pattern(&self) -> ToolResult<&str> {
        match (&self.pattern, &self.query) {
            (Some(pattern), None) | (None, Some(pattern)) => Ok(pattern),
            (None, None) => Err(ToolError::new("there is nothing to look for")
                .hint("say it in `pattern`, a regular expression")),
            (Some(_), Some(_)) => Err(ToolError::new(
                "`pattern` and `query` are the same argument",
            )
            .hint("give only `pattern`")),
        }
    }

    /// What to try if nothing is found.
    pub(super) fn hint(&self) -> Option<String> {
        let pattern = self.pattern().ok()?;
        let is_name = !pattern.contains(['*', '?', '[', '{', '/']);
        (self.mode == Mode::Names && is_name).then(|| {
            format!("no file is called `{pattern}`; `*{pattern}*` finds names that contain it")
        })
    }

    /// Lines of context before a match.
    pub(super) fn before(&self) -> usize {
        self.before.unwrap_or(self.context)
    }

    /// Lines of context after a match.
    pub(super) fn after(&self) -> usize {
        self.after.unwrap_or(self.context)
    }

    /// A name in the folder that is searched, as people write it.
    pub(super) fn shown(&self, below: &[u8]) -> String {
        let below = String::from_utf8_lossy(below);
        let folder = self.path.trim_end_matches('/');
        match (folder, &*below) {
            (_, "") => self.path.clone(),
            ("." | "", _) if !self.path.starts_with('/') => below.into_owned(),
            _ => format!("{folder}/{below}"),
        }
    }

    /// Differs where the results differ: a cursor belongs to one search.
    pub(super) fn fingerprint(&self) -> u32 {
        let mut hasher = DefaultHasher::new();
        self.pattern
            .as_ref()
            .or(self.query.as_ref())
            .hash(&mut hasher);
        (
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
