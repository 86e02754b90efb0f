//! One call on several hosts at once: each host has its own time limits, and waits for others only for a free place to run.

use std::{pin::Pin, sync::Arc, time::Duration};

use lmcp_core::{ProgressReport, Reply, Request, Say, Tasks};
use serde_json::Value;
use tokio::{
    sync::{Semaphore, mpsc},
    time::Instant,
};

use crate::{
    answer,
    call::audit,
    failed::Failed,
    host::{Answered, Hear, Host},
    limits::REPLIES,
    summary::{Heard, Part, Said},
    words::marked,
};

/// An event during the call.
enum Event {
    /// A host says something.
    Said(Arc<str>, Reply),
    /// A host has finished. The number is its place in the list.
    Done(usize, Part),
}

/// Passes on the messages of one host.
pub(crate) struct Teller {
    host: Arc<str>,
    tell: mpsc::Sender<Event>,
}

impl Hear for Teller {
    async fn hear(&self, reply: Reply) {
        let said = Event::Said(Arc::clone(&self.host), reply);
        let _ = self.tell.send(said).await;
    }
}

/// A call on one of the hosts: the request, or the reason why it is not sent.
pub(crate) type Planned = (Arc<Host>, Result<Request, Failed>);

/// The work for one host, with the name of the host.
pub(crate) type Work = (
    Arc<str>,
    Box<dyn FnOnce(Teller) -> Pin<Box<dyn Future<Output = Part> + Send>> + Send>,
);

/// Runs all calls, at most `parallel` at once, and returns their answers in the order of the hosts.
///
/// # Cancellation
/// Dropping the future cancels the calls at all hosts.
pub(crate) async fn fan(
    calls: Vec<Planned>,
    (tool, caller): (&str, &str),
    parallel: usize,
    wait: Duration,
    say: &Say,
) -> Vec<Part> {
    let hosts = calls.len();
    let works = calls.into_iter().map(|(host, request)| -> Work {
        let (name, told) = (Arc::clone(&host.name), (tool.to_owned(), caller.to_owned()));
        let work = move |teller: Teller| -> Pin<Box<dyn Future<Output = Part> + Send>> {
            Box::pin(async move { one(&host, request, &told, (hosts, wait), &teller).await })
        };
        (name, Box::new(work))
    });
    spread(works.collect(), parallel, say).await
}

/// Does all works, at most `parallel` at once, and returns their results in the same order.
///
/// # Cancellation
/// Dropping the future drops the works that run.
pub(crate) async fn spread(works: Vec<Work>, parallel: usize, say: &Say) -> Vec<Part> {
    let (tell, mut told) = mpsc::channel(REPLIES);
    let places = Arc::new(Semaphore::new(parallel));
    let hosts: Vec<_> = works.iter().map(|(host, _)| Arc::clone(host)).collect();
    let count = hosts.len();
    let tasks = Tasks::default();
    let mut heard = Heard::default();
    for (place, (host, work)) in works.into_iter().enumerate() {
        let (tell, places) = (tell.clone(), Arc::clone(&places));
        tasks.spawn(async move {
            let Ok(_place) = places.acquire().await else {
                return;
            };
            let teller = Teller {
                host,
                tell: tell.clone(),
            };
            let part = work(teller).await;
            let _ = tell.send(Event::Done(place, part)).await;
        });
    }
    drop(tell);
    let mut parts: Vec<Option<Part>> = (0..count).map(|_| None).collect();
    let mut progress = Advance::new(count);
    while let Some(event) = told.recv().await {
        match event {
            Event::Said(host, Reply::Progress(report)) => {
                say.say(progress.said(&host, &report)).await;
            }
            Event::Said(host, Reply::Log(mut message)) => {
                if let Value::String(text) = &mut message.data {
                    *text = marked(&host, text);
                }
                say.say(Reply::Log(message)).await;
            }
            Event::Said(_, reply) => say.say(reply).await,
            Event::Done(place, mut part) => {
                heard.hear(&mut part);
                say.say(progress.done(&part)).await;
                if let Some(free) = parts.get_mut(place) {
                    *free = Some(part);
                }
            }
        }
    }
    let all = parts.into_iter().zip(hosts);
    all.map(|(part, host)| part.unwrap_or_else(|| panicked(&host)))
        .collect()
}

