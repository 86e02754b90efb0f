//! What a hub adds to the URIs of an answer is bounded, and counts as memory of the caller before it is made.

use lmcp_core::{
    Caller, CallerTransport, Endpoint, Handle, Limits, Messages, Replies, Request, Service, Terms,
    admit, bytes::Bytes,
};
use lmcp_hub::Hub;
use lmcp_wire::{Incoming, meta};
use serde_json::{Value, json, value::RawValue};

use crate::notes;

/// A name of the greatest length that most people would give: each URI gets it in front.
const NAME: &str = "abcdefghijklmnopqrstuvwxyzabcd";

/// A server whose resources have very many parts, each with a URI of one letter.
struct Parts {
    inner: Handle,
    parts: usize,
}

impl Service for Parts {
    fn call(&self, request: Request) -> Replies {
        match request.method() {
            "resources/read" => {
                let parts = vec![r#"{"uri":"a"}"#; self.parts].join(",");
                let text = format!(r#"{{"contents":[{parts}]}}"#);
                Replies::done(RawValue::from_string(text).expect("it is JSON"))
            }
            _ => self.inner.call(request),
        }
    }
}

/// Returns a hub over a server with so many parts, within this budget.
fn hub(parts: usize, memory_bytes: usize) -> Endpoint {
    let mut few = Limits::default();
    few.memory_bytes = memory_bytes;
    let hub = Hub::new("hub", "1");
    let inner = notes();
    hub.mount(NAME, Parts { inner, parts });
    Endpoint::on_terms(hub, Terms::default().limits(few))
}

fn read(endpoint: &Endpoint, name: &str) -> Messages {
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": { "uri": format!("{NAME}+a"),
        "_meta": { meta::PROTOCOL_VERSION: "2026-07-28", meta::CLIENT_CAPABILITIES: {},
            meta::CLIENT_INFO: { "name": "x", "version": "1" } } } });
    let message = Bytes::from(message.to_string());
    let Ok(Incoming::Request { id, method, params }) = Incoming::parse(&message) else {
        panic!("it is a request");
    };
    let caller = Caller::new(CallerTransport::Memory).known_as(name);
    endpoint.start(admit(&message, id, &method, params, caller, None).expect("it is valid"))
}

fn parsed(json: &[u8]) -> Value {
    serde_json::from_slice(json).expect("it is JSON")
}

#[tokio::test]
async fn what_marks_add_counts_before_it_is_made() {
    // 0.2 MB become 0.9 MB, beside the scan or in a thread of its own.
    for parts in [5_000, 20_000, 40_000] {
        let endpoint = hub(parts, 1 << 20);
        let mut unread = Vec::new();
        for caller in 0..12 {
            let name = format!("caller{}", caller % 5);
            unread.push(read(&endpoint, &name).response().await.unwrap());
            let (used, total) = (endpoint.budget().used(), endpoint.budget().total());
            assert!(used <= total, "{parts}: {used} of {total}");
        }
        let last = parsed(unread.last().unwrap().json());
        assert_eq!(last["error"]["data"]["limit"], "memory_bytes", "{parts}");
        drop(unread);
        assert_eq!(endpoint.budget().used(), 0, "{parts}");
    }
}

#[tokio::test]
async fn an_answer_with_marks_that_fits_is_passed_on() {
    let endpoint = hub(40_000, 64 << 20);
    let answer = read(&endpoint, "ann").response().await.unwrap();
    let answer = parsed(answer.json());
    let parts = answer["result"]["contents"].as_array().unwrap();
    assert_eq!(parts.len(), 40_000);
    assert!(parts.iter().all(|part| part["uri"] == format!("{NAME}+a")));
}

#[tokio::test]
async fn an_answer_of_very_many_uris_is_refused_in_words() {
    let endpoint = hub(60_000, 64 << 20);
    let answer = read(&endpoint, "ann").response().await.unwrap();
    let answer = parsed(answer.json());
    let error = &answer["error"];
    assert_eq!(error["data"]["limit"], "marks", "{error}");
    let words = error["message"].as_str().unwrap();
    assert!(words.contains("URIs"), "{words}");
    assert_eq!(endpoint.budget().used(), 0);
}
