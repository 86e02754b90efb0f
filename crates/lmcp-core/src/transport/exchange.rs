//! A connection that another transport carries: messages are handed over whole, and answers are taken as bytes.
//!
//! There is no pipe in between. Waiting messages in either direction count as memory of their caller, until the other transport
//! has written them.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use tokio::sync::{mpsc, watch};

use super::{
    intake::Frame,
    lines::{Connection, Lines},
    outgoing::Outgoing,
};
use crate::{caller::Caller, endpoint::Endpoint};

/// Makes a connection for a caller that the program itself knows. It returns the [`Inlet`] for the caller's messages, the [`Outlet`] with
/// the answers, and the work, which ends when either of the two is dropped. If the work is dropped first, no more answers come.
///
/// ```
/// # async fn example(endpoint: lmcp::Endpoint, caller: lmcp::Caller) {
/// let (inlet, mut outlet, work) = lmcp::exchange(endpoint, caller);
/// let asking = async {
///     let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
///     inlet.send(ping.into()).await.expect("it is open");
///     std::future::poll_fn(|cx| outlet.poll_next(cx)).await
/// };
/// tokio::select! {
///     lines = asking => assert!(lines.is_some_and(|lines| lines.ends_with(b"\n"))),
///     () = work => {}
/// }
/// # }
/// ```
pub fn exchange(
    endpoint: Endpoint,
    caller: Caller,
) -> (Inlet, Outlet, impl Future<Output = ()> + Send + use<>) {
    // One message waits here while the last one is read. Further messages wait at the sender.
    let (sender, messages) = mpsc::channel(1);
    let limits = endpoint.limits().clone();
    let account = endpoint.budget().account(&caller.payer());
    let out = Arc::new(Outgoing::new(limits.outgoing_bytes, account.clone()));
    let outlet = Outlet(Arc::clone(&out));
    let work = async move {
        let mut cut_off = CutOff(Some(Arc::clone(&out)));
        let handed = Handed {
            messages,
            most: limits.line_bytes,
        };
        let (_open, closing) = watch::channel(None);
        Connection::new(endpoint, caller, account, limits, out)
            .run(handed, closing)
            .await;
        // The work came to its end, so the waiting lines still go out.
        cut_off.0 = None;
    };
    (Inlet(sender), outlet, work)
}

/// The way in for the messages of a caller. Cheap to clone. Dropping the last clone ends the input.
#[derive(Clone)]
pub struct Inlet(mpsc::Sender<Bytes>);

impl Inlet {
    /// Hands over one message, once the one before it has been taken.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn send(&self, message: Bytes) -> Result<(), Closed> {
        self.0.send(message).await.map_err(|_| Closed)
    }
}

/// The connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection has ended")
    }
}

impl std::error::Error for Closed {}

/// The lines for a caller. Dropping this value ends the connection.
pub struct Outlet(Arc<Outgoing>);

impl Outlet {
    /// All lines that wait, each with its end. `None`: no more lines will come. The lines count as memory of the caller until their last
    /// slice is dropped. Ask for more only when the last lines are nearly written.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.0.poll_take(cx)
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// Drops the waiting lines if the work is dropped before its end.
struct CutOff(Option<Arc<Outgoing>>);

impl Drop for CutOff {
    fn drop(&mut self) {
        if let Some(out) = &self.0 {
            out.abandon();
        }
    }
}

/// Receives messages that are handed over.
struct Handed {
    messages: mpsc::Receiver<Bytes>,
    /// The longest message, in bytes.
    most: usize,
}

impl Lines for Handed {
    async fn next(&mut self) -> Option<Frame> {
        loop {
            let message = self.messages.recv().await?;
            if message.len() > self.most {
                return Some(Frame::TooLong);
            }
            if !message.trim_ascii().is_empty() {
                return Some(Frame::Line(message));
            }
        }
    }

    fn has_more(&self) -> bool {
        !self.messages.is_empty()
    }
}

impl fmt::Debug for Inlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inlet")
    }
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outlet")
    }
}
