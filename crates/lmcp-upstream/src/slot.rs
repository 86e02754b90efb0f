//! The messages that wait for one caller. They are bounded, and nobody waits for the caller to take them: only the newest
//! progress is kept, the oldest of too many messages is dropped, and the answer is kept.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use lmcp_core::{Account, CALL_BYTES, NoRoom, Reservation};
use lmcp_wire::{RpcError, method::request, progress::ProgressParams};
use serde_json::{json, value::RawValue};
use tokio::sync::Notify;

use crate::{
    limits::{ALL_NOTICES_BYTES, NOTICES, NOTICES_BYTES},
    news::News,
};

/// One message for a caller.
#[derive(Debug)]
pub(crate) enum Said {
    Progress(ProgressParams),
    Notice(News),
    Question(Question),
    Done(Result<Box<RawValue>, RpcError>),
}

/// A question of the server.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) number: u64,
    pub(crate) method: Box<str>,
    pub(crate) params: Box<RawValue>,
}

/// The number of bytes that wait for all callers of one server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room(Arc<AtomicUsize>);

/// A part of the room, which is freed when this is dropped.
#[derive(Debug)]
struct Taken(Room, usize);

impl Room {
    /// Takes some room. `None`: there is not enough.
    fn take(&self, bytes: usize) -> Option<Taken> {
        let before = self.0.fetch_add(bytes, Ordering::Relaxed);
        let taken = Taken(self.clone(), bytes);
        (before + bytes <= ALL_NOTICES_BYTES).then_some(taken)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub(crate) struct Slot {
    waiting: Mutex<Waiting>,
    room: Room,
    /// The account that pays for a long answer, if there is one.
    account: Option<Account>,
    /// Whether the call can be made again, whatever its result.
    only_reads: bool,
    changed: Notify,
}

/// A message that is not the answer.
#[derive(Debug)]
struct Waits {
    news: News,
    taken: Taken,
}

#[derive(Debug, Default)]
struct Waiting {
    progress: Option<(ProgressParams, Taken)>,
    notices: VecDeque<Waits>,
    questions: VecDeque<Question>,
    /// Questions that were handed out and are cancelled.
    taken_back: Vec<u64>,
    done: Option<Result<Box<RawValue>, RpcError>>,
    /// The memory of a long answer, until the answer is taken.
    counted: Option<Reservation>,
}

impl Slot {
    pub(crate) fn new(room: Room) -> Self {
        Self {
            waiting: Mutex::default(),
            room,
            account: None,
            only_reads: false,
            changed: Notify::new(),
        }
    }

    /// Returns a slot for the answer to a call of this method. A long answer counts as memory of the caller.
    pub(crate) fn of_call(method: &str, account: Option<Account>, room: Room) -> Self {
        Self {
            account,
            only_reads: request::only_reads(method),
            ..Self::new(room)
        }
    }

    pub(crate) fn progress(&self, params: ProgressParams) {
        self.put(|waiting| {
            waiting.progress = None;
            let bytes = params.message.as_ref().map_or(0, |message| message.len());
            let taken = self.room.take(size_of::<ProgressParams>() + bytes);
            waiting.progress = taken.map(|taken| (params, taken));
        });
    }

    pub(crate) fn notice(&self, news: News) {
        let bytes = news.bytes();
        self.put(|waiting| {
            waiting.notices.retain(|one| !news.replaces(&one.news));
            while waiting.notices.len() >= NOTICES || waiting.notice_bytes() + bytes > NOTICES_BYTES
            {
                if waiting.notices.pop_front().is_none() {
                    return;
                }
            }
            loop {
                if let Some(taken) = self.room.take(bytes) {
                    return waiting.notices.push_back(Waits { news, taken });
                }
                if waiting.notices.pop_front().is_none() {
                    return;
                }
            }
        });
    }

    pub(crate) fn question(&self, question: Question) {
        self.put(|waiting| waiting.questions.push_back(question));
    }

    pub(crate) fn take_back(&self, number: u64) {
        self.put(|waiting| {
            let before = waiting.questions.len();
            waiting
                .questions
                .retain(|question| question.number != number);
            if before == waiting.questions.len() {
                waiting.taken_back.push(number);
            }
        });
    }

    pub(crate) fn done(&self, result: Result<Box<RawValue>, RpcError>) {
        let counted = match (&self.account, &result) {
            (Some(account), Ok(answer)) if answer.get().len() > CALL_BYTES => {
                account.take_if_modest(answer.get().len()).map(Some)
            }
            _ => Ok(None),
        };
        self.put(|waiting| match counted {
            Ok(counted) => {
                waiting.done = Some(result);
                waiting.counted = counted;
            }
            Err(no_room) => waiting.done = Some(Err(no_room_for_answer(no_room, self.only_reads))),
        });
    }

    /// Returns the next message. Waits for ever after the answer.
    pub(crate) async fn next(&self) -> Said {
        loop {
            let changed = self.changed.notified();
            if let Some(said) = self.take() {
                return said;
            }
            changed.await;
        }
    }

    /// Returns the answer, if it is there already.
    pub(crate) fn end(&self) -> Option<Result<Box<RawValue>, RpcError>> {
        self.lock().done.take()
    }

    /// Returns another question, if there is one already.
    pub(crate) fn next_question(&self) -> Option<Question> {
        self.lock().questions.pop_front()
    }

    /// Waits until this question need not be answered: it was cancelled, or the call has ended.
    pub(crate) async fn moot(&self, number: u64) {
        loop {
            let changed = self.changed.notified();
            {
                let mut waiting = self.lock();
                let place = waiting.taken_back.iter().position(|one| *one == number);
                if let Some(place) = place {
                    waiting.taken_back.swap_remove(place);
                    return;
                }
                if waiting.done.is_some() {
                    return;
                }
            }
            changed.await;
        }
    }

    fn take(&self) -> Option<Said> {
        let mut waiting = self.lock();
        if let Some((params, _)) = waiting.progress.take() {
            return Some(Said::Progress(params));
        }
        if let Some(notice) = waiting.notices.pop_front() {
            return Some(Said::Notice(notice.news));
        }
        // A call that has ended has no questions.
        if waiting.done.is_none()
            && let Some(question) = waiting.questions.pop_front()
        {
            return Some(Said::Question(question));
        }
        // From here on, the code that writes the message counts its memory.
        waiting.counted = None;
        waiting.done.take().map(Said::Done)
    }

    /// The notifications that wait.
    #[cfg(test)]
    pub(crate) fn notices(&self) -> Vec<News> {
        let waiting = self.lock();
        waiting.notices.iter().map(|one| one.news.clone()).collect()
    }

    fn put(&self, put: impl FnOnce(&mut Waiting)) {
        put(&mut self.lock());
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn notice_bytes(&self) -> usize {
        self.notices.iter().map(|notice| notice.taken.1).sum()
    }
}

/// Makes the error for an answer that has no room, because earlier answers were not read yet. `only_reads` is whether the request can
/// be made again. For services that make answers of a server longer.
pub fn no_room_for_answer(no_room: NoRoom, only_reads: bool) -> RpcError {
    let (bytes, most) = (no_room.wanted, no_room.total);
    let retriable = only_reads && no_room.retriable;
    let what_now = match (only_reads, retriable) {
        (true, true) => "read your answers, and try again",
        (true, false) => "it never will fit",
        (false, _) => "the request may have taken effect",
    };
    let words = format!(
        "the server's answer of {bytes} bytes was not passed on: with the answers that callers have not read, it is more than \
         this caller's share of {most} bytes of memory; {what_now}"
    );
    let data = json!({ "limit": "memory_bytes", "value": most, "retriable": retriable });
    RpcError::internal(words).with_data(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(slot: &Slot, bytes: usize) {
        let text = format!("\"{}\"", "x".repeat(bytes));
        let params = RawValue::from_string(text).expect("a string is JSON");
        slot.notice(News::new("notifications/message", params));
    }

    fn waiting(slot: &Slot) -> usize {
        slot.lock().notice_bytes()
    }

    #[test]
    fn what_waits_for_a_caller_is_bounded_in_bytes_and_the_newest_stays() {
        let slot = Slot::new(Room::default());
        (1..=20).for_each(|part| told(&slot, part * 10_000));
        assert!(waiting(&slot) <= NOTICES_BYTES, "{}", waiting(&slot));
        let newest = slot
            .lock()
            .notices
            .back()
            .map(|one| one.news.params.get().len());
        assert_eq!(newest, Some(200_002));
    }

    #[test]
    fn of_one_resource_the_last_notice_waits() {
        let slot = Slot::new(Room::default());
        for _ in 0..3 {
            for uri in ["a:1", "a:2"] {
                slot.notice(News::updated(uri));
            }
        }
        let waiting = slot.notices();
        let told: Vec<_> = waiting.iter().map(|news| news.params.get()).collect();
        assert_eq!(told, [r#"{"uri":"a:1"}"#, r#"{"uri":"a:2"}"#]);
    }

    #[test]
    fn what_waits_for_all_callers_is_bounded_and_room_is_given_back() {
        let room = Room::default();
        let slots: Vec<_> = (0..40).map(|_| Slot::new(room.clone())).collect();
        for slot in slots.iter().cycle().take(400) {
            told(slot, 200_000);
        }
        let all: usize = slots.iter().map(waiting).sum();
        assert!(
            all <= ALL_NOTICES_BYTES && all > ALL_NOTICES_BYTES / 2,
            "{all}"
        );
        drop(slots);
        assert_eq!(room.0.load(Ordering::Relaxed), 0);
    }
}
