//! Handlers that report when they begin, and when their futures are dropped.

use std::time::Instant;

use lmcp_core::{Cx, NoArgs, Tool};
use tokio::sync::mpsc;

use crate::soon;

/// A tool that never ends, and reports when it begins and when its future is dropped.
pub fn hanging(name: &str) -> (Tool, Watcher) {
    hanging_after(name, |_| {})
}

/// As [`hanging`], but calls `first` before it hangs.
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

/// Makes the two ends for a test with a handler of its own: guards for the handler, and the watcher that they report to.
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
    /// Reports that a handler has begun. Its future must hold the returned value.
    pub fn hold(&self) -> Held {
        let _ = self.started.send(());
        Held(self.dropped.clone())
    }
}

/// Reports when the future that holds it is dropped.
#[derive(Debug)]
pub struct Held(mpsc::UnboundedSender<Instant>);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.send(Instant::now());
    }
}

/// Waits for reports of handlers that begin and end.
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

    /// Waits until the future of a handler is dropped.
    ///
    /// # Panics
    /// The tool is gone.
    pub async fn dropped(&mut self) -> Instant {
        soon(self.dropped.recv()).await.expect("the tool lives")
    }

    /// Whether a handler runs whose future was not dropped.
    pub fn is_running(&mut self) -> bool {
        self.dropped.try_recv().is_err()
    }
}
