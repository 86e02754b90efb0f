//! Servers that are dead, hang or lie do not disturb other servers.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use lmcp_core::{Endpoint, Handle, Replies, Request, Service};
use lmcp_hub::{Hub, ServerState};
use lmcp_wire::RpcError;
use serde_json::json;

use crate::{hub, notes};

/// A server with one fault.
pub(crate) struct Faulty {
    inner: Handle,
    fault: Fault,
    calls: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    /// No request is answered.
    Hangs,
    /// The server cannot be reached.
    Dead,
    /// Only calls are not answered.
    HangsInCalls,
    /// Its lists are not lists.
    Lies,
    /// Its tools have members twice.
    Repeats,
    /// It has a tool with a schema of 128 KiB.
    Long,
    /// Its list has pages of a megabyte without end.
    Endless,
    /// It answers calls with a very large number of links.
    Links,
}

impl Service for Faulty {
    fn call(&self, request: Request) -> Replies {
        let is_call = request.method() == "tools/call";
        match self.fault {
            Fault::Hangs => Replies::later(pending()),
            Fault::HangsInCalls if is_call => Replies::later(pending()),
            Fault::Lies if request.method() == "tools/list" => {
                let text = r#"{"tools":{"not":"a list"}}"#.to_owned();
                Replies::done(serde_json::value::RawValue::from_string(text).expect("it is JSON"))
            }
            Fault::Repeats if request.method() == "tools/list" => {
                let text = r#"{"tools":[{"name":"a","description":"x","description":"y"},{"name":"b","name":"good__count"},
                    {"name":"c","inputSchema":{"type":"object"}}]}"#;
                Replies::done(
                    serde_json::value::RawValue::from_string(text.to_owned()).expect("it is JSON"),
                )
            }
            Fault::Links if is_call => {
                let links = vec![r#"{"type":"resource_link","uri":"a:b","name":"n"}"#; 20_000];
                let text = format!(r#"{{"content":[{}]}}"#, links.join(","));
                Replies::done(serde_json::value::RawValue::from_string(text).expect("it is JSON"))
            }
            Fault::Long if request.method() == "tools/list" => {
                let schema = json!({ "type": "object", "enum": vec![0; 64 << 10] });
                let tools = [
                    json!({ "name": "a", "inputSchema": schema }),
                    json!({ "name": "b" }),
                ];
                let page = json!({ "tools": tools });
                Replies::done(serde_json::value::to_raw_value(&page).expect("it is JSON"))
            }
            Fault::Endless if request.method() == "tools/list" => {
                let page = self.calls.fetch_add(1, Ordering::Relaxed);
                let about = "d".repeat(60 << 10);
                let tool = |n| json!({ "name": format!("t{page}_{n}"), "description": about });
                let tools: Vec<_> = (0..18).map(tool).collect();
                let page = json!({ "tools": tools, "nextCursor": "more" });
                Replies::done(serde_json::value::to_raw_value(&page).expect("it is JSON"))
            }
            Fault::Dead => {
                self.calls.fetch_add(1, Ordering::Relaxed);
                let data = json!({ "retriable": true, "fault": "transport" });
                Replies::error(RpcError::internal("it ended with exit status 3").with_data(data))
            }
            Fault::HangsInCalls
            | Fault::Lies
            | Fault::Repeats
            | Fault::Long
            | Fault::Endless
            | Fault::Links => self.inner.call(request),
        }
    }
}

pub(crate) fn faulty(fault: Fault) -> (Faulty, Arc<AtomicUsize>) {
    let calls = Arc::<AtomicUsize>::default();
    let service = Faulty {
        inner: notes(),
        fault,
        calls: Arc::clone(&calls),
    };
    (service, calls)
}

