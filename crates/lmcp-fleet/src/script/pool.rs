//! The connections to one host: each makes one call at a time, and free connections are used again.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use lmcp_core::{Account, Cx, Tasks, ToolResult};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::{
    facts::Facts,
    link::{Call, Link, Way, broken},
    parts::Answer,
};
use crate::limits::{CALL_TIME, IDLE_LINKS, LINKS};

/// The connections to one host.
#[derive(Debug)]
pub(super) struct Pool {
    way: Way,
    idle: Mutex<Vec<Link>>,
    places: Arc<Semaphore>,
    closing: Arc<Tasks>,
}

/// A connection, for one caller. If the lease is dropped, the connection is closed and its call ends; [`Lease::done`] gives
/// the connection back.
#[derive(Debug)]
pub(super) struct Lease<'a> {
    pub(super) link: Link,
    pool: &'a Pool,
    _place: OwnedSemaphorePermit,
}

impl Pool {
    pub(super) fn new(way: Way) -> Self {
        Self {
            way,
            idle: Mutex::default(),
            places: Arc::new(Semaphore::new(LINKS)),
            closing: Arc::default(),
        }
    }

    /// Returns a connection for a caller, an old one or a new one. Waits while all are in use. The output of the host counts
    /// as memory of the caller.
    ///
    /// # Errors
    /// No connection can be opened.
    pub(super) async fn lease(&self, cx: &Cx) -> ToolResult<Lease<'_>> {
        self.lease_for(Some(cx.account())).await
    }

    /// Does the same, to ask whether the host is up.
    pub(super) async fn lease_for_ourselves(&self) -> ToolResult<Lease<'_>> {
        self.lease_for(None).await
    }

    async fn lease_for(&self, account: Option<Account>) -> ToolResult<Lease<'_>> {
        let place = Arc::clone(&self.places).acquire_owned().await?;
        let mut link = match self.idle_link() {
            Some(link) => link,
            None => Link::open(&self.way, Arc::clone(&self.closing)).await?,
        };
        link.counts_for(account);
        Ok(Lease {
            link,
            pool: self,
            _place: place,
        })
    }

    /// Closes the connections that are not in use.
    pub(super) fn close(&self) {
        let idle = std::mem::take(&mut *self.lock());
        drop(idle);
    }

    /// Returns a free connection whose other end is there, as far as that is known.
    fn idle_link(&self) -> Option<Link> {
        loop {
            let mut link = self.lock().pop()?;
            if link.is_there() {
                return Some(link);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Link>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease<'_> {
    pub(super) fn facts(&self) -> Arc<Facts> {
        Arc::clone(&self.link.facts)
    }

    /// Makes a call that should end at once.
    ///
    /// # Errors
    /// The connection was lost, or the call takes too long.
    pub(super) async fn call(&mut self, call: &Call<'_>) -> ToolResult<Answer> {
        let answered = timeout(CALL_TIME, self.link.call(call)).await;
        answered.unwrap_or_else(|_| {
            let seconds = CALL_TIME.as_secs();
            Err(broken(format!(
                "the host did not answer within {seconds} s"
            )))
        })
    }

    /// Brings these files, each if it has at most `most` bytes.
    ///
    /// # Errors
    /// As for [`Lease::call`].
    pub(super) async fn fetch(&mut self, paths: &[PathBuf], most: u64) -> ToolResult<Answer> {
        let most = most.to_string();
        let paths = paths.iter().filter_map(|path| path.to_str());
        let words = [most.as_str()].into_iter().chain(paths).collect();
        let call = Call {
            function: "far_fetch",
            words,
            ..Call::default()
        };
        self.call(&call).await
    }

    /// Says a last thing to the shell, and gives the connection back. One that takes it no more is closed: the call has its
    /// answer all the same.
    pub(super) async fn done_after(mut self, text: &str) {
        if self.link.tell(text).await.is_ok() {
            self.done();
        }
    }

    /// Gives the connection back, for the next caller.
    pub(super) fn done(mut self) {
        self.link.counts_for(None);
        let mut idle = self.pool.lock();
        if idle.len() < IDLE_LINKS {
            idle.push(self.link);
        }
    }
}
