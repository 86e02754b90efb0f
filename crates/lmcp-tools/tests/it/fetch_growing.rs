//! Pages that grow when they are decoded: one byte of theirs becomes three of UTF-8.

use crate::site::{Site, call, loopback};
use lmcp_core::{Handle, Limits, Server};
use lmcp_tools::HostTools;
use serde_json::json;

const MIB: u64 = 1024 * 1024;

fn serve(memory: u64) -> Handle {
    let mut limits = Limits::default();
    limits.memory_bytes = usize::try_from(memory).unwrap();
    let tools = HostTools::new(loopback()).unwrap();
    let server = tools.add_to(Server::new("t", "0").limits(limits));
    server.start().unwrap()
}

/// What is made of a text takes four times its length. The body fits the budget, and the text does not.
#[tokio::test]
async fn a_text_that_outgrows_its_page_is_cut_where_the_budget_ends() {
    for (content_type, byte) in [
        ("text/html; charset=windows-1252", 0x80),
        ("text/html; charset=utf-8", 0xff),
    ] {
        let site = Site::of(content_type, vec![byte; 600_000]);
        let server = serve(6 * MIB);
        let args = json!({ "url": site.url("/") });
        let (_, value) = call(&server.client(), "fetch", args).await;
        assert_eq!(value["bytes_read"], 600_000);
        let why = value["incomplete"].as_str().unwrap_or_default();
        assert!(why.contains("budget"), "{content_type}: {why:?}");
        let length = value["total_bytes"].as_u64().unwrap();
        assert!((1..=6 * MIB / 4).contains(&length), "{length}");
    }
}

#[tokio::test]
async fn a_text_that_fits_the_budget_is_whole_however_it_grew() {
    let site = Site::of("text/html; charset=windows-1252", vec![0x80; 200_000]);
    let server = serve(64 * MIB);
    let args = json!({ "url": site.url("/") });
    let (_, value) = call(&server.client(), "fetch", args).await;
    assert!(value["incomplete"].is_null());
    assert_eq!(value["total_bytes"], 600_000);
}
