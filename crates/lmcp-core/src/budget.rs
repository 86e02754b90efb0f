//! The memory that callers may occupy: one budget of bytes for a server, shared out between them.
//!
//! Code that is about to hold something large for a caller reserves the bytes first. Dropping the [`Reservation`] gives them
//! back. A caller may hold at most twice the bytes that are free, so each new caller finds room: a single caller gets two
//! thirds of the budget, four callers get two ninths each, and a ninth stays free for the fifth.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use lmcp_wire::RpcError;
use serde_json::json;
use tokio::{sync::Notify, time::timeout};

use crate::turns::{Rounds, Turn};

/// The memory that a call takes while it runs, besides its message: its task, its stream, and an answer of usual length. An
/// answer cannot be refused once its call has run, so its room is reserved before.
pub const CALL_BYTES: usize = 64 << 10;

/// The bytes that all callers of one server may occupy together. Cheap to clone.
#[derive(Clone)]
pub struct Budget(Arc<Shared>);

struct Shared {
    /// The limit as the operator set it; error messages show it.
    total: usize,
    /// The part of `total` that callers can reserve.
    usable: usize,
    used: AtomicUsize,
    /// Only for a budget of memory.
    heap: Option<Heap>,
    accounts: Mutex<Accounts>,
    rounds: Rounds,
    /// Reservations that wait for room.
    waiting: AtomicUsize,
    /// Notified when bytes are given back.
    freed: Notify,
}

#[derive(Default)]
struct Accounts {
    known: HashMap<Box<str>, Weak<Payer>>,
    /// Accounts that are closed are looked for at this size.
    crowded: usize,
}

/// The part of a [`Budget`] that one caller occupies. Cheap to clone; all accounts of one payer share one count.
#[derive(Clone)]
pub struct Account(Arc<Payer>);

struct Payer {
    used: AtomicUsize,
    budget: Budget,
    turn: Turn,
}

/// Bytes that are set aside. Dropping this value gives them back.
pub struct Reservation {
    account: Account,
    bytes: usize,
}

/// The error of a reservation that does not fit now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoRoom {
    /// The bytes that the caller asked for.
    pub wanted: usize,
    /// The whole budget.
    pub total: usize,
    /// Whether the bytes may fit once other callers have given theirs back.
    pub retriable: bool,
}

impl Budget {
    /// Makes a budget of this many bytes.
    pub fn new(total: usize) -> Self {
        Self::with(total, total, None)
    }

    /// Makes a budget of memory. An eighth of it is never reserved: buffers that grow, and memory that the allocator keeps, are not
    /// counted.
    pub fn of_memory(total: usize) -> Self {
        Self::with(total, total - total / 8, Some(Heap::of(total)))
    }

    fn with(total: usize, usable: usize, heap: Option<Heap>) -> Self {
        Self(Arc::new(Shared {
            total,
            usable,
            used: AtomicUsize::new(0),
            heap,
            accounts: Mutex::default(),
            rounds: Rounds::default(),
            waiting: AtomicUsize::new(0),
            freed: Notify::new(),
        }))
    }

    /// The whole budget, in bytes.
    pub fn total(&self) -> usize {
        self.0.total
    }

    /// The bytes that all callers occupy now.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Acquire)
    }

    /// Whether so much is occupied that each caller is held to its share.
    pub fn is_tight(&self) -> bool {
        self.used() > self.0.usable / 2
    }

    /// The account of a caller, by [`Caller::payer`](crate::Caller::payer).
    pub fn account(&self, payer: &str) -> Account {
        let mut accounts = self
            .0
            .accounts
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = accounts.known.get(payer).and_then(Weak::upgrade) {
            return Account(known);
        }
        if accounts.known.len() >= accounts.crowded {
            accounts.known.retain(|_, payer| payer.strong_count() > 0);
            accounts.crowded = 2 * accounts.known.len() + 16;
        }
        let made = self.own_account();
        accounts.known.insert(payer.into(), Arc::downgrade(&made.0));
        made
    }

    /// An account for memory that belongs to no caller.
    pub fn own_account(&self) -> Account {
        Account(Arc::new(Payer {
            used: AtomicUsize::new(0),
            budget: self.clone(),
            turn: Turn::new(&self.0.rounds),
        }))
    }

    /// The most that one caller can hold, when nobody else holds anything.
    fn largest_share(&self) -> usize {
        self.0.usable / 3 * 2
    }
}

