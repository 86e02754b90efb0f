//! Servers that were there and then do not answer any more, each at the far end of a pipe. Time is not the machine's here.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use lmcp_client::{Given, Route};
use lmcp_core::{Client, Endpoint, Tasks};
use lmcp_testkit::Far;
use lmcp_upstream::Upstream;
use serde_json::json;
use tokio::{
    join,
    net::UnixListener,
    time::{Instant, interval, sleep, sleep_until},
};

use crate::{
    Hub, Isolate, Reach, ServerConfig, ServerState,
    member::{Made, Make, Member},
};

/// A hub over one server, which is started anew whenever it is needed.
struct World {
    hub: Hub,
    client: Client,
    starts: Arc<AtomicUsize>,
    /// Starts of the server that have ended.
    ends: Arc<AtomicUsize>,
}

impl World {
    /// Every start of the server does this, and is given its number. All that it offers is known.
    async fn new<F>(
        change: impl FnOnce(&mut ServerConfig),
        serve: impl Fn(usize, Far) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let [starts, ends] = [(); 2].map(|()| Arc::<AtomicUsize>::default());
        let (started, ended) = (Arc::clone(&starts), Arc::clone(&ends));
        let serving = Tasks::default();
        let make: Make = Box::new(move |_| {
            let (near, far) = Far::pipe();
            let served = serve(started.fetch_add(1, Ordering::Relaxed), far);
            let ended = Arc::clone(&ended);
            serving.spawn(async move {
                served.await;
                ended.fetch_add(1, Ordering::Relaxed);
            });
            let upstream = Upstream::new(Route::Given(Given::new("far", Box::new(near))));
            let counted = upstream.clone();
            Ok(Made {
                service: Arc::new(upstream),
                times_opened: Arc::new(move || counted.times_opened()),
            })
        });
        let mut config = ServerConfig::new(Reach::Socket(PathBuf::new()));
        change(&mut config);
        let hub = Hub::new("hub", "1");
        hub.0.add(Member::new("one", config, false, make));
        let client = Endpoint::new(hub.clone()).client();
        assert_eq!(client.list_tools().await.unwrap().len(), 1);
        Self {
            hub,
            client,
            starts,
            ends,
        }
    }

    fn starts_and_ends(&self) -> (usize, usize) {
        let [starts, ends] = [&self.starts, &self.ends].map(|all| all.load(Ordering::Relaxed));
        (starts, ends)
    }

    fn state(&self) -> ServerState {
        self.hub.status()[0].state
    }
}

