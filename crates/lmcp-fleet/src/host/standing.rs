//! The standing of a host: the state of its ways, whether it is up, and when to check again.

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    sync::Arc,
    time::Duration,
};

use lmcp_core::Service;
use tokio::time::Instant;

use super::{Failed, Failure, Host, State};
use crate::{
    config::Times,
    limits::{LEAST_PAUSE, SOON, SOON_AGAIN},
    status::{HostState, HostStatus, now, one_line},
};

impl Host {
    /// Returns the time until the next check.
    pub(crate) fn next_look(&self) -> Duration {
        let state = self.lock();
        let Some(looked) = state.looked.filter(|_| !state.has_news) else {
            return Duration::ZERO;
        };
        let now = Instant::now();
        // A way is not tried while a better one is open.
        let open = state.roads.iter().position(|road| road.live.is_some());
        let better = state.roads.iter().take(open.unwrap_or(usize::MAX));
        let due = better.filter_map(|road| Some(road.failure.as_ref()?.until));
        let regular = open.map(|_| looked + self.times.up);
        let next = due.chain(regular).min();
        let pause = next
            .unwrap_or(looked + self.times.up)
            .saturating_duration_since(now);
        pause.max(LEAST_PAUSE)
    }

    pub(crate) fn status(&self) -> HostStatus {
        let state = self.lock();
        let open = state.roads.iter().position(|road| road.live.is_some());
        HostStatus {
            host: self.name.to_string(),
            state: state.standing,
            since: now().saturating_sub(state.since.elapsed().as_secs()),
            via: open.map(|place| self.ways[place].kind.word().to_owned()),
            reason: self.reasons(&state),
            groups: self.config.groups.clone(),
            read_only: self.config.read_only,
        }
    }

    fn reasons(&self, state: &State) -> Option<String> {
        let failed = self
            .ways
            .iter()
            .zip(&state.roads)
            .filter_map(|(way, road)| {
                let failure = road.failure.as_ref().filter(|_| road.live.is_none())?;
                Some(format!("{}: {}", way.kind, failure.why))
            });
        let failed: Vec<_> = failed.collect();
        (!failed.is_empty()).then(|| failed.join("; "))
    }

    pub(super) fn down(&self) -> Failed {
        let next_look = self.next_look().as_secs();
        let state = self.lock();
        let why = self
            .reasons(&state)
            .unwrap_or_else(|| "no way leads there".to_owned());
        let seconds = state.since.elapsed().as_secs();
        Failed {
            words: format!(
                "down for {seconds} s: {why}; it is looked at again in {next_look} s, and `host_wait` waits for it"
            ),
            began: Some(false),
            is_retriable: true,
        }
    }

    pub(super) fn opened(&self, place: usize, service: Arc<dyn Service>) {
        let mut state = self.lock();
        let road = &mut state.roads[place];
        road.live = Some(service);
        road.failure = None;
        self.stand(&mut state);
    }

    /// Notes that a way is lost, or could not be opened. An error of a service that was already replaced says nothing about
    /// the way now.
    pub(super) fn lost(&self, place: usize, service: Option<&Arc<dyn Service>>, why: &str) {
        let mut state = self.lock();
        let road = &mut state.roads[place];
        let is_current = match (service, &road.live) {
            (Some(service), Some(live)) => Arc::ptr_eq(service, live),
            (Some(_), None) => false,
            (None, live) => live.is_none(),
        };
        if !is_current {
            return;
        }
        let now = Instant::now();
        let (count, until) = match (&road.live, &road.failure) {
            // A caller that tried before the pause was over does not make the pause longer.
            (None, Some(failure)) if failure.until > now => (failure.count, failure.until),
            (None, Some(failure)) => {
                let count = failure.count + 1;
                (count, now + pause(count, self.times))
            }
            _ => (0, now + pause(0, self.times)),
        };
        road.live = None;
        road.failure = Some(Failure {
            why: one_line(why),
            count,
            until,
        });
        self.stand(&mut state);
        drop(state);
        self.woken.notify_one();
    }

    /// Writes into the log when a host comes up or goes down.
    fn stand(&self, state: &mut State) {
        let is_up = state.roads.iter().any(|road| road.live.is_some());
        let is_tried = state.roads.iter().all(|road| road.failure.is_some());
        let standing = match (is_up, is_tried) {
            (true, _) => HostState::Up,
            (false, true) => HostState::Down,
            (false, false) => return,
        };
        if standing == state.standing {
            return;
        }
        let reasons = self.reasons(state).unwrap_or_default();
        match standing {
            HostState::Down => tracing::warn!("host `{}` is down: {reasons}", self.name),
            _ => tracing::info!("host `{}` is up", self.name),
        }
        state.standing = standing;
        state.since = Instant::now();
    }
}

/// Returns how long a way is left alone after so many failures in a row: a short time at first, then twice as long each
/// time. The time has a random part, so that hosts that were lost together are not tried together.
fn pause(count: usize, times: Times) -> Duration {
    let pause = match count {
        0 => SOON.min(times.down_min),
        1 => SOON_AGAIN.min(times.down_min),
        _ => {
            let doublings = u32::try_from(count - 2).unwrap_or(u32::MAX).min(16);
            (times.down_min * 2_u32.pow(doublings)).min(times.down_max)
        }
    };
    let random = RandomState::new().build_hasher().finish() % 256;
    pause * (896 + random as u32) / 1024
}