impl Shared {
    /// Counts bytes as used, and returns how many are used now.
    fn add(&self, bytes: usize) -> usize {
        let used = self.used.fetch_add(bytes, Ordering::AcqRel) + bytes;
        if let Some(heap) = &self.heap {
            heap.look(used);
        }
        used
    }
}

/// Makes the allocator give memory back to the system whenever the bytes in use have grown or shrunk by a step. Otherwise the
/// allocator would keep the small pieces that finished calls have freed, and the process would grow beyond its budget.
struct Heap {
    /// The bytes that were in use when memory was last given back.
    before: AtomicUsize,
    /// The change in bytes after which memory is given back.
    step: usize,
}

impl Heap {
    fn of(total: usize) -> Self {
        Self {
            before: AtomicUsize::new(0),
            step: total / 16,
        }
    }

    fn look(&self, used: usize) {
        let before = self.before.load(Ordering::Relaxed);
        if used.abs_diff(before) < self.step {
            return;
        }
        let order = Ordering::Relaxed;
        // If several threads come here at once, only one gives memory back.
        if self
            .before
            .compare_exchange(before, used, order, order)
            .is_ok()
        {
            lmcp_heap::give_back();
        }
    }
}

impl Account {
    /// The turns of the caller on the shared thread.
    pub(crate) fn turn(&self) -> &Turn {
        &self.0.turn
    }

    /// The bytes that the caller occupies now.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Acquire)
    }

    /// Whether the caller holds clearly more than its share, in answers that it does not read. A caller that holds little is never over,
    /// and neither is one whose share became a little smaller since it took the memory.
    pub fn is_over(&self) -> bool {
        let (mine, shared) = (self.used(), &self.0.budget.0);
        mine > MODEST && !is_fair(mine - mine / 8, self.0.budget.used(), shared.usable)
    }

    /// Waits until the caller holds no more than its share.
    ///
    /// # Errors
    /// The caller still holds more after this time.
    pub async fn expect_share(&self, wait: Duration) -> Result<(), NoRoom> {
        if !self.is_over() {
            return Ok(());
        }
        self.reserve(1, wait).await.map(drop)
    }

    /// Sets bytes aside.
    ///
    /// # Errors
    /// The bytes do not fit now.
    pub fn try_reserve(&self, bytes: usize) -> Result<Reservation, NoRoom> {
        let mut reservation = self.take(0);
        reservation.grow(bytes)?;
        Ok(reservation)
    }

    /// Sets bytes aside, and waits until they fit.
    ///
    /// # Errors
    /// The bytes did not fit within this time, or never will.
    pub async fn reserve(&self, bytes: usize, wait: Duration) -> Result<Reservation, NoRoom> {
        match self.try_reserve(bytes) {
            Err(no_room) if no_room.retriable && !wait.is_zero() => {
                let waited = timeout(wait, self.room_for(bytes)).await;
                waited.map_err(|_| no_room)
            }
            decided => decided,
        }
    }

    async fn room_for(&self, bytes: usize) -> Reservation {
        let shared = &self.0.budget.0;
        shared.waiting.fetch_add(1, Ordering::AcqRel);
        let _waiting = Waiting(&shared.waiting);
        loop {
            let freed = shared.freed.notified();
            tokio::pin!(freed);
            // From here on, no notification is missed.
            freed.as_mut().enable();
            if let Ok(reservation) = self.try_reserve(bytes) {
                return reservation;
            }
            freed.await;
        }
    }

    /// Counts bytes that are there already, such as an answer of a remote server, whose length could not be known before. A
    /// caller that holds hardly anything may always keep up to [`CALL_BYTES`]; a longer answer has to fit.
    ///
    /// # Errors
    /// The caller would hold more than its share, or others have left too little room.
    pub fn take_if_modest(&self, bytes: usize) -> Result<Reservation, NoRoom> {
        if self.used() <= MODEST && bytes <= CALL_BYTES {
            return Ok(self.take(bytes));
        }
        self.try_reserve(bytes)
    }

    /// Counts bytes that are there already and cannot be refused, such as the answer of a call that ran. New reservations wait until there
    /// is room again.
    pub fn take(&self, bytes: usize) -> Reservation {
        self.0.used.fetch_add(bytes, Ordering::AcqRel);
        self.0.budget.0.add(bytes);
        Reservation {
            account: self.clone(),
            bytes,
        }
    }
}

