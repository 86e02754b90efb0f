//! Calls of servers that ask while they work, for callers that are asked in the answer to their request: the call is held
//! until the caller sends the request again with answers.

use std::{
    collections::HashMap,
    future::pending,
    sync::{Mutex, MutexGuard, PoisonError},
};

use lmcp_core::{Caller, Request, expect_share};
use lmcp_wire::{RpcError, params::Params};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::time::{Instant, sleep_until};

use crate::{
    call::Call,
    limits::{HELD_CALLS, HELD_WAIT},
    slot::Question,
};

/// A held call.
pub(crate) struct Held {
    pub(crate) call: Call,
    /// The questions, with the keys that the caller was given.
    pub(crate) questions: Vec<(String, Question)>,
    owner: String,
    method: String,
    until: Instant,
}

/// All held calls, by the state that callers send back.
#[derive(Default)]
pub(crate) struct HeldCalls(Mutex<HashMap<String, Held>>);

impl HeldCalls {
    /// Holds a call, and returns the state for the next request.
    pub(crate) fn hold(
        &self,
        call: Call,
        questions: Vec<(String, Question)>,
        request: &Request,
    ) -> Result<String, RpcError> {
        self.expire();
        let mut all = self.lock();
        let payer = request.caller().payer();
        let mine = all
            .values()
            .filter(|held| Caller::payer_of(&held.owner) == payer);
        expect_share("held_calls", mine.count(), all.len(), HELD_CALLS)?;
        let state = random()?;
        let held = Held {
            call,
            questions,
            owner: request.caller().owner().into_owned(),
            method: request.method().to_owned(),
            until: Instant::now() + HELD_WAIT,
        };
        all.insert(state.clone(), held);
        Ok(state)
    }

    /// Returns the held call that a request continues.
    pub(crate) fn take(&self, request: &Request) -> Option<Held> {
        let mut all = self.lock();
        if all.is_empty() {
            return None;
        }
        let params: Params<'_> = request.params().ok()?;
        let state: String = serde_json::from_str(params.request_state?.get()).ok()?;
        let held = all.get(&state)?;
        let is_its = held.owner == request.caller().owner() && held.method == request.method();
        let is_good = is_its && Instant::now() < held.until;
        is_good.then(|| all.remove(&state)).flatten()
    }

    /// Waits until a caller has not come back in time, and drops its call. Waits for ever if no call is held.
    pub(crate) async fn expire_next(&self) {
        let first = self.lock().values().map(|held| held.until).min();
        match first {
            Some(until) => sleep_until(until).await,
            None => pending().await,
        }
        self.expire();
    }

    /// Drops the calls whose callers did not come back in time.
    pub(crate) fn expire(&self) {
        let now = Instant::now();
        let old: Vec<_> = self
            .lock()
            .extract_if(|_, held| held.until <= now)
            .collect();
        // Dropping a call cancels it, which locks the shared state.
        drop(old);
    }

    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.lock());
        drop(all);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns 128 bits that cannot be guessed.
fn random() -> Result<String, RpcError> {
    let mut bytes = [0_u8; 16];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| RpcError::internal("the system gives no random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
