//! [`Replies::on_end`]: calls a function when a request has ended, and passes the replies on.

use std::task::{Context, Poll};

use lmcp_wire::RpcError;

use crate::{
    outcome::Outcome,
    reply::Reply,
    service::{Replies, Source},
};

/// How a request ended.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Ended<'a> {
    /// With a result. A tool that failed has one, too: its error is for the model.
    Done(&'a Outcome),
    /// With an error.
    Failed(&'a RpcError),
    /// Without an answer: the client cancelled the request or went away, or its deadline was over.
    Dropped,
}

impl Replies {
    /// Calls this function once, when the replies end. Progress and questions pass as before.
    ///
    /// This is how a [layer](crate::Server::layer) measures or counts requests:
    ///
    /// ```
    /// use std::time::Instant;
    ///
    /// use lmcp::{Ended, Server};
    ///
    /// let server = Server::new("timed", "1.0.0").layer(|request, next| {
    ///     let (method, began) = (request.method().to_owned(), Instant::now());
    ///     next.call(request).on_end(move |ended| {
    ///         let is_ok = matches!(ended, Ended::Done(_));
    ///         eprintln!("{method} took {:?}, ok: {is_ok}", began.elapsed());
    ///     })
    /// });
    /// ```
    #[must_use]
    pub fn on_end(mut self, tell: impl FnOnce(Ended<'_>) + Send + 'static) -> Self {
        match self.take_ready() {
            Some(reply) => {
                let mut told = Telling {
                    replies: self,
                    tell: Some(tell),
                };
                told.look_at(&reply);
                Self::ready(reply)
            }
            None => Self::from_source(Telling {
                replies: self,
                tell: Some(tell),
            }),
        }
    }
}

/// Replies whose end has not been told yet.
struct Telling<F: FnOnce(Ended<'_>)> {
    replies: Replies,
    /// Taken when the end has been told.
    tell: Option<F>,
}

impl<F: FnOnce(Ended<'_>)> Telling<F> {
    fn look_at(&mut self, reply: &Reply) {
        if let Reply::Done(result) = reply
            && let Some(tell) = self.tell.take()
        {
            match result {
                Ok(outcome) => tell(Ended::Done(outcome)),
                Err(error) => tell(Ended::Failed(error)),
            }
        }
    }
}

impl<F: FnOnce(Ended<'_>) + Send> Source for Telling<F> {
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<Reply>> {
        let reply = self.replies.poll_next(cx);
        if let Poll::Ready(Some(reply)) = &reply {
            self.look_at(reply);
        }
        reply
    }

    fn is_harmless(&self) -> bool {
        self.replies.is_harmless()
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.replies.poll_deadline(cx)
    }
}

impl<F: FnOnce(Ended<'_>)> Drop for Telling<F> {
    fn drop(&mut self) {
        if let Some(tell) = self.tell.take() {
            tell(Ended::Dropped);
        }
    }
}
