//! What holds for every input: nothing panics, and what is written can be read.

use lmcp_wire as wire;
use proptest::{
    collection::{btree_map, vec},
    option,
    prelude::*,
    sample::select,
};
use serde_json::Value;
use wire::{header, jsonrpc};

proptest! {
    #[test]
    fn a_header_value_decodes_to_what_was_encoded(text in header_like()) {
        let encoded = header::encode(&text);
        let decoded = header::decode(&encoded);
        prop_assert_eq!(decoded.as_deref(), Some(text.as_str()));
    }

    #[test]
    fn a_header_value_is_printable_ascii(text in header_like()) {
        let encoded = header::encode(&text);
        prop_assert!(encoded.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{encoded:?}");
    }

    // What is around a header value is cut off on its way.
    #[test]
    fn a_header_value_has_no_space_at_its_ends(text in header_like()) {
        let encoded = header::encode(&text);
        prop_assert_eq!(encoded.trim(), &*encoded);
    }

    #[test]
    fn any_header_value_is_decoded_or_refused(value in header_like()) {
        let _ = header::decode(&value);
    }

    #[test]
    fn any_bytes_are_a_message_or_a_rejection(bytes in vec(any::<u8>(), 0..256)) {
        let _ = wire::Incoming::parse(&bytes);
    }

    #[test]
    fn any_text_is_a_message_or_a_rejection(text in text()) {
        let _ = wire::Incoming::parse(text.as_bytes());
    }

    #[test]
    fn json_of_any_shape_is_never_called_unreadable(value in prop_oneof![json(), envelope()]) {
        if let Err(rejected) = wire::Incoming::parse(value.to_string().as_bytes()) {
            prop_assert_ne!(rejected.error.code, wire::error::PARSE_ERROR);
        }
    }

    #[test]
    fn an_id_decodes_to_what_was_encoded(id in id()) {
        let encoded = serde_json::to_string(&id).unwrap();
        prop_assert_eq!(serde_json::from_str::<wire::RequestId>(&encoded).unwrap(), id);
    }

    #[test]
    fn a_result_is_read_as_it_was_written(written_id in id(), value in json()) {
        let message = jsonrpc::result(&written_id, &value);
        let Ok(wire::Incoming::Response { id, outcome: Ok(raw) }) = wire::Incoming::parse(&message) else {
            return Err(TestCaseError::fail("not read as a result"));
        };
        prop_assert_eq!((id, raw.get().to_owned()), (Some(written_id), value.to_string()));
    }

    #[test]
    fn an_error_is_read_as_it_was_written(written_id in option::of(id()), written in error()) {
        let message = jsonrpc::error(written_id.as_ref(), &written);
        let Ok(wire::Incoming::Response { id, outcome: Err(error) }) = wire::Incoming::parse(&message) else {
            return Err(TestCaseError::fail("not read as an error"));
        };
        prop_assert_eq!((id, error), (written_id, written));
    }

    #[test]
    fn a_notification_is_read_as_it_was_written(written in text(), value in object()) {
        let message = jsonrpc::notification(&written, &value);
        let Ok(wire::Incoming::Notification { method, params: Some(raw) }) = wire::Incoming::parse(&message) else {
            return Err(TestCaseError::fail("not read as a notification"));
        };
        prop_assert_eq!((method.into_owned(), raw.get().to_owned()), (written, value.to_string()));
    }

    #[test]
    fn structured_content_is_read_as_it_was_written(value in json()) {
        let mut result = wire::CallToolResult::default();
        result.structured_content = Some(value);
        let encoded = serde_json::to_string(&result).unwrap();
        prop_assert_eq!(serde_json::from_str::<wire::CallToolResult>(&encoded).unwrap(), result);
    }

    #[test]
    fn a_message_is_one_line(id in id(), value in json()) {
        prop_assert!(!jsonrpc::result(&id, &value).contains(&b'\n'));
    }

    #[test]
    fn any_text_is_a_meta_key_or_not(text in text()) {
        let _ = wire::meta::is_key(&text);
    }

    // Spec, basic/index: labels of letters, digits and hyphens, a slash, and a name.
    #[test]
    fn what_the_grammar_of_meta_keys_builds_is_a_key(
        key in "([a-zA-Z]([a-zA-Z0-9-]{0,4}[a-zA-Z0-9])?(\\.[a-zA-Z]([a-zA-Z0-9-]{0,4}[a-zA-Z0-9])?){0,3}/)?\
                ([a-zA-Z0-9]([a-zA-Z0-9_.-]{0,8}[a-zA-Z0-9])?)?"
    ) {
        prop_assert!(wire::meta::is_key(&key), "{key:?}");
    }
}

/// Any characters, control characters too.
fn text() -> impl Strategy<Value = String> {
    vec(any::<char>(), 0..40).prop_map(String::from_iter)
}

/// Any text, and more often than by chance one that looks encoded or is padded.
fn header_like() -> impl Strategy<Value = String> {
    prop_oneof![
        text(),
        "[ -~]{0,20}",
        "[ \t]{0,2}[ -~]{0,10}[ \t]{0,2}",
        "(=\\?base64\\?)?[A-Za-z0-9+/]{0,8}={0,2}(\\?=)?",
    ]
}

fn id() -> impl Strategy<Value = wire::RequestId> {
    prop_oneof![
        any::<i64>().prop_map(wire::RequestId::from),
        text().prop_map(|text| wire::RequestId::from(text.as_str()))
    ]
}

fn error() -> impl Strategy<Value = wire::RpcError> {
    (any::<i64>(), text(), option::of(json())).prop_map(|(code, message, data)| {
        let error = wire::RpcError::new(code, message);
        match data {
            Some(data) => error.with_data(data),
            None => error,
        }
    })
}

fn json() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            members(inner).prop_map(Value::from)
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    members(json()).prop_map(Value::from)
}

/// An object of the right members with any values.
fn envelope() -> impl Strategy<Value = Value> {
    let version = prop_oneof![Just(Value::from("2.0")), leaf()];
    (version, members(json())).prop_map(|(version, mut members)| {
        members.insert("jsonrpc".into(), version);
        members.into()
    })
}

fn members(value: impl Strategy<Value = Value>) -> impl Strategy<Value = wire::Object> {
    let name = prop_oneof![
        select(&["id", "method", "params", "result", "error"][..]).prop_map(String::from),
        text()
    ];
    btree_map(name, value, 0..6).prop_map(wire::Object::from_iter)
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // Eighths: `serde_json` reads them back exactly, as it need not every float.
        any::<i32>().prop_map(|eighths| Value::from(f64::from(eighths) / 8.0)),
        text().prop_map(Value::from),
    ]
}
