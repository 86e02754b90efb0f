//! Following jobs: all callers that wait for a job share one connection to its guard. A guard has few places for
//! connections, and callers that stop a job or type into it need one.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use tokio::sync::watch;

use super::{
    link::Link,
    protocol::{Extent, Word},
    store::Job,
};

/// The jobs that callers follow, by their ids.
#[derive(Clone, Debug, Default)]
pub(crate) struct Follows(Arc<Mutex<HashMap<String, Weak<Sender>>>>);

type Sender = watch::Sender<Option<News>>;

/// The state of a running job, as its guard reported it last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct News {
    /// The length of all output so far.
    pub(crate) bytes: u64,
    /// Which part of the output is kept, and where.
    pub(crate) extent: Extent,
    /// The command has ended; what it left behind may still run.
    pub(crate) ended: bool,
}

/// The news of a job that one caller gets.
#[derive(Debug)]
pub(crate) struct Following(watch::Receiver<Option<News>>);

impl Following {
    /// Returns the latest news: at once the first time, then whenever there are new ones. `None` once the guard is
    /// gone.
    pub(crate) async fn next(&mut self) -> Option<News> {
        loop {
            self.0.changed().await.ok()?;
            let news = *self.0.borrow_and_update();
            if news.is_some() {
                return news;
            }
        }
    }
}

impl Follows {
    /// Follows a job. The first follower also gets a future, which must run to serve all followers.
    pub(crate) fn follow(
        &self,
        job: &Job,
    ) -> (
        Following,
        Option<impl Future<Output = ()> + Send + 'static + use<>>,
    ) {
        let mut followed = self.lock();
        followed.retain(|_, sender| sender.strong_count() > 0);
        if let Some(sender) = followed.get(&job.id).and_then(Weak::upgrade) {
            let mut receiver = sender.subscribe();
            receiver.mark_changed();
            return (Following(receiver), None);
        }
        let (sender, receiver) = watch::channel(None);
        let sender = Arc::new(sender);
        followed.insert(job.id.clone(), Arc::downgrade(&sender));
        let work = self.clone().pass_on(job.clone(), sender);
        (Following(receiver), Some(work))
    }

    /// Passes on what the guard reports until the guard is gone, or until no follower is left.
    async fn pass_on(self, job: Job, sender: Arc<Sender>) {
        let Ok(mut link) = Link::follow(&job).await else {
            return;
        };
        loop {
            tokio::select! {
                word = link.next() => match word {
                    Some(word) => sender.send_modify(|news| tell(news, &word)),
                    None => return,
                },
                () = sender.closed() => {
                    let mut followed = self.lock();
                    // A follower may have come just now. A later follower finds no entry, and starts a new
                    // connection.
                    if sender.receiver_count() == 0 {
                        followed.remove(&job.id);
                        return;
                    }
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Weak<Sender>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tell(news: &mut Option<News>, word: &Word) {
    match word {
        Word::Grown { bytes, extent } => {
            let ended = news.is_some_and(|news| news.ended);
            *news = Some(News {
                bytes: *bytes,
                extent: *extent,
                ended,
            });
        }
        Word::Ended(end) => {
            *news = Some(News {
                bytes: end.bytes,
                extent: end.extent,
                ended: true,
            });
        }
        Word::Started { .. }
        | Word::Failed { .. }
        | Word::Looks { .. }
        | Word::Done
        | Word::Refused { .. } => {}
    }
}
