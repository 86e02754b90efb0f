//! Requests through a proxy.

use std::net::SocketAddr;

use lmcp_outbound::ClientCertificate;

use crate::{
    get,
    proxy_server::{Answer, Proxy},
    server::{self, Certificate},
    through,
};

#[tokio::test]
async fn plain_requests_go_to_the_proxy_with_their_whole_address() {
    let proxy = Proxy::to(server::plain());
    let answer = get(through(proxy.address), "http://box.example/a?b")
        .await
        .unwrap();
    assert!(answer.starts_with("GET /a?b HTTP/1.1\r\n"), "{answer}");
    assert!(answer.contains("host: box.example\r\n"), "{answer}");
    let asked = proxy.asked();
    assert!(
        asked[0].starts_with("GET http://box.example/a?b HTTP/1.1\r\n"),
        "{asked:?}"
    );
}

#[tokio::test]
async fn of_encrypted_requests_the_proxy_sees_only_host_and_port() {
    let certificate = Certificate::new("box.example");
    let proxy = Proxy::to(server::secure(&certificate, None));
    let mut settings = through(proxy.address);
    settings.ca_file = Some(certificate.certificate.clone());
    let answer = get(settings.clone(), "https://box.example/a")
        .await
        .unwrap();
    assert!(answer.starts_with("GET /a HTTP/1.1\r\n"), "{answer}");
    let asked = proxy.asked();
    let head = "CONNECT box.example:443 HTTP/1.1\r\nHost: box.example:443\r\n\r\n";
    assert_eq!(asked, [head]);
    // Whoever the proxy leads to must be who was asked for.
    let words = get(settings, "https://other.example/").await.unwrap_err();
    assert!(
        words.starts_with("Insecure") && words.contains("`other.example` (TLS)"),
        "{words}"
    );
}

#[tokio::test]
async fn a_name_and_a_password_open_a_proxy_that_wants_them() {
    let certificate = Certificate::new("box.example");
    for (url, server) in [
        ("http://box.example/", server::plain()),
        ("https://box.example/", server::secure(&certificate, None)),
    ] {
        let proxy = Proxy::for_members(server, "me:p@ss");
        let ask = async |who: &str| {
            let mut settings = through(format!("http://{who}{}", proxy.address));
            settings.ca_file = Some(certificate.certificate.clone());
            get(settings, url).await
        };
        let answer = ask("me:p%40ss@").await.unwrap();
        assert!(!answer.to_lowercase().contains("proxy-"), "{answer}");
        let words = ask("").await.unwrap_err();
        let name = format!("the proxy `http://{}` wants a name", proxy.address);
        assert!(words.contains(&name) && words.contains("407"), "{words}");
        let words = ask("me:hunter2@").await.unwrap_err();
        let name = format!(
            "the proxy `http://{}` does not take the name",
            proxy.address
        );
        assert!(words.contains(&name) && words.contains("407"), "{words}");
        assert!(!words.contains("hunter2"), "{words}");
    }
}

#[tokio::test]
async fn a_proxy_that_is_not_there_is_named_without_its_password() {
    // Nobody can listen on port 1 without being root, and nobody does.
    for url in ["http://box.example/", "https://box.example/"] {
        let words = get(through("http://me:hunter2@127.0.0.1:1"), url)
            .await
            .unwrap_err();
        assert!(
            words.contains("the proxy `http://127.0.0.1:1` is not there"),
            "{words}"
        );
        assert!(
            words.starts_with("Unreachable") && !words.contains("hunter2"),
            "{words}"
        );
    }
    let words = get(
        through("socks5://me:hunter2@p.example"),
        "http://box.example/",
    )
    .await;
    let words = words.unwrap_err();
    assert!(
        words.contains("`ALL_PROXY` has the scheme `socks5`"),
        "{words}"
    );
    assert!(!words.contains("hunter2"), "{words}");
}

#[tokio::test]
async fn a_proxy_that_does_not_lead_there_says_why() {
    for (answer, words) in [
        (
            "HTTP/1.1 403 No\r\n\r\n",
            ["Refused", "does not let us go there (403)"],
        ),
        (
            "HTTP/1.1 502 No\r\n\r\n",
            ["Unreachable", "cannot reach `box.example:443` (502)"],
        ),
        (
            "SSH-2.0\r\n\r\n",
            ["Refused", "does not answer as a proxy does"],
        ),
        ("HTTP/1.1 200 OK\r\n\r\nmore", ["Refused", "says too much"]),
        ("", ["Unreachable", "hung up"]),
    ] {
        let proxy = Proxy::answering(move |_| Answer::Say(answer));
        let said = get(through(proxy.address), "https://box.example/")
            .await
            .unwrap_err();
        assert!(
            words.iter().all(|words| said.contains(words)),
            "{answer}: {said}"
        );
    }
    let endless: &'static str = "HTTP/1.1 200 OK\r\nA: b\r\n".repeat(2000).leak();
    let proxy = Proxy::answering(move |_| Answer::Say(endless));
    let said = get(through(proxy.address), "https://box.example/")
        .await
        .unwrap_err();
    assert!(said.contains("answers without end"), "{said}");
}

#[tokio::test]
async fn this_machine_is_asked_without_a_proxy() {
    let server = server::plain();
    let proxy = Proxy::to(server);
    for host in ["127.0.0.1", "localhost"] {
        let url = format!("http://{host}:{}/", server.port());
        get(through(proxy.address), &url).await.unwrap();
    }
    assert!(proxy.asked().is_empty());
}

#[tokio::test]
async fn a_proxy_may_be_spoken_to_encrypted_and_is_not_shown_our_certificate() {
    let (certificate, ours) = (Certificate::new("localhost"), Certificate::new("client"));
    let ask = async |proxy: SocketAddr| {
        let mut settings = through(format!("https://me:pw@localhost:{}", proxy.port()));
        settings.ca_file = Some(certificate.certificate.clone());
        settings.client_certificate = Some(ClientCertificate::new(&ours.certificate, &ours.key));
        get(settings, "http://box.example/").await
    };
    let head = ask(server::secure(&certificate, None)).await.unwrap();
    assert!(
        head.starts_with("GET http://box.example/ HTTP/1.1\r\n"),
        "{head}"
    );
    assert!(
        head.contains("proxy-authorization: Basic bWU6cHc="),
        "{head}"
    );
    let words = ask(server::secure(&certificate, Some(&ours)))
        .await
        .unwrap_err();
    assert!(words.contains("CertificateRequired"), "{words}");
}
