//! The signals that ask a program to stop: the first is a request, the second an order.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::report::Failure;

/// Both signals, from now on.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let open = |kind| signal(kind).map_err(|err| Failure::new("cannot wait for signals", err));
        Ok(Self {
            interrupt: open(SignalKind::interrupt())?,
            terminate: open(SignalKind::terminate())?,
        })
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
        }
    }
}

/// The end by a signal, with the code that shells have for it.
pub(crate) fn stopped_by(kind: SignalKind) -> Failure {
    let name = if kind == SignalKind::interrupt() {
        "SIGINT"
    } else {
        "SIGTERM"
    };
    let code = 128 + kind.as_raw_value();
    Failure::of(format!("stopped at once by {name}")).code(u8::try_from(code).unwrap_or(u8::MAX))
}
