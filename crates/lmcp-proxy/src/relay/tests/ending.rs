//! The client ends, or is refused.

use super::{OPENED, play};

#[test]
fn a_client_that_said_nothing_ends_without_a_server() {
    play("eof\n done Done");
}

#[test]
fn every_answer_is_waited_for() {
    play(OPENED).go(r#"
        client {"jsonrpc":"2.0","id":1,"method":"tools/call"}
        to server {"id":1}
        client {"jsonrpc":"2.0","id":2,"method":"tools/call"}
        to server {"id":2}
        eof
        server {"jsonrpc":"2.0","id":2,"result":{}}
        to client {"id":2}
        after 600
        server {"jsonrpc":"2.0","id":1,"result":{}}
        to client {"id":1}
        done Done
    "#);
}

#[test]
fn what_was_never_sent_is_sent_before_the_end() {
    play(
        r#"
        client {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{}}}
        eof
        attached
        to server {"id":1}
        server {"jsonrpc":"2.0","id":1,"result":{}}
        to client {"id":1}
        done Done
    "#,
    );
}

#[test]
fn without_a_server_everything_is_answered_with_an_error_and_that_is_the_end() {
    play(
        r#"
        client {"jsonrpc":"2.0","id":1,"method":"tools/list"}
        client {"jsonrpc":"2.0","method":"notifications/x"}
        client {"jsonrpc":"2.0","id":2,"method":"tools/list"}
        eof
        missing nobody there
        to client {"id":1,"error":{"message":"there is no server for `tools/list`: nobody there…"}}
        to client {"id":2,"error":{"data":{"retriable":true}}}
        done Unanswered
    "#,
    );
    play(OPENED).go(r#"
        client {"jsonrpc":"2.0","id":1,"method":"tools/call"}
        to server {"id":1}
        client {"jsonrpc":"2.0","id":2,"method":"ping"}
        to server {"id":2}
        eof
        lost
        to client {"id":1,"error":{"message":"the server went away…"}}
        to client {"id":2,"error":{"message":"there is no server…"}}
        done Unanswered
    "#);
}

#[test]
fn who_is_refused_is_told_so_for_everything_and_no_server_is_looked_for() {
    let mut play = play(
        r#"
        client {"jsonrpc":"2.0","id":1,"method":"initialize"}
        refused not you
        to client {"id":1,"error":{"code":INVALID_REQUEST,"message":"not you"}}
        client {"jsonrpc":"2.0","id":2,"method":"tools/list"}
        to client {"id":2,"error":{"message":"not you"}}
        client {"jsonrpc":"2.0","method":"notifications/initialized"}
        client {"jsonrpc":"2.0","id":3,"method":"initialize"}
        to client {"id":3,"error":{"message":"not you"}}
    "#,
    );
    assert!(!play.relay.wants_server());
    play.go("eof\n done Refused");
}

#[test]
fn a_server_whose_first_word_is_that_it_never_will_is_the_end() {
    let script = r#"
        client {"jsonrpc":"2.0","id":1,"method":"initialize"}
        client {"jsonrpc":"2.0","id":2,"method":"tools/call"}
        attached
        to server {"id":1}
        to server {"id":2}
        server {"jsonrpc":"2.0","id":null,"error":{"code":INVALID_REQUEST,"message":"not you","data":{"retriable":false}}}
        to client {"id":1,"error":{"code":INVALID_REQUEST,"message":"not you","data":{"retriable":false}}}
        to client {"id":2,"error":{"message":"not you"}}
        turned-away
        client {"jsonrpc":"2.0","id":3,"method":"tools/call"}
        to client {"id":3,"error":{"message":"not you","data":{"retriable":false}}}
    "#;
    let mut play = play(script);
    assert!(!play.relay.wants_server());
    play.go("eof\n done Refused");
}

#[test]
fn a_server_that_is_being_started_is_waited_for() {
    let mut play = play(
        r#"
        client {"jsonrpc":"2.0","id":1,"method":"tools/list"}
        eof
    "#,
    );
    play.relay.server_awaited("it is being started");
    play.collect();
    assert!(play.relay.wants_server());
    play.go(r#"
        after 29
        attached
        to server {"id":1}
        server {"jsonrpc":"2.0","id":1,"result":{}}
        to client {"id":1}
        done Done
    "#);
}
