//! `fetch` of compressed pages that take long to decode.

use crate::site::{Site, client, failure, loopback};
use flate2::{Compression, write::GzEncoder};
use serde_json::json;

#[tokio::test]
async fn a_body_of_many_empty_parts_is_not_decoded_to_its_end() {
    let empty = GzEncoder::new(Vec::new(), Compression::best());
    let site = Site::with(
        "200 OK",
        &[("Content-Type", "text/plain"), ("Content-Encoding", "gzip")],
        empty.finish().unwrap().repeat(10_000),
    );
    let url = site.url("/");
    let text = failure(&client(loopback()), "fetch", json!({ "url": url })).await;
    assert!(text.contains("65536 bytes more than its content"), "{text}");
}
