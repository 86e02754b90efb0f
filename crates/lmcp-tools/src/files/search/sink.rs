//! Collects the matches of one file.

use std::io;

use grep_matcher::Matcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkMatch};

use super::{
    args::Mode,
    clip,
    page::{Budget, Kept},
    query::Query,
    result::Match,
};

/// Collects the matches of one file.
pub(super) struct Collector<'a> {
    query: &'a Query,
    /// The last line that was in an earlier answer.
    after_line: u64,
    /// The room that is left.
    left: Budget,
    /// The cost of each match beside its own text.
    path_bytes: usize,
    pub(super) kept: Vec<Kept>,
    pub(super) used: Budget,
    /// The number of matching lines, in mode `count`.
    pub(super) count: u64,
    /// Whether a NUL byte was found.
    pub(super) is_binary: bool,
    /// Whether a match is in text that is not UTF-8.
    pub(super) is_foreign: bool,
    /// Whether no more matches are taken, only the context of the last.
    pub(super) is_full: bool,
    /// The lines before the next match.
    before: Vec<String>,
    /// Whether the last match was kept, so that its context is kept too.
    keeps_context: bool,
}

impl<'a> Collector<'a> {
    pub(super) fn new(query: &'a Query, after_line: u64, left: Budget, path_bytes: usize) -> Self {
        Self {
            query,
            after_line,
            left,
            path_bytes,
            kept: Vec::new(),
            used: Budget::default(),
            count: 0,
            is_binary: false,
            is_foreign: false,
            is_full: false,
            before: Vec::new(),
            keeps_context: false,
        }
    }

    /// Keeps a matching line. Returns whether the search goes on.
    fn keep(&mut self, found: &SinkMatch<'_>) -> bool {
        let line = found.line_number().unwrap_or(0);
        let before = std::mem::take(&mut self.before);
        if line <= self.after_line {
            self.keeps_context = false;
            return true;
        }
        if self.is_full {
            return false;
        }
        let text = clip::without_end(found.bytes());
        let at = self.query.matcher.find(text).ok().flatten();
        let at = at.map_or(0, |at| at.start());
        // The column of a multiline match is that in its first line.
        let line_start = text[..at].iter().rposition(|byte| *byte == b'\n');
        let column = at - line_start.map_or(0, |end| end + 1);
        self.is_foreign |= std::str::from_utf8(text).is_err();
        let (text, clipped) = clip::around(text, at, self.query.width);
        let found = Match {
            path: String::new(),
            line,
            column: column as u64 + 1,
            text,
            clipped,
            before,
            after: Vec::new(),
        };
        self.used.add(Budget::of_match(&found, self.path_bytes));
        self.kept.push(Kept::Line(found));
        self.keeps_context = true;
        self.is_full = self.used.reaches(&self.left);
        // The lines after the last match are still needed.
        !self.is_full || self.query.after > 0
    }
}

impl Sink for Collector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        Ok(match self.query.mode {
            Mode::Content => self.keep(found),
            Mode::Count => {
                self.count += match self.query.multiline {
                    true => found.lines().count() as u64,
                    false => 1,
                };
                true
            }
            Mode::Files | Mode::Names => {
                self.count = 1;
                false
            }
        })
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        let line = || clip::beginning(clip::without_end(context.bytes()), self.query.width);
        if *context.kind() != SinkContextKind::After {
            if self.is_full {
                return Ok(false);
            }
            let line = line();
            self.before.push(line);
            return Ok(true);
        }
        if !self.keeps_context {
            return Ok(true);
        }
        let line = line();
        let Some(Kept::Line(last)) = self.kept.last_mut() else {
            return Ok(true);
        };
        self.used.add(Budget::of_context(&line));
        last.after.push(line);
        Ok(!self.is_full || last.after.len() < self.query.after)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.before.clear();
        Ok(!self.is_full)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.is_binary = true;
        Ok(false)
    }
}