#[tokio::test(start_paused = true)]
async fn a_list_without_end_is_read_up_to_a_number_of_bytes() {
    let (hub, client) = hub(&[("good", notes())]);
    let (endless, pages) = faulty(Fault::Endless);
    hub.mount("endless", endless);
    let tools = client.list_tools().await.unwrap();
    let pages = pages.load(Ordering::Relaxed);
    assert!(pages <= 8, "{pages} pages of 1 MiB were read");
    let has = |start: &str| tools.iter().any(|tool| tool.name.starts_with(start));
    assert!(has("endless__t0") && has("good__"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_repeats_members_gets_nothing_of_them_to_clients() {
    let (hub, client) = hub(&[]);
    hub.mount("one", faulty(Fault::Repeats).0);
    let tools = client.list_tools().await.unwrap();
    let names: Vec<_> = tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["one__c"]);
    let notes = hub.status()[0].notes.join("\n");
    assert!(
        notes.contains("`a` is left out: it says `description` twice"),
        "{notes}"
    );
    assert!(notes.contains("`b` is left out"), "{notes}");
}

#[tokio::test(start_paused = true)]
async fn a_tool_of_a_hundred_kilobytes_is_left_out_and_named() {
    let (hub, client) = hub(&[]);
    hub.mount("one", faulty(Fault::Long).0);
    let tools = client.list_tools().await.unwrap();
    let names: Vec<_> = tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["one__b"]);
    let notes = hub.status()[0].notes.join("\n");
    assert!(
        notes.contains("`a` is left out: it is longer than 64 KiB"),
        "{notes}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_tools_of_the_healthy_are_listed_whatever_others_do() {
    let (hub, client) = hub(&[("good", notes())]);
    let faults = [("a", Fault::Hangs), ("b", Fault::Dead), ("c", Fault::Lies)];
    for (name, fault) in faults {
        hub.mount(name, faulty(fault).0);
    }
    let tools = client.list_tools().await.unwrap();
    assert!(tools.iter().all(|tool| tool.name.starts_with("good__")));
    assert_eq!(tools.len(), 4);
    client.call_tool("good__count", json!({})).await.unwrap();
    let status = hub.status();
    assert_eq!(status[1].state, ServerState::Failed);
    let said = status[1].last_error.as_deref().unwrap();
    assert!(said.contains("exit status 3"), "{said}");
    assert!(
        status[2]
            .last_error
            .as_deref()
            .unwrap()
            .contains("tools/list")
    );
    assert_eq!((status[3].state, status[3].calls), (ServerState::Ready, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_is_answered_within_its_time_and_says_which_server() {
    let hub = Hub::new("hub", "1");
    hub.mount("slow", faulty(Fault::HangsInCalls).0);
    let client = Endpoint::new(hub).client();
    client.list_tools().await.unwrap();
    let begun = tokio::time::Instant::now();
    let error = client
        .call_tool("slow__count", json!({}))
        .await
        .unwrap_err();
    assert_eq!(begun.elapsed().as_secs(), 300);
    assert!(error.message.contains("`slow`"), "{error}");
    assert!(!error.is_retriable());
}

#[tokio::test(start_paused = true)]
async fn a_dead_server_is_tried_ever_more_seldom() {
    let hub = Hub::new("hub", "1");
    let (dead, calls) = faulty(Fault::Dead);
    hub.mount("dead", dead);
    let mut tries = Vec::new();
    for _ in 0..2 {
        tokio::time::sleep(std::time::Duration::from_secs(600)).await;
        tries.push(calls.swap(0, Ordering::Relaxed));
    }
    assert!((8..40).contains(&tries[0]), "{tries:?}");
    assert!((6..16).contains(&tries[1]), "{tries:?}");
}

/// A long answer is led back on another thread, so that the thread of all callers stays free.
#[tokio::test]
async fn a_long_answer_leads_back_as_a_short_one_does() {
    let (hub, client) = hub(&[]);
    hub.mount("bad", faulty(Fault::Links).0);
    let result = client.call_tool("bad__count", json!({})).await.unwrap();
    assert_eq!(result.content.len(), 20_000);
    for block in &result.content {
        let lmcp_wire::Content::ResourceLink(link) = block else {
            panic!("{block:?}")
        };
        assert_eq!(link.uri, "bad+a:b");
    }
}
