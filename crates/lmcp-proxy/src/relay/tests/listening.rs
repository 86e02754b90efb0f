//! `subscriptions/listen`, which is answered when it is over.

use super::{Play, play};

const LISTENING: &str = r#"
    client {"jsonrpc":"2.0","id":5,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["a:/1"]},"_meta":{}}}
    attached
    to server {"id":5}
    server {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":5},"notifications":{"toolsListChanged":true}}}
    to client {"method":"notifications/subscriptions/acknowledged"}
"#;

/// The next server acknowledges the subscription, too; the client gets notifications for what it may have missed instead.
const LISTENING_AGAIN: &str = r#"
    attached
    to server {"jsonrpc":"2.0","id":5,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["a:/1"]}}}
    server {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":5},"notifications":{}}}
    to client {"method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":5}}}
    to client {"method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":5},"uri":"a:/1"}}
"#;

fn listening() -> Play {
    play(LISTENING)
}

#[test]
fn a_subscription_goes_on_with_the_next_server() {
    listening()
        .go("lost")
        .go(LISTENING_AGAIN)
        .go("lost")
        .go(LISTENING_AGAIN);
}

#[test]
fn it_waits_for_that_server_as_long_as_it_takes() {
    listening().go("lost\n after 86400").go(LISTENING_AGAIN);
}

#[test]
fn one_that_was_not_acknowledged_yet_is_acknowledged_by_the_next_server() {
    play(
        r#"
        client {"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}}}
        attached
        to server {"id":"l"}
        lost
        attached
        to server {"id":"l"}
        server {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"l"},"notifications":{}}}
        to client {"method":"notifications/subscriptions/acknowledged"}
    "#,
    );
}

#[test]
fn one_that_ends_because_its_server_closes_does_not_end() {
    listening()
        .go(r#"
            server {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5,"reason":"the server is closing"}}
            server {"jsonrpc":"2.0","id":5,"result":{}}
            lost
        "#)
        .go(LISTENING_AGAIN);
}

#[test]
fn one_that_ends_for_another_reason_does() {
    let mut play = listening();
    play.go(r#"
        server {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}
        server {"jsonrpc":"2.0","id":5,"result":{}}
        after 1
        to client {"method":"notifications/cancelled"}
        to client {"id":5,"result":{}}
        lost
        attached
    "#);
}

#[test]
fn one_that_the_next_server_does_not_take_is_answered_with_its_error() {
    listening().go(r#"
        lost
        attached
        to server {"id":5}
        server {"jsonrpc":"2.0","id":5,"error":{"code":INTERNAL_ERROR,"message":"too many"}}
        to client {"id":5,"error":{"message":"too many"}}
        lost
        attached
    "#);
}

#[test]
fn one_that_the_client_cancels_is_over() {
    listening().go(r#"
        client {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}
        to server {"method":"notifications/cancelled"}
        lost
        attached
    "#);
    listening().go(r#"
        lost
        client {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}
        attached
    "#);
}

#[test]
fn nobody_waits_for_its_answer_at_the_end() {
    listening().go("eof\n done Done");
}
