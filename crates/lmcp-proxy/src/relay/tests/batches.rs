//! Arrays of messages, which revision 2025-03-26 has.

use super::{OPENED, Play, play};

const OPENED_WITH_BATCHES: &str = r#"
    client {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}
    attached
    to server {"id":0}
    server {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-03-26"}}
    to client {"id":0}
"#;

const BATCH: &str = r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call"}, {"jsonrpc":"2.0","method":"notifications/x"}, {"jsonrpc":"2.0","id":2,"method":"ping"}]"#;

fn opened() -> Play {
    play(OPENED_WITH_BATCHES)
}

#[test]
fn a_batch_goes_through_as_it_is() {
    let mut play = opened();
    play.go(&format!("client {BATCH}\n to server {BATCH}"));
    play.go(r#"
        server [{"jsonrpc":"2.0","id":2,"result":{}},{"jsonrpc":"2.0","id":1,"result":{}}]
        to client [{"jsonrpc":"2.0","id":2,"result":{}},{"jsonrpc":"2.0","id":1,"result":{}}]
        lost
    "#);
}

#[test]
fn the_errors_of_a_lost_batch_are_one() {
    opened().go(&format!("client {BATCH}\n to server {BATCH}")).go(r#"
        client {"jsonrpc":"2.0","id":3,"method":"tools/call"}
        to server {"id":3}
        lost
        to client [{"id":1,"error":{"data":{"retriable":true,"method":"tools/call"}}},{"id":2,"error":{"data":{"retriable":true}}}]
        to client {"id":3,"error":{}}
    "#);
}

#[test]
fn a_batch_waits_for_the_next_server_as_one() {
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#;
    opened().go(&format!(
        r#"
            lost
            client {BATCH}
            client {cancel}
            attached
            to server {{"method":"initialize"}}
            server {{"jsonrpc":"2.0","id":"lmcp-proxy-2-2","result":{{"protocolVersion":"2025-03-26"}}}}
            to server {BATCH}
            to server {cancel}
        "#
    ));
}

#[test]
fn questions_in_a_batch_get_ids_of_ours() {
    opened().go(r#"
        server [{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/message"}]
        to client [{"id":"lmcp-proxy-1-2","method":"ping"},{"method":"notifications/message"}]
        client [{"jsonrpc":"2.0","id":"lmcp-proxy-1-2","result":{}},{"jsonrpc":"2.0","id":"late","result":{}}]
        to server [{"jsonrpc":"2.0","id":1,"result":{}}]
    "#);
}

#[test]
fn where_there_are_none_an_array_is_the_servers_to_refuse() {
    play(OPENED).go(r#"
        client [{"jsonrpc":"2.0","id":1,"method":"ping"}]
        to server [{"jsonrpc":"2.0","id":1,"method":"ping"}]
        server {"jsonrpc":"2.0","error":{"code":INVALID_REQUEST,"message":"no batches"}}
        to client {"error":{"code":INVALID_REQUEST}}
        lost
    "#);
}

#[test]
fn one_that_comes_before_the_handshake_is_answered_is_followed_too() {
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call"},{"jsonrpc":"2.0","id":2,"method":"tools/call"}]"#;
    let mut play = play(&format!(
        r#"
        client {{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"2025-03-26"}}}}
        client {batch}
        attached
        to server {{"id":0}}
        to server {batch}
        server {{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":"2025-03-26"}}}}
        to client {{"id":0}}
        "#
    ));
    assert!(!play.relay.is_idle());
    play.go(r#"
        lost
        to client [{"id":1,"error":{"data":{"retriable":true}}},{"id":2,"error":{}}]
    "#);
}

#[test]
fn one_that_turns_out_to_be_none_is_answered_by_its_refusal() {
    let mut play = play(
        r#"
        client {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}
        client [{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]
        attached
        to server {"id":0}
        to server [{"id":1},{"id":2}]
        server {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}
        to client {"id":0}
        server {"jsonrpc":"2.0","error":{"code":INVALID_REQUEST,"message":"no batches"}}
        to client {"error":{"message":"no batches"}}
    "#,
    );
    assert!(play.relay.is_idle());
    play.go("eof\n done Done");
}

#[test]
fn what_cannot_be_read_in_one_is_the_servers_to_answer() {
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},5,{"id":33}]"#;
    let answer = r#"[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","error":{"code":INVALID_REQUEST,"message":"?"}},{"jsonrpc":"2.0","id":33,"error":{"code":INVALID_REQUEST,"message":"?"}}]"#;
    let play = play(&format!(
        r#"
        client {{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"2025-03-26"}}}}
        client {batch}
        attached
        to server {{"id":0}}
        to server {batch}
        server {{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":"2025-03-26"}}}}
        to client {{"id":0}}
        server {answer}
        to client {answer}
        "#
    ));
    assert!(play.relay.is_idle());
}

#[test]
fn one_without_requests_that_turns_out_to_be_none_is_refused_aloud() {
    play(
        r#"
        client {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}
        client [{"jsonrpc":"2.0","method":"notifications/x"}]
        attached
        to server {"id":0}
        to server [{"method":"notifications/x"}]
        server {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}
        to client {"id":0}
        server {"jsonrpc":"2.0","error":{"code":INVALID_REQUEST,"message":"no batches"}}
        to client {"error":{"message":"no batches"}}
    "#,
    );
}
