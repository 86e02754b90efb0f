//! Handlers that say when they begin, and when their futures are dropped.

use std::time::Instant;

use lmcp_core::{Cx, NoArgs, Tool};
use tokio::sync::mpsc;

use crate::soon;

/// A tool that never ends, and reports when it begins and when its future is dropped.
pub fn hanging(name: &str) -> (Tool, Watcher) {
    hanging_after(name, |_| {})
}

/// As [`hanging`], after it has said something.
pub fn hanging_after(name: &str, first: impl Fn(&Cx) + Send + Sync + 'static) -> (Tool, Watcher) {
    let (guards, watcher) = watched();
    let tool = Tool::new(name, move |_: NoArgs, cx: Cx| {
        first(&cx);
        let guards = guards.clone();
        async move {
            let _held = guards.hold();
            std::future::pending::<&'static str>().await
        }
    });
    (tool.read_only(), watcher)
}

/// What a handler of a test's own reports with, and who is told.
pub fn watched() -> (Guards, Watcher) {
    let (started, starts) = mpsc::unbounded_channel();
    let (dropped, drops) = mpsc::unbounded_channel();
    let watcher = Watcher {
        started: starts,
        dropped: drops,
    };
    (Guards { started, dropped }, watcher)
}

/// Reports to a [`Watcher`].
#[derive(Clone, Debug)]
pub struct Guards {
    started: mpsc::UnboundedSender<()>,
    dropped: mpsc::UnboundedSender<Instant>,
}

impl Guards {
    /// Says that a handler has begun; its future is to hold what this returns.
    pub fn hold(&self) -> Held {
        let _ = self.started.send(());
        Held(self.dropped.clone())
    }
}

/// Dropped with the future that holds it, and says so.
#[derive(Debug)]
pub struct Held(mpsc::UnboundedSender<Instant>);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.send(Instant::now());
    }
}

/// Hears of handlers that begin and end.
#[derive(Debug)]
pub struct Watcher {
    started: mpsc::UnboundedReceiver<()>,
    dropped: mpsc::UnboundedReceiver<Instant>,
}

impl Watcher {
    /// Waits until a handler runs.
    ///
    /// # Panics
    /// The tool is gone.
    pub async fn started(&mut self) {
        soon(self.started.recv()).await.expect("the tool lives");
    }

    /// Waits until its future is dropped.
    ///
    /// # Panics
    /// The tool is gone.
    pub async fn dropped(&mut self) -> Instant {
        soon(self.dropped.recv()).await.expect("the tool lives")
    }

    /// Is a handler running that was not dropped?
    pub fn is_running(&mut self) -> bool {
        self.dropped.try_recv().is_err()
    }
}
