//! Replies of a service that is written as one future.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use lmcp_wire::RpcError;
use tokio::sync::Notify;

use crate::{
    outcome::Outcome,
    reply::Reply,
    service::{Replies, Source},
};

/// The most replies of one call that wait to be taken.
const WAITING: usize = 16;

/// Sends the replies of a service before its end: see [`Replies::speaking`].
#[derive(Clone)]
pub struct Say(Arc<Said>);

impl Say {
    /// Sends a reply, and waits for room if need be. After the end of the request, replies go nowhere.
    pub async fn say(&self, reply: Reply) {
        loop {
            let taken = self.0.taken.notified();
            {
                let mut queue = self.0.lock();
                if queue.is_over {
                    return;
                }
                if queue.replies.len() < WAITING {
                    queue.replies.push_back(reply);
                    let taker = queue.taker.take();
                    drop(queue);
                    return taker.into_iter().for_each(Waker::wake);
                }
            }
            taken.await;
        }
    }
}

impl fmt::Debug for Say {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Say").finish_non_exhaustive()
    }
}

/// Replies that wait to be taken. Most calls send none before their end, so an empty queue allocates nothing.
#[derive(Default)]
struct Said {
    queue: Mutex<Queue>,
    /// Notified when there is room again, or when nobody takes replies any more.
    taken: Notify,
}

#[derive(Default)]
struct Queue {
    replies: VecDeque<Reply>,
    /// The waker of the task that waits for the next reply.
    taker: Option<Waker>,
    is_over: bool,
}

impl Said {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the queue: no further reply is taken.
    fn end(&self) {
        self.lock().is_over = true;
        self.taken.notify_waiters();
    }
}

impl Replies {
    /// Makes replies of a future that may send some on its way, and ends with its result. The future is polled only while
    /// somebody takes the replies.
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
        let said = Arc::<Said>::default();
        Self::from_source(Speaking {
            work: Some(Box::pin(work(Say(Arc::clone(&said))))),
            said,
            end: None,
        })
    }
}

type Work = Pin<Box<dyn Future<Output = Result<Outcome, RpcError>> + Send>>;

struct Speaking {
    /// `None` once the work has ended.
    work: Option<Work>,
    said: Arc<Said>,
    /// The result, held back until all replies before it are taken.
    end: Option<Result<Outcome, RpcError>>,
}

impl Source for Speaking {
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<Reply>> {
        if let Some(work) = &mut self.work
            && let Poll::Ready(end) = work.as_mut().poll(cx)
        {
            self.work = None;
            self.end = Some(end);
            // A clone of the sender may still exist, so it must be told.
            self.said.end();
        }
        let mut queue = self.said.lock();
        if let Some(reply) = queue.replies.pop_front() {
            let was_full = queue.replies.len() + 1 == WAITING;
            drop(queue);
            if was_full {
                self.said.taken.notify_waiters();
            }
            return Poll::Ready(Some(reply));
        }
        if self.work.is_some() {
            queue.taker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        drop(queue);
        Poll::Ready(self.end.take().map(Reply::Done))
    }
}

impl Drop for Speaking {
    fn drop(&mut self) {
        self.said.end();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::task::yield_now;

    use super::*;
    use crate::{outcome::Payload, reply::ProgressReport};

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

    fn progress(number: usize) -> Reply {
        Reply::Progress(ProgressReport::new(number as f64))
    }

    #[tokio::test]
    async fn everything_that_is_said_is_taken_in_its_order_before_the_end() {
        let mut replies = Replies::speaking(async |say: Say| {
            for number in 0..3 * WAITING {
                say.say(progress(number)).await;
            }
            Ok(Payload::Acknowledged.into())
        });
        for number in 0..3 * WAITING {
            let Some(Reply::Progress(report)) = replies.next().await else {
                panic!("progress {number} is taken");
            };
            assert_eq!(report.progress, number as f64);
        }
        assert!(matches!(replies.next().await, Some(Reply::Done(Ok(_)))));
    }

    #[tokio::test]
    async fn another_task_may_speak_and_waits_for_nobody_who_is_gone() {
        let mut kept = None;
        let mut replies = Replies::speaking(|say| {
            kept = Some(say);
            std::future::pending()
        });
        let say = kept.expect("the work was made");
        let mut speaking = tokio::task::JoinSet::new();
        speaking.spawn(async move {
            for number in 0..=WAITING + 1 {
                say.say(progress(number)).await;
            }
        });
        assert!(matches!(replies.next().await, Some(Reply::Progress(_))));
        poll_fn(|cx| {
            drop(replies.poll_next(cx));
            Poll::Ready(())
        })
        .await;
        drop(replies);
        speaking.join_all().await;
    }
}
