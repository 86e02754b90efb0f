//! Links through a proxy, and links that show a certificate.

use std::net::SocketAddr;

use lmcp_client::{
    Event, Settings,
    outbound::{ClientCertificate, Proxies},
};
use serde_json::json;

use crate::{
    outbound_server::{Certificate, secure},
    proxy_server::Proxy,
    support::{Client, LEGACY, MODERN, serve_at, server, text},
};

fn through(proxy: &str) -> Settings {
    let mut settings = Settings::new("http://box.example/mcp");
    settings.outbound.proxies =
        Proxies::from_env(|name| (name == "HTTP_PROXY").then(|| proxy.to_owned()));
    settings
}

/// Returns the error of a link that is refused.
async fn refusal(settings: Settings) -> String {
    let mut client = Client::open(settings, MODERN).await;
    client.begin("ping", json!({}));
    match client.end().await.pop() {
        Some(Event::Refused(words)) => words,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_link_goes_through_a_proxy_in_every_revision() {
    let allow = |http: lmcp_http::Http| http.allow_host("box.example");
    let running = serve_at("127.0.0.1:0", server(), allow).await;
    let proxy = Proxy::for_members(running.address, "me:pw");
    let settings = through(&format!("http://me:pw@{}", proxy.address));
    for revision in LEGACY.into_iter().chain([MODERN]) {
        let mut client = Client::ready(settings.clone(), revision).await;
        assert_eq!(text(&client.call("quick").await), "quick", "{revision}");
        assert_eq!(text(&client.call("speak").await), "spoken", "{revision}");
    }
    let asked = proxy.asked();
    let is_whole = |head: &String| head.contains(" http://box.example/mcp HTTP/1.1\r\n");
    assert!(asked.iter().all(is_whole), "{asked:?}");
}

#[tokio::test]
async fn a_proxy_that_wants_a_password_ends_the_link() {
    let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
    let proxy = Proxy::for_members(nobody, "me:pw");
    let words = refusal(through(&proxy.address.to_string())).await;
    assert!(
        words.contains("407") && words.contains(&proxy.address.to_string()),
        "{words}"
    );
}

#[tokio::test]
async fn a_server_that_wants_a_certificate_is_shown_ours() {
    let (theirs, ours) = (Certificate::new("localhost"), Certificate::new("client"));
    let address = secure(&theirs, Some(&ours));
    let mut settings = Settings::new(format!("https://localhost:{}/mcp", address.port()));
    settings.outbound.ca_file = Some(theirs.certificate.clone());
    let words = refusal(settings.clone()).await;
    assert!(
        words.contains("does not take our certificate, or wants one"),
        "{words}"
    );
    settings.outbound.client_certificate =
        Some(ClientCertificate::new(&ours.certificate, &ours.key));
    // The server accepts the certificate, but does not speak MCP.
    let words = refusal(settings).await;
    assert!(words.contains("answered 200 OK"), "{words}");
}
