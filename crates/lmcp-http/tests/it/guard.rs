//! Who may: `Host`, `Origin` and the address that is listened on.

use std::{net::SocketAddr, os::unix::process::CommandExt as _, process::Command};

use lmcp_http::Http;
use serde_json::Value;

use crate::support::{Post, call, serve, serve_as, server, soon};

const VERBS: [&str; 7] = ["POST", "GET", "DELETE", "OPTIONS", "PUT", "PATCH", "HEAD"];

/// Somebody who is neither root nor us.
const NOBODY: u32 = 65_534;

#[tokio::test]
async fn a_foreign_host_is_refused_for_every_verb_from_the_first_request() {
    for verb in VERBS {
        let running = serve(server()).await;
        let port = running.address.port();
        let post = call("quick").verb(verb);
        for host in [
            "evil.example",
            &format!("evil.example:{port}"),
            "localhost.evil.example",
            "127.0.0.1.evil.example:1",
        ] {
            let answer = running.ask(&post.clone().with("host", host)).await;
            assert_eq!(answer.head.status, 403, "{verb} {host}");
            if verb != "HEAD" {
                let words = words(&answer.json());
                assert!(words.contains(&format!("`Host: {host}`")), "{words}");
                assert!(
                    words.contains(&format!("allow_host(\"{host}\")")),
                    "{words}"
                );
                assert!(words.contains(&format!("--allow-host {host}")), "{words}");
            }
        }
    }
}