impl Reservation {
    /// The account of the caller whose bytes these are.
    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// The number of bytes that are set aside.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets more bytes aside.
    ///
    /// # Errors
    /// The bytes do not fit now. The bytes that were set aside before stay so.
    pub fn grow(&mut self, more: usize) -> Result<(), NoRoom> {
        if self.grows(more, 1) {
            return Ok(());
        }
        Err(self.account.no_room(more, self.bytes + more))
    }

    /// Sets more bytes aside for something that the caller can do without, such as events that a client may come back for. They fit
    /// only while the caller holds at most half of its share, so that they never take the room of its calls. `false`: nothing
    /// was set aside.
    pub fn grow_if_spare(&mut self, more: usize) -> bool {
        self.grows(more, 2)
    }

    /// Sets more bytes aside if the caller would hold no more than its share, divided by this number.
    fn grows(&mut self, more: usize, part: usize) -> bool {
        if more == 0 {
            return true;
        }
        let (payer, shared) = (&self.account.0, &self.account.0.budget.0);
        let mine = payer.used.fetch_add(more, Ordering::AcqRel) + more;
        let all = shared.add(more);
        if is_fair(mine.saturating_mul(part), all, shared.usable) {
            self.bytes += more;
            return true;
        }
        payer.used.fetch_sub(more, Ordering::AcqRel);
        shared.used.fetch_sub(more, Ordering::AcqRel);
        false
    }

    /// Sets more bytes aside, and waits until they fit.
    ///
    /// # Errors
    /// The bytes did not fit within this time, or never will beside the bytes that are set aside already.
    pub async fn grow_within(&mut self, more: usize, wait: Duration) -> Result<(), NoRoom> {
        match self.grow(more) {
            Err(no_room) if no_room.retriable => {
                let more = self.account.reserve(more, wait).await?;
                self.join(more);
                Ok(())
            }
            decided => decided,
        }
    }

    /// Counts the bytes for another account of the same budget. The budget has as many bytes in use afterwards as before, so a caller
    /// that holds hardly anything always succeeds.
    ///
    /// # Errors
    /// The other account would hold more than its share. The bytes stay with the account that they were reserved for.
    pub(crate) fn pass_to(&mut self, account: &Account) -> Result<(), NoRoom> {
        let (payer, shared) = (&account.0, &account.0.budget.0);
        let before = payer.used.fetch_add(self.bytes, Ordering::AcqRel);
        let modest = before <= MODEST && self.bytes <= CALL_BYTES;
        let all = shared.used.load(Ordering::Acquire);
        let receiver_fits = modest || is_fair(before + self.bytes, all, shared.usable);
        let giver = if receiver_fits {
            &self.account
        } else {
            account
        };
        giver.0.used.fetch_sub(self.bytes, Ordering::AcqRel);
        if receiver_fits {
            self.account = account.clone();
            return Ok(());
        }
        Err(account.no_room(self.bytes, self.bytes))
    }

