//! Hosts over services in this process, which hang, die and come back when a test says so.

use std::sync::atomic::AtomicBool;

use lmcp_core::{Caller, CallerTransport, Payload, admit, bytes::Bytes};
use lmcp_wire::{
    CallToolResult, Content, Incoming, LoggingLevel, ProtocolVersion,
    logging::LoggingMessageParams, meta,
};
use serde_json::json;
use tokio::sync::Semaphore;

use super::*;
use crate::probe;

/// A server elsewhere, controlled by a test.
#[derive(Default)]
struct Far {
    /// The server cannot be reached.
    is_gone: AtomicBool,
    /// The server takes all requests and answers none.
    is_stuck: AtomicBool,
    /// The server answers, but calls take for ever.
    is_slow: AtomicBool,
    /// The calls that the server got.
    calls: AtomicUsize,
}

impl Far {
    fn set(&self, is_gone: bool, is_stuck: bool) {
        self.is_gone.store(is_gone, Ordering::Release);
        self.is_stuck.store(is_stuck, Ordering::Release);
    }

    fn gone() -> RpcError {
        let data = json!({ "fault": "transport", "began": false, "retriable": true });
        RpcError::internal("no way").with_data(data)
    }
}

/// The way to the server.
struct Road(Arc<Far>);

impl Service for Road {
    fn call(&self, _: Request) -> Replies {
        if self.0.is_gone.load(Ordering::Acquire) {
            return Replies::error(Far::gone());
        }
        self.0.calls.fetch_add(1, Ordering::AcqRel);
        if self.0.is_stuck.load(Ordering::Acquire) || self.0.is_slow.load(Ordering::Acquire) {
            return Replies::later(std::future::pending());
        }
        Replies::done(CallToolResult::new(vec![Content::text("done")]))
    }

    fn ping(&self) -> std::pin::Pin<Box<dyn Future<Output = Result<(), RpcError>> + Send + '_>> {
        Box::pin(async {
            if self.0.is_stuck.load(Ordering::Acquire) {
                std::future::pending::<()>().await;
            }
            match self.0.is_gone.load(Ordering::Acquire) {
                true => Err(Far::gone()),
                false => Ok(()),
            }
        })
    }
}

/// Returns a host with a way by HTTP and one by ssh.
fn host() -> (Arc<Host>, [Arc<Far>; 2]) {
    let far = [Arc::<Far>::default(), Arc::default()];
    let ways = [Kind::Http, Kind::Ssh]
        .into_iter()
        .zip(&far)
        .map(|(kind, far)| {
            let far = Arc::clone(far);
            let make = Box::new(move || Ok(Arc::new(Road(Arc::clone(&far))) as Arc<dyn Service>));
            Way { kind, make }
        });
    let config = HostConfig::new();
    let host = Host::over("far", config, Times::default(), ways.collect());
    (Arc::new(host), far)
}

fn request() -> Request {
    request_of(Caller::new(CallerTransport::Memory))
}

fn request_of(caller: Caller) -> Request {
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "shell", "_meta": {
        meta::PROTOCOL_VERSION: ProtocolVersion::NEWEST.as_str(),
        meta::CLIENT_INFO: { "name": "test", "version": "1" },
        meta::CLIENT_CAPABILITIES: {},
    } } });
    let message = Bytes::from(message.to_string());
    let Ok(Incoming::Request { id, method, params }) = Incoming::parse(&message) else {
        panic!("it is a request");
    };
    admit(&message, id, &method, params, caller, None).unwrap()
}

/// Drops all messages.
struct Deaf;

impl Hear for Deaf {
    async fn hear(&self, _: Reply) {}
}

/// A host that logs under the name of another.
struct Liar;

impl Service for Liar {
    fn call(&self, _: Request) -> Replies {
        Replies::speaking(|say| async move {
            let mut message = LoggingMessageParams::new(LoggingLevel::Error, json!("broken"));
            message.logger = Some("near".to_owned());
            say.say(Reply::Log(message)).await;
            Ok(CallToolResult::new(Vec::new()).into())
        })
    }
}

/// Keeps the names in log messages.
#[derive(Default)]
struct Loggers(Mutex<Vec<Option<String>>>);

impl Hear for Loggers {
    async fn hear(&self, reply: Reply) {
        if let Reply::Log(message) = reply {
            self.0.lock().unwrap().push(message.logger);
        }
    }
}

#[tokio::test]
async fn a_host_cannot_log_as_another() {
    let make = Box::new(|| Ok(Arc::new(Liar) as Arc<dyn Service>));
    let kind = Kind::Http;
    for (is_hub, logger) in [(false, "far"), (true, "far/near")] {
        let mut config = HostConfig::new();
        config.hub = is_hub;
        let way = Way {
            kind,
            make: make.clone(),
        };
        let host = Host::over("far", config, Times::default(), vec![way]);
        host.opened(0, Arc::new(Liar));
        let loggers = Loggers::default();
        let answered = host.call(request(), Duration::ZERO, &loggers).await;
        assert!(answered.result.is_ok(), "{answered:?}");
        assert_eq!(*loggers.0.lock().unwrap(), [Some(logger.to_owned())]);
    }
}

