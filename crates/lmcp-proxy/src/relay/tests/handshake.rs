//! The lines that are repeated to the next server.

use super::{OPENED, OPENED_AGAIN, play};

#[test]
fn the_next_server_hears_the_handshake_and_the_client_that_lists_may_differ() {
    play(OPENED).go("lost").go(OPENED_AGAIN);
}

#[test]
fn the_log_level_and_watched_resources_are_said_again_and_the_answers_kept_from_the_client() {
    play(OPENED)
        .go(r#"
            client {"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}
            to server {"id":1}
            server {"jsonrpc":"2.0","id":1,"result":{}}
            to client {"id":1}
            client {"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"a:/1"}}
            to server {"id":2}
            server {"jsonrpc":"2.0","id":2,"result":{}}
            to client {"id":2}
            client {"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"a:/2"}}
            to server {"id":3}
            server {"jsonrpc":"2.0","id":3,"result":{}}
            to client {"id":3}
            client {"jsonrpc":"2.0","id":4,"method":"resources/subscribe","params":{"uri":"a:/none"}}
            to server {"id":4}
            server {"jsonrpc":"2.0","id":4,"error":{"code":RESOURCE_NOT_FOUND,"message":"no such resource"}}
            to client {"id":4}
            client {"jsonrpc":"2.0","id":5,"method":"resources/unsubscribe","params":{"uri":"a:/1"}}
            to server {"id":5}
            server {"jsonrpc":"2.0","id":5,"result":{}}
            to client {"id":5}
            lost
            attached
            to server {"id":"lmcp-proxy-2-2","method":"initialize"}
            server {"jsonrpc":"2.0","id":"lmcp-proxy-2-2","result":{"protocolVersion":"2025-06-18"}}
            to server {"method":"notifications/initialized"}
            to server {"id":"lmcp-proxy-2-3","method":"logging/setLevel","params":{"level":"info"}}
            to server {"id":"lmcp-proxy-2-4","method":"resources/subscribe","params":{"uri":"a:/2"}}
            to client {"method":"notifications/tools/list_changed"}
            to client {"method":"notifications/resources/list_changed"}
            to client {"method":"notifications/resources/updated","params":{"uri":"a:/2"}}
            server {"jsonrpc":"2.0","id":"lmcp-proxy-2-3","result":{}}
            server {"jsonrpc":"2.0","id":"lmcp-proxy-2-4","error":{"code":RESOURCE_NOT_FOUND,"message":"no such resource"}}
        "#);
}

#[test]
fn a_client_that_was_not_ready_yet_says_so_itself() {
    play(
        r#"
        client {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}
        attached
        to server {"id":0}
        server {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}}}}
        to client {"id":0}
        lost
        attached
        to server {"method":"initialize"}
        server {"jsonrpc":"2.0","id":"lmcp-proxy-2-2","result":{"protocolVersion":"2025-11-25"}}
        client {"jsonrpc":"2.0","method":"notifications/initialized"}
        to server {"method":"notifications/initialized"}
    "#,
    );
}

#[test]
fn ready_is_said_once_when_the_client_says_it_between_two_servers() {
    play(
        r#"
        client {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}
        attached
        to server {"id":0}
        server {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}
        to client {"id":0}
        lost
        client {"jsonrpc":"2.0","method":"notifications/initialized"}
        client {"jsonrpc":"2.0","id":1,"method":"tools/list"}
        attached
        to server {"method":"initialize"}
        server {"jsonrpc":"2.0","id":"lmcp-proxy-2-2","result":{"protocolVersion":"2025-11-25"}}
        to server {"method":"notifications/initialized"}
        to server {"id":1}
    "#,
    );
}

#[test]
fn a_server_that_speaks_another_revision_is_left_and_a_third_may_do() {
    play(OPENED)
        .go(r#"
            lost
            client {"jsonrpc":"2.0","id":1,"method":"tools/call"}
            attached
            to server {"id":"lmcp-proxy-2-2","method":"initialize"}
            server {"jsonrpc":"2.0","id":"lmcp-proxy-2-2","result":{"protocolVersion":"2024-11-05"}}
            detach
            to client {"id":1,"error":{"message":"the server was replaced by one that speaks `2024-11-05` and not `2025-06-18`: restart this client","data":{"retriable":false}}}
            client {"jsonrpc":"2.0","id":2,"method":"tools/call"}
            to client {"id":2,"error":{"data":{"retriable":false}}}
            attached
            to server {"id":"lmcp-proxy-3-3","method":"initialize"}
            client {"jsonrpc":"2.0","id":3,"method":"tools/call"}
            to client {"id":3,"error":{"data":{"retriable":false}}}
            server {"jsonrpc":"2.0","id":"lmcp-proxy-3-3","result":{"protocolVersion":"2025-06-18"}}
            to server {"method":"notifications/initialized"}
            to client {"method":"notifications/tools/list_changed"}
            to client {"method":"notifications/resources/list_changed"}
            client {"jsonrpc":"2.0","id":4,"method":"tools/call"}
            to server {"id":4}
        "#);
}

#[test]
fn a_client_that_begins_anew_is_not_bound_to_what_it_agreed_on_before() {
    play(OPENED)
        .go(r#"
            lost
            attached
            to server {"method":"initialize"}
            server {"jsonrpc":"2.0","id":"lmcp-proxy-2-2","error":{"code":INVALID_PARAMS,"message":"no"}}
            detach
            client {"jsonrpc":"2.0","id":1,"method":"tools/call"}
            to client {"id":1,"error":{"message":"the server was replaced by one that refuses the handshake…","data":{"retriable":false}}}
            client {"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2024-11-05"}}
            attached
            to server {"id":2,"method":"initialize"}
            server {"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2024-11-05"}}
            to client {"id":2,"result":{}}
        "#);
}

#[test]
fn a_server_that_does_not_answer_the_handshake_is_left() {
    let mut play = play(OPENED);
    play.go(r#"
        lost
        attached
        to server {"method":"initialize"}
        client {"jsonrpc":"2.0","id":1,"method":"tools/call"}
        after 10
        detach
    "#);
    assert!(play.relay.wants_server());
}

#[test]
fn a_server_that_goes_during_the_handshake_costs_nobody_anything() {
    play(OPENED).go(r#"
            lost
            client {"jsonrpc":"2.0","id":1,"method":"tools/call"}
            attached
            to server {"id":"lmcp-proxy-2-2","method":"initialize"}
            lost
            attached
            to server {"id":"lmcp-proxy-3-3","method":"initialize"}
            server {"jsonrpc":"2.0","id":"lmcp-proxy-3-3","result":{"protocolVersion":"2025-06-18"}}
            to server {"method":"notifications/initialized"}
            to server {"id":1}
            to client {"method":"notifications/tools/list_changed"}
            to client {"method":"notifications/resources/list_changed"}
        "#);
}

#[test]
fn a_second_handshake_that_is_refused_changes_nothing() {
    play(OPENED)
        .go(r#"
            client {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}
            to server {"id":1}
            server {"jsonrpc":"2.0","id":1,"error":{"code":INVALID_REQUEST,"message":"already"}}
            to client {"id":1}
            lost
        "#)
        .go(OPENED_AGAIN);
}

#[test]
fn after_a_second_handshake_ready_is_to_be_said_again() {
    play(OPENED).go(r#"
        client {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}
        to server {"id":1}
        server {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}
        to client {"id":1}
        lost
        attached
        to server {"method":"initialize"}
        server {"jsonrpc":"2.0","id":"lmcp-proxy-2-2","result":{"protocolVersion":"2025-11-25"}}
        client {"jsonrpc":"2.0","method":"notifications/initialized"}
        to server {"method":"notifications/initialized"}
    "#);
}
