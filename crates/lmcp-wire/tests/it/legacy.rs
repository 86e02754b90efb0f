//! Envelopes as peers of older revisions write them, by hand: what is looked at is the envelope, not the parameters.

use lmcp_wire as wire;
use serde_json::{Value, json};

#[test]
fn the_handshake_of_every_older_revision_is_a_request() {
    for version in wire::ProtocolVersion::ALL
        .into_iter()
        .filter(|version| *version < FIRST_STATELESS)
    {
        let params = json!({
            "protocolVersion": version.as_str(),
            "capabilities": { "roots": { "listChanged": true }, "sampling": {} },
            "clientInfo": { "name": "old", "version": "0.9" },
        });
        let message =
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        assert_eq!(
            read(&message.to_string()),
            json!({ "request": "initialize", "id": 0, "params": params })
        );
    }
}

#[test]
fn members_may_come_in_any_order() {
    let members = [
        r#""jsonrpc":"2.0""#,
        r#""id":7"#,
        r#""method":"tools/list""#,
        r#""params":{"cursor":"c"}"#,
    ];
    for order in orders(&members) {
        let message = format!("{{{}}}", order.join(","));
        assert_eq!(
            read(&message),
            json!({ "request": "tools/list", "id": 7, "params": { "cursor": "c" } }),
            "{message}"
        );
    }
}

#[test]
fn unknown_members_are_passed_over() {
    let message = r#"{"jsonrpc":"2.0","x":{"id":9,"method":"y"},"id":1,"method":"ping","params":{},"z":null}"#;
    assert_eq!(
        read(message),
        json!({ "request": "ping", "id": 1, "params": {} })
    );
}

#[test]
fn white_space_may_stand_between_all_tokens() {
    let message = " {\t\"jsonrpc\" : \"2.0\" ,\r\n \"id\" : 1 , \"method\" : \"ping\" , \"params\" : { } } \n";
    assert_eq!(
        read(message),
        json!({ "request": "ping", "id": 1, "params": {} })
    );
}

#[test]
fn ids_are_kept_as_they_were_sent() {
    for id in [
        "0",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        r#""""#,
        r#""1""#,
        r#""req-7""#,
    ] {
        let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        let expected: Value = serde_json::from_str(id).unwrap();
        assert_eq!(
            read(&message),
            json!({ "request": "ping", "id": expected, "params": null }),
            "{message}"
        );
    }
}

#[test]
fn escapes_in_an_id_are_the_characters_they_stand_for() {
    let message = r#"{"jsonrpc":"2.0","id":"a\"b\\c\n\u00e9\ud83d\ude00","method":"ping"}"#;
    assert_eq!(
        read(message),
        json!({ "request": "ping", "id": "a\"b\\c\né😀", "params": null })
    );
}

#[test]
fn escapes_in_a_method_are_the_characters_they_stand_for() {
    let message = r#"{"jsonrpc":"2.0","id":1,"method":"tools\/\u006cist"}"#;
    assert_eq!(
        read(message),
        json!({ "request": "tools/list", "id": 1, "params": null })
    );
}

#[test]
fn escapes_in_the_names_of_members_are_the_characters_they_stand_for() {
    let message = r#"{"\u006asonrpc":"2.0","\u0069d":1,"meth\u006fd":"ping"}"#;
    assert_eq!(
        read(message),
        json!({ "request": "ping", "id": 1, "params": null })
    );
}

#[test]
fn escapes_in_the_version_are_the_characters_they_stand_for() {
    let message = r#"{"jsonrpc":"2\u002e0","id":1,"method":"ping"}"#;
    assert_eq!(
        read(message),
        json!({ "request": "ping", "id": 1, "params": null })
    );
}

#[test]
fn a_notification_may_leave_its_parameters_out() {
    let message = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(
        read(message),
        json!({ "notification": "notifications/initialized", "params": null })
    );
}

#[test]
fn an_empty_result_answers_a_ping() {
    let message = r#"{"result":{},"id":"srv-1","jsonrpc":"2.0"}"#;
    assert_eq!(read(message), json!({ "answers": "srv-1", "result": {} }));
}

#[test]
fn a_result_may_be_null() {
    let message = r#"{"jsonrpc":"2.0","id":3,"result":null}"#;
    assert_eq!(read(message), json!({ "answers": 3, "result": null }));
}

#[test]
fn an_error_keeps_its_code_and_data() {
    let message = r#"{"jsonrpc":"2.0","id":-4,"error":{"data":{"uri":"x:"},"message":"no \"x\"","code":-32002}}"#;
    let error = json!({ "code": -32002, "message": "no \"x\"", "data": { "uri": "x:" } });
    assert_eq!(read(message), json!({ "answers": -4, "error": error }));
}

#[test]
fn an_error_keeps_data_that_is_null() {
    let message = r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"?","data":null}}"#;
    assert_eq!(
        read(message),
        json!({ "answers": 1, "error": { "code": 1, "message": "?", "data": null } })
    );
}

#[test]
fn an_error_without_a_readable_id_answers_nobody() {
    let message = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}"#;
    assert_eq!(
        read(message),
        json!({ "answers": null, "error": { "code": -32700, "message": "?" } })
    );
}

const FIRST_STATELESS: wire::ProtocolVersion = wire::ProtocolVersion::V2026_07_28;

/// What a message was read as, in words that can be compared.
fn read(message: &str) -> Value {
    let decode = |raw: &serde_json::value::RawValue| {
        serde_json::from_str::<Value>(raw.get()).expect("JSON within JSON")
    };
    match wire::Incoming::parse(message.as_bytes()) {
        Ok(wire::Incoming::Request { id, method, .. }) => {
            let whole: Value = serde_json::from_str(message).expect("it was read");
            json!({ "request": method, "id": id, "params": whole.get("params") })
        }
        Ok(wire::Incoming::Notification { method, params }) => {
            json!({ "notification": method, "params": params.map(decode) })
        }
        Ok(wire::Incoming::Response {
            id,
            outcome: Ok(raw),
        }) => json!({ "answers": id, "result": decode(raw) }),
        Ok(wire::Incoming::Response {
            id,
            outcome: Err(error),
        }) => json!({ "answers": id, "error": error }),
        Ok(other) => panic!("a kind of message nobody knows: {other:?}"),
        Err(rejected) => json!({ "rejected": rejected.error }),
    }
}

/// Every order of some members.
fn orders<'a>(members: &[&'a str]) -> Vec<Vec<&'a str>> {
    if members.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (index, first) in members.iter().enumerate() {
        let rest = [&members[..index], &members[index + 1..]].concat();
        all.extend(
            orders(&rest)
                .into_iter()
                .map(|tail| [&[*first], &tail[..]].concat()),
        );
    }
    all
}
