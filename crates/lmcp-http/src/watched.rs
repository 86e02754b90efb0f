//! The body of a request, which notes when it is awaited.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http_body::{Body, Frame, SizeHint};
use lmcp_core::transport::connections::Connection;

/// A body, and the connection that it comes on.
pub(crate) struct Watched<B> {
    pub(crate) body: B,
    /// `None` if the connection is not on the server's own port.
    pub(crate) connection: Option<Arc<Connection>>,
}

impl<B> Watched<B> {
    fn set_reading(&self, reading: bool) {
        if let Some(connection) = &self.connection {
            connection.set_reading(reading);
        }
    }
}

impl<B: Body + Unpin> Body for Watched<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.set_reading(frame.is_pending());
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Watched<B> {
    fn drop(&mut self) {
        self.set_reading(false);
    }
}
