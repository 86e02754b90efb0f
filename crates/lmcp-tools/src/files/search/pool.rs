//! Many threads, one order of the results.
//!
//! Every piece of work has a key, and keys sort like the results: the pieces of a folder have its key and one more
//! number. Three maps by key hold the pieces that are not begun, those that run, and those that are done. Threads take
//! the first piece that is not begun. A result goes into the answer once no piece before it is outstanding. As soon as
//! the results at hand would fill the answer, all pieces after them are dropped: so no more is kept than is shown, and
//! no thread searches in vain.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    num::NonZero,
    ops::Bound,
    os::fd::OwnedFd,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use crate::{files::meter::Charge, giving_way::give_way};

use super::{
    listing::{BATCH, Folder, Listing},
    page::{Budget, Outcome, Page, Stop},
    tree::Start,
    worker::{Files, Flags, Listed, Search, Worker},
};

/// The threads of one search, and their shared state.
pub(super) struct Pool<'a> {
    search: Search<'a>,
    state: Mutex<State>,
    /// Wakes threads when there is something to do, or nothing more.
    changed: Condvar,
    /// Wakes the caller that waits for the end.
    over: Condvar,
    stop: &'a AtomicBool,
    /// For each thread: whether its work is no longer wanted.
    unwanted: Vec<AtomicBool>,
}

type Key = Vec<u32>;

struct State {
    todo: BTreeMap<Key, Task>,
    /// The thread that works on each piece.
    running: BTreeMap<Key, usize>,
    done: BTreeMap<Key, Outcome>,
    /// Nothing after this piece is needed.
    horizon: Option<Key>,
    /// Whether a thread waits because too much is done ahead of the piece that the answer takes next.
    is_ahead: bool,
    page: Page,
}

/// A piece of work.
enum Task {
    Folder(Folder),
    Files(Files),
    Named(File),
}

/// The most threads, as in ripgrep: with more, the threads wait for each other longer than they gain.
const THREADS: usize = 12;
/// The most pieces that may be done ahead of the one that the answer takes next.
const MOST_AHEAD: usize = 2048;
/// How often the search checks whether it should end.
const LOOK: Duration = Duration::from_millis(20);

