//! Waits for a pattern in a job's output or for the job's end, and not longer than the caller wants.

use std::time::Duration;

use lmcp_core::{Cx, ToolError, ToolResult};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    commands::Commands,
    follow::News,
    protocol::Extent,
    search::Watch,
    shell::seconds,
    spool::Record,
    store::{Job, State},
};
use crate::blocking::blocking;

/// The wait when the caller names none; clients give up well after it.
pub(super) const WAIT: Duration = Duration::from_secs(30);
/// The longest wait: longer than any client waits for an answer.
pub(super) const MOST_WAIT: Duration = Duration::from_secs(60 * 60);
/// A guard answers at once, unless it was halted.
const SOON: Duration = Duration::from_secs(5);

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// The pattern came.
    Matched,
    /// The job has ended.
    Ended,
    /// The time was over before either.
    Expired,
}

/// The result of a wait.
#[derive(Default)]
pub(super) struct Waited {
    pub(super) matched: Option<String>,
    pub(super) extent: Extent,
    /// `None` if the caller did not want to wait.
    pub(super) outcome: Option<Outcome>,
    /// Whether the guard of a running job ended during the wait.
    pub(super) guard_gone: bool,
    /// The longest time of the wait.
    wait: Duration,
    has_pattern: bool,
}

/// Returns how long to wait.
pub(super) fn time(wait: Option<f64>) -> ToolResult<Duration> {
    let wait = wait.map(|time| seconds("wait", time)).transpose()?;
    Ok(wait.unwrap_or(WAIT).min(MOST_WAIT))
}

/// Returns which part of the output is kept, as the guard knows it: the part moves while the job runs.
pub(super) async fn extent_now(commands: &Commands, job: &Job) -> Extent {
    let news = timeout(SOON, async { commands.follow(job).next().await });
    let news = news.await.ok().flatten();
    news.map(|news| news.extent).unwrap_or_default()
}

impl Waited {
    /// Returns the result of a wait on another host.
    pub(crate) fn elsewhere(
        outcome: Option<Outcome>,
        matched: Option<String>,
        wait: Duration,
        has_pattern: bool,
    ) -> Self {
        Self {
            matched,
            outcome,
            wait,
            has_pattern,
            ..Self::default()
        }
    }

    /// Returns the state of a job without waiting.
    pub(super) async fn not(commands: &Commands, job: &Job) -> Self {
        let mut waited = Self::default();
        if job.state == State::Running {
            waited.extent = extent_now(commands, job).await;
        }
        waited
    }

    /// Waits until the pattern matches, the job ends, or the time is over.
    pub(super) async fn until(
        commands: &Commands,
        job: &Job,
        mut watch: Option<Watch>,
        wait: Duration,
        cx: &Cx,
    ) -> ToolResult<Self> {
        let until = Instant::now() + wait;
        let mut waited = Self {
            wait,
            has_pattern: watch.is_some(),
            ..Self::default()
        };
        let progress = cx.open_progress();
        let mut following = match job.state {
            State::Running => Some(commands.follow(job)),
            State::Exited | State::Killed | State::Lost => None,
        };
        loop {
            // The news are taken before the output is searched, so that output which comes meanwhile leads
            // to another search.
            let news = match &mut following {
                Some(following) => timeout_at(until, following.next()).await,
                None => Ok(None),
            };
            let outcome = match news {
                Ok(Some(News { ended: false, .. })) => None,
                Ok(_) => Some(Outcome::Ended),
                Err(_) => Some(Outcome::Expired),
            };
            waited.guard_gone = following.is_some() && matches!(news, Ok(None));
            if let Ok(Some(news)) = news {
                waited.extent = news.extent;
                progress.step(format!("{} bytes of output", news.bytes));
            }
            waited.matched = waited.look(&mut watch, job, until, cx).await?;
            waited.outcome = waited
                .matched
                .as_ref()
                .map_or(outcome, |_| Some(Outcome::Matched));
            if waited.outcome.is_some() {
                return Ok(waited);
            }
        }
    }

    /// Returns the words for the answer, if the wait ended without its goal.
    pub(super) fn words(&self) -> Option<String> {
        match self.outcome? {
            Outcome::Expired => {
                let nothing = if self.has_pattern {
                    " and nothing new matched"
                } else {
                    ""
                };
                let seconds = self.wait.as_secs_f64();
                Some(format!("the wait of {seconds} s is over{nothing}"))
            }
            Outcome::Ended if self.has_pattern => Some("it ended before anything matched".into()),
            Outcome::Ended | Outcome::Matched => None,
        }
    }

    /// Searches the new output on a blocking thread.
    async fn look(
        &self,
        watch: &mut Option<Watch>,
        job: &Job,
        until: Instant,
        cx: &Cx,
    ) -> ToolResult<Option<String>> {
        let Some(mut taken) = watch.take() else {
            return Ok(None);
        };
        let extent = job.end.as_ref().map_or(self.extent, |end| end.extent);
        let (dir, until) = (job.dir.clone(), until.into_std());
        let (taken, found) = blocking(cx, move || {
            let found = Record::open(&dir, extent)
                .and_then(|record| taken.look(&record, extent.dropped, until));
            let found =
                found.map_err(|err| ToolError::new("the output cannot be read").source(err))?;
            Ok((taken, found))
        })
        .await?;
        *watch = Some(taken);
        Ok(found)
    }
}
