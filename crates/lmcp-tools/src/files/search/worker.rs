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

use crate::files::{charset, text::Encoding};

use super::{
    args::Mode,
    cursor::{Cursor, Position},
    filter::Filter,
    listing::{BUFFER_BYTES, Folder, Listing},
    page::{Budget, End, Entry, Kept, Outcome},
    query::{Query, is_too_large},
    rules::Rules,
    sink::Collector,
    tree::{Refused, Tree},
};

/// What all threads of a search look at.
#[derive(Clone, Copy)]
pub(super) struct Search<'a> {
    pub(super) tree: &'a Tree,
    pub(super) query: &'a Query,
    pub(super) filter: &'a Filter,
    pub(super) cursor: Option<&'a Cursor>,
    /// What a path is longer by in the answer than below the tree.
    pub(super) prefix_bytes: usize,
}

/// Set when a worker's result is no longer wanted: the search ends, or what it does comes after what the answer holds.
#[derive(Clone, Copy)]
pub(super) struct Flags<'a> {
    pub(super) all: &'a AtomicBool,
    pub(super) own: &'a AtomicBool,
}

/// Files of one folder, next to each other.
pub(super) struct Files {
    pub(super) listing: Arc<Listing>,
    pub(super) range: Range<usize>,
    /// The folder, if it is open already.
    pub(super) open: Option<OwnedFd>,
}

/// What a folder turned out to be.
pub(super) enum Listed {
    /// This, and the folder is still open.
    Open(Arc<Listing>, OwnedFd),
    /// Not readable, or gone.
    Nothing(Outcome),
    /// The search was stopped meanwhile.
    Stopped,
}

/// One thread's own things.
pub(super) struct Worker<'a> {
    search: Search<'a>,
    flags: Flags<'a>,
    /// A copy of its own, because threads would wait for each other's scratch space.
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
            searcher: search.query.searcher(),
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
            ..
        } = self.search;
        let listed = tree.open_folder(&folder.path).and_then(|open| {
            let stopped = || self.flags.is_set();
            let (listing, has_rules) = Listing::read(folder, &open, &mut self.buffer, stopped)?;
            Ok((listing, has_rules, open))
        });
        if self.flags.is_set() {
            return Listed::Stopped;
        }
        let (mut listing, has_rules, open) = match listed {
            Ok(listed) => listed,
            Err(err) => {
                let mut outcome = Outcome::default();
                outcome
                    .skipped
                    .unreadable(|| tree.shown(&folder.path), &err);
                return Listed::Nothing(outcome);
            }
        };
        if has_rules && filter.rules {
            let skip = folder.path.len();
            listing.rules = Rules::enter(&folder.rules, open.as_fd(), skip, tree.is_confined());
        }
        listing.choose(filter, tree, cursor.zip(folder.on_cursor));
        Listed::Open(Arc::new(listing), open)
    }

    /// Searches some files of one folder, as long as there is room for what is found.
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
            // The last match says how far it came, if there is one.
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
        // A cursor without a line stands behind the file.
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
        let left_now = left.minus(&outcome.used);
        let mut sink = Collector::new(query, after_line, left_now, path_bytes);
        let mut reader = Watched {
            file,
            flags: self.flags,
            looks: query.is_foreign,
            is_foreign: false,
        };
        let mut done = self
            .searcher
            .search_reader(&self.matcher, &mut reader, &mut sink);
        if (sink.is_foreign || reader.is_foreign)
            && done.is_ok()
            && let Some(mut searcher) = self.searcher_for(file)
        {
            sink = Collector::new(query, after_line, left_now, path_bytes);
            done = searcher.search_reader(&self.matcher, &mut reader, &mut sink);
        }
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
            // What was found before stays; a number of lines would be wrong.
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

    /// For a file that is not UTF-8, from its beginning.
    fn searcher_for(&self, mut file: &File) -> Option<Searcher> {
        let mut head = vec![0; HEAD_BYTES];
        let length = file.read_at(&mut head, 0).ok()?;
        let whole = Encoding::Utf8.whole(&head[..length]);
        let (encoding, _) = charset::of(&head[..whole]);
        if encoding == Encoding::Utf8 {
            return None;
        }
        file.rewind().ok()?;
        self.search.query.searcher_for(encoding.name())
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

/// A file whose end comes early, as an error, when the search is stopped.
struct Watched<'a> {
    file: &'a File,
    flags: Flags<'a>,
    /// Is it of interest whether it is UTF-8?
    looks: bool,
    /// It is not.
    is_foreign: bool,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.flags.is_set() {
            return Err(io::Error::other("the search was stopped"));
        }
        let length = self.file.read(buffer)?;
        if self.looks && !self.is_foreign {
            // The end of a character that began before.
            let inside = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
            let begun = buffer[..length].iter().take(3).take_while(inside).count();
            let text = std::str::from_utf8(&buffer[begun..length]);
            self.is_foreign = text.is_err_and(|err| err.error_len().is_some());
        }
        Ok(length)
    }
}

/// How much of a file is looked at to learn its encoding.
const HEAD_BYTES: usize = 256 << 10;
