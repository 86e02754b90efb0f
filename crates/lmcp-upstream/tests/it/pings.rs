//! Whether a server is there: asked on the way that calls take.

use std::{sync::Arc, time::Duration};

use lmcp_client::{Given, Route};
use lmcp_core::{Client, Endpoint, Service};
use lmcp_testkit::{Far, soon};
use lmcp_upstream::{PerClient, Upstream};
use serde_json::json;
use tokio::{
    join,
    time::{sleep, timeout},
};

/// An upstream to a server at the far end of a pipe, once that has opened.
async fn opened() -> (Upstream, Far) {
    let (near, mut far) = Far::pipe();
    let upstream = Upstream::new(Route::Given(Given::new("far", Box::new(near))));
    let (opened, _) = join!(upstream.ready(), far.until("notifications/initialized"));
    opened.expect("the server opens");
    (upstream, far)
}

#[tokio::test(start_paused = true)]
async fn a_ping_that_nobody_waits_for_any_more_leaves_nothing_behind() {
    let (upstream, mut far) = opened().await;
    let asked = timeout(Duration::from_secs(1), Service::ping(&upstream)).await;
    assert!(asked.is_err(), "nobody answers");
    assert!(Service::is_idle(&upstream));
    let ping = far.until("ping").await;
    let taken_back = far.until("notifications/cancelled").await;
    assert_eq!(taken_back["params"]["requestId"], ping["id"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_passes_over_a_ping_is_asked_for_a_list() {
    let (upstream, mut far) = opened().await;
    let (answered, ()) = soon(async {
        join!(Service::ping(&upstream), async {
            far.until("ping").await;
            let list = far.next().await.expect("it is asked once more");
            assert_eq!(list["method"], "tools/list");
            far.answer_as_usual(&list).await;
        })
    })
    .await;
    answered.expect("it is there");
    assert!(Service::is_idle(&upstream));
}

/// Servers for single clients, and a client of the one at the far end of a pipe, which has listed its tools.
async fn apart() -> (Arc<PerClient>, Client, Far) {
    let (near, mut far) = Far::pipe();
    let route = Route::Given(Given::new("far", Box::new(near)));
    let servers = Arc::new(PerClient::new(route).idle_stop(None));
    let client = Endpoint::new(Arc::clone(&servers)).client();
    let (listed, ()) = join!(client.list_tools(), async {
        let list = far.until("tools/list").await;
        far.answer_as_usual(&list).await;
    });
    assert_eq!(listed.expect("the server lists").len(), 1);
    (servers, client, far)
}

#[tokio::test(start_paused = true)]
async fn a_server_for_one_client_ends_once_it_answers_no_ping() {
    let (servers, _client, mut far) = apart().await;
    let (asked, ()) = soon(async {
        join!(Service::ping(&*servers), async {
            let ping = far.until("ping").await;
            far.answer_as_usual(&ping).await;
        })
    })
    .await;
    asked.expect("it is there");
    let hung_up = timeout(Duration::from_secs(100), far.next()).await;
    assert!(hung_up.is_err(), "it is needed: {hung_up:?}");
    Service::ping(&*servers)
        .await
        .expect("the others are there");
    while let Some(message) = soon(far.next()).await {
        let method = message["method"].as_str();
        assert_ne!(method, Some("tools/call"), "nobody calls");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_for_one_client_stays_for_as_long_as_a_call_goes_on_there() {
    let (servers, client, mut far) = apart().await;
    let (called, asked, ()) = join!(
        client.call_tool("say", json!({})),
        Service::ping(&*servers),
        async {
            let call = far.until("tools/call").await;
            sleep(Duration::from_secs(200)).await;
            far.answer_as_usual(&call).await;
        }
    );
    called.expect("it is answered");
    asked.expect("nobody is asked");
}