    /// Adds the bytes of another reservation of the same account.
    pub fn join(&mut self, mut other: Self) {
        if Arc::ptr_eq(&self.account.0, &other.account.0) {
            self.bytes += std::mem::take(&mut other.bytes);
        }
    }

    /// Gives back all but this many bytes.
    pub fn shrink_to(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        self.bytes -= less;
        self.account.give_back(less);
    }

    /// Makes bytes that hold this reservation. Dropping their last copy or slice gives it back.
    pub fn hold(self, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        struct Held<T>(
            T,
            #[expect(dead_code, reason = "dropped with the bytes")] Reservation,
        );
        impl<T: AsRef<[u8]>> AsRef<[u8]> for Held<T> {
            fn as_ref(&self) -> &[u8] {
                self.0.as_ref()
            }
        }
        Bytes::from_owner(Held(bytes, self))
    }
}

impl Account {
    /// Makes the error for `wanted` bytes. `whole`: the bytes that the caller would then hold for one purpose.
    fn no_room(&self, wanted: usize, whole: usize) -> NoRoom {
        let budget = &self.0.budget;
        NoRoom {
            wanted,
            total: budget.total(),
            retriable: whole <= budget.largest_share(),
        }
    }

    fn give_back(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let shared = &self.0.budget.0;
        self.0.used.fetch_sub(bytes, Ordering::AcqRel);
        let used = shared.used.fetch_sub(bytes, Ordering::AcqRel) - bytes;
        if let Some(heap) = &shared.heap {
            heap.look(used);
        }
        if shared.waiting.load(Ordering::Acquire) > 0 {
            shared.freed.notify_waiters();
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.account.give_back(self.bytes);
    }
}

/// Whether one caller may hold `mine` when all callers together would hold `all` of `total`: at most twice the bytes that are
/// then left. One is added to the rest, so that a total of one or two can be used at all.
pub(crate) fn is_fair(mine: usize, all: usize, total: usize) -> bool {
    match total.checked_sub(all) {
        Some(free) => mine <= (free + 1).saturating_mul(2),
        None => false,
    }
}

/// Checks that a caller that has `mine` places may take one more, when `all` of the `most` places are taken.
///
/// # Errors
/// *Internal error*, which names the limit and says that the request may be tried again.
pub fn expect_share(limit: &str, mine: usize, all: usize, most: usize) -> Result<(), RpcError> {
    if is_fair(mine + 1, all + 1, most) {
        return Ok(());
    }
    let words = if all < most {
        format!("your share of the limit `{limit}` of {most} is used up; try again later")
    } else {
        format!("the limit `{limit}` of {most} is reached; try again later")
    };
    Err(try_later(words, limit, most))
}

/// Makes the error of a request that met a limit and may be sent again: *internal error* with `retriable`.
pub fn try_later(words: String, limit: &str, most: usize) -> RpcError {
    let data = json!({ "limit": limit, "value": most, "retriable": true });
    RpcError::internal(words).with_data(data)
}

/// A caller that holds no more than this need not wait for others, and gets any short answer.
const MODEST: usize = 256 << 10;

/// Counts a reservation that waits, until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wanted, total, .. } = self;
        if self.retriable {
            write!(
                f,
                "the server has no room for {wanted} bytes now: its callers share a budget of {total} bytes; try again later"
            )
        } else {
            write!(
                f,
                "{wanted} bytes are more than one caller may occupy of the server's budget of {total} bytes"
            )
        }
    }
}

impl std::error::Error for NoRoom {}

impl From<NoRoom> for RpcError {
    fn from(no_room: NoRoom) -> Self {
        Self::internal(no_room.to_string()).with_data(json!({
            "limit": "memory_bytes",
            "value": no_room.total,
            "retriable": no_room.retriable,
        }))
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("total", &self.total())
            .field("used", &self.used())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Account").field(&self.0.used).finish()
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reservation").field(&self.bytes).finish()
    }
}

#[cfg(test)]
mod tests;