/// Answers until it is silent.
async fn hangs_when(is_silent: &AtomicBool, mut far: Far) {
    while let Some(message) = far.next().await {
        if !is_silent.load(Ordering::Relaxed) {
            far.answer_as_usual(&message).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_quiet_server_that_does_not_answer_any_more_is_ended_and_the_next_call_starts_another() {
    let is_silent = Arc::<AtomicBool>::default();
    let silent = Arc::clone(&is_silent);
    let world = World::new(
        |_| {},
        move |start, far| {
            let is_silent = match start {
                0 => Arc::clone(&silent),
                _ => Arc::default(),
            };
            async move { hangs_when(&is_silent, far).await }
        },
    )
    .await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(world.state(), ServerState::Ready, "it answers");
    is_silent.store(true, Ordering::Relaxed);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(world.state(), ServerState::Failed);
    assert_eq!(world.starts_and_ends(), (1, 1));
    let began = Instant::now();
    world.client.call_tool("one__say", json!({})).await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 0);
    assert_eq!(
        (world.starts_and_ends(), world.state()),
        ((2, 1), ServerState::Ready)
    );
}

/// Hangs in its first call, but answers a later one after all.
async fn hangs(start: usize, mut far: Far) {
    if start == 0 {
        far.until("tools/call").await;
        let other = loop {
            let message = far.next().await.unwrap();
            if message["method"] == "tools/call" {
                break message;
            }
        };
        sleep(Duration::from_secs(200)).await;
        far.answer(
            &other,
            json!({ "content": [{ "type": "text", "text": "late" }] }),
        )
        .await;
        while far.next().await.is_some() {}
        return;
    }
    while let Some(message) = far.next().await {
        far.answer_as_usual(&message).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_in_a_call_is_left_and_ends_with_the_calls_of_others() {
    let world = World::new(|_| {}, hangs).await;
    let began = Instant::now();
    let at = |seconds| sleep_until(began + Duration::from_secs(seconds));
    let (first, second, third) = join!(
        world.client.call_tool("one__say", json!({})),
        async {
            at(200).await;
            world.client.call_tool("one__say", json!({})).await
        },
        async {
            at(320).await;
            let called = world.client.call_tool("one__say", json!({})).await;
            assert_eq!(began.elapsed().as_secs(), 320, "it waits for nobody");
            assert_eq!(world.starts_and_ends(), (2, 0), "the second call goes on");
            called
        }
    );
    assert!(first.unwrap_err().message.contains("said nothing"));
    assert_eq!(second.unwrap().content[0].as_text(), Some("late"));
    assert_eq!(third.unwrap().content[0].as_text(), Some("hello"));
    assert_eq!(began.elapsed().as_secs(), 400);
    at(410).await;
    assert_eq!(world.starts_and_ends(), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_passes_over_a_ping_is_there_as_long_as_it_lists() {
    let world = World::new(
        |config| config.idle_stop = None,
        |_, mut far| async move {
            while let Some(message) = far.next().await {
                if message["method"] != "ping" {
                    far.answer_as_usual(&message).await;
                }
            }
        },
    )
    .await;
    sleep(Duration::from_secs(2000)).await;
    assert_eq!(world.state(), ServerState::Ready);
    assert_eq!(world.starts_and_ends(), (1, 0));
}

/// Says twice a second that its tools have changed. It answers until it is silent.
async fn announces(mut far: Far, is_silent: Arc<AtomicBool>) {
    let mut times = interval(Duration::from_millis(500));
    loop {
        let message = tokio::select! {
            message = far.next() => message,
            _ = times.tick() => {
                far.say(json!({ "method": "notifications/tools/list_changed" })).await;
                continue;
            }
        };
        match message {
            Some(_) if is_silent.load(Ordering::Relaxed) => {}
            Some(message) => far.answer_as_usual(&message).await,
            None => return,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_announces_changes_without_end_is_stopped_when_nobody_calls_it() {
    let world = World::new(|_| {}, |_, far| announces(far, Arc::default())).await;
    sleep(Duration::from_secs(700)).await;
    assert_eq!(world.state(), ServerState::Stopped);
    assert_eq!(world.starts_and_ends(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_announces_changes_and_answers_nothing_counts_as_gone() {
    let is_silent = Arc::<AtomicBool>::default();
    let silent = Arc::clone(&is_silent);
    let world = World::new(|_| {}, move |_, far| announces(far, Arc::clone(&silent))).await;
    is_silent.store(true, Ordering::Relaxed);
    sleep(Duration::from_secs(120)).await;
    assert_eq!(world.state(), ServerState::Failed);
    assert_eq!(world.starts_and_ends(), (1, 1));
}

/// Has two tools at first, then says that there are three.
async fn has_ever_more_tools(mut far: Far) {
    for count in 2.. {
        let list = far.until("tools/list").await;
        let tool = |n| json!({ "name": format!("say{n}"), "inputSchema": { "type": "object" } });
        let tools: Vec<_> = (0..count.min(3)).map(tool).collect();
        far.answer(&list, json!({ "tools": tools })).await;
        if count == 2 {
            far.say(json!({ "method": "notifications/tools/list_changed" }))
                .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_copy_that_a_hub_listens_to_is_ended_if_it_hangs_and_the_next_one_is_listened_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let (listener, copies) = (
        UnixListener::bind(&path).unwrap(),
        Arc::new(AtomicUsize::new(0)),
    );
    let (is_silent, counted) = (Arc::<AtomicBool>::default(), Arc::clone(&copies));
    let silent = Arc::clone(&is_silent);
    let serving = Tasks::default();
    serving.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let far = Far::of(stream);
            match counted.fetch_add(1, Ordering::Relaxed) {
                0 => hangs_when(&silent, far).await,
                _ => has_ever_more_tools(far).await,
            }
        }
    });
    let mut config = ServerConfig::new(Reach::Socket(path));
    config.isolate = Isolate::Session;
    let hub = Hub::new("hub", "1");
    hub.set(&[("one".to_owned(), config)].into()).unwrap();
    let client = Endpoint::new(hub.clone()).client();
    assert_eq!(client.list_tools().await.unwrap().len(), 1);
    is_silent.store(true, Ordering::Relaxed);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(copies.load(Ordering::Relaxed), 2);
    assert_eq!(hub.status()[0].state, ServerState::Ready);
    // The clock of this test goes on while a message is on its way through the socket.
    for _ in 0..1000 {
        if client.list_tools().await.unwrap().len() == 3 {
            return;
        }
        sleep(Duration::from_secs(1)).await;
    }
    panic!("the hub does not hear of the third tool");
}
