//! Decides which files and folders a search looks at.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use ignore::{
    overrides::{Override, OverrideBuilder},
    types::{Types, TypesBuilder},
};
use lmcp_core::{ToolError, ToolResult};

use crate::files::ignore::{Rules, is_version_control};

use super::args::{Args, Case, Mode};

/// The conditions that the arguments set for names.
pub(super) struct Filter {
    globs: Override,
    types: Types,
    /// In mode `names`, the pattern to search for.
    names: Option<Override>,
    hidden: bool,
    /// Whether ignore files count.
    pub(super) rules: bool,
}

/// The memory that a byte of a glob takes, once the glob is compiled.
const GLOB_BYTES: usize = 400;
/// The memory that a thread keeps to match globs fast. Short globs need next to nothing.
const CACHE_BYTES: usize = 4 * 1024 * 1024;
const SHORT: usize = 1024;

impl Filter {
    pub(super) fn new(args: &Args) -> ToolResult<Self> {
        let names = match args.mode {
            Mode::Names => Some(name_glob(args)?),
            Mode::Content | Mode::Files | Mode::Count => None,
        };
        Ok(Self {
            globs: globs(args)?,
            types: types(args)?,
            names,
            hidden: args.hidden,
            rules: !args.ignored,
        })
    }

    /// Returns the memory that the globs of the arguments take, and the part of it that each thread needs.
    pub(super) fn weight(args: &Args) -> (usize, usize) {
        let pattern = match args.mode {
            Mode::Names => args.pattern().len(),
            Mode::Content | Mode::Files | Mode::Count => 0,
        };
        let bytes = pattern + args.globs.iter().map(String::len).sum::<usize>();
        let cache = if bytes > SHORT { CACHE_BYTES } else { 0 };
        (bytes * GLOB_BYTES + cache, cache)
    }

    /// Returns whether the search enters a folder. `path` is the path in the search, `below` its part below the
    /// folder that is searched.
    pub(super) fn enters(&self, rules: &Rules, path: &[u8], below: &[u8]) -> bool {
        if !self.hidden && is_version_control(name(below)) {
            return false;
        }
        self.takes(rules, path, below, true)
    }

    /// Returns whether a file is searched.
    pub(super) fn wants(&self, rules: &Rules, path: &[u8], below: &[u8]) -> bool {
        self.takes(rules, path, below, false)
    }

    /// Returns whether a file's name matches the pattern, in mode `names`.
    pub(super) fn fits(&self, below: &[u8]) -> bool {
        self.names.as_ref().is_none_or(|names| {
            names
                .matched(OsStr::from_bytes(below), false)
                .is_whitelist()
        })
    }

    // The order is ripgrep's: globs decide over everything; then ignore files, types, and the dot.
    fn takes(&self, rules: &Rules, path: &[u8], below: &[u8], is_folder: bool) -> bool {
        let as_path = Path::new(OsStr::from_bytes(below));
        let by_globs = self.globs.matched(as_path, is_folder);
        if !by_globs.is_none() {
            return by_globs.is_whitelist();
        }
        let mut whitelisted = false;
        if self.rules {
            let by_rules = rules.verdict(path, is_folder);
            if by_rules.is_ignore() {
                return false;
            }
            whitelisted = by_rules.is_whitelist();
        }
        if !self.types.is_empty() {
            let by_types = self.types.matched(as_path, is_folder);
            if by_types.is_ignore() {
                return false;
            }
            whitelisted |= by_types.is_whitelist();
        }
        whitelisted || self.hidden || !name(below).starts_with(b".")
    }
}

fn name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

fn globs(args: &Args) -> ToolResult<Override> {
    let mut builder = OverrideBuilder::new(".");
    for glob in &args.globs {
        builder.add(glob).map_err(|err| bad_glob(glob, &err))?;
    }
    builder
        .build()
        .map_err(|err| bad_glob(&args.globs.join(", "), &err))
}

fn name_glob(args: &Args) -> ToolResult<Override> {
    let pattern = args.pattern();
    if pattern.trim().is_empty() || pattern.starts_with('!') {
        return Err(ToolError::new(format!("`{pattern}` names no files"))
            .hint("say which, such as `*.rs`; `globs` leaves some out"));
    }
    let insensitive = match args.case {
        Case::Sensitive => false,
        Case::Insensitive => true,
        Case::Smart => !pattern.chars().any(char::is_uppercase),
    };
    let mut builder = OverrideBuilder::new(".");
    builder
        .case_insensitive(insensitive)
        .and_then(|builder| builder.add(pattern))
        .and_then(|builder| builder.build())
        .map_err(|err| bad_glob(pattern, &err))
}

fn bad_glob(glob: &str, err: &ignore::Error) -> ToolError {
    ToolError::new(format!("`{glob}` is not a glob"))
        .source(err)
        .hint("`*.rs`, `src/**` and `{a,b}.c` are")
}

fn types(args: &Args) -> ToolResult<Types> {
    if args.types.is_empty() {
        return Ok(Types::empty());
    }
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    for name in &args.types {
        match name.strip_prefix('!') {
            Some(name) => builder.negate(name),
            None => builder.select(name),
        };
    }
    builder.build().map_err(|err| {
        ToolError::new(format!("`{}` names no file type", args.types.join(", ")))
            .source(err)
            .hint("use ripgrep's names, such as `rust`, `py`, `js`, `ts`, `cpp`, `md`, or `globs`")
    })
}