/// What is said of a host whose part ended without a result.
fn panicked(host: &str) -> Part {
    tracing::error!("a call on host `{host}` panicked");
    Part {
        host: host.to_owned(),
        path: None,
        result: Err(Failed {
            words: "the call failed inside this hub; it may or may not have taken effect".into(),
            began: Some(true),
            is_retriable: false,
        }),
        seconds: 0.0,
    }
}

async fn one(
    host: &Arc<Host>,
    request: Result<Request, Failed>,
    (tool, caller): &(String, String),
    (hosts, wait): (usize, Duration),
    teller: &Teller,
) -> Part {
    let began = Instant::now();
    let mut account = None;
    let answered = match request {
        Ok(request) => {
            account = request.account();
            host.call(request, wait, teller).await
        }
        Err(failed) => Answered {
            path: None,
            result: Err(failed),
        },
    };
    audit(tool, &host.name, &answered, began, caller);
    Part {
        host: host.name.to_string(),
        path: answered.path,
        result: answered
            .result
            .and_then(|outcome| answer::read(outcome, account.as_ref()))
            .and_then(|(result, counted)| {
                // From here on, only the memory of the kept part counts.
                drop(counted);
                Said::of(result, hosts, account.as_ref())
            }),
        seconds: began.elapsed().as_secs_f64(),
    }
}

/// The progress of all hosts: each host that has finished, and a little for each message of the others.
struct Advance {
    total: usize,
    done: usize,
    words: u32,
}

impl Advance {
    fn new(total: usize) -> Self {
        Self {
            total,
            done: 0,
            words: 0,
        }
    }

    fn said(&mut self, host: &str, report: &ProgressReport) -> Reply {
        self.words += 1;
        let what = report.message.as_deref().unwrap_or("goes on");
        self.report(marked(host, what))
    }

    fn done(&mut self, part: &Part) -> Reply {
        self.done += 1;
        self.words = 0;
        let how = match &part.result {
            Ok(said) if !said.is_error() => "done",
            Ok(_) => "failed",
            Err(_) => "no answer",
        };
        self.report(format!(
            "{}: {how} ({} of {})",
            part.host, self.done, self.total
        ))
    }

    /// Makes a report. Its number always grows, and stays below the number of the next finished host.
    fn report(&self, message: String) -> Reply {
        let words = f64::from(self.words);
        let mut report = ProgressReport::new(self.done as f64 + words / (words + 1.0));
        report.total = Some(self.total as f64);
        report.message = Some(message);
        Reply::Progress(report)
    }
}

#[cfg(test)]
mod tests {
    use lmcp_core::{Payload, Replies};
    use tokio::sync::oneshot;

    use super::*;

    fn work(name: &str, does: impl FnOnce() -> Part + Send + 'static) -> Work {
        let work = move |_: Teller| -> Pin<Box<dyn Future<Output = Part> + Send>> {
            Box::pin(async move { does() })
        };
        (name.into(), Box::new(work))
    }

    fn silent(host: &str) -> Part {
        Part {
            host: host.to_owned(),
            path: None,
            result: Err(Failed {
                words: "no answer".into(),
                began: None,
                is_retriable: false,
            }),
            seconds: 0.0,
        }
    }

    #[tokio::test]
    async fn a_host_whose_part_panics_is_an_error_of_that_host() {
        let works = vec![
            work("a", || silent("a")),
            work("b", || panic!("a test panics")),
            work("c", || silent("c")),
        ];
        let (tell, told) = oneshot::channel();
        let replies = Replies::speaking(move |say| async move {
            let _ = tell.send(spread(works, 2, &say).await);
            Ok(Payload::Acknowledged.into())
        });
        assert!(replies.response().await.unwrap().is_ok());
        let parts = told.await.unwrap();
        let hosts: Vec<_> = parts.iter().map(|part| part.host.as_str()).collect();
        assert_eq!(hosts, ["a", "b", "c"]);
        let failed = parts[1].result.as_ref().unwrap_err();
        assert!(failed.words.contains("failed inside"), "{}", failed.words);
        assert_eq!(failed.began, Some(true));
    }
}
