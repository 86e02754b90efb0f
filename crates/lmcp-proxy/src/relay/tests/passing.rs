//! A server that stays open.

use super::{OPENED, play};

#[test]
fn lines_go_through_as_they_are() {
    play(OPENED).go(r#"
        client {"jsonrpc":"2.0", "id":1, "method":"tools/call", "params":{"name":"a"}}
        to server {"jsonrpc":"2.0", "id":1, "method":"tools/call", "params":{"name":"a"}}
        client {"jsonrpc":"2.0","method":"notifications/roots/list_changed"}
        to server {"jsonrpc":"2.0","method":"notifications/roots/list_changed"}
        server {"jsonrpc":"2.0","method":"notifications/message","params":{}}
        to client {"jsonrpc":"2.0","method":"notifications/message","params":{}}
        server {"jsonrpc":"2.0",  "id":1,"result":{"content":[]}}
        to client {"jsonrpc":"2.0",  "id":1,"result":{"content":[]}}
    "#);
}

#[test]
fn a_modern_client_needs_no_handshake() {
    play(
        r#"
        client {"jsonrpc":"2.0","id":"a","method":"server/discover","params":{"_meta":{}}}
        client {"jsonrpc":"2.0","id":"b","method":"tools/list","params":{"_meta":{}}}
        attached
        to server {"id":"a"}
        to server {"id":"b"}
        server {"jsonrpc":"2.0","id":"b","result":{}}
        to client {"id":"b"}
    "#,
    );
}

#[test]
fn no_server_is_looked_for_before_the_client_speaks() {
    let mut play = play("");
    assert!(!play.relay.wants_server());
    play.go(r#"client {"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    assert!(play.relay.wants_server());
}

#[test]
fn what_cannot_be_read_is_the_servers_to_answer_and_ours_without_one() {
    play(
        r#"
        client nonsense
        to client {"error":{"code":PARSE_ERROR}}
        client {"jsonrpc":"2.0","id":null,"method":"ping"}
        to client {"error":{"code":INVALID_REQUEST}}
        client {"jsonrpc":"2.0","id":18}
        to client {"id":18,"error":{"code":INVALID_REQUEST}}
        client {"jsonrpc":"2.0","id":19,"method":null}
        to client {"id":19,"error":{"code":INVALID_REQUEST}}
    "#,
    )
    .go(r#"
        attached
        client nonsense
        to server nonsense
        server {"jsonrpc":"2.0","error":{"code":PARSE_ERROR,"message":"?"}}
        to client {"error":{"code":PARSE_ERROR,"message":"?"}}
        client {"jsonrpc":"2.0","id":18}
        to server {"jsonrpc":"2.0","id":18}
        server {"jsonrpc":"2.0","id":18,"error":{"code":INVALID_REQUEST,"message":"?"}}
        to client {"id":18}
    "#);
}

#[test]
fn an_error_that_answers_nothing_of_the_client_is_not_its_business() {
    play(OPENED).go(r#"
        server {"jsonrpc":"2.0","error":{"code":INTERNAL_ERROR,"message":"1024 connections are open"}}
    "#);
}

#[test]
fn the_same_text_as_a_number_and_as_a_string_are_two_ids() {
    let mut play = play(OPENED);
    play.go(r#"
        client {"jsonrpc":"2.0","id":7,"method":"tools/call"}
        to server {"id":7}
        client {"jsonrpc":"2.0","id":"7","method":"tools/call"}
        to server {"id":"7"}
        server {"jsonrpc":"2.0","id":"\u0037","result":{}}
        to client {"id":"7"}
        lost
        to client {"id":7,"error":{"data":{"retriable":true}}}
    "#);
    assert!(play.relay.is_idle());
}

#[test]
fn an_id_that_is_used_twice_is_answered_twice() {
    play(OPENED).go(r#"
        client {"jsonrpc":"2.0","id":7,"method":"tools/call"}
        to server {"id":7}
        client {"jsonrpc":"2.0","id":7,"method":"tools/call"}
        to server {"id":7}
        server {"jsonrpc":"2.0","id":7,"error":{"code":INVALID_REQUEST,"message":"in flight"}}
        to client {"id":7}
        lost
        to client {"id":7,"error":{"data":{"retriable":true}}}
    "#);
}

#[test]
fn an_id_of_the_client_may_look_like_one_of_ours() {
    let mut play = play(OPENED);
    play.go(r#"
        client {"jsonrpc":"2.0","id":"lmcp-proxy-1-1","method":"tools/call"}
        to server {"id":"lmcp-proxy-1-1"}
        server {"jsonrpc":"2.0","id":"lmcp-proxy-1-1","result":{}}
        to client {"id":"lmcp-proxy-1-1","result":{}}
    "#);
    assert!(play.relay.is_idle());
}

#[test]
fn ids_of_ours_are_others_in_every_process() {
    let handshake = || {
        let mut ids = super::Ids::new();
        ids.next()
    };
    assert_ne!(handshake(), handshake());
}

#[test]
fn an_answer_without_an_answer_is_one() {
    let mut play = play(OPENED);
    play.go(r#"
        client {"jsonrpc":"2.0","id":1,"method":"tools/call"}
        to server {"id":1}
        server {"jsonrpc":"2.0","id":1}
        to client {"jsonrpc":"2.0","id":1}
    "#);
    assert!(play.relay.is_idle());
}
