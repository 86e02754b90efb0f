//! A server that ends with its test.

use std::pin::Pin;

use lmcp_core::Error;
use tokio::{sync::oneshot, task::JoinSet};

use crate::soon;

/// A future that ends when a server should stop.
pub type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A transport that is served until this value is dropped.
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

    /// Serves until [`Serving::stop`]. The transport gets the future that tells it to stop.
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

    /// Asks the server to stop, as an operator does.
    pub fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Asks the server to stop, and waits until it has ended.
    ///
    /// # Panics
    /// The server ends with an error.
    pub async fn close(&mut self) {
        self.stop();
        self.ended().await.expect("it ends well");
    }

    /// Stops the server as a power cut does.
    pub async fn kill(&mut self) {
        soon(self.tasks.shutdown()).await;
    }

    /// Waits until the transport has ended.
    ///
    /// # Errors
    /// Those of the transport.
    ///
    /// # Panics
    /// The server panicked, or has ended before.
    pub async fn ended(&mut self) -> Result<(), Error> {
        let ended = soon(self.tasks.join_next()).await;
        ended.expect("it is served").expect("serving never panics")
    }
}
