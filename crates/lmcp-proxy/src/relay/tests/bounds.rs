//! Lines that are too long, and things that are too many to be kept.

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
    play.go(r#"to client {"id":9,"error":{"code":-32600,"data":{"limit":"line_bytes"}}}"#);
    play.relay.client_long_line(b"xxx", b"xxx");
    play.collect();
    play.go(r#"to client {"error":{"code":-32600}}"#);
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
    play.relay
        .server_long_line(br#"{"result":{"a":"x"#, br#"x"},"jsonrpc":"2.0","id":9}"#);
    play.collect();
    play.go(r#"
        to client {"id":9,"error":{"code":-32603,"data":{"limit":"line_bytes","retriable":false}}}
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
fn bytes_that_wait_are_bounded() {
    let limits = Limits {
        waiting_bytes: 100,
        ..Limits::default()
    };
    Play::new(limits).go(r#"
        client {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"aaaaaaaaaa"}}
        client {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"aaaaaaaaaa"}}
        to client {"id":2,"error":{"data":{"retriable":true}}}
        client {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
        client {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"aaaaaaaaaa"}}
        attached
        to server {"id":3}
    "#);
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