async fn call(host: &Host, wait: Duration) -> (Option<Kind>, Result<String, Failed>) {
    let Answered { path, result } = host.call(request(), wait, &Deaf).await;
    let result = result.map(|outcome| match outcome.payload {
        Payload::CallTool(result) => result.content[0].as_text().unwrap_or_default().to_owned(),
        _ => String::new(),
    });
    (path, result)
}

#[tokio::test(start_paused = true)]
async fn a_call_takes_the_next_way_only_if_it_has_not_begun() {
    let (host, [http, ssh]) = host();
    assert_eq!(call(&host, Duration::ZERO).await.0, Some(Kind::Http));
    http.set(true, false);
    let (path, result) = call(&host, Duration::ZERO).await;
    assert_eq!((path, result), (Some(Kind::Ssh), Ok("done".to_owned())));
    // The open way takes the call and does not answer: the call is not sent on another way.
    ssh.set(false, true);
    let (path, result) = call(&host, Duration::ZERO).await;
    assert_eq!(
        (path, result.unwrap_err().began),
        (Some(Kind::Ssh), Some(true))
    );
    assert_eq!(http.calls.load(Ordering::Acquire), 1);
    assert_eq!(ssh.calls.load(Ordering::Acquire), 2);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_hangs_in_a_call_is_noticed_before_its_time_is_over() {
    let (host, [http, _]) = host();
    http.set(false, false);
    host.look(Try::Due).await;
    http.set(false, true);
    let before = Instant::now();
    let (_, result) = call(&host, Duration::ZERO).await;
    assert_eq!(result.unwrap_err().began, Some(true));
    assert!(before.elapsed() < QUIET + PING + Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_call_to_a_host_that_is_down_fails_at_once_or_waits() {
    let (host, [http, ssh]) = host();
    http.set(true, false);
    ssh.set(false, true);
    host.look(Try::Due).await;
    assert_eq!(host.status().state, HostState::Down);
    let before = Instant::now();
    let (path, result) = call(&host, Duration::ZERO).await;
    let failed = result.unwrap_err();
    assert_eq!(
        (path, failed.began, failed.is_retriable),
        (None, Some(false), true)
    );
    assert!(
        failed.words.contains("http: no way; ssh: no answer within"),
        "{}",
        failed.words
    );
    assert_eq!(before.elapsed(), Duration::ZERO);
    let (waited, ()) = tokio::join!(call(&host, Duration::from_secs(600)), async {
        sleep(Duration::from_secs(50)).await;
        http.set(false, false);
    });
    assert_eq!(waited, (Some(Kind::Http), Ok("done".to_owned())));
    assert_eq!(host.status().state, HostState::Up);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_host_does_not_put_off_the_next_look() {
    let (host, [http, ssh]) = host();
    http.set(true, false);
    ssh.set(true, false);
    host.look(Try::Due).await;
    let next = host.next_look();
    let _ = call(&host, Duration::from_secs(1)).await;
    assert!(host.next_look() <= next);
}

#[tokio::test(start_paused = true)]
async fn a_host_is_looked_at_often_while_it_is_up_and_ever_more_seldom_while_it_is_down() {
    let (host, [http, ssh]) = host();
    let places = Arc::new(Semaphore::new(1));
    let tasks = lmcp_core::Tasks::default();
    tasks.spawn(probe::watch(Arc::clone(&host), places));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(host.status().state, HostState::Up);
    http.set(true, false);
    ssh.set(true, false);
    sleep(Duration::from_secs(40)).await;
    assert_eq!(host.status().state, HostState::Down);
    sleep(Duration::from_secs(4 * 3600)).await;
    let seconds = host.lock().roads[0]
        .failure
        .as_ref()
        .map(|failure| failure.count);
    let count = seconds.unwrap_or_default();
    // Five short pauses, and then about one try every 15 minutes.
    assert!((15..30).contains(&count), "{count}");
    http.set(false, false);
    sleep(Duration::from_secs(1100)).await;
    assert_eq!(host.status().via.as_deref(), Some("http"));
}

#[tokio::test(start_paused = true)]
async fn one_caller_takes_its_share_of_the_calls_to_a_host_and_no_more() {
    let (host, [http, _]) = host();
    http.is_slow.store(true, Ordering::Release);
    let of = |name: &str| request_of(Caller::new(CallerTransport::Memory).known_as(name));
    let mut slow: Vec<_> = (0..2 * Kind::Http.most_calls())
        .map(|_| Box::pin(host.call(of("ann"), Duration::ZERO, &Deaf)))
        .collect();
    for call in &mut slow {
        assert!(timeout(Duration::from_millis(1), call).await.is_err());
    }
    let taken = http.calls.load(Ordering::Acquire);
    assert!(taken < Kind::Http.most_calls(), "{taken}");
    // The calls of another caller do not wait for them.
    http.is_slow.store(false, Ordering::Release);
    let answered = host.call(of("bob"), Duration::ZERO, &Deaf);
    let answered = timeout(Duration::from_secs(1), answered).await;
    assert!(answered.expect("it does not wait").result.is_ok());
    // When calls have ended, the calls that waited run.
    slow.drain(..taken);
    for call in slow {
        assert!(call.await.result.is_ok());
    }
}
