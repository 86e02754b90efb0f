//! The guard is asked before anything is connected to, with and without a proxy.

use std::net::IpAddr;

use lmcp_outbound::{Guard, Lookup, Url};

use crate::{get_guarded, proxy_server::Proxy, server, through};

/// Lets nobody pass but 192.0.2.1, and says what must be known of names.
struct Strict(Lookup);

impl Guard for Strict {
    fn check(&self, url: &Url, address: IpAddr) -> Result<(), String> {
        if address.to_string() == "192.0.2.1" {
            return Ok(());
        }
        Err(format!("not to {} at {address}", url.host()))
    }

    fn before_proxy(&self, _: &Url) -> Lookup {
        self.0
    }
}

/// A name that no resolver finds (RFC 6761).
const NOWHERE: &str = "http://nowhere.invalid/";

#[tokio::test]
async fn an_address_that_may_not_be_is_not_connected_to() {
    let server = server::plain();
    for host in ["127.0.0.1", "localhost"] {
        let url = format!("http://{host}:{}/", server.port());
        let settings = lmcp_outbound::Settings::default();
        let words = get_guarded(settings, &url, &Strict(Lookup::Skip))
            .await
            .unwrap_err();
        assert!(
            words.contains("Forbidden") && words.contains(&format!("not to {host}")),
            "{words}"
        );
    }
}

#[tokio::test]
async fn a_proxy_is_not_asked_for_an_address_that_may_not_be() {
    let proxy = Proxy::to(server::plain());
    for url in [
        "http://192.0.2.2/",
        "https://192.0.2.2/",
        "http://[2001:db8::1]/",
    ] {
        let guard = Strict(Lookup::Skip);
        let words = get_guarded(through(proxy.address), url, &guard)
            .await
            .unwrap_err();
        assert!(words.contains("Forbidden"), "{words}");
    }
    assert!(proxy.asked().is_empty());
    let guard = Strict(Lookup::Must);
    get_guarded(through(proxy.address), "http://192.0.2.1/", &guard)
        .await
        .unwrap();
    assert_eq!(proxy.asked().len(), 1);
}

#[tokio::test]
async fn a_proxy_is_asked_for_an_unknown_name_only_if_the_guard_says_so() {
    let proxy = Proxy::to(server::plain());
    let guard = Strict(Lookup::Must);
    let words = get_guarded(through(proxy.address), NOWHERE, &guard)
        .await
        .unwrap_err();
    assert!(
        words.starts_with("Unchecked") && words.contains("`nowhere.invalid` (DNS)"),
        "{words}"
    );
    assert!(proxy.asked().is_empty());
    for lookup in [Lookup::Try, Lookup::Skip] {
        let guard = Strict(lookup);
        get_guarded(through(proxy.address), NOWHERE, &guard)
            .await
            .unwrap();
    }
}
