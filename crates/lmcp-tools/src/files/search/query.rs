//! The compiled pattern of a search.

use std::sync::OnceLock;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Encoding, MmapChoice, Searcher, SearcherBuilder};
use lmcp_core::{ToolError, ToolResult};

use crate::{pattern, room::Room};

use super::args::{Args, Case, Mode};

/// The pattern to search for in a file, and the parts of a match that are kept.
pub(super) struct Query {
    pub(super) mode: Mode,
    pub(super) matcher: RegexMatcher,
    searcher: SearcherBuilder,
    /// Whether the pattern has characters that other encodings write otherwise.
    pub(super) is_foreign: bool,
    /// Whether a match may span lines.
    pub(super) multiline: bool,
    /// The lines of context after a match.
    pub(super) after: usize,
    /// The bytes of a line that are shown.
    pub(super) width: usize,
    /// The memory that a thread needs to search.
    pub(super) thread_bytes: usize,
    /// The longest line that is searched in this memory.
    pub(super) short_line: usize,
    builder: RegexMatcherBuilder,
    pattern: String,
    longest_line: OnceLock<usize>,
}

/// Reserves so many bytes more.
pub(super) type Need<'a> = &'a mut dyn FnMut(usize) -> ToolResult<()>;

/// How large a pattern may become, in bytes. Most patterns fit the small size, so little memory is reserved for them.
struct Size {
    compiled: usize,
    /// The memory for compiling, beside that of every search.
    compiling: usize,
    /// The cache that makes a thread fast. A thread has two: one finds the end of a match, one its beginning.
    cache: usize,
    /// The other memory that a thread needs.
    thread: usize,
}

/// There is no larger size: a pattern of 10 MiB, the default of the `regex` crate, takes 80 MiB while it is compiled.
const SIZES: [Size; 2] = [
    Size {
        compiled: 512 * KIB,
        compiling: 0,
        cache: 512 * KIB,
        thread: SHORT_LINE + 128 * KIB,
    },
    Size {
        compiled: 4096 * KIB,
        compiling: 16 * 1024 * KIB,
        cache: 2048 * KIB,
        thread: 4096 * KIB,
    },
];
const KIB: usize = 1024;
/// The memory of every search beside the part that it counts as it goes: the first thread, and a small pattern.
pub(super) const BASE_BYTES: usize = SIZES[0].thread_bytes() + 2048 * KIB + FREE;
/// The memory that the meter of a search gives without reserving it, because it is part of [`BASE_BYTES`].
pub(super) const FREE: usize = 512 * KIB;
/// The most levels of brackets within brackets.
const NESTING: u32 = 100;
/// The longest line, and in multiline searches the largest file, for which a thread needs no more memory.
const SHORT_LINE: usize = 256 * KIB;
/// The longest line, or largest file, however much memory is free.
const MOST_LINE: usize = 64 * 1024 * KIB;
/// Bytes of a compiled pattern times bytes of a line. At worst the time for a line grows with this product, and nothing
/// can end the search of a line before its end.
const MOST_WORK: usize = (512 * KIB) * SHORT_LINE;
/// The size of a pattern for which [`MOST_LINE`] is not too much work.
const SMALL_PATTERN: usize = MOST_WORK / MOST_LINE;
/// The bytes of a line that are shown, at least and at most.
const WIDTH: (usize, usize) = (80, 400);

impl Query {
    pub(super) fn new(args: &Args, room: Room, need: Need<'_>) -> ToolResult<Self> {
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
            // If files were mapped, another process that shortens one would kill this process.
            .memory_map(MmapChoice::never())
            .binary_detection(BinaryDetection::quit(0));
        // With this width, one match with its context always fits into an answer.
        let width = room.bytes / (2 * (before + after + 1));
        let is_foreign = !args.pattern().is_ascii();
        let (builder, pattern) = builder(args);
        if !args.literal {
            let weight = pattern::weight(pattern);
            need(weight.map_err(|err| err.hint("`literal: true` looks for longer text"))?)?;
        }
        let (matcher, size) = matcher(&builder, pattern, need)?;
        Ok(Self {
            mode: args.mode,
            is_foreign,
            matcher,
            searcher,
            multiline: args.multiline,
            after,
            width: width.clamp(WIDTH.0, WIDTH.1),
            thread_bytes: size.thread_bytes(),
            short_line: longest_line(size.compiled).min(SHORT_LINE),
            builder,
            pattern: pattern.to_owned(),
            longest_line: OnceLock::new(),
        })
    }

