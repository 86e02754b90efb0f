//! `fetch` in parts: they belong together, or it says that they do not.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::site::{Site, call, client, loopback, send, text};
use lmcp_core::{Caller, CallerTransport};
use lmcp_tools::Settings;
use serde_json::{Value, json};

fn long_text() -> String {
    (0..4000)
        .map(|line| format!("line {line}: \"quoted\" ünï\n"))
        .collect()
}

/// All parts of a page, read to the end.
async fn parts(client: &lmcp_core::Client, url: &str, max_bytes: usize) -> Vec<Value> {
    let mut start = json!(0);
    let mut parts = Vec::new();
    while !start.is_null() {
        let arguments = json!({ "url": url, "max_bytes": max_bytes, "start": start });
        let (_, value) = call(client, "fetch", arguments).await;
        start = value["next_start"].clone();
        parts.push(value);
    }
    parts
}

#[tokio::test]
async fn the_parts_together_are_the_whole_from_one_download() {
    let whole = long_text();
    let site = Site::of("text/plain; charset=utf-8", whole.as_str());
    let client = client(loopback());
    for max_bytes in [1000, 65536] {
        let parts = parts(&client, &site.url(&format!("/{max_bytes}")), max_bytes).await;
        let bodies: String = parts
            .iter()
            .map(|part| part["body"].as_str().unwrap())
            .collect();
        assert_eq!(bodies, whole);
        assert!(parts.len() > 3 && parts.iter().all(|part| part["total_bytes"] == whole.len()));
        assert!(
            parts[1..]
                .iter()
                .all(|part| part["cached"] == true && part["continuity"] == "same")
        );
    }
    assert_eq!(site.asked().len(), 2);
}

#[tokio::test]
async fn one_long_line_is_read_in_parts_too() {
    let whole = "é".repeat(40_000);
    let site = Site::of("text/plain; charset=utf-8", whole.as_str());
    let parts = parts(&client(loopback()), &site.url("/"), 65536).await;
    let bodies: String = parts
        .iter()
        .map(|part| part["body"].as_str().unwrap())
        .collect();
    assert_eq!(bodies, whole);
}

/// A page with another text each time, and room for one of them only.
fn changing() -> (Site, Settings) {
    let count = Arc::new(AtomicUsize::new(0));
    let site = Site::new(move |asked, stream| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let number = if asked.line.contains("same") {
            0
        } else {
            number
        };
        send(
            stream,
            "200 OK",
            &[("Content-Type", "text/plain")],
            format!("{number}\n").repeat(4000).as_bytes(),
        );
    });
    let mut settings = loopback();
    settings.web.cache_bytes = 10_000;
    (site, settings)
}

#[tokio::test]
async fn a_page_that_changed_between_two_parts_says_so() {
    let (site, settings) = changing();
    let client = client(settings);
    let part = |path: &str, start: usize| json!({ "url": site.url(path), "max_bytes": 1000, "start": start });
    call(&client, "fetch", part("/a", 0)).await;
    call(&client, "fetch", part("/same", 0)).await;
    let (result, value) = call(&client, "fetch", part("/a", 500)).await;
    assert_eq!(
        (&value["cached"], &value["continuity"]),
        (&json!(false), &json!("changed"))
    );
    assert!(text(&result).contains("begin again with start 0"));
    let (_, value) = call(&client, "fetch", part("/same", 500)).await;
    assert_eq!(
        (&value["cached"], &value["continuity"]),
        (&json!(false), &json!("same"))
    );
    let (_, value) = call(&client, "fetch", part("/new", 500)).await;
    assert_eq!(
        (&value["cached"], &value["continuity"]),
        (&json!(false), &json!("unknown"))
    );
}

#[tokio::test]
async fn what_one_caller_fetched_is_not_served_to_another() {
    let site = Site::of("text/plain; charset=utf-8", long_text());
    let client = client(loopback());
    let as_somebody = |name: &str| {
        client
            .clone()
            .caller(Caller::new(CallerTransport::Memory).known_as(name))
    };
    call(
        &as_somebody("ann"),
        "fetch",
        json!({ "url": site.url("/"), "max_bytes": 1000 }),
    )
    .await;
    let next = json!({ "url": site.url("/"), "max_bytes": 1000, "start": 500 });
    let (_, value) = call(&as_somebody("bob"), "fetch", next.clone()).await;
    assert_eq!(value["cached"], false);
    let (_, value) = call(&as_somebody("ann"), "fetch", next).await;
    assert_eq!(value["cached"], true);
}

#[tokio::test]
async fn the_first_part_is_always_fetched_anew() {
    let (site, _) = changing();
    let client = client(loopback());
    for number in ["0", "1"] {
        let (_, value) = call(
            &client,
            "fetch",
            json!({ "url": site.url("/"), "max_bytes": 256 }),
        )
        .await;
        assert!(value["body"].as_str().unwrap().starts_with(number));
    }
}
