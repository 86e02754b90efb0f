//! Replies of a service that is written as one future.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use lmcp_wire::RpcError;
use tokio::sync::mpsc;

use crate::{
    outcome::Outcome,
    reply::Reply,
    service::{Replies, Source},
};

/// Replies that wait to be taken, of one call.
const WAITING: usize = 16;

/// Sends the replies of a service before its end: see [`Replies::speaking`].
#[derive(Clone, Debug)]
pub struct Say(mpsc::Sender<Reply>);

impl Say {
    /// Says something, once there is room for it. After the end it goes nowhere.
    pub async fn say(&self, reply: Reply) {
        let _ = self.0.send(reply).await;
    }
}

impl Replies {
    /// Replies of a future that may say things on its way, and ends with what it returns. It is polled only while somebody
    /// takes the replies.
    ///
    /// ```
    /// # use lmcp::{Payload, ProgressReport, Replies, Reply};
    /// # fn answer() -> Replies {
    /// Replies::speaking(async |say| {
    ///     say.say(Reply::Progress(ProgressReport::new(1.0))).await;
    ///     Ok(Payload::Acknowledged.into())
    /// })
    /// # }
    /// ```
    pub fn speaking<F>(work: impl FnOnce(Say) -> F) -> Self
    where
        F: Future<Output = Result<Outcome, RpcError>> + Send + 'static,
    {
        let (say, said) = mpsc::channel(WAITING);
        Self::from_source(Speaking {
            work: Some(Box::pin(work(Say(say)))),
            said,
            end: None,
        })
    }
}

type Work = Pin<Box<dyn Future<Output = Result<Outcome, RpcError>> + Send>>;

struct Speaking {
    /// `None` once it has ended.
    work: Option<Work>,
    said: mpsc::Receiver<Reply>,
    /// Held back until everything said before it is taken.
    end: Option<Result<Outcome, RpcError>>,
}

impl Source for Speaking {
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<Reply>> {
        if let Some(work) = &mut self.work
            && let Poll::Ready(end) = work.as_mut().poll(cx)
        {
            self.work = None;
            self.end = Some(end);
            // Somebody may have kept a way to speak.
            self.said.close();
        }
        match self.said.poll_recv(cx) {
            Poll::Ready(Some(reply)) => Poll::Ready(Some(reply)),
            // Who let go of the way to speak still has an answer to give.
            Poll::Ready(None) if self.work.is_some() => Poll::Pending,
            Poll::Ready(None) => Poll::Ready(self.end.take().map(Reply::Done)),
            Poll::Pending => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::yield_now;

    use super::*;
    use crate::outcome::Payload;

    #[tokio::test]
    async fn who_says_nothing_on_its_way_is_waited_for() {
        let mut replies = Replies::speaking(async |say: Say| {
            drop(say);
            yield_now().await;
            Ok(Payload::Acknowledged.into())
        });
        assert!(matches!(replies.next().await, Some(Reply::Done(Ok(_)))));
        assert!(replies.next().await.is_none());
    }
}
