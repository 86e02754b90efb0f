//! `fetch` against sites of all kinds, on loopback.

use std::{
    io::{Read, Write},
    sync::mpsc,
    time::Duration,
};

use crate::picture::png;
use crate::site::{Site, call, client, failure, loopback, send, text};
use flate2::{
    Compression,
    write::{DeflateEncoder, GzEncoder, ZlibEncoder},
};
use lmcp_core::{Handle, Limits, Server};
use lmcp_tools::{HostTools, Settings};
use lmcp_wire::Content;
use serde_json::json;

const PAGE: &str = include_str!("site/page.html");

#[tokio::test]
async fn a_page_comes_with_all_that_is_known_of_it() {
    let site = Site::of("text/html; charset=utf-8", PAGE);
    let client = client(loopback());
    let (result, value) = call(&client, "fetch", json!({ "url": site.url("/a?b=c#d") })).await;
    assert!(!result.is_error);
    assert_eq!(value["ok"], true);
    assert_eq!(value["status"], 200);
    assert_eq!(value["final_url"], site.url("/a?b=c"));
    assert_eq!(value["content_type"], "text/html; charset=utf-8");
    assert_eq!(value["bytes_read"], PAGE.len());
    assert_eq!(value["title"], "A page & its title");
    assert_eq!(value["truncated"], false);
    assert_eq!(value["cached"], false);
    assert_eq!(value["redirects"], json!([]));
    assert_eq!(value["total_bytes"], value["body"].as_str().unwrap().len());
    assert!(text(&result).contains(value["body"].as_str().unwrap()));
    let asked = &site.asked()[0];
    assert_eq!(asked.line, "GET /a?b=c");
    assert!(asked.head.contains("user-agent: lmcp-fetch/"));
    assert!(!asked.head.contains("cookie"));
}

#[tokio::test]
async fn of_a_title_and_a_type_without_end_only_the_beginning_is_kept() {
    let page = format!("<title>{}</title><p>words</p>", "ä b ".repeat(1 << 20));
    let kind = format!("text/html; charset=utf-8; x={}", "y".repeat(60_000));
    let site = Site::of(kind.leak(), page);
    let client = client(loopback());
    let arguments = json!({ "url": site.url("/"), "max_bytes": 256 });
    let (result, value) = call(&client, "fetch", arguments).await;
    let title = value["title"].as_str().unwrap();
    assert!(
        title.starts_with("ä b ä b") && title.len() <= 512,
        "{title}"
    );
    assert_eq!(value["body"], "words");
    assert!(text(&result).len() < 2000, "{}", text(&result).len());
    let agent = json!({ "url": site.url("/"), "user_agent": "x".repeat(513) });
    let (refused, _) = call(&client, "fetch", agent).await;
    assert!(refused.is_error && text(&refused).contains("user_agent"));
}

#[tokio::test]
async fn markdown_has_headings_links_lists_code_and_tables() {
    let site = Site::of("text/html", PAGE);
    let client = client(loopback());
    let url = site.url("/docs/guide");
    let (_, value) = call(
        &client,
        "fetch",
        json!({ "url": url, "render": "markdown" }),
    )
    .await;
    let expected =
        include_str!("site/page.md").replace("SITE", &format!("http://{}", site.address));
    assert_eq!(value["body"].as_str().unwrap(), expected.trim_end());
    assert_eq!(value["main_only"], true);
    assert!(site.asked()[0].head.contains("accept: text/markdown"));
}

#[tokio::test]
async fn plain_text_has_no_marks() {
    let site = Site::of("text/html", PAGE);
    let client = client(loopback());
    let (_, value) = call(&client, "fetch", json!({ "url": site.url("/") })).await;
    let body = value["body"].as_str().unwrap();
    assert!(body.starts_with("Heading one\n\n"), "{body}");
    assert!(body.contains("A link, bold and code"), "{body}");
    for junk in [
        "**",
        "](",
        "```",
        "navigate",
        "alert(1)",
        "hidden words",
        "color: red",
    ] {
        assert!(!body.contains(junk), "{junk} in {body}");
    }
}

