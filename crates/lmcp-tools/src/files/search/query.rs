//! The pattern, ready to search with.

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Encoding, MmapChoice, Searcher, SearcherBuilder};
use lmcp_core::{ToolError, ToolResult};

use crate::room::Room;

use super::args::{Args, Case, Mode};

/// What to look for in a file, and what to keep of it.
pub(super) struct Query {
    pub(super) mode: Mode,
    pub(super) matcher: RegexMatcher,
    searcher: SearcherBuilder,
    /// Has it characters that other encodings write otherwise?
    pub(super) is_foreign: bool,
    /// May a match span lines?
    pub(super) multiline: bool,
    /// Lines of context after a match.
    pub(super) after: usize,
    /// Bytes of a line that are shown.
    pub(super) width: usize,
}

/// The largest compiled pattern, in bytes; the default of the `regex` crate. A pattern of that size is slow already.
const PATTERN_BYTES: usize = 10 * 1024 * 1024;
/// Memory of one thread for running it, in bytes.
const CACHE_BYTES: usize = 16 * 1024 * 1024;
/// Brackets within brackets.
const NESTING: u32 = 100;
/// The longest line, and in multiline searches the largest file, in bytes.
const HEAP_BYTES: usize = 64 * 1024 * 1024;
/// Bytes of a line that are shown, at most and at least.
const WIDTH: (usize, usize) = (80, 400);

impl Query {
    pub(super) fn new(args: &Args, room: Room) -> ToolResult<Self> {
        let (before, after) = match args.mode {
            Mode::Content => (args.before(), args.after()),
            Mode::Files | Mode::Count | Mode::Names => (0, 0),
        };
        let mut searcher = SearcherBuilder::new();
        searcher
            .line_number(args.mode == Mode::Content)
            .multi_line(args.multiline)
            .before_context(before)
            .after_context(after)
            .heap_limit(Some(HEAP_BYTES))
            // Another process that shortens a mapped file would kill this one.
            .memory_map(MmapChoice::never())
            .binary_detection(BinaryDetection::quit(0));
        // One match with its context always fits into an answer.
        let width = room.bytes / (2 * (before + after + 1));
        let is_foreign = !args.pattern().is_ascii();
        Ok(Self {
            mode: args.mode,
            is_foreign,
            matcher: matcher(args)?,
            searcher,
            multiline: args.multiline,
            after,
            width: width.clamp(WIDTH.0, WIDTH.1),
        })
    }

    /// For a file that is not UTF-8.
    pub(super) fn searcher_for(&self, encoding: &str) -> Option<Searcher> {
        let encoding = Encoding::new(encoding).ok()?;
        Some(self.searcher.clone().encoding(Some(encoding)).build())
    }

    /// One per thread: it keeps its buffers.
    pub(super) fn searcher(&self) -> Searcher {
        self.searcher.build()
    }
}

/// Is this what the searcher says about a line, or in multiline searches a file, of more than [`HEAP_BYTES`]?
pub(super) fn is_too_large(err: &std::io::Error) -> bool {
    // It has no kind of its own.
    err.to_string().contains("allocation limit")
}

fn matcher(args: &Args) -> ToolResult<RegexMatcher> {
    // Names are matched by a glob; see `Filter`.
    let pattern = match args.mode {
        Mode::Names => "",
        Mode::Content | Mode::Files | Mode::Count => args.pattern(),
    };
    let mut builder = RegexMatcherBuilder::new();
    builder
        .fixed_strings(args.literal)
        .case_smart(args.case == Case::Smart)
        .case_insensitive(args.case == Case::Insensitive)
        // `^` and `$` mean lines, as people expect.
        .multi_line(true)
        .dot_matches_new_line(args.multiline)
        .size_limit(PATTERN_BYTES)
        .dfa_size_limit(CACHE_BYTES)
        .nest_limit(NESTING);
    // `$` also matches before `\r\n`, unless somebody looks for the `\r` itself.
    if !pattern.contains("\\r") && !pattern.contains('\r') {
        builder.crlf(true);
    }
    builder.line_terminator((!args.multiline).then_some(b'\n'));
    builder.build(pattern).map_err(|err| {
        let hint = if err.to_string().contains("is not allowed in a regex") {
            "`multiline: true` lets a match span lines"
        } else {
            "`literal: true` looks for the text as it is"
        };
        ToolError::new(format!("cannot search for `{pattern}`"))
            .source(err)
            .hint(hint)
    })
}
