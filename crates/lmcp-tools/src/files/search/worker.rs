//! One thread of a search: lists folders, searches files, and keeps its buffers.

use std::{
    fs::File,
    io::{self, Read, Seek as _},
    mem::MaybeUninit,
    ops::Range,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::FileExt as _,
    },
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use grep_regex::RegexMatcher;
use grep_searcher::Searcher;

use crate::files::{
    charset,
    ignore::Rules,
    meter::{Charge, Meter},
    text::Encoding,
};

use super::{
    args::Mode,
    cursor::{Cursor, Position},
    filter::Filter,
    listing::{BUFFER_BYTES, Folder, Listing},
    page::{Budget, End, Entry, Kept, Outcome},
    query::{Query, is_too_large},
    sink::Collector,
    tree::{Refused, Tree},
};

/// The state that all threads of a search share.
#[derive(Clone, Copy)]
pub(super) struct Search<'a> {
    pub(super) tree: &'a Tree,
    pub(super) query: &'a Query,
    pub(super) filter: &'a Filter,
    pub(super) cursor: Option<&'a Cursor>,
    pub(super) meter: &'a Arc<Meter>,
    /// How many bytes a path is longer in the answer than below the tree.
    pub(super) prefix_bytes: usize,
}

/// Set when a worker's result is no longer needed: the search ends, or the result would come after the end of the
/// answer.
#[derive(Clone, Copy)]
pub(super) struct Flags<'a> {
    pub(super) all: &'a AtomicBool,
    pub(super) own: &'a AtomicBool,
}

/// Files of one folder, next to each other.
pub(super) struct Files {
    pub(super) listing: Arc<Listing>,
    pub(super) range: Range<usize>,
    /// The folder, if it is already open.
    pub(super) open: Option<OwnedFd>,
}

/// The result of listing a folder.
pub(super) enum Listed {
    /// The listing, and the folder, which is still open.
    Open(Arc<Listing>, OwnedFd),
    /// The folder is not readable, or gone.
    Nothing(Outcome),
    /// The search was stopped meanwhile.
    Stopped,
}

/// A searcher for a file with a long line, in multiline searches a large file, or for a file that is not UTF-8.
struct Special {
    searcher: Searcher,
    /// The longest line, in bytes.
    most: usize,
    encoding: Option<&'static str>,
    _charge: Option<Charge>,
}

