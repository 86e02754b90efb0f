//! A server that ends with its test.

use std::pin::Pin;

use lmcp_core::Error;
use tokio::{sync::oneshot, task::JoinSet};

use crate::soon;

/// Done when a server is to stop.
pub type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A transport that is being served, until this is dropped.
#[derive(Debug)]
pub struct Serving {
    tasks: JoinSet<Result<(), Error>>,
    stop: Option<oneshot::Sender<()>>,
}

impl Serving {
    /// Serves until the transport ends by itself.
    pub fn start(serve: impl Future<Output = Result<(), Error>> + Send + 'static) -> Self {
        let mut tasks = JoinSet::new();
        tasks.spawn(serve);
        Self { tasks, stop: None }
    }

    /// Serves until [`Serving::stop`], of which the transport is told by what it gets.
    pub fn until<F>(serve: impl FnOnce(Stop) -> F) -> Self
    where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = Box::pin(async {
            let _ = stopped.await;
        });
        Self {
            stop: Some(stop),
            ..Self::start(serve(stopped))
        }
    }

    /// Asks it to stop, as an operator does.
    pub fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Asks it to stop, and waits until it has.
    ///
    /// # Panics
    /// It does not end well.
    pub async fn close(&mut self) {
        self.stop();
        self.ended().await.expect("it ends well");
    }

    /// Stops it as a power cut does.
    pub async fn kill(&mut self) {
        soon(self.tasks.shutdown()).await;
    }

    /// Waits until the transport has ended.
    ///
    /// # Errors
    /// Those of the transport.
    ///
    /// # Panics
    /// It panicked, or has ended before.
    pub async fn ended(&mut self) -> Result<(), Error> {
        let ended = soon(self.tasks.join_next()).await;
        ended.expect("it is served").expect("serving never panics")
    }
}
