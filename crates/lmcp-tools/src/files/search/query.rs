//! The pattern, ready to search with.

use std::sync::OnceLock;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Encoding, MmapChoice, Searcher, SearcherBuilder};
use lmcp_core::{ToolError, ToolResult};

use crate::{pattern, room::Room};

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
    /// Memory that a thread needs to look for it.
    pub(super) thread_bytes: usize,
    /// The longest line that is searched in this memory.
    pub(super) short_line: usize,
    builder: RegexMatcherBuilder,
    pattern: String,
    longest_line: OnceLock<usize>,
}

/// Sets so many bytes more aside.
pub(super) type Need<'a> = &'a mut dyn FnMut(usize) -> ToolResult<()>;

/// How large a pattern may become, in bytes. Most are small, and so little memory is set aside for them.
struct Size {
    compiled: usize,
    /// What compiling takes, beside what every search needs.
    compiling: usize,
    /// What a thread keeps in order to run it fast, twice: one way for the end of a match, one for its beginning.
    cache: usize,
    /// What a thread needs besides.
    thread: usize,
}

const SIZES: [Size; 3] = [
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
    // The default of the `regex` crate. A pattern of that size is slow already.
    Size {
        compiled: 10 * 1024 * KIB,
        compiling: 28 * 1024 * KIB,
        cache: 2048 * KIB,
        thread: 8192 * KIB,
    },
];
const KIB: usize = 1024;
/// What every search needs beside what it counts as it goes: the first thread, and a small pattern.
pub(super) const BASE_BYTES: usize = SIZES[0].thread_bytes() + 2048 * KIB + FREE;
/// What the meter of a search gives without setting it aside: it is part of [`BASE_BYTES`].
pub(super) const FREE: usize = 512 * KIB;
/// Brackets within brackets.
const NESTING: u32 = 100;
/// The longest line, and in multiline searches the largest file, for which a thread needs no more memory.
const SHORT_LINE: usize = 256 * KIB;
/// The same, however much memory is free.
const MOST_LINE: usize = 64 * 1024 * KIB;
/// Bytes of a pattern, compiled, times bytes of a line. At worst the time for a line grows with this product, and nothing
/// can end the search of a line before its end.
const MOST_WORK: usize = (512 * KIB) * SHORT_LINE;
/// The size of a pattern for which [`MOST_LINE`] is not too much work.
const SMALL_PATTERN: usize = MOST_WORK / MOST_LINE;
/// Bytes of a line that are shown, at most and at least.
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
            // Another process that shortens a mapped file would kill this one.
            .memory_map(MmapChoice::never())
            .binary_detection(BinaryDetection::quit(0));
        // One match with its context always fits into an answer.
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

    /// The longest line that is searched, however much memory is free: the larger the pattern, the shorter.
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

    /// One per thread: it keeps its buffers. Lines, and in multiline searches files, have at most so many bytes.
    pub(super) fn searcher(&self, most: usize) -> Searcher {
        self.searcher.clone().heap_limit(Some(most)).build()
    }

    /// The same for a file in this encoding, if there is such.
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

/// Is this what a searcher says about a line, or in multiline searches a file, that is longer than it takes?
pub(super) fn is_too_large(err: &std::io::Error) -> bool {
    // It has no kind of its own.
    err.to_string().contains("allocation limit")
}

/// The longest line that a pattern of so many bytes, compiled, is looked for in.
fn longest_line(compiled: usize) -> usize {
    (MOST_WORK / compiled).min(MOST_LINE)
}

/// The pattern, and how it is to be read.
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
        // `^` and `$` mean lines, as people expect.
        .multi_line(true)
        .dot_matches_new_line(args.multiline)
        .nest_limit(NESTING);
    // `$` also matches before `\r\n`, unless somebody looks for the `\r` itself.
    if !pattern.contains("\\r") && !pattern.contains('\r') {
        builder.crlf(true);
    }
    builder.line_terminator((!args.multiline).then_some(b'\n'));
    (builder, pattern)
}

/// The pattern, compiled, in as little memory as it fits into.
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