/// The state of one thread.
pub(super) struct Worker<'a> {
    search: Search<'a>,
    flags: Flags<'a>,
    /// A copy for this thread, because threads that share one would wait for each other's scratch space.
    matcher: RegexMatcher,
    searcher: Searcher,
    buffer: Vec<MaybeUninit<u8>>,
    path: Vec<u8>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(search: Search<'a>, flags: Flags<'a>) -> Self {
        Self {
            search,
            flags,
            matcher: search.query.matcher.clone(),
            searcher: search.query.searcher(search.query.short_line),
            buffer: vec![MaybeUninit::uninit(); BUFFER_BYTES],
            path: Vec::new(),
        }
    }

    /// Lists a folder.
    pub(super) fn list(&mut self, folder: &Folder) -> Listed {
        let Search {
            tree,
            filter,
            cursor,
            meter,
            ..
        } = self.search;
        let path = folder.path();
        let listed = tree.open_folder(&path).map_err(io::Error::from);
        let listed = listed.and_then(|open| {
            let (buffer, stopped) = (&mut self.buffer, || self.flags.is_set());
            let (listing, has_rules) = Listing::read(folder, &open, buffer, meter, stopped)?;
            Ok((listing, has_rules, open))
        });
        if self.flags.is_set() {
            return Listed::Stopped;
        }
        let (mut listing, has_rules, open) = match listed {
            Ok(listed) => listed,
            Err(err) => {
                let mut outcome = Outcome::default();
                outcome.skipped.unreadable(|| tree.shown(&path), &err);
                return Listed::Nothing(outcome);
            }
        };
        if has_rules && filter.rules {
            let reach = tree.reach();
            listing.rules = Rules::enter(folder.rules(), open.as_fd(), path.len(), reach, meter);
        }
        listing.choose(filter, tree, cursor.zip(folder.on_cursor()));
        Listed::Open(Arc::new(listing), open)
    }

    /// Searches some files of one folder, as long as there is room for results.
    pub(super) fn search(&mut self, files: Files, left: Budget) -> Outcome {
        let Files {
            listing,
            range,
            open,
        } = files;
        let tree = self.search.tree;
        let mut outcome = Outcome::default();
        let is_names = self.search.query.mode == Mode::Names;
        let open = match open.map_or_else(|| tree.open_folder(&listing.path), Ok) {
            Ok(open) => open,
            Err(err) => {
                outcome
                    .skipped
                    .unreadable(|| tree.shown(&listing.path), &err);
                return outcome;
            }
        };
        if range.start == 0 {
            outcome.searched += listing.unfit;
        }
        let mut resume_after = listing.resume_after.filter(|_| range.start == 0);
        let mut last_whole = None;
        for name in &listing.files[range] {
            let before = outcome.entries.len();
            let after_line = resume_after.take().unwrap_or(0);
            self.path.clear();
            self.path.extend_from_slice(&listing.path);
            self.path.extend_from_slice(listing.name(*name));
            if self.flags.is_set() {
                outcome.end = End::Stopped;
            } else if is_names {
                self.keep_name(&mut outcome, left);
            } else {
                self.search_in(
                    open.as_fd(),
                    listing.name(*name),
                    after_line,
                    left,
                    &mut outcome,
                );
            }
            if outcome.end == End::All {
                last_whole = Some(*name);
                continue;
            }
            // If there is a match in this file, the last match tells how far the search came.
            if outcome.entries.len() > before {
                return outcome;
            }
            break;
        }
        outcome.reached = last_whole.map(|name| {
            let path = [tree.below(&listing.path), listing.name(name)].concat();
            Position { path, line: None }
        });
        outcome
    }

    /// Searches the one file that was named.
    pub(super) fn search_named(&mut self, file: &File, left: Budget) -> Outcome {
        let mut outcome = Outcome::default();
        self.path.clear();
        let after_line = self.search.cursor.map(|cursor| cursor.after.line);
        // A cursor without a line stands after the file.
        if after_line != Some(None) {
            self.search_file(file, after_line.flatten().unwrap_or(0), left, &mut outcome);
        }
        outcome
    }

    fn keep_name(&self, outcome: &mut Outcome, left: Budget) {
        outcome.searched += 1;
        self.keep_file(Kept::File, outcome, left);
    }

    fn search_in(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        after_line: u64,
        left: Budget,
        outcome: &mut Outcome,
    ) {
        let tree = self.search.tree;
        match tree.open_file(folder, name) {
            Ok(file) => self.search_file(&file, after_line, left, outcome),
            Err(Refused::NotAFile) => {}
            Err(Refused::HardLink) => outcome.skipped.hard_linked_files += 1,
            Err(Refused::Unreadable(err)) => {
                outcome.skipped.unreadable(|| tree.shown(&self.path), &err)
            }
        }
    }

    fn search_file(&mut self, file: &File, after_line: u64, left: Budget, outcome: &mut Outcome) {
        let Search {
            tree,
            query,
            prefix_bytes,
            ..
        } = self.search;
        let path_bytes = tree.below(&self.path).len() + prefix_bytes;
        let left_here = left.minus(&outcome.used);
        let mut special = None;
        let (done, sink) = loop {
            let mut sink = Collector::new(query, after_line, left_here, path_bytes);
            let (done, is_foreign) = self.search_once(file, special.as_mut(), &mut sink);
            special = self.search_again(file, special, &done, is_foreign || sink.is_foreign);
            if special.is_none() {
                break (done, sink);
            }
        };
        let stopped = done.is_err() && self.flags.is_set();
        outcome.skipped.binary_files += u64::from(sink.is_binary);
        match done {
            Err(err) if !stopped && is_too_large(&err) => {
                outcome.skipped.too_large(|| tree.shown(&self.path));
            }
            Err(err) if !stopped => outcome.skipped.unreadable(|| tree.shown(&self.path), &err),
            Ok(()) | Err(_) => outcome.searched += 1,
        }
        if !sink.kept.is_empty() {
            let file: Arc<[u8]> = tree.below(&self.path).into();
            let entries = sink.kept.into_iter().map(|kept| Entry {
                file: file.clone(),
                kept,
            });
            outcome.entries.extend(entries);
            outcome.used.add(sink.used);
        }
        if stopped {
            // Matches that were found before stay; a count of lines would be wrong.
            outcome.end = End::Stopped;
            return;
        }
        match query.mode {
            Mode::Count if sink.count > 0 => self.keep_file(Kept::Count(sink.count), outcome, left),
            Mode::Files if sink.count > 0 => self.keep_file(Kept::File, outcome, left),
            Mode::Content if sink.is_full => outcome.end = End::Full,
            Mode::Content | Mode::Files | Mode::Count | Mode::Names => {}
        }
    }

    /// Searches a file, and returns whether the file is not UTF-8.
    fn search_once(
        &mut self,
        file: &File,
        special: Option<&mut Special>,
        sink: &mut Collector<'_>,
    ) -> (io::Result<()>, bool) {
        let mut reader = Watched {
            file,
            flags: self.flags,
            looks: self.search.query.is_foreign,
            is_foreign: false,
        };
        let searcher = special.map_or(&mut self.searcher, |special| &mut special.searcher);
        let done = searcher.search_reader(&self.matcher, &mut reader, sink);
        (done, reader.is_foreign)
    }

    /// Returns the searcher for another attempt, from the beginning of the file; `None` if there is no better one.
    fn search_again(
        &self,
        mut file: &File,
        last: Option<Special>,
        done: &io::Result<()>,
        is_foreign: bool,
    ) -> Option<Special> {
        let Search { query, meter, .. } = self.search;
        // The memory of the last attempt is released before more is taken.
        let (mut most, mut encoding) =
            last.map_or((query.short_line, None), |last| (last.most, last.encoding));
        if done.as_ref().is_err_and(is_too_large) {
            most = wider(file, query, most)?;
        } else if done.is_ok() && is_foreign && encoding.is_none() {
            encoding = Some(encoding_of(file)?);
        } else {
            return None;
        }
        let charge = match most > query.short_line {
            false => None,
            true => Some(meter.take(most)?),
        };
        let searcher = match encoding {
            Some(encoding) => query.searcher_for(encoding, most)?,
            None => query.searcher(most),
        };
        file.rewind().ok()?;
        Some(Special {
            searcher,
            most,
            encoding,
            _charge: charge,
        })
    }

    fn keep_file(&self, kept: Kept, outcome: &mut Outcome, left: Budget) {
        let file: Arc<[u8]> = self.search.tree.below(&self.path).into();
        outcome
            .used
            .add(Budget::of_file(file.len() + self.search.prefix_bytes));
        outcome.entries.push(Entry { file, kept });
        if outcome.used.reaches(&left) {
            outcome.end = End::Full;
        }
    }
}

