//! Questions of a server to its client.

use super::{OPENED, Play, play};
use crate::limits::Limits;

#[test]
fn a_question_has_an_id_of_ours_and_its_answer_the_servers() {
    play(OPENED).go(r#"
        server {"jsonrpc":"2.0","id":1,"method":"roots/list","params":{"id":1}}
        to client {"jsonrpc":"2.0","id":"lmcp-proxy-1-2","method":"roots/list","params":{"id":1}}
        server {"jsonrpc":"2.0","id":"x","method":"ping"}
        to client {"id":"lmcp-proxy-1-3","method":"ping"}
        client {"jsonrpc":"2.0","id":"lmcp-proxy-1-3","result":{}}
        to server {"jsonrpc":"2.0","id":"x","result":{}}
        client {"jsonrpc":"2.0","id":"lmcp-proxy-1-2","error":{"code":-1,"message":"no"}}
        to server {"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}
    "#);
}

#[test]
fn an_answer_never_reaches_another_server() {
    play(OPENED).go(r#"
        server {"jsonrpc":"2.0","id":1,"method":"elicitation/create"}
        to client {"id":"lmcp-proxy-1-2"}
        lost
        to client {"method":"notifications/cancelled","params":{"requestId":"lmcp-proxy-1-2","reason":"the server that asked…"}}
        client {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}
        attached
        to server {"id":"lmcp-proxy-2-3","method":"initialize"}
        server {"jsonrpc":"2.0","id":"lmcp-proxy-2-3","result":{"protocolVersion":"2025-06-18"}}
        to server {"method":"notifications/initialized"}
        to client {"method":"notifications/tools/list_changed"}
        to client {"method":"notifications/resources/list_changed"}
        server {"jsonrpc":"2.0","id":1,"method":"elicitation/create"}
        to client {"id":"lmcp-proxy-2-4"}
        client {"jsonrpc":"2.0","id":"lmcp-proxy-1-2","result":{"action":"accept"}}
        client {"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}
        client {"jsonrpc":"2.0","id":"lmcp-proxy-2-4","result":{"action":"decline"}}
        to server {"id":1,"result":{"action":"decline"}}
    "#);
}

#[test]
fn a_question_that_is_taken_back_is_named_as_the_client_knows_it() {
    play(OPENED).go(r#"
        server {"jsonrpc":"2.0","id":1,"method":"sampling/createMessage"}
        to client {"id":"lmcp-proxy-1-2"}
        server {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"late"}}
        to client {"method":"notifications/cancelled","params":{"requestId":"lmcp-proxy-1-2","reason":"late"}}
        client {"jsonrpc":"2.0","id":"lmcp-proxy-1-2","result":{}}
        lost
    "#);
}

#[test]
fn a_question_too_many_is_answered_for_the_client() {
    let limits = Limits {
        questions: 1,
        ..Limits::default()
    };
    Play::new(limits).go(OPENED).go(r#"
        server {"jsonrpc":"2.0","id":1,"method":"roots/list"}
        to client {"id":"lmcp-proxy-1-2"}
        server {"jsonrpc":"2.0","id":2,"method":"roots/list"}
        to server {"id":2,"error":{"code":INTERNAL_ERROR}}
    "#);
}
