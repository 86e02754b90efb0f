//! Lines that are too long, and lines and requests that are too many.

use super::{OPENED, Play, play};
use crate::limits::Limits;

#[test]
fn a_long_line_of_the_client_is_answered_under_its_id() {
    let mut play = play(OPENED);
    play.relay.client_long_line(
        br#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"a":"x"#,
        b"xxx",
    );
    play.collect();
    play.go(r#"to client {"id":9,"error":{"code":INVALID_REQUEST,"data":{"limit":"line_bytes"}}}"#);
    play.relay.client_long_line(b"xxx", b"xxx");
    play.collect();
    play.go(r#"to client {"error":{"code":INVALID_REQUEST}}"#);
}

#[test]
fn a_long_answer_of_the_client_is_told_to_the_server_that_waits_for_it() {
    let mut play = play(OPENED);
    play.go(r#"
        server {"jsonrpc":"2.0","id":"q","method":"sampling/createMessage"}
        to client {"id":"lmcp-proxy-1-2"}
    "#);
    let (head, tail) = (
        br#"{"result":{"a":"x"#,
        br#"x"},"jsonrpc":"2.0","id":"lmcp-proxy-1-2"}"#,
    );
    play.relay.client_long_line(head, tail);
    play.collect();
    play.go(r#"to server {"id":"q","error":{"data":{"limit":"line_bytes"}}}"#);
    play.relay.client_long_line(head, tail);
    play.collect();
    play.go("");
}

#[test]
fn a_long_answer_of_the_server_is_an_error() {
    let mut play = play(OPENED);
    play.go(r#"
        client {"jsonrpc":"2.0","id":9,"method":"tools/call"}
        to server {"id":9}
    "#);
    play.server_long_line(r#"{"result":{"a":"x"#, r#"x"},"jsonrpc":"2.0","id":9}"#);
    play.go(r#"
        to client {"id":9,"error":{"code":INTERNAL_ERROR,"data":{"limit":"line_bytes","retriable":false}}}
        lost
    "#);
}

#[test]
fn what_is_too_large_to_be_kept_is_not_sent_again() {
    let limits = Limits {
        kept_bytes: 100,
        ..Limits::default()
    };
    Play::new(limits).go(r#"
        client {"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}}
        attached
        to server {"id":1}
        client {"jsonrpc":"2.0","id":2,"method":"ping"}
        to server {"id":2}
        lost
        to client {"id":2,"error":{"data":{"retriable":true}}}
        attached
        to server {"id":1}
    "#);
}

#[test]
fn a_long_question_of_the_server_is_answered_for_the_client_and_a_long_notification_by_nobody() {
    let mut play = play(OPENED);
    play.server_long_line(
        r#"{"method":"sampling/createMessage","params":{"a":"x"#,
        r#"x"},"jsonrpc":"2.0","id":3}"#,
    );
    play.go(r#"to server {"id":3,"error":{"data":{"limit":"line_bytes"}}}"#);
    play.server_long_line(
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"a":"x"#,
        r#"x"}}"#,
    );
    play.go("");
}

#[test]
fn a_server_whose_long_line_may_be_anybodys_answer_is_left() {
    let mut play = play(OPENED);
    play.go(r#"
        client {"jsonrpc":"2.0","id":1,"method":"tools/call"}
        to server {"id":1}
        client {"jsonrpc":"2.0","id":2,"method":"ping"}
        to server {"id":2}
    "#);
    play.server_long_line(r#"[{"jsonrpc":"2.0","id":1,"result":{"a":"x"#, r#"x"}}]"#);
    play.go(r#"
        detach
        to client {"id":1,"error":{"message":"the server was left while `tools/call` ran…","data":{"limit":"line_bytes","retriable":true}}}
        attached
        to server {"method":"initialize"}
        server {"jsonrpc":"2.0","id":"lmcp-proxy-2-2","result":{"protocolVersion":"2025-06-18"}}
        to server {"method":"notifications/initialized"}
        to server {"id":2,"method":"ping"}
        to client {"method":"notifications/tools/list_changed"}
        to client {"method":"notifications/resources/list_changed"}
    "#);
}

#[test]
fn a_client_is_heard_until_as_much_waits_as_may() {
    let number = Limits {
        waiting: 2,
        ..Limits::default()
    };
    let bytes = Limits {
        waiting_bytes: 100,
        ..Limits::default()
    };
    for limits in [number, bytes] {
        let mut play = Play::new(limits);
        play.go(r#"client {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"aaaaaaaaaa"}}"#);
        assert!(play.relay.has_room());
        play.go(r#"client {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"aaaaaaaaaa"}}"#);
        assert!(!play.relay.has_room());
        // The line was already sent by the client, and is not lost.
        play.go(r#"
            client {"jsonrpc":"2.0","method":"notifications/roots/list_changed"}
            attached
            to server {"id":1}
            to server {"id":2}
            to server {"method":"notifications/roots/list_changed"}
        "#);
        assert!(play.relay.has_room());
    }
}

#[test]
fn room_is_made_by_what_has_waited_long_enough_and_by_what_is_cancelled() {
    let limits = Limits {
        waiting: 1,
        ..Limits::default()
    };
    let mut play = Play::new(limits);
    play.go(r#"client {"jsonrpc":"2.0","id":1,"method":"tools/call"}"#);
    assert!(!play.relay.has_room());
    play.go(
        r#"client {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
    );
    assert!(play.relay.has_room());
    play.go(r#"
        client {"jsonrpc":"2.0","id":2,"method":"tools/call"}
        after 30
        to client {"id":2,"error":{}}
    "#);
    assert!(play.relay.has_room());
    play.go("refused not you");
    assert!(
        play.relay.has_room(),
        "whatever it says is answered at once"
    );
}

#[test]
fn a_request_too_many_is_told_what_the_limit_is_and_a_place_is_free_again_later() {
    let limits = Limits {
        pending: 2,
        ..Limits::default()
    };
    Play::new(limits).go(r#"
        client {"jsonrpc":"2.0","id":1,"method":"tools/call"}
        client {"jsonrpc":"2.0","id":2,"method":"tools/call"}
        client {"jsonrpc":"2.0","id":3,"method":"tools/call"}
        to client {"id":3,"error":{"message":"2 requests wait for an answer, and no more are passed on…","data":{"limit":"pending","value":2,"retriable":true}}}
        attached
        to server {"id":1}
        to server {"id":2}
        client {"jsonrpc":"2.0","id":4,"method":"tools/call"}
        to client {"id":4,"error":{"data":{"limit":"pending"}}}
        server {"jsonrpc":"2.0","id":1,"result":{}}
        to client {"id":1}
        client {"jsonrpc":"2.0","id":5,"method":"tools/call"}
        to server {"id":5}
    "#);
}

#[test]
fn a_client_with_too_many_requests_is_held_while_they_are_answered_and_heard_when_they_are_not() {
    let limits = Limits {
        pending: 2,
        ..Limits::default()
    };
    let mut play = Play::new(limits);
    let mut step = |script: &str, has_room: bool| {
        play.go(script);
        assert_eq!(play.relay.has_room(), has_room, "{script}");
    };
    step(
        r#"
        client {"jsonrpc":"2.0","id":1,"method":"tools/call"}
        attached
        to server {"id":1}
        "#,
        true,
    );
    step(
        r#"
        client {"jsonrpc":"2.0","id":2,"method":"tools/call"}
        to server {"id":2}
        "#,
        false,
    );
    step(
        r#"
        server {"jsonrpc":"2.0","id":1,"result":{}}
        to client {"id":1}
        "#,
        true,
    );
    step(
        r#"
        client {"jsonrpc":"2.0","id":3,"method":"tools/call"}
        to server {"id":3}
        "#,
        false,
    );
    // The server may wait for the client's next line.
    step("after 1", true);
    step(
        r#"
        client {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}
        to server {"method":"notifications/cancelled"}
        "#,
        true,
    );
}

#[test]
fn only_so_many_resources_are_watched_again() {
    let limits = Limits {
        watched: 1,
        ..Limits::default()
    };
    Play::new(limits).go(OPENED).go(r#"
        client {"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:/1"}}
        to server {"id":1}
        server {"jsonrpc":"2.0","id":1,"result":{}}
        to client {"id":1}
        client {"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"a:/2"}}
        to server {"id":2}
        server {"jsonrpc":"2.0","id":2,"result":{}}
        to client {"id":2}
        lost
        attached
        to server {"method":"initialize"}
        server {"jsonrpc":"2.0","id":"lmcp-proxy-2-2","result":{"protocolVersion":"2025-06-18"}}
        to server {"method":"notifications/initialized"}
        to server {"method":"resources/subscribe","params":{"uri":"a:/1"}}
        to client {"method":"notifications/tools/list_changed"}
        to client {"method":"notifications/resources/list_changed"}
        to client {"method":"notifications/resources/updated"}
    "#);
}