    /// Returns the longest line that is searched, however much memory is free: the larger the pattern, the shorter the
    /// line.
    pub(super) fn longest_line(&self) -> usize {
        *self.longest_line.get_or_init(|| {
            let mut compiled = SMALL_PATTERN;
            while compiled < SIZES[0].compiled && !self.fits_into(compiled) {
                compiled *= 2;
            }
            longest_line(compiled).max(self.short_line)
        })
    }

    fn fits_into(&self, compiled: usize) -> bool {
        let mut builder = self.builder.clone();
        builder.size_limit(compiled).build(&self.pattern).is_ok()
    }

    /// Makes a searcher for one thread, which keeps its buffers. Lines, and in multiline searches files, have at most so
    /// many bytes.
    pub(super) fn searcher(&self, most: usize) -> Searcher {
        self.searcher.clone().heap_limit(Some(most)).build()
    }

    /// Makes a searcher for a file in this encoding, if that is known.
    pub(super) fn searcher_for(&self, encoding: &str, most: usize) -> Option<Searcher> {
        let encoding = Encoding::new(encoding).ok()?;
        let mut searcher = self.searcher.clone();
        Some(
            searcher
                .heap_limit(Some(most))
                .encoding(Some(encoding))
                .build(),
        )
    }
}

impl Size {
    const fn thread_bytes(&self) -> usize {
        2 * self.cache + self.thread
    }
}

/// Returns whether this is a searcher's error about a line, or in multiline searches a file, that is too long for it.
pub(super) fn is_too_large(err: &std::io::Error) -> bool {
    // The error has no kind of its own.
    err.to_string().contains("allocation limit")
}

/// Returns the longest line in which a pattern of so many compiled bytes is searched.
fn longest_line(compiled: usize) -> usize {
    (MOST_WORK / compiled).min(MOST_LINE)
}

/// Returns the pattern, and the options to compile it.
fn builder(args: &Args) -> (RegexMatcherBuilder, &str) {
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
        // `^` and `$` match at line ends, as people expect.
        .multi_line(true)
        .dot_matches_new_line(args.multiline)
        .nest_limit(NESTING);
    // `$` also matches before `\r\n`, unless the pattern contains `\r` itself.
    if !pattern.contains("\\r") && !pattern.contains('\r') {
        builder.crlf(true);
    }
    builder.line_terminator((!args.multiline).then_some(b'\n'));
    (builder, pattern)
}

/// Compiles the pattern in as little memory as it fits into.
fn matcher(
    builder: &RegexMatcherBuilder,
    pattern: &str,
    need: Need<'_>,
) -> ToolResult<(RegexMatcher, &'static Size)> {
    let mut builder = builder.clone();
    let mut compiling = 0;
    let mut refused = None;
    for size in &SIZES {
        need(size.compiling - compiling)?;
        compiling = size.compiling;
        builder.size_limit(size.compiled).dfa_size_limit(size.cache);
        match builder.build(pattern) {
            Ok(matcher) => return Ok((matcher, size)),
            Err(err) => {
                let is_large = err.to_string().contains("size limit");
                refused = Some(err);
                if !is_large {
                    break;
                }
            }
        }
    }
    let why = refused.map(|err| err.to_string()).unwrap_or_default();
    let hint = if why.contains("is not allowed in a regex") {
        "`multiline: true` lets a match span lines"
    } else {
        "`literal: true` looks for the text as it is"
    };
    Err(ToolError::new(format!("cannot search for `{pattern}`: {why}")).hint(hint))
}