impl Flags<'_> {
    fn is_set(&self) -> bool {
        self.all.load(Ordering::Relaxed) || self.own.load(Ordering::Relaxed)
    }
}

/// Returns the memory to try next, if lines of `most` bytes were not enough; `None` if there is no more.
fn wider(file: &File, query: &Query, most: usize) -> Option<usize> {
    // A search over several lines needs the whole file, and one byte more to see its end.
    let whole = match query.multiline {
        true => usize::try_from(file.metadata().ok()?.len()).ok()? + 1,
        false => 0,
    };
    let times = if most < MANY { 4 } else { 2 };
    let longest = query.longest_line();
    let can_grow = most < longest && whole <= longest;
    can_grow.then(|| (most * times).max(whole).min(longest))
}

/// Returns the encoding of a file, unless that is UTF-8.
fn encoding_of(file: &File) -> Option<&'static str> {
    let mut head = vec![0; HEAD_BYTES];
    let length = file.read_at(&mut head, 0).ok()?;
    let whole = Encoding::Utf8.whole(&head[..length]);
    let (encoding, _) = charset::of(&head[..whole]);
    (encoding != Encoding::Utf8).then(|| encoding.name())
}

/// A file that returns an error early when the search is stopped.
struct Watched<'a> {
    file: &'a File,
    flags: Flags<'a>,
    /// Whether to check that the file is UTF-8.
    looks: bool,
    /// Whether the file is not UTF-8.
    is_foreign: bool,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.flags.is_set() {
            return Err(io::Error::other("the search was stopped"));
        }
        let length = self.file.read(buffer)?;
        if self.looks && !self.is_foreign {
            // The first bytes may be the end of a character that began before.
            let inside = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
            let begun = buffer[..length].iter().take(3).take_while(inside).count();
            let text = std::str::from_utf8(&buffer[begun..length]);
            self.is_foreign = text.is_err_and(|err| err.error_len().is_some());
        }
        Ok(length)
    }
}

/// From this size on, the memory for a line grows in smaller steps.
const MANY: usize = 4 << 20;

/// How many bytes of a file are read to find its encoding.
const HEAD_BYTES: usize = 256 << 10;
