//! One call on several hosts at once: each has its own time, and none waits for another but for a place to run.

use std::{pin::Pin, sync::Arc, time::Duration};

use lmcp_core::{ProgressReport, Reply, Request, Say, Tasks};
use serde_json::Value;
use tokio::{
    sync::{Semaphore, mpsc},
    time::Instant,
};

use crate::{
    answer,
    fleet::audit,
    host::{Answered, Failed, Hear, Host},
    limits::REPLIES,
    summary::{Heard, Part, Said},
    words::marked,
};

/// What happens on the way.
enum Event {
    /// A host says something.
    Said(Arc<str>, Reply),
    /// A host is done: by its place in the list.
    Done(usize, Part),
}

/// Tells what one host says.
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

/// A call on one of the hosts: the request, or why it is not even sent.
pub(crate) type Planned = (Arc<Host>, Result<Request, Failed>);

/// What is done for one host, which has this name.
pub(crate) type Work = (
    Arc<str>,
    Box<dyn FnOnce(Teller) -> Pin<Box<dyn Future<Output = Part> + Send>> + Send>,
);

/// Runs all calls, as many at once as this, and gives their answers in the order of the hosts.
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

/// Does all of this, as many at once as this, and gives what came of it in the same order.
///
/// # Cancellation
/// Dropping the future drops what goes on.
pub(crate) async fn spread(works: Vec<Work>, parallel: usize, say: &Say) -> Vec<Part> {
    let (tell, mut told) = mpsc::channel(REPLIES);
    let places = Arc::new(Semaphore::new(parallel));
    let count = works.len();
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
    parts.into_iter().flatten().collect()
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
                // What is kept of it counts from here on, and the rest is gone.
                drop(counted);
                Said::of(result, hosts, account.as_ref())
            }),
        seconds: began.elapsed().as_secs_f64(),
    }
}

/// How far all of them are: hosts that are done, and a little for each word of another.
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

    /// Always more than before, and never as much as the next host's end.
    fn report(&self, message: String) -> Reply {
        let words = f64::from(self.words);
        let mut report = ProgressReport::new(self.done as f64 + words / (words + 1.0));
        report.total = Some(self.total as f64);
        report.message = Some(message);
        Reply::Progress(report)
    }
}