#[tokio::test]
async fn html_comes_without_scripts_and_raw_as_it_is() {
    let site = Site::of("text/html", PAGE);
    let client = client(loopback());
    let (_, value) = call(
        &client,
        "fetch",
        json!({ "url": site.url("/"), "render": "html" }),
    )
    .await;
    let body = value["body"].as_str().unwrap();
    assert!(
        body.contains("<h1>Heading   one</h1>") && body.contains("<nav>"),
        "{body}"
    );
    for junk in ["alert(1)", "color: red", "onclick", "javascript:", "<!--"] {
        assert!(!body.contains(junk), "{junk} in {body}");
    }
    let (_, value) = call(
        &client,
        "fetch",
        json!({ "url": site.url("/"), "render": "raw" }),
    )
    .await;
    assert_eq!(value["body"], PAGE);
}

#[tokio::test]
async fn json_is_indented_with_its_order_kept() {
    let site = Site::of("application/json", r#"{"b":[1,2.50],"a":"x"}"#);
    let client = client(loopback());
    let (_, value) = call(&client, "fetch", json!({ "url": site.url("/") })).await;
    assert_eq!(
        value["body"],
        "{\n  \"b\": [\n    1,\n    2.50\n  ],\n  \"a\": \"x\"\n}"
    );
}

#[tokio::test]
async fn an_image_comes_as_one_whatever_it_is_called() {
    let client = client(loopback());
    for called in [
        "image/png",
        "image/jpeg",
        "text/html",
        "application/octet-stream",
    ] {
        let site = Site::of(called, png(3, 4, 60));
        let (result, value) = call(&client, "fetch", json!({ "url": site.url("/") })).await;
        let Content::Image(image) = &result.content[1] else {
            panic!("no image: {result:?}");
        };
        assert_eq!(
            (image.mime_type.as_str(), image.data.len()),
            ("image/png", 80)
        );
        assert_eq!(value["bytes_read"], 60);
    }
}

#[tokio::test]
async fn what_no_client_can_show_does_not_come_as_an_image() {
    let client = client(loopback());
    let site = Site::of("image/png", "<!doctype html><p>Please <b>log in</b>");
    let (result, value) = call(&client, "fetch", json!({ "url": site.url("/") })).await;
    assert_eq!(
        (result.content.len(), &value["body"]),
        (1, &json!("Please log in"))
    );
    for (bytes, words) in [
        (png(1, 1, 100)[..20].to_vec(), "(image/png, 20 bytes)"),
        (
            png(20_000, 2, 100),
            "(image/png, 100 bytes, 20000x2 pixels)",
        ),
        (png(2, 2, 5 << 20), "(image/png, 5242880 bytes, 2x2 pixels)"),
    ] {
        let site = Site::of("image/png", bytes);
        let text = failure(&client, "fetch", json!({ "url": site.url("/") })).await;
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[tokio::test]
async fn a_picture_that_is_too_large_is_refused() {
    let site = Site::of("image/png", vec![1; 3000]);
    let mut settings = loopback();
    settings.web.image_bytes = 2000;
    let text = failure(&client(settings), "fetch", json!({ "url": site.url("/") })).await;
    assert!(text.contains("image/png, 3000 bytes"), "{text}");
}

#[tokio::test]
async fn other_data_is_refused_with_its_type_and_size() {
    let client = client(loopback());
    let pdf = Site::of("application/pdf", vec![0; 4321]);
    let text = failure(&client, "fetch", json!({ "url": pdf.url("/x.pdf") })).await;
    assert!(text.contains("application/pdf, 4321 bytes"), "{text}");
    let disguised = Site::of("text/plain", vec![0; 10]);
    let text = failure(&client, "fetch", json!({ "url": disguised.url("/") })).await;
    assert!(text.contains("cannot be shown"), "{text}");
}

#[tokio::test]
async fn text_in_an_old_encoding_is_read() {
    let site = Site::of(
        "text/plain; charset=windows-1251",
        b"\xcf\xf0\xe8\xe2\xe5\xf2".to_vec(),
    );
    let (_, value) = call(
        &client(loopback()),
        "fetch",
        json!({ "url": site.url("/") }),
    )
    .await;
    assert_eq!(value["body"], "Привет");
}

#[tokio::test]
async fn an_error_of_the_site_is_one_with_the_beginning_of_its_body() {
    let site = Site::with(
        "404 Not Found",
        &[("Content-Type", "text/plain")],
        "no such thing",
    );
    let (result, value) = call(
        &client(loopback()),
        "fetch",
        json!({ "url": site.url("/x") }),
    )
    .await;
    assert!(result.is_error);
    assert_eq!(
        (&value["ok"], &value["status"]),
        (&json!(false), &json!(404))
    );
    assert_eq!(value["body"], "no such thing");
    assert!(text(&result).starts_with("404 "));
}

#[tokio::test]
async fn head_brings_the_headers_alone() {
    let site = Site::with(
        "200 OK",
        &[
            ("Content-Type", "application/pdf"),
            ("X-A", "b"),
            ("Set-Cookie", "s=1"),
        ],
        "",
    );
    let (_, value) = call(
        &client(loopback()),
        "fetch",
        json!({ "url": site.url("/x"), "method": "HEAD" }),
    )
    .await;
    assert_eq!(site.asked()[0].line, "HEAD /x");
    let body = value["body"].as_str().unwrap();
    assert!(
        body.contains("x-a: b\n") && !body.contains("cookie"),
        "{body}"
    );
}

#[tokio::test]
async fn arguments_are_checked() {
    let client = client(loopback());
    for arguments in [
        json!({}),
        json!({ "url": "http://a.example", "method": "POST" }),
        json!({ "url": "http://a.example", "render": "pdf" }),
        json!({ "url": "http://a.example", "timeout_s": 0 }),
        json!({ "url": "http://a.example", "max_bytes": 1 }),
        json!({ "url": "http://a.example", "headers": {} }),
        json!({ "url": "http://a.example", "user_agent": "a\nb" }),
    ] {
        let refused = match client.call_tool("fetch", arguments.clone()).await {
            Ok(result) => result.is_error,
            Err(_) => true,
        };
        assert!(refused, "{arguments}");
    }
}

#[tokio::test]
async fn compressed_bodies_are_read() {
    let whole = "words ".repeat(500);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(whole.as_bytes()).unwrap();
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
    zlib.write_all(whole.as_bytes()).unwrap();
    let mut raw = DeflateEncoder::new(Vec::new(), Compression::default());
    raw.write_all(whole.as_bytes()).unwrap();
    let client = client(loopback());
    for (coding, body) in [
        ("gzip", gzip.finish().unwrap()),
        ("deflate", zlib.finish().unwrap()),
        ("deflate", raw.finish().unwrap()),
    ] {
        let site = Site::new(move |_, stream| {
            send(
                stream,
                "200 OK",
                &[("Content-Type", "text/plain"), ("Content-Encoding", coding)],
                &body,
            );
        });
        let (_, value) = call(&client, "fetch", json!({ "url": site.url("/") })).await;
        assert_eq!(value["body"], whole);
    }
}

#[tokio::test]
async fn a_small_body_that_unpacks_to_a_huge_one_is_cut() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    for _ in 0..64 {
        gzip.write_all(&[b'a'; 1 << 20]).unwrap();
    }
    let site = Site::with(
        "200 OK",
        &[("Content-Type", "text/plain"), ("Content-Encoding", "gzip")],
        gzip.finish().unwrap(),
    );
    let mut settings = loopback();
    settings.web.page_bytes = 1 << 20;
    let (_, value) = call(&client(settings), "fetch", json!({ "url": site.url("/") })).await;
    assert_eq!(value["bytes_read"], 1 << 20);
    assert_eq!(
        (&value["incomplete"], &value["truncated"]),
        (
            &json!("the page is longer than this server reads"),
            &json!(true)
        )
    );
}

#[tokio::test]
async fn a_broken_body_is_an_error() {
    let client = client(loopback());
    let site = Site::with(
        "200 OK",
        &[("Content-Type", "text/plain"), ("Content-Encoding", "gzip")],
        "not gzip at all",
    );
    let text = failure(&client, "fetch", json!({ "url": site.url("/") })).await;
    assert!(text.contains("compressed body"), "{text}");
    let site = Site::with(
        "200 OK",
        &[("Content-Type", "text/plain"), ("Content-Encoding", "br")],
        "x",
    );
    let text = failure(&client, "fetch", json!({ "url": site.url("/") })).await;
    assert!(text.contains("`br`"), "{text}");
    let site = Site::new(|_, stream| {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
            .unwrap()
    });
    let text = failure(&client, "fetch", json!({ "url": site.url("/") })).await;
    assert!(text.contains("ended after 0 bytes"), "{text}");
    let site = Site::new(|_, stream| stream.write_all(b"220 mail.example ESMTP\r\n").unwrap());
    let text = failure(&client, "fetch", json!({ "url": site.url("/") })).await;
    assert!(text.contains("no valid answer"), "{text}");
}

#[tokio::test]
async fn an_endless_body_is_cut_and_its_connection_dropped() {
    let (gone, is_gone) = mpsc::channel();
    let site = Site::new(move |_, stream| {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
            .unwrap();
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
        gone.send(()).unwrap();
    });
    let mut settings = loopback();
    settings.web.page_bytes = 100_000;
    let (_, value) = call(&client(settings), "fetch", json!({ "url": site.url("/") })).await;
    assert_eq!(value["bytes_read"], 100_000);
    assert!(value["incomplete"].is_string());
    is_gone.recv_timeout(Duration::from_secs(30)).unwrap();
}

/// A page without an end, on a server with little memory.
fn endless(head: &'static str, body: Vec<u8>) -> (Site, Handle) {
    let site = Site::new(move |_, stream| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n{head}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        while stream.write_all(&body).is_ok() {}
    });
    let mut limits = Limits::default();
    limits.memory_bytes = 3 * 1024 * 1024;
    let tools = HostTools::new(loopback()).unwrap();
    let server = tools.add_to(Server::new("t", "0").limits(limits));
    (site, server.start().unwrap())
}

#[tokio::test]
async fn pages_together_are_no_longer_than_the_budget_of_memory() {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&vec![b'x'; 64 * 1024 * 1024]).unwrap();
    let packed = packed.finish().unwrap();
    for (head, body) in [
        ("", vec![b'x'; 4096]),
        ("Content-Encoding: gzip\r\n", packed),
    ] {
        let (site, server) = endless(head, body);
        let mut fetching = tokio::task::JoinSet::new();
        for page in 0..20 {
            let (client, url) = (server.client(), site.url(&format!("/{page}")));
            fetching.spawn(async move { client.call_tool("fetch", json!({ "url": url })).await });
        }
        let mut read = 0;
        for result in fetching.join_all().await {
            // One that found no room at all is told to come back.
            let value = match result {
                Ok(result) => result.structured_content.unwrap(),
                Err(err) => {
                    assert!(err.to_string().contains("budget"), "{err}");
                    continue;
                }
            };
            assert!(
                value["incomplete"].as_str().unwrap().contains("budget"),
                "{value}"
            );
            read = read.max(value["bytes_read"].as_u64().unwrap());
        }
        // A caller may hold two thirds of it, and a page takes its length twice.
        assert!((1..=1024 * 1024).contains(&read), "{read}");
        let small = Site::of("text/plain", "small");
        let args = json!({ "url": small.url("/") });
        let (_, value) = call(&server.client(), "fetch", args).await;
        assert_eq!(value["body"], "small");
    }
}