impl<'a> Pool<'a> {
    pub(super) fn new(search: Search<'a>, page: Page, stop: &'a AtomicBool) -> Self {
        let threads = thread::available_parallelism()
            .map_or(1, NonZero::get)
            .min(THREADS);
        Self {
            search,
            state: Mutex::new(State {
                todo: BTreeMap::new(),
                running: BTreeMap::new(),
                done: BTreeMap::new(),
                horizon: None,
                is_ahead: false,
                page,
            }),
            changed: Condvar::new(),
            over: Condvar::new(),
            stop,
            unwanted: (0..threads).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// Searches until everything is found, the answer is full, or `look` returns true.
    ///
    /// # Errors
    /// Not one thread can be started.
    pub(super) fn run(self, start: Start, look: impl Fn(u64) -> bool) -> io::Result<Page> {
        let (first, threads) = match start {
            Start::Folder(rules) => {
                let on_cursor = self.search.cursor.map(|_| 0);
                let path = self.search.tree.above.clone();
                let top = Folder::Top {
                    path,
                    rules,
                    on_cursor,
                };
                (Task::Folder(top), self.unwanted.len())
            }
            Start::File(file) => (Task::Named(file), 1),
        };
        let helpers = self.helpers(threads - 1);
        self.lock().todo.insert(Key::new(), first);
        thread::scope(|scope| {
            for id in 0..=helpers.len() {
                let pool = &self;
                let started = thread::Builder::new().spawn_scoped(scope, move || pool.work(id));
                match started {
                    Ok(_) => {}
                    Err(err) if id == 0 => return Err(err),
                    // With fewer threads the search takes longer.
                    Err(_) => break,
                }
            }
            self.watch(look);
            Ok(())
        })?;
        let state = self
            .state
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let mut page = state.page;
        if !state.todo.is_empty() || !state.done.is_empty() {
            page.stop.get_or_insert(Stop::Time);
        }
        Ok(page)
    }

    /// Reserves the memory of threads beside the first, as many as there is plenty of room for.
    fn helpers(&self, most: usize) -> Vec<Charge> {
        let Search { meter, query, .. } = self.search;
        let charges = (0..most).map_while(|_| meter.take_of_plenty(query.thread_bytes));
        charges.collect()
    }

    /// Waits for the end.
    fn watch(&self, look: impl Fn(u64) -> bool) {
        let mut state = self.lock();
        while !state.is_over() && !self.stop.load(Ordering::Relaxed) && !look(state.page.searched) {
            let waited = self.over.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.stop.store(true, Ordering::Relaxed);
        // The threads are woken under the lock: else a thread that is about to wait would miss it.
        self.changed.notify_all();
    }

    fn work(&self, id: usize) {
        give_way();
        let flags = Flags {
            all: self.stop,
            own: &self.unwanted[id],
        };
        let mut worker = Worker::new(self.search, flags);
        let mut next = None;
        while let Some((key, task)) = next.take().or_else(|| self.claim(id)) {
            match task {
                Task::Folder(folder) => match worker.list(&folder) {
                    Listed::Open(listing, open) => {
                        next = self.expand(id, &key, pieces(&listing, open));
                    }
                    Listed::Nothing(outcome) => self.finish(&key, outcome),
                    Listed::Stopped => self.give_back(key, Task::Folder(folder)),
                },
                Task::Files(files) => {
                    let left = self.lock().page.left();
                    self.finish(&key, worker.search(files, left));
                }
                Task::Named(file) => {
                    let left = self.lock().page.left();
                    self.finish(&key, worker.search_named(&file, left));
                }
            }
        }
    }

    /// Returns the first piece that is not begun. Waits while other threads may still make some.
    fn claim(&self, id: usize) -> Option<(Key, Task)> {
        let mut state = self.lock();
        loop {
            if state.is_over() || self.stop.load(Ordering::Relaxed) {
                self.over.notify_one();
                return None;
            }
            if state.is_too_far_ahead() {
                state.is_ahead = true;
            } else if let Some((key, task)) = state.todo.pop_first() {
                self.unwanted[id].store(false, Ordering::Relaxed);
                state.running.insert(key.clone(), id);
                return Some((key, task));
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Replaces a folder by its pieces. If the first piece is files, the same thread takes it, because their folder is
    /// open.
    fn expand(&self, id: usize, key: &Key, pieces: Vec<Task>) -> Option<(Key, Task)> {
        let mut state = self.lock();
        state.running.remove(key);
        let mut own = None;
        let is_wanted = state.horizon.as_ref().is_none_or(|horizon| key <= horizon);
        for (number, task) in (0..).zip(pieces).filter(|_| is_wanted) {
            let mut key = key.clone();
            key.push(number);
            if number == 0 && matches!(task, Task::Files(_)) {
                state.running.insert(key.clone(), id);
                own = Some((key, task));
            } else {
                state.todo.insert(key, task);
            }
        }
        state.commit();
        self.changed.notify_all();
        own
    }

    fn finish(&self, key: &Key, outcome: Outcome) {
        let mut state = self.lock();
        state.running.remove(key);
        let found_some = !outcome.entries.is_empty();
        state.done.insert(key.clone(), outcome);
        state.commit();
        if found_some {
            self.drop_what_is_not_needed(&mut state);
        }
        let is_over = state.is_over();
        if std::mem::take(&mut state.is_ahead) || is_over {
            self.changed.notify_all();
        }
        if is_over {
            self.over.notify_one();
        }
    }

    fn give_back(&self, key: Key, task: Task) {
        let mut state = self.lock();
        state.running.remove(&key);
        let is_wanted = state.horizon.as_ref().is_none_or(|horizon| key <= *horizon);
        if is_wanted {
            state.todo.insert(key, task);
        }
    }

    /// Finds the piece that fills the answer even if nothing more comes before it, and drops all pieces after it.
    fn drop_what_is_not_needed(&self, state: &mut State) {
        let left = state.page.left();
        let mut used = Budget::default();
        let filled = state.done.iter().find(|(_, outcome)| {
            used.add(outcome.used);
            used.reaches(&left)
        });
        let Some(horizon) = filled.map(|(key, _)| key.clone()) else {
            return;
        };
        let after = (Bound::Excluded(&horizon), Bound::Unbounded);
        for id in state.running.range::<Key, _>(after).map(|(_, id)| *id) {
            self.unwanted[id].store(true, Ordering::Relaxed);
        }
        state.todo.retain(|key, _| *key <= horizon);
        state.done.retain(|key, _| *key <= horizon);
        state.horizon = Some(horizon);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Moves results into the answer that have no outstanding piece before them.
    fn commit(&mut self) {
        while self.page.stop.is_none() {
            let Some(first) = self.done.first_entry() else {
                return;
            };
            let outstanding = [self.todo.keys().next(), self.running.keys().next()];
            if outstanding
                .into_iter()
                .flatten()
                .any(|key| key < first.key())
            {
                return;
            }
            let outcome = first.remove();
            self.page.take(outcome);
        }
    }

    /// Returns whether so much is done that the piece the answer takes next must come first. That piece itself is never
    /// held up.
    fn is_too_far_ahead(&self) -> bool {
        let is_next = match (self.todo.keys().next(), self.done.keys().next()) {
            (Some(todo), Some(done)) => todo < done,
            (Some(_), None) | (None, _) => true,
        };
        self.done.len() >= MOST_AHEAD && !is_next
    }

    /// Returns whether there is nothing more to do.
    fn is_over(&self) -> bool {
        self.page.stop.is_some() || (self.todo.is_empty() && self.running.is_empty())
    }
}

/// Returns the work in a folder, in order.
fn pieces(listing: &Arc<Listing>, open: OwnedFd) -> Vec<Task> {
    let count = listing.files.len();
    let mut open = Some(open);
    let mut pieces = Vec::with_capacity(count.div_ceil(BATCH) + listing.folders.len());
    for start in (0..count).step_by(BATCH) {
        let range = start..count.min(start + BATCH);
        let listing = listing.clone();
        pieces.push(Task::Files(Files {
            listing,
            range,
            open: open.take(),
        }));
    }
    if count == 0 && listing.unfit > 0 {
        // There is nothing to search, but the files must be counted.
        pieces.push(Task::Files(Files {
            listing: listing.clone(),
            range: 0..0,
            open: open.take(),
        }));
    }
    pieces.extend((0..listing.folders.len()).map(|number| {
        Task::Folder(Folder::Below {
            above: listing.clone(),
            number,
        })
    }));
    pieces
}
