//! Calls of servers that ask while they work, for callers that are asked by the answer to their request: the call is held
//! until the caller comes back with its answers.

use std::{
    collections::HashMap,
    future::pending,
    sync::{Mutex, MutexGuard, PoisonError},
};

use lmcp_core::{Request, try_later};
use lmcp_wire::{RpcError, params::Params};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::time::{Instant, sleep_until};

use crate::{
    call::Call,
    limits::{HELD_CALLS, HELD_WAIT},
    slot::Question,
};

/// A call that waits.
pub(crate) struct Held {
    pub(crate) call: Call,
    /// What was asked, by the keys that the caller was given.
    pub(crate) questions: Vec<(String, Question)>,
    owner: String,
    method: String,
    until: Instant,
}

/// All of them, by the state that callers bring back.
#[derive(Default)]
pub(crate) struct HeldCalls(Mutex<HashMap<String, Held>>);

impl HeldCalls {
    /// Holds a call, and returns the state to come back with.
    pub(crate) fn hold(
        &self,
        call: Call,
        questions: Vec<(String, Question)>,
        request: &Request,
    ) -> Result<String, RpcError> {
        self.expire();
        let mut all = self.lock();
        if all.len() >= HELD_CALLS {
            let words = format!("{HELD_CALLS} calls wait for answers already; try again later");
            return Err(try_later(words, "held_calls", HELD_CALLS));
        }
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

    /// The call that a request comes back for.
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

    /// Waits until the caller of some call has not come back in time, and lets go of the call. For ever while none waits.
    pub(crate) async fn expire_next(&self) {
        let first = self.lock().values().map(|held| held.until).min();
        match first {
            Some(until) => sleep_until(until).await,
            None => pending().await,
        }
        self.expire();
    }

    /// Lets go of those whose callers did not come back in time.
    pub(crate) fn expire(&self) {
        let now = Instant::now();
        let old: Vec<_> = self
            .lock()
            .extract_if(|_, held| held.until <= now)
            .collect();
        // Dropping one cancels its call, which locks what is shared.
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

/// 128 bits that nobody guesses.
fn random() -> Result<String, RpcError> {
    let mut bytes = [0_u8; 16];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| RpcError::internal("the system gives no random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
