//! Where `fetch` does not go, and how far it follows.

use crate::site::{Site, call, client, failure, loopback, send};
use lmcp_tools::Settings;
use serde_json::json;

#[tokio::test]
async fn only_addresses_of_the_web_are_fetched() {
    let client = client(loopback());
    for (url, words) in [
        ("file:///etc/passwd", "scheme `file`"),
        ("ftp://a.example/", "scheme `ftp`"),
        ("gopher://127.0.0.1:25/", "scheme `gopher`"),
        ("/etc/passwd", "not a whole address"),
        ("http://bücher.example/", "Punycode"),
        ("http://a b.example/", "no valid host"),
        ("http://a.example:99999/", "no valid port"),
        ("http://[::1/", "no valid host"),
    ] {
        let text = failure(&client, "fetch", json!({ "url": url })).await;
        assert!(text.contains(words), "{url}: {text}");
    }
    let text = failure(
        &client,
        "fetch",
        json!({ "url": "http://me:hunter2@127.0.0.1/" }),
    )
    .await;
    assert!(
        text.contains("password") && !text.contains("hunter2"),
        "{text}"
    );
}

#[tokio::test]
async fn what_is_not_the_public_internet_is_refused_however_it_is_written() {
    let client = client(Settings::default());
    for url in [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://017700000001/",
        "http://0177.0.0.1/",
        "http://127.0.0.1./",
        "http://%31%32%37.0.0.1/",
        "http://LOCALHOST/",
        "http://0.0.0.0/",
        "http://0/",
        "http://[::]/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[::127.0.0.1]/",
        "http://[64:ff9b::127.0.0.1]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[2002:7f00:1::]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://2852039166/",
        "http://[fd00:ec2::254]/",
        "http://[fe80::1]/",
        "http://10.0.0.1/",
        "http://172.16.0.1/",
        "http://192.168.0.1/",
        "http://100.64.0.1/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "http://192.0.2.1/",
        "http://198.18.0.1/",
        "https://127.0.0.1/",
        "http:\\\\127.0.0.1\\",
    ] {
        let text = failure(&client, "fetch", json!({ "url": url })).await;
        assert!(text.contains("may not reach"), "{url}: {text}");
        assert!(
            text.contains("the operator can allow it with `--fetch-allow ")
                && text.contains("where commands may run, `curl` in `shell` reaches it"),
            "{url}: {text}"
        );
    }
}

#[tokio::test]
async fn a_refused_address_is_never_connected_to() {
    let site = Site::of("text/plain", "secret");
    let port = site.address.port();
    let mut settings = Settings::default();
    settings.web.allow = vec![
        format!("127.0.0.1:{}", port ^ 1).parse().unwrap(),
        "10.0.0.0/8".parse().unwrap(),
    ];
    let client = client(settings);
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
        let text = failure(
            &client,
            "fetch",
            json!({ "url": format!("http://{host}:{port}/") }),
        )
        .await;
        assert!(text.contains("may not reach"), "{text}");
    }
    assert!(site.asked().is_empty());
}

#[tokio::test]
async fn the_operator_can_allow_a_host_by_name() {
    let site = Site::of("text/plain", "hello");
    let port = site.address.port();
    let mut settings = Settings::default();
    settings.web.allow = vec![format!("localhost:{port}").parse().unwrap()];
    let client = client(settings);
    let (_, value) = call(
        &client,
        "fetch",
        json!({ "url": format!("http://localhost:{port}/") }),
    )
    .await;
    assert_eq!(value["body"], "hello");
    failure(&client, "fetch", json!({ "url": site.url("/") })).await;
}

#[tokio::test]
async fn a_redirect_is_checked_like_the_address_it_came_from() {
    let inner = Site::of("text/plain", "secret");
    let target = inner.url("/");
    let outer =
        Site::new(move |_, stream| send(stream, "302 Found", &[("Location", &target)], b""));
    let mut settings = Settings::default();
    settings.web.allow = vec![outer.address.to_string().parse().unwrap()];
    let text = failure(&client(settings), "fetch", json!({ "url": outer.url("/") })).await;
    assert!(text.contains("127.0.0.1 is a loopback address"), "{text}");
    let way = format!("redirected from {} to {}", outer.url("/"), inner.url("/"));
    assert!(text.contains(&way), "{text}");
    assert!(text.contains("\nhint: the operator can allow it"), "{text}");
    assert!(inner.asked().is_empty());
}

#[tokio::test]
async fn a_redirect_to_another_scheme_is_refused() {
    let site = Site::with("302 Found", &[("Location", "file:///etc/passwd")], "");
    let text = failure(
        &client(loopback()),
        "fetch",
        json!({ "url": site.url("/") }),
    )
    .await;
    assert!(text.contains("scheme `file`"), "{text}");
    let way = format!("redirected from {} to file:///etc/passwd", site.url("/"));
    assert!(text.contains(&way), "{text}");
}

/// Redirects from /5 to /4 and so on; what it says at /0 is the end.
fn stairs() -> Site {
    Site::new(|asked, stream| {
        let step: u32 = asked.line.rsplit('/').next().unwrap().parse().unwrap();
        match step {
            0 => send(
                stream,
                "200 OK",
                &[("Content-Type", "text/plain")],
                b"ground",
            ),
            _ => send(
                stream,
                "301 Moved",
                &[("Location", &format!("./{}", step - 1))],
                b"up",
            ),
        }
    })
}

#[tokio::test]
async fn five_redirects_are_followed_and_listed() {
    let site = stairs();
    let (_, value) = call(
        &client(loopback()),
        "fetch",
        json!({ "url": site.url("/5") }),
    )
    .await;
    assert_eq!(value["body"], "ground");
    assert_eq!(value["final_url"], site.url("/0"));
    let redirects = value["redirects"].as_array().unwrap();
    assert_eq!(redirects.len(), 5);
    assert_eq!(
        redirects[0],
        json!({ "status": 301, "url": site.url("/4") })
    );
}

#[tokio::test]
async fn six_redirects_are_too_many() {
    let site = stairs();
    let text = failure(
        &client(loopback()),
        "fetch",
        json!({ "url": site.url("/6") }),
    )
    .await;
    assert!(text.contains("more than 5 redirects"), "{text}");
    assert_eq!(site.asked().len(), 6);
}