#[tokio::test]
async fn what_came_before_the_time_limit_or_the_end_of_the_connection_is_kept() {
    let client = client(loopback());
    let site = Site::new(|_, stream| {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nabc")
            .unwrap();
        // Until the other side hangs up.
        let _ = stream.read(&mut [0]);
    });
    let late = json!({ "url": site.url("/"), "timeout_s": 1 });
    let (result, value) = call(&client, "fetch", late).await;
    assert!(!result.is_error);
    assert_eq!(
        (&value["status"], &value["body"]),
        (&json!(200), &json!("abc"))
    );
    let why = value["incomplete"].as_str().unwrap();
    assert!(
        why.contains("timed out after 1 s, 3 bytes into the body"),
        "{why}"
    );
    assert!(text(&result).contains(why));

    let mut gzip = GzEncoder::new(Vec::new(), Compression::none());
    gzip.write_all(&[b'x'; 50_000]).unwrap();
    let packed = gzip.finish().unwrap();
    for (coding, body) in [
        ("identity", vec![b'x'; 40_000]),
        ("gzip", packed[..40_000].to_vec()),
    ] {
        let site = Site::new(move |_, stream| {
            let head = format!(
                "HTTP/1.1 500 No\r\nContent-Length: 90000\r\nContent-Type: text/html\r\nContent-Encoding: {coding}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&body).unwrap();
        });
        let (result, value) = call(&client, "fetch", json!({ "url": site.url("/") })).await;
        assert!(result.is_error);
        assert_eq!(
            (&value["status"], &value["truncated"]),
            (&json!(500), &json!(true))
        );
        assert!(
            value["total_bytes"].as_u64().unwrap() > 30_000,
            "{coding}: {value}"
        );
        let why = value["incomplete"].as_str().unwrap();
        assert!(why.contains("ended after 40000 bytes"), "{why}");
    }
}

#[tokio::test]
async fn a_stray_zero_makes_no_page_binary() {
    let site = Site::of("text/html", "<p>some\0thing</p>");
    let client = client(loopback());
    let (_, value) = call(&client, "fetch", json!({ "url": site.url("/") })).await;
    assert_eq!(value["body"], "some\u{fffd}thing");
}

#[tokio::test]
async fn a_site_that_says_nothing_is_ended_by_the_time_limit() {
    let site = Site::new(|_, stream| drop(stream.read(&mut [0])));
    let text = failure(
        &client(loopback()),
        "fetch",
        json!({ "url": site.url("/"), "timeout_s": 1 }),
    )
    .await;
    assert!(
        text.contains("timed out after 1 s, waiting for the answer"),
        "{text}"
    );
}

#[tokio::test]
async fn a_cancelled_call_hangs_up() {
    let (say, hear) = mpsc::channel();
    let site = Site::new(move |_, stream| {
        say.send("asked").unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
        say.send("hung up").unwrap();
    });
    let client = client(loopback());
    let mut calling = client.start_tool("fetch", json!({ "url": site.url("/") }));
    let hear =
        std::thread::spawn(move || (hear.recv_timeout(Duration::from_secs(30)).unwrap(), hear));
    let asked = tokio::task::spawn_blocking(move || hear.join().unwrap());
    let (asked, hear) = tokio::select! {
        asked = asked => asked.unwrap(),
        _ = calling.next() => panic!("answered"),
    };
    assert_eq!(asked, "asked");
    drop(calling);
    assert_eq!(
        hear.recv_timeout(Duration::from_secs(30)).unwrap(),
        "hung up"
    );
}

#[tokio::test]
async fn nobody_there_and_no_such_host_are_told_apart() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let client = client(loopback());
    let text = failure(
        &client,
        "fetch",
        json!({ "url": format!("http://127.0.0.1:{port}/") }),
    )
    .await;
    assert!(text.contains("cannot connect to"), "{text}");
    let text = failure(
        &client,
        "fetch",
        json!({ "url": "http://no-such-host.invalid/" }),
    )
    .await;
    assert!(text.contains("(DNS)"), "{text}");
    let hint = "hint: check the host name, and whether this machine is online";
    assert!(text.contains(hint), "{text}");
}

#[tokio::test]
async fn the_hints_say_that_nothing_changes_and_that_it_leaves_the_host() {
    let client = client(Settings::default());
    let list = client.request("tools/list", json!({})).await.unwrap();
    for name in ["fetch", "web_search"] {
        let tool = list["tools"]
            .as_array()
            .unwrap()
            .iter()
            .find(|tool| tool["name"] == name)
            .unwrap();
        let expected = json!({ "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": true });
        for (hint, value) in expected.as_object().unwrap() {
            assert_eq!(&tool["annotations"][hint], value, "{name} {hint}");
        }
        assert!(
            tool["description"]
                .as_str()
                .unwrap()
                .split_whitespace()
                .count()
                < 40
        );
        assert!(tool["outputSchema"].is_object());
    }
}
