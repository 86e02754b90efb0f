//! What waits for one caller. It is bounded, and nobody waits for the caller to take it: how far a call has got is told
//! once, the oldest of too many messages is dropped, and the answer is kept.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use lmcp_wire::{RpcError, progress::ProgressParams};
use serde_json::value::RawValue;
use tokio::sync::Notify;

use crate::limits::NOTICES;

/// One thing for a caller.
#[derive(Debug)]
pub(crate) enum Said {
    Progress(ProgressParams),
    Notice(Box<str>, Box<RawValue>),
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

#[derive(Debug, Default)]
pub(crate) struct Slot {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    progress: Option<ProgressParams>,
    notices: VecDeque<(Box<str>, Box<RawValue>)>,
    questions: VecDeque<Question>,
    /// Questions that were handed out, and are taken back.
    taken_back: Vec<u64>,
    done: Option<Result<Box<RawValue>, RpcError>>,
}

impl Slot {
    pub(crate) fn progress(&self, params: ProgressParams) {
        self.put(|waiting| waiting.progress = Some(params));
    }

    pub(crate) fn notice(&self, method: Box<str>, params: Box<RawValue>) {
        self.put(|waiting| {
            if waiting.notices.len() >= NOTICES {
                waiting.notices.pop_front();
            }
            waiting.notices.push_back((method, params));
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
        self.put(|waiting| waiting.done = Some(result));
    }

    /// What comes next. After the end it waits for ever.
    pub(crate) async fn next(&self) -> Said {
        loop {
            let changed = self.changed.notified();
            if let Some(said) = self.take() {
                return said;
            }
            changed.await;
        }
    }

    /// Another question that is there already.
    pub(crate) fn next_question(&self) -> Option<Question> {
        self.lock().questions.pop_front()
    }

    /// Waits until this question need not be answered: it was taken back, or the call has ended.
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
        if let Some(params) = waiting.progress.take() {
            return Some(Said::Progress(params));
        }
        if let Some((method, params)) = waiting.notices.pop_front() {
            return Some(Said::Notice(method, params));
        }
        // A call that has ended has no questions.
        if waiting.done.is_none()
            && let Some(question) = waiting.questions.pop_front()
        {
            return Some(Said::Question(question));
        }
        waiting.done.take().map(Said::Done)
    }

    fn put(&self, put: impl FnOnce(&mut Waiting)) {
        put(&mut self.lock());
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
