//! The edits that the arguments of `edit_file` ask for, file by file.

use std::num::NonZeroU32;

use lmcp_core::{ToolError, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    apply::{self, Edited, Wish},
    matching::Kind,
};
use crate::{
    Host,
    files::{
        hold::Held,
        target::{Parents, Snapshot, Target},
    },
    here::Here,
    memory::Memory,
};

/// Arguments of `edit_file`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    #[schemars(length(min = 1))]
    path: Option<String>,
    /// Text to replace, as it stands in the file. It must occur once.
    #[schemars(length(min = 1))]
    old_string: Option<String>,
    new_string: Option<String>,
    /// Replace every occurrence.
    #[serde(default)]
    replace_all: bool,
    /// Replace every occurrence, and fail unless there are exactly this many.
    expected_count: Option<NonZeroU32>,
    /// More edits, done after this one; all of them or none.
    #[schemars(length(min = 1))]
    edits: Option<Vec<Edit>>,
    /// Only tell what would change.
    #[serde(default)]
    pub(super) dry_run: bool,
    /// Only edit if the file has this hash.
    #[schemars(length(min = 1))]
    if_hash: Option<String>,
    /// Also match lines that differ in indentation or trailing blanks.
    #[serde(default)]
    pub(super) fuzzy: bool,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Edit {
    /// The file, if not the one at the top.
    #[schemars(length(min = 1))]
    path: Option<String>,
    /// The text to replace.
    old_string: String,
    /// The text to put in its place.
    new_string: String,
    /// Replace every occurrence.
    #[serde(default)]
    replace_all: bool,
    /// Replace every occurrence, and fail unless there are exactly this many.
    expected_count: Option<NonZeroU32>,
    /// Only edit if this file's content, before all edits, has this hash.
    #[schemars(length(min = 1))]
    if_hash: Option<String>,
}

/// Returns the schema of an [`Edit`] that models are shown: only the parts that they need.
pub(super) fn shown_edits() -> Value {
    let text = json!({ "type": "string" });
    json!({ "type": "array", "items": {
        "type": "object",
        "properties": {
            "path": { "type": "string", "description": "Another file." },
            "old_string": text,
            "new_string": text,
            "replace_all": { "type": "boolean" },
        },
        "required": ["old_string", "new_string"],
    }})
}

/// The edits of one file.
pub(super) struct FilePlan<'a> {
    /// The file as the caller names it.
    pub(super) name: &'a str,
    pub(super) target: Target<'a>,
    wishes: Vec<Wish<'a>>,
    hashes: Vec<&'a str>,
}

