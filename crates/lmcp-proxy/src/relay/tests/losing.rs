//! A server that is lost.

use super::{OPENED, OPENED_AGAIN, play};

#[test]
fn what_the_server_had_is_answered_with_an_error_in_the_order_it_was_sent() {
    play(OPENED).go(r#"
        client {"jsonrpc":"2.0","id":"b","method":"tools/call"}
        to server {"id":"b"}
        client {"jsonrpc":"2.0","id":1,"method":"tasks/cancel"}
        to server {"id":1}
        lost
        to client {"jsonrpc":"2.0","id":"b","error":{"code":INTERNAL_ERROR,"message":"the server went away while `tools/call` ran: it may or may not…","data":{"retriable":true,"method":"tools/call"}}}
        to client {"id":1,"error":{"data":{"retriable":true,"method":"tasks/cancel"}}}
    "#);
}

#[test]
fn what_no_server_had_waits_for_the_next_in_order() {
    play(OPENED).go(r#"
            lost
            client {"jsonrpc":"2.0","id":1,"method":"tools/call"}
            client {"jsonrpc":"2.0","method":"notifications/roots/list_changed"}
            client {"jsonrpc":"2.0","id":2,"method":"tools/list"}
            missing nobody there
            attached
            to server {"method":"initialize"}
            client {"jsonrpc":"2.0","id":3,"method":"tools/call"}
            server {"jsonrpc":"2.0","id":"lmcp-proxy-2-2","result":{"protocolVersion":"2025-06-18"}}
            to server {"method":"notifications/initialized"}
            to server {"id":1}
            to server {"method":"notifications/roots/list_changed"}
            to server {"id":2}
            to server {"id":3}
            to client {"method":"notifications/tools/list_changed"}
            to client {"method":"notifications/resources/list_changed"}
        "#);
}

#[test]
fn it_waits_half_a_minute_and_is_told_why() {
    play(OPENED).go(r#"
        lost
        client {"jsonrpc":"2.0","id":1,"method":"tools/call"}
        after 10
        client {"jsonrpc":"2.0","id":2,"method":"tools/call"}
        client {"jsonrpc":"2.0","method":"notifications/roots/list_changed"}
        missing the socket is not there
        after 20
        to client {"id":1,"error":{"code":INTERNAL_ERROR,"message":"there is no server for `tools/call`: the socket is not there; nothing was done…","data":{"retriable":true,"method":"tools/call"}}}
        after 10
        to client {"id":2}
    "#)
    // The notification has waited for too long, too, and is dropped.
    .go(OPENED_AGAIN);
}

#[test]
fn what_changes_nothing_is_asked_again() {
    play(
        r#"
        client {"jsonrpc":"2.0","id":0,"method":"server/discover","params":{}}
        attached
        to server {"id":0}
        client {"jsonrpc":"2.0","id":1,"method":"tools/call"}
        to server {"id":1}
        client {"jsonrpc":"2.0","id":2,"method":"ping"}
        to server {"id":2}
        client {"jsonrpc":"2.0","id":4,"method":"tools/list"}
        to server {"id":4}
        lost
        to client {"id":1,"error":{"data":{"retriable":true}}}
        client {"jsonrpc":"2.0","id":3,"method":"tools/call"}
        attached
        to server {"id":0,"method":"server/discover"}
        to server {"id":2,"method":"ping"}
        to server {"id":4,"method":"tools/list"}
        to server {"id":3}
        server {"jsonrpc":"2.0","id":0,"result":{}}
        to client {"id":0,"result":{}}
    "#,
    );
}

#[test]
fn a_request_that_every_server_dies_of_is_given_up() {
    play(
        r#"
        client {"jsonrpc":"2.0","id":0,"method":"server/discover","params":{}}
        attached
        to server {"id":0}
        lost
        after 20
        attached
        to server {"id":0}
        after 20
        lost
        to client {"id":0,"error":{"data":{"retriable":true}}}
    "#,
    );
}

#[test]
fn a_handshake_that_was_not_answered_is_made_with_the_next_server() {
    play(
        r#"
        client {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}
        attached
        to server {"id":0,"method":"initialize"}
        client {"jsonrpc":"2.0","method":"notifications/initialized"}
        to server {"method":"notifications/initialized"}
        client {"jsonrpc":"2.0","id":1,"method":"tools/call"}
        to server {"id":1}
        lost
        to client {"id":1,"error":{"data":{"retriable":true}}}
        attached
        to server {"id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}
        to server {"method":"notifications/initialized"}
        server {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}
        to client {"id":0,"result":{}}
    "#,
    );
}

#[test]
fn a_cancelled_request_is_forgotten() {
    play(OPENED)
        .go(r#"
        client {"jsonrpc":"2.0","id":1,"method":"tools/call"}
        to server {"id":1}
        client {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
        to server {"method":"notifications/cancelled"}
        lost
        client {"jsonrpc":"2.0","id":2,"method":"tools/call"}
        client {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}
        client {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
    "#)
        .go(OPENED_AGAIN);
}

#[test]
fn an_answer_that_crosses_its_cancellation_still_goes_to_the_client() {
    play(OPENED).go(r#"
        client {"jsonrpc":"2.0","id":1,"method":"tools/call"}
        to server {"id":1}
        client {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
        to server {"method":"notifications/cancelled"}
        server {"jsonrpc":"2.0","id":1,"result":{}}
        to client {"id":1,"result":{}}
    "#);
}

#[test]
fn what_a_server_did_not_want_to_hear_goes_to_the_next_one_in_order() {
    const FULL: &str =
        r#"{"jsonrpc":"2.0","error":{"code":INTERNAL_ERROR,"message":"1 connections are open"}}"#;
    play(
        &r#"
        client {"jsonrpc":"2.0","id":1,"method":"tools/call"}
        client {"jsonrpc":"2.0","method":"notifications/x"}
        client {"jsonrpc":"2.0","id":2,"method":"ping"}
        client {"jsonrpc":"2.0","id":3,"method":"tools/call"}
        attached
        to server {"id":1}
        to server {"method":"notifications/x"}
        to server {"id":2}
        to server {"id":3}
        client {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}
        to server {"method":"notifications/cancelled"}
        eof
        server FULL
        lost
        after 10
        attached
        to server {"id":1}
        to server {"method":"notifications/x"}
        to server {"id":2}
        server FULL
        lost
        after 20
        to client {"id":1,"error":{"message":"there is no server for `tools/call`: 1 connections are open; nothing was done…","data":{"retriable":true}}}
        to client {"id":2,"error":{}}
        done Unanswered
    "#
        .replace("FULL", FULL),
    );
}

#[test]
fn what_a_server_says_when_it_has_looked_does_not_mean_that_it_has_not() {
    // Either the server has sent something before, or its error is about what it was sent.
    for (before, code) in [
        (
            r#"server {"jsonrpc":"2.0","method":"notifications/x"}
               to client {"method":"notifications/x"}"#,
            "INTERNAL_ERROR",
        ),
        ("", "INVALID_REQUEST"),
    ] {
        let script = r#"
            client {"jsonrpc":"2.0","id":1,"method":"tools/call"}
            attached
            to server {"id":1}
            BEFORE
            server {"jsonrpc":"2.0","id":null,"error":{"code":CODE,"message":"no"}}
            lost
            to client {"id":1,"error":{"message":"the server went away while `tools/call` ran…","data":{"retriable":true}}}
        "#;
        play(&script.replace("BEFORE", before).replace("CODE", code));
    }
}

#[test]
fn a_server_that_comes_and_goes_is_news_once_in_a_second() {
    let again = |id: u32| {
        format!(
            r#"
            lost
            attached
            to server {{"method":"initialize"}}
            server {{"jsonrpc":"2.0","id":"lmcp-proxy-{id}-{id}","result":{{"protocolVersion":"2025-06-18"}}}}
            to server {{"method":"notifications/initialized"}}
            "#
        )
    };
    const NEWS: &str = r#"
        to client {"method":"notifications/tools/list_changed"}
        to client {"method":"notifications/resources/list_changed"}
    "#;
    let mut play = play(OPENED);
    play.go(&format!("{}{NEWS}", again(2)));
    for id in 3..100 {
        play.go(&again(id));
    }
    play.go(&format!("after 1\n{NEWS}")).go("after 60");
    play.go(&format!("{}{NEWS}", again(100)));
    play.go(&again(101)).go("lost\n after 60");
}
