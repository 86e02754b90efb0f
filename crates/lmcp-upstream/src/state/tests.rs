//! What callers share with a server that says what the test wants, without I/O.

use std::time::Duration;

use lmcp_core::{Caller, CallerTransport};
use lmcp_wire::Implementation;
use tokio::time::timeout;

use super::*;
use crate::{limits::HELD_CALLS, slot::Said, support::request};

/// What is shared with a server of 2025-11-25, which has opened.
fn opened() -> Arc<Shared> {
    let route = Route::Socket("/none".into());
    let profile = Profile::new(Implementation::new("test", "1"));
    let shared = Arc::new(Shared::new(route, profile, None, None, None, false));
    shared.opened();
    let asked = shared.settle().lines;
    let asked: Value = serde_json::from_slice(&asked[0]).unwrap();
    let unknown = json!({ "code": -32601, "message": "unknown" });
    let asked = hear(&shared, json!({ "id": asked["id"], "error": unknown }));
    let result = json!({ "protocolVersion": "2025-11-25", "capabilities": {} });
    hear(&shared, json!({ "id": asked[0]["id"], "result": result }));
    assert_eq!(shared.times_opened(), 1);
    shared
}

/// The server says this. Gives what it is sent then.
fn hear(shared: &Arc<Shared>, mut message: Value) -> Vec<Value> {
    message["jsonrpc"] = json!("2.0");
    shared.hear_line(&message.to_string().into());
    let lines = shared.settle().lines;
    let lines = lines.iter().map(|line| serde_json::from_slice(line));
    lines.collect::<Result<_, _>>().unwrap()
}

fn ann() -> Origin {
    Origin {
        client: Some(Client {
            owner: "ann".into(),
            conversation: "1".into(),
        }),
        is_askable: true,
        ..Origin::default()
    }
}

async fn begin(shared: &Arc<Shared>, method: &str, origin: Origin) -> Arc<Slot> {
    let peer = shared.peer().await.unwrap();
    let call = Call::new(shared.ids.next(), method, b"{}", &peer);
    let slot = shared.begin(call, origin).unwrap();
    shared.settle();
    slot
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_again_and_again_in_one_call_fills_no_memory() {
    let shared = opened();
    let slot = begin(&shared, "tools/call", ann()).await;
    for number in 0..1000 {
        let question = json!({ "id": number, "method": "roots/list" });
        hear(&shared, question);
        let asked = slot.next_question().unwrap();
        shared.answer(asked.number, Ok(RawValue::NULL));
        shared.settle();
    }
    let state = shared.lock();
    assert_eq!(state.asked.len(), 0);
    assert_eq!(state.slots.len(), 1, "the call goes on");
}

#[tokio::test(start_paused = true)]
async fn the_only_caller_is_told_what_the_server_says_while_its_tools_are_listed() {
    let shared = opened();
    let slot = begin(&shared, "tools/call", ann()).await;
    let _listing = begin(&shared, "tools/list", Origin::default()).await;
    let params = json!({ "level": "info", "data": "half done" });
    hear(
        &shared,
        json!({ "method": "notifications/message", "params": params }),
    );
    let said = timeout(Duration::from_secs(1), slot.next()).await;
    assert!(matches!(said, Ok(Said::Notice(..))), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn no_caller_is_told_what_may_be_about_the_call_of_another() {
    let shared = opened();
    let slot = begin(&shared, "tools/call", ann()).await;
    let mut other = ann();
    other.client.as_mut().unwrap().conversation = "2".into();
    let _other = begin(&shared, "tools/call", other).await;
    let params = json!({ "level": "info", "data": "half done" });
    hear(
        &shared,
        json!({ "method": "notifications/message", "params": params }),
    );
    let said = timeout(Duration::from_secs(1), slot.next()).await;
    assert!(said.is_err(), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn one_caller_cannot_take_all_places_of_calls_that_wait_for_answers() {
    let shared = opened();
    let peer = shared.peer().await.unwrap();
    let hold = |name: &str| {
        let call = Call::new(shared.ids.next(), "tools/call", b"{}", &peer);
        let call = crate::call::Call::begin(&shared, call, Origin::default())?;
        let caller = Caller::new(CallerTransport::Memory).known_as(name);
        shared.held.hold(call, Vec::new(), &request(caller))
    };
    let held = (0..=HELD_CALLS).take_while(|_| hold("ann").is_ok()).count();
    assert!(held < HELD_CALLS, "{held}");
    let refused = hold("ann").unwrap_err();
    let data = refused.data.as_ref().unwrap();
    assert_eq!(
        (&data["limit"], &data["retriable"]),
        (&json!("held_calls"), &json!(true))
    );
    for _ in 0..10 {
        hold("bob").unwrap();
    }
}