impl Args {
    /// Returns the files that the caller names.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let edits = self.edits.iter().flatten();
        let paths = edits.filter_map(|edit| edit.path.as_deref());
        paths.chain(self.path.as_deref())
    }

    /// Returns whether nothing is written.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Finds the files, each once however it is named.
    pub(super) fn plan<'a>(&'a self, host: &'a Host, here: &Here) -> ToolResult<Vec<FilePlan<'a>>> {
        let mut plans: Vec<FilePlan<'a>> = Vec::new();
        for (path, wish, if_hash) in self.wishes()? {
            wish.check()?;
            let place = host.roots.find(here, path)?;
            let target = Target::find(&place, Parents::Expect, host.hard_links())?;
            let known = plans
                .iter()
                .position(|plan| plan.target.key() == target.key());
            let at = known.unwrap_or_else(|| {
                plans.push(FilePlan {
                    name: path,
                    target,
                    wishes: Vec::new(),
                    hashes: Vec::new(),
                });
                plans.len() - 1
            });
            if plans.len() > MOST_FILES {
                return Err(ToolError::new(format!(
                    "more than {MOST_FILES} files at once"
                )));
            }
            plans[at].wishes.push(wish);
            plans[at].hashes.extend(if_hash);
        }
        Ok(plans)
    }

    /// Returns the memory that all edits together hold, roughly: the bytes of each file before and after, those between
    /// two edits, and the facts about each line. Wrong arguments are reported elsewhere.
    pub(super) fn weight(&self, host: &Host, here: &Here) -> usize {
        let mut paths: Vec<&str> = match &self.edits {
            Some(edits) => edits
                .iter()
                .filter_map(|edit| edit.path.as_deref())
                .collect(),
            None => Vec::new(),
        };
        paths.extend(self.path.as_deref());
        paths.sort_unstable();
        paths.dedup();
        paths.truncate(MOST_FILES);
        let several = self.edits.as_ref().is_some_and(|edits| edits.len() > 1);
        let copies = if several { 3 } else { 2 };
        let sizes = paths.into_iter().filter_map(|path| {
            let stat = host.roots.find(here, path).ok()?.stat().ok()?;
            u64::try_from(stat.st_size).ok()
        });
        sizes
            .filter(|size| *size <= apply::MOST_BYTES)
            .filter_map(|size| usize::try_from(size).ok())
            .map(|size| size * copies + (size * apply::LINE_BYTES).min(apply::LINES_BYTES))
            .sum()
    }

    /// Returns each edit with its file and the hash that the file must have.
    fn wishes(&self) -> ToolResult<Vec<(&str, Wish<'_>, Option<&str>)>> {
        let no_path = || ToolError::new("no `path` says which file to edit");
        let edits = self.edits.as_deref().unwrap_or_default();
        if edits.len() > MOST_EDITS {
            return Err(ToolError::new(format!(
                "`edits` has {} edits, not 1 to {MOST_EDITS}",
                edits.len()
            )));
        }
        let all = edits.len() + usize::from(self.old_string.is_some());
        let mut wishes = Vec::with_capacity(all);
        if let Some(old) = &self.old_string {
            let new = self.new_string.as_deref().ok_or_else(|| {
                ToolError::new("`new_string` is missing").hint("`\"\"` removes the text")
            })?;
            let path = self.path.as_deref().ok_or_else(no_path)?;
            let which = self.which(1, all);
            let wish = Wish::new(which, old, new, self.replace_all, self.expected_count);
            wishes.push((path, wish, self.if_hash.as_deref()));
        } else if edits.is_empty()
            || self
                .new_string
                .as_deref()
                .is_some_and(|new| !new.is_empty())
        {
            return Err(ToolError::new("`old_string` is missing").hint("say which text to replace"));
        } else if self.replace_all || self.expected_count.is_some() {
            return Err(ToolError::new(
                "`replace_all` and `expected_count` belong to the edit that they stand beside",
            ));
        }
        for edit in edits {
            let which = self.which(wishes.len() + 1, all);
            wishes.push(self.wish(which, edit).ok_or_else(no_path)?);
        }
        Ok(wishes)
    }

    /// Returns the beginning of an error about one of several edits.
    fn which(&self, number: usize, all: usize) -> String {
        match self.edits {
            Some(_) => format!("edit {number} of {all}: "),
            None => String::new(),
        }
    }

    fn wish<'a>(
        &'a self,
        which: String,
        edit: &'a Edit,
    ) -> Option<(&'a str, Wish<'a>, Option<&'a str>)> {
        let path = edit.path.as_deref().or(self.path.as_deref())?;
        let wish = Wish::new(
            which,
            &edit.old_string,
            &edit.new_string,
            edit.replace_all,
            edit.expected_count,
        );
        // The hash at the top belongs to the file at the top.
        let top = self
            .if_hash
            .as_deref()
            .filter(|_| Some(path) == self.path.as_deref());
        Some((path, wish, edit.if_hash.as_deref().or(top)))
    }
}

impl FilePlan<'_> {
    /// Reads the file, and checks that it has the expected hashes and can be edited.
    pub(super) fn read(&self, held: &Held) -> ToolResult<Snapshot> {
        let place = self.target.place();
        let missing = || place.failed("read", rustix::io::Errno::NOENT);
        let found = self.target.read(held, apply::MOST_BYTES)?;
        let found = found.ok_or_else(missing)?;
        for wanted in &self.hashes {
            found.expect_hash(wanted, &self.target)?;
        }
        Ok(found)
    }

    /// Applies all edits of this file, each to the result of the one before.
    pub(super) fn apply(
        &self,
        file: &[u8],
        fuzzy: bool,
        memory: &mut Memory,
    ) -> ToolResult<Edited> {
        let mut all: Option<Edited> = None;
        for wish in &self.wishes {
            let before = all.as_ref().map_or(file, |all| &all.bytes);
            let mut edited = wish.apply(before, fuzzy, self.name, memory)?;
            if let Some(all) = all {
                edited.replacements += all.replacements;
                edited.kind = edited.kind.max(all.kind);
                edited.is_spread |= all.is_spread;
            }
            all = Some(edited);
        }
        Ok(all.unwrap_or_else(|| Edited {
            bytes: file.to_vec(),
            replacements: 0,
            kind: Kind::Exact,
            is_spread: false,
        }))
    }
}

const MOST_EDITS: usize = 1000;
const MOST_FILES: usize = 64;
