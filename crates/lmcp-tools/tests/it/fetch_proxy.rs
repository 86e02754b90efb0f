//! `fetch` through a proxy: it is asked for nothing that could not be reached without it.

use lmcp_outbound::Proxies;
use lmcp_tools::Settings;
use serde_json::json;

use crate::{
    proxy_server::Proxy,
    site::{Site, call, client, failure, loopback},
};

/// An address on the public internet. Nobody goes there: the proxy leads elsewhere.
const PUBLIC: &str = "http://93.184.215.14";

/// A name that no resolver finds (RFC 6761).
const NOWHERE: &str = "http://nowhere.invalid/";

fn through(proxy: &Proxy, allow: &[&str]) -> Settings {
    let mut settings = Settings::default();
    let address = proxy.address.to_string();
    settings.web.outbound.proxies =
        Proxies::from_env(|name| (name == "ALL_PROXY").then(|| address.clone()));
    settings.web.allow = allow.iter().map(|allow| allow.parse().unwrap()).collect();
    settings
}

#[tokio::test]
async fn a_page_comes_through_the_proxy() {
    let proxy = Proxy::to(Site::of("text/plain", "hello").address);
    let url = format!("{PUBLIC}/a?b");
    let (_, value) = call(
        &client(through(&proxy, &[])),
        "fetch",
        json!({ "url": url }),
    )
    .await;
    assert_eq!(value["body"], "hello");
    let asked = proxy.asked();
    assert!(
        asked[0].starts_with(&format!("GET {url} HTTP/1.1\r\n")),
        "{asked:?}"
    );
}

#[tokio::test]
async fn a_proxy_is_not_asked_for_what_may_not_be_reached() {
    let proxy = Proxy::to(Site::of("text/plain", "secret").address);
    let client = client(through(&proxy, &[]));
    for url in [
        "http://10.0.0.1/",
        "https://10.0.0.1/",
        "http://169.254.169.254/latest/",
        "http://[fd00::1]/",
        "http://localhost/",
    ] {
        let text = failure(&client, "fetch", json!({ "url": url })).await;
        assert!(text.contains("may not reach"), "{url}: {text}");
    }
    assert!(proxy.asked().is_empty());
}

#[tokio::test]
async fn a_redirect_through_a_proxy_is_checked_too() {
    let site = Site::with("302 Found", &[("Location", "http://10.0.0.1/")], "");
    let proxy = Proxy::to(site.address);
    let client = client(through(&proxy, &[]));
    let text = failure(&client, "fetch", json!({ "url": PUBLIC })).await;
    assert!(text.contains("10.0.0.1 is a private address"), "{text}");
    assert_eq!(proxy.asked().len(), 1);
}

#[tokio::test]
async fn a_name_that_only_the_proxy_finds_must_be_allowed() {
    let proxy = Proxy::to(Site::of("text/plain", "hello").address);
    let strict = client(through(&proxy, &["other.invalid"]));
    let text = failure(&strict, "fetch", json!({ "url": NOWHERE })).await;
    for words in [
        "`nowhere.invalid` (DNS)",
        "address cannot be checked",
        "--fetch-allow nowhere.invalid`",
        "--fetch-allow proxy:*`",
    ] {
        assert!(text.contains(words), "{text}");
    }
    assert!(proxy.asked().is_empty());
    for allow in ["nowhere.invalid", "proxy:*"] {
        let client = client(through(&proxy, &[allow]));
        let (_, value) = call(&client, "fetch", json!({ "url": NOWHERE })).await;
        assert_eq!(value["body"], "hello", "{allow}");
    }
    // Leave to ask the proxy is no leave to go to private addresses.
    let client = client(through(&proxy, &["proxy:*"]));
    failure(&client, "fetch", json!({ "url": "http://10.0.0.1/" })).await;
}

#[tokio::test]
async fn a_proxy_that_wants_a_password_says_so() {
    let proxy = Proxy::for_members(Site::of("text/plain", "hello").address, "me:pw");
    for url in [PUBLIC, "https://93.184.215.14/"] {
        let client = client(through(&proxy, &[]));
        let text = failure(&client, "fetch", json!({ "url": url })).await;
        assert!(
            text.contains("wants a name and a password") && text.contains("407"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn this_machine_is_reached_without_the_proxy() {
    let site = Site::of("text/plain", "hello");
    let proxy = Proxy::to(site.address);
    let mut settings = through(&proxy, &[]);
    settings.web.allow = loopback().web.allow;
    let (_, value) = call(&client(settings), "fetch", json!({ "url": site.url("/") })).await;
    assert_eq!(value["body"], "hello");
    assert!(proxy.asked().is_empty());
}
