//! Subscriptions over HTTP that end: by the server, because a client is let in no more, and because the server stays away.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use lmcp_core::{
    Audience, Client, Handle, Resource, Server,
    client::{Change, Subscription},
};
use lmcp_testkit::Serving;
use lmcp_upstream::{Upstream, url};
use lmcp_wire::ProtocolVersion;

use crate::support::soon;

const BOTH: [ProtocolVersion; 2] = [ProtocolVersion::V2025_06_18, ProtocolVersion::V2026_07_28];

const URI: &str = "note://garden";

/// A server over HTTP whose only user is called `ann`.
struct Site {
    handle: Handle,
    address: String,
    serving: Serving,
    /// Whether the user is let in.
    is_known: Arc<AtomicBool>,
}

impl Site {
    async fn at(address: &str) -> Self {
        let note = Resource::text(URI, "garden", "roses");
        let server = Server::new("notes", "1.0.0").resource(note);
        let handle = server.start().expect("the server is sound");
        let is_known = Arc::new(AtomicBool::new(true));
        let known = Arc::clone(&is_known);
        let http = lmcp_http::bind(address).await.expect("the port is free");
        let http = http.identify(move |_| match known.load(Ordering::Acquire) {
            true => Ok(Some("ann".to_owned())),
            false => Err("log in first".to_owned()),
        });
        let address = http.address().to_string();
        let endpoint = handle.endpoint();
        let serving = Serving::until(|stop| async move { endpoint.serve(http.until(stop)).await });
        Self {
            handle,
            address,
            serving,
            is_known,
        }
    }

    async fn new() -> Self {
        Self::at("127.0.0.1:0").await
    }

    /// Connects, and subscribes. `patience` says whether a lost server is looked for.
    async fn subscribed(
        &self,
        version: ProtocolVersion,
        is_patient: bool,
    ) -> (Client, Subscription) {
        let route = url(format!("http://{}/mcp", self.address)).route();
        let upstream = Upstream::builder(route.expect("the URL is sound")).version(version);
        let upstream = match is_patient {
            true => upstream.build(),
            false => upstream.impatient().build(),
        };
        let client = soon(Client::connect(upstream)).await.expect("it is there");
        let mut changes = soon(client.subscribe([URI])).await.expect("it exists");
        self.changes_are_heard(&mut changes).await;
        (client, changes)
    }

    async fn changes_are_heard(&self, changes: &mut Subscription) {
        self.handle.resource_updated(URI);
        let change = soon(changes.next()).await;
        assert_eq!(change, Some(Change::Resource(URI.to_owned())));
    }

    fn end_subscriptions(&self) -> usize {
        let ann = self.handle.to(Audience::Principal("ann"));
        ann.end_subscriptions()
    }
}

#[tokio::test]
async fn a_subscription_that_the_server_has_ended_is_over() {
    let site = Site::new().await;
    let (_client, mut changes) = site.subscribed(ProtocolVersion::V2026_07_28, true).await;
    assert_eq!(site.end_subscriptions(), 1);
    assert_eq!(soon(changes.next()).await, None);
}

#[tokio::test]
async fn a_client_whose_subscription_is_over_can_subscribe_again() {
    let site = Site::new().await;
    let (client, mut changes) = site.subscribed(ProtocolVersion::V2026_07_28, true).await;
    site.end_subscriptions();
    assert_eq!(soon(changes.next()).await, None);
    let mut changes = soon(client.subscribe([URI])).await.expect("it exists");
    site.changes_are_heard(&mut changes).await;
}

#[tokio::test]
async fn a_session_opens_a_stream_that_was_ended_again() {
    let site = Site::new().await;
    let (_client, mut changes) = site.subscribed(ProtocolVersion::V2025_06_18, true).await;
    assert_eq!(site.end_subscriptions(), 1);
    site.changes_are_heard(&mut changes).await;
}

#[tokio::test]
async fn a_subscription_is_over_when_its_client_is_let_in_no_more() {
    for version in BOTH {
        let site = Site::new().await;
        let (_client, mut changes) = site.subscribed(version, true).await;
        site.is_known.store(false, Ordering::Release);
        assert_eq!(site.end_subscriptions(), 1);
        assert_eq!(soon(changes.next()).await, None, "{version}");
    }
}

#[tokio::test]
async fn a_subscription_is_over_when_its_server_stays_away() {
    for version in BOTH {
        let mut site = Site::new().await;
        let (_client, mut changes) = site.subscribed(version, false).await;
        site.serving.close().await;
        assert_eq!(soon(changes.next()).await, None, "{version}");
    }
}

#[tokio::test]
async fn a_subscription_goes_on_with_the_next_server_and_reports_what_may_have_changed() {
    for version in BOTH {
        let mut site = Site::new().await;
        let (client, mut changes) = site.subscribed(version, true).await;
        site.serving.kill().await;
        let site = Site::at(&site.address).await;
        soon(client.ping()).await.expect("it is there again");
        // What changed while no server was there was told to nobody.
        let change = Some(Change::Resource(URI.to_owned()));
        let told = async {
            loop {
                match changes.next().await {
                    Some(Change::Tools | Change::Prompts | Change::Resources) => {}
                    other => break other,
                }
            }
        };
        assert_eq!(soon(told).await, change, "{version}");
        let heard = async {
            loop {
                site.handle.resource_updated(URI);
                tokio::select! {
                    biased;
                    change = changes.next() => break change,
                    // Each answer gives the stream time to open.
                    _ = client.ping() => {}
                }
            }
        };
        assert_eq!(soon(heard).await, change, "{version}");
    }
}