#[tokio::test]
async fn a_foreign_origin_is_refused_for_every_verb_from_the_first_request() {
    for verb in VERBS {
        let running = serve(server()).await;
        let port = running.address.port();
        let post = call("quick").verb(verb);
        for origin in [
            "https://evil.example",
            "null",
            "http://localhost:1",
            &format!("https://localhost:{port}"),
            &format!("http://localhost:{port}.evil.example"),
        ] {
            let answer = running.ask(&post.clone().with("origin", origin)).await;
            assert_eq!(answer.head.status, 403, "{verb} {origin}");
            assert_eq!(answer.head.get("access-control-allow-origin"), None);
            if verb != "HEAD" {
                let words = words(&answer.json());
                assert!(words.contains(&format!("`Origin: {origin}`")), "{words}");
                assert!(
                    words.contains(&format!("allow_origin(\"{origin}\")")),
                    "{words}"
                );
                assert!(
                    words.contains(&format!("--allow-origin {origin}")),
                    "{words}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_refusal_has_no_id_and_leaves_the_connection() {
    let running = serve(server()).await;
    let mut connection = running.connect().await;
    let refusal = connection.ask(&call("quick").with("origin", "null")).await;
    assert_eq!(refusal.json().get("id"), None);
    assert_eq!(refusal.json()["error"]["code"], -32600);
    assert_eq!(connection.ask(&call("quick")).await.head.status, 200);
}

#[tokio::test]
async fn the_names_of_this_machine_are_known() {
    let running = serve(server()).await;
    let port = running.address.port();
    for name in ["localhost", "LocalHost", "127.0.0.1", "[::1]"] {
        let host = format!("{name}:{port}");
        let post = call("quick").with("host", &host);
        assert_eq!(running.ask(&post).await.head.status, 200, "{host}");
        let post = post.with("origin", &format!("http://{host}"));
        let answer = running.ask(&post).await;
        assert_eq!(answer.head.status, 200, "{host}");
        let allowed = answer.head.get("access-control-allow-origin");
        assert_eq!(allowed, Some(&*format!("http://{host}")));
    }
}

/// A tunnel, as of `ssh -L` or `docker -p`, has a port of its own; a page that is served there is no page of ours.
#[tokio::test]
async fn a_loopback_name_is_good_with_any_port_and_a_page_is_not() {
    let running = serve(server()).await;
    let other = running.address.port() ^ 1;
    for name in ["localhost", "LocalHost", "127.0.0.1", "[::1]"] {
        for host in [name.to_owned(), format!("{name}:{other}")] {
            let post = call("quick").with("host", &host);
            assert_eq!(running.ask(&post).await.head.status, 200, "{host}");
            let post = post.with("origin", &format!("http://{host}"));
            assert_eq!(running.ask(&post).await.head.status, 403, "{host}");
        }
    }
}

#[tokio::test]
async fn a_request_without_a_host_is_refused() {
    let running = serve(server()).await;
    let mut connection = running.connect().await;
    connection
        .write(b"POST /mcp HTTP/1.0\r\ncontent-length: 0\r\n\r\n")
        .await;
    assert_eq!(connection.head().await.status, 403);
}

#[tokio::test]
async fn what_is_allowed_passes() {
    let running = serve_as(server(), |http| {
        http.allow_host("tools.example")
            .allow_origin("https://app.example")
    })
    .await;
    for (host, origin, status) in [
        ("tools.example", None, 200),
        ("TOOLS.example", Some("https://app.example"), 200),
        ("tools.example", Some("https://other.example"), 403),
        ("tools.example:81", None, 403),
        ("other.example", Some("https://app.example"), 403),
    ] {
        let mut post = call("quick").with("host", host);
        if let Some(origin) = origin {
            post = post.with("origin", origin);
        }
        assert_eq!(
            running.ask(&post).await.head.status,
            status,
            "{host} {origin:?}"
        );
    }
}

#[tokio::test]
async fn a_browser_of_an_allowed_page_is_told_what_it_may_send() {
    let running = serve_as(server(), |http| http.allow_origin("https://app.example")).await;
    let preflight: Post = call("quick")
        .verb("OPTIONS")
        .with("origin", "https://app.example")
        .with("access-control-request-method", "POST");
    let answer = running.ask(&preflight).await;
    assert_eq!(answer.head.status, 204);
    let allowed = answer.head.get("access-control-allow-methods");
    assert_eq!(allowed, Some("POST, GET, DELETE"));
    let allowed = answer.head.get("access-control-allow-origin");
    assert_eq!(allowed, Some("https://app.example"));
}

#[tokio::test]
async fn an_address_that_others_reach_must_be_allowed() {
    let open = async || lmcp_http::bind("0.0.0.0:0").await.unwrap();
    let error = server().serve(open().await).await.unwrap_err();
    assert!(error.is_config());
    assert!(error.to_string().contains("allow_remote"), "{error}");
    let allowed = open().await.allow_remote().until(async {});
    server().serve(allowed).await.unwrap();
}

// D15
#[tokio::test]
#[expect(clippy::print_stderr, reason = "says what was not tested")]
async fn another_user_is_not_served_until_the_program_says_so() {
    type Way = fn(Http) -> Http;
    if !rustix::process::geteuid().is_root() {
        eprintln!("note: only root can act as several users, so this is not tested");
        return;
    }
    let ways: [(&str, Way); 4] = [
        ("403", |http| http),
        ("405", Http::any_local_user),
        ("405", Http::allow_remote),
        ("405", |http| http.identify(|_| Ok(None))),
    ];
    for (number, (status, way)) in ways.into_iter().enumerate() {
        let running = serve_as(server(), way).await;
        let heard = soon(ask_as_nobody(running.address)).await;
        assert_eq!(heard, status, "way {number}");
    }
}

/// The status that a process of another user is answered with. Bash can ask without another program.
async fn ask_as_nobody(address: SocketAddr) -> String {
    let (ip, port) = (address.ip(), address.port());
    let request = format!("GET /mcp HTTP/1.1\\r\\nhost: {address}\\r\\n\\r\\n");
    let script = format!(
        "exec 3<>/dev/tcp/{ip}/{port}; printf '{request}' >&3; read -r _ status _ <&3; echo $status"
    );
    let asking = tokio::task::spawn_blocking(move || {
        let mut bash = Command::new("bash");
        bash.args(["-c", &script]).current_dir("/");
        bash.uid(NOBODY).gid(NOBODY).output()
    });
    let output = asking.await.expect("it ends").expect("there is a bash");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[tokio::test]
async fn a_port_in_use_is_told() {
    let running = serve(server()).await;
    let error = lmcp_http::bind(running.address).await.unwrap_err();
    assert!(error.is_io());
}

fn words(answer: &Value) -> String {
    let words = answer["error"]["message"].as_str();
    words.expect("a refusal has words").to_owned()
}
