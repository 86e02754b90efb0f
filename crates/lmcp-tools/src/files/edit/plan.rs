//! What the arguments of `edit_file` ask for, file by file.

use std::num::NonZeroU32;

use lmcp_core::{ToolError, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    apply::{self, Edited, Wish},
    matching::Kind,
};
use crate::{
    Host,
    files::target::{Found, Parents, Target},
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// The file. With `edits`, the file of those that name none.
    path: Option<String>,
    /// The text to replace, exactly as it stands in the file; line endings do not matter. It must occur once.
    old_string: Option<String>,
    /// The text to put in its place. Its lines end like those they replace, unless it has `\r\n` itself.
    new_string: Option<String>,
    /// Replace every occurrence.
    #[serde(default)]
    replace_all: bool,
    /// Replace every occurrence, and fail unless there are exactly this many.
    expected_count: Option<NonZeroU32>,
    /// Several edits instead of one, in one or several files: done in order, all of them or none.
    edits: Option<Vec<Edit>>,
    /// Only tell what would change.
    #[serde(default)]
    pub(super) dry_run: bool,
    /// Only edit if the content of the file at `path` has this hash, as an earlier result told it.
    if_hash: Option<String>,
    /// If the text is not found, also take whole lines that differ in blanks at their ends, then in indentation.
    #[serde(default)]
    pub(super) fuzzy: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Edit {
    /// The file, if not the one at the top.
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
    if_hash: Option<String>,
}

/// The edits of one file.
pub(super) struct FilePlan<'a> {
    pub(super) target: Target<'a>,
    wishes: Vec<Wish<'a>>,
    hashes: Vec<&'a str>,
}

impl Args {
    /// Finds the files, each once however it is called.
    pub(super) fn plan<'a>(&'a self, host: &'a Host) -> ToolResult<Vec<FilePlan<'a>>> {
        let mut plans: Vec<FilePlan<'a>> = Vec::new();
        for (path, wish, if_hash) in self.wishes()? {
            wish.check()?;
            let place = host.roots.find(path)?;
            let target = Target::find(&place, Parents::Expect, host.hard_links())?;
            let known = plans
                .iter()
                .position(|plan| plan.target.key() == target.key());
            let at = known.unwrap_or_else(|| {
                plans.push(FilePlan {
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

    /// Each edit with its file and the hash it wants.
    fn wishes(&self) -> ToolResult<Vec<(&str, Wish<'_>, Option<&str>)>> {
        let no_path = || ToolError::new("no `path` says which file to edit");
        match (&self.edits, &self.old_string, &self.new_string) {
            (None, Some(old), Some(new)) => {
                let path = self.path.as_deref().ok_or_else(no_path)?;
                let count = self.expected_count;
                let wish = Wish::new(String::new(), old, new, self.replace_all, count);
                Ok(vec![(path, wish, self.if_hash.as_deref())])
            }
            (Some(edits), None, None) if !self.replace_all && self.expected_count.is_none() => {
                if edits.is_empty() || edits.len() > MOST_EDITS {
                    return Err(ToolError::new(format!(
                        "`edits` has {} edits, not 1 to {MOST_EDITS}",
                        edits.len()
                    )));
                }
                let each = edits.iter().enumerate();
                each.map(|(at, edit)| self.wish(at, edit, edits.len()).ok_or_else(no_path))
                    .collect()
            }
            (Some(_), ..) => Err(ToolError::new(
                "`edits` stands instead of `old_string`, `new_string`, `replace_all` and `expected_count`",
            )),
            (None, ..) => Err(ToolError::new("`old_string` and `new_string` are missing")
                .hint("give both, or a list of `edits`")),
        }
    }

    fn wish<'a>(
        &'a self,
        at: usize,
        edit: &'a Edit,
        all: usize,
    ) -> Option<(&'a str, Wish<'a>, Option<&'a str>)> {
        let path = edit.path.as_deref().or(self.path.as_deref())?;
        let which = format!("edit {} of {all}: ", at + 1);
        let wish = Wish::new(
            which,
            &edit.old_string,
            &edit.new_string,
            edit.replace_all,
            edit.expected_count,
        );
        // The hash at the top is that of the file at the top.
        let top = self
            .if_hash
            .as_deref()
            .filter(|_| Some(path) == self.path.as_deref());
        Some((path, wish, edit.if_hash.as_deref().or(top)))
    }
}

impl FilePlan<'_> {
    /// The file as it is, if it is the expected one and can be edited.
    pub(super) fn read(&self) -> ToolResult<Found> {
        let place = self.target.place();
        let missing = || place.failed("read", rustix::io::Errno::NOENT);
        let found = self.target.read(apply::MOST_BYTES)?.ok_or_else(missing)?;
        for wanted in &self.hashes {
            found.expect_hash(wanted, &self.target)?;
        }
        Ok(found)
    }

    /// All edits of this file, one on the result of the other.
    pub(super) fn apply(&self, file: &[u8], fuzzy: bool) -> ToolResult<Edited> {
        let mut all = Edited {
            bytes: file.to_vec(),
            replacements: 0,
            kind: Kind::Exact,
        };
        for wish in &self.wishes {
            let edited = wish.apply(&all.bytes, fuzzy, self.target.place().shown())?;
            all = Edited {
                bytes: edited.bytes,
                replacements: all.replacements + edited.replacements,
                kind: all.kind.max(edited.kind),
            };
        }
        Ok(all)
    }
}

const MOST_EDITS: usize = 1000;
const MOST_FILES: usize = 64;
