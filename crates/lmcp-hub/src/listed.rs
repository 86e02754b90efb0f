//! Notes for which start of a server its lists were last read, and waits for that: the lists may differ from one start to
//! the next. The task beside the server reads the lists.

use std::sync::Arc;

use lmcp_wire::RpcError;
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use crate::{
    ask,
    config::Isolate,
    member::{Live, Member, Purpose},
    start::{Listed, Start},
};

impl Member {
    /// Notes that the lists of this start of the server are in the catalogue, or could not be read.
    pub(crate) fn was_listed(&self, start: Start, result: Result<(), RpcError>) {
        if result.is_ok() {
            self.health.there();
        }
        let error = result.err();
        let start = Some(start);
        self.lists.send_replace(Listed { start, error });
    }

    /// Returns whether the server was asked for its lists since it last started, with or without success.
    pub(crate) fn was_asked(&self, live: &Live) -> bool {
        self.lists.borrow().start == Some(live.start())
    }

    /// Returns whether the lists of the server were read since it last started.
    pub(crate) fn is_listed(&self, live: &Live) -> bool {
        self.was_asked(live) && self.lists.borrow().error.is_none()
    }

    /// Waits until the server runs and its lists were read since it last started, at most for its start timeout. Returns the
    /// start that the lists belong to.
    ///
    /// # Errors
    /// The reason why the server does not run, or why its lists could not be read.
    pub(crate) async fn listed(self: &Arc<Self>) -> Result<Start, RpcError> {
        let until = Instant::now() + self.config().start_timeout;
        let lease = self.lease(Purpose::Watch)?;
        self.open(&lease.live).await?;
        match timeout_at(until, self.listed_of(&lease.live)).await {
            Ok(listed) => listed,
            Err(_) => Err(self.unlisted("it has not said yet what it offers; try again later")),
        }
    }

    async fn listed_of(&self, live: &Live) -> Result<Start, RpcError> {
        // If the server was lost, a service starts it again by itself, and answers this request once the server runs.
        if self.config().isolate == Isolate::None {
            let there = ask::discover(&live.endpoint).await;
            there.map_err(|error| self.told(error))?;
        }
        let mut lists = self.lists.subscribe();
        {
            let now = lists.borrow_and_update();
            if let Some(start) = now.start
                && start == live.start()
                && now.error.is_none()
            {
                return Ok(start);
            }
        }
        loop {
            // The task beside the server asks once for all callers that wait.
            self.opened.notify_one();
            if lists.changed().await.is_err() {
                return Err(self.unlisted("it is gone"));
            }
            let now = lists.borrow_and_update();
            if let Some(start) = now.start
                && start == live.start()
            {
                let error = now.error.as_ref();
                return error.map_or(Ok(start), |error| Err(self.unlisted(&error.message)));
            }
        }
    }

    fn unlisted(&self, words: &str) -> RpcError {
        let data = json!({ "retriable": true, "server": &*self.name });
        RpcError::internal(format!("server `{}`: {words}", self.name)).with_data(data)
    }
}
