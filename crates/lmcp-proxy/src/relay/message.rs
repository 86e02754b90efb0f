//! Reading as much of a message as one who passes it on must know. Not checking it: that is the peer's business.

use std::borrow::Cow;

use lmcp_wire::{RequestId, method::request};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// One message of either side.
#[derive(Debug)]
pub(super) enum Message<'a> {
    Request {
        id: RequestId,
        /// As it stands in the line.
        raw_id: &'a str,
        method: Cow<'a, str>,
        params: &'a str,
    },
    Notification {
        method: Cow<'a, str>,
        params: &'a str,
    },
    Response {
        id: RequestId,
        raw_id: &'a str,
        /// `None`: it is an error.
        result: Option<&'a str>,
    },
    /// It would be an answer, but for the answer.
    Hollow { id: RequestId },
    /// An error that answers nothing that could be read.
    Nameless,
    /// Anything else.
    Unreadable,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<IgnoredAny>,
}

/// Keeps `null` apart from absence.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl<'a> Message<'a> {
    pub(super) fn read(line: &'a [u8]) -> Self {
        let envelope = std::str::from_utf8(line)
            .ok()
            .filter(|text| text.trim_start().starts_with('{'))
            .and_then(|text| serde_json::from_str::<Envelope<'_>>(text).ok());
        let Some(envelope) = envelope else {
            return Self::Unreadable;
        };
        let raw_id = envelope.id.map(RawValue::get);
        let id = raw_id.map(serde_json::from_str::<RequestId>);
        let method = envelope.method.map(|method| text(method.get()));
        let params = envelope.params.map_or("{}", RawValue::get);
        match (id, raw_id, method) {
            (Some(Ok(id)), Some(raw_id), Some(Some(method))) => Self::Request {
                id,
                raw_id,
                method,
                params,
            },
            (None, _, Some(Some(method))) => Self::Notification { method, params },
            (Some(Ok(id)), Some(raw_id), None) => match (envelope.result, envelope.error) {
                (None, None) => Self::Hollow { id },
                (result, _) => Self::Response {
                    id,
                    raw_id,
                    result: result.map(RawValue::get),
                },
            },
            (None, _, None) if envelope.error.is_some() => Self::Nameless,
            (_, Some("null"), None) if envelope.error.is_some() => Self::Nameless,
            _ => Self::Unreadable,
        }
    }
}

/// The messages of a batch. `None`: it is not one.
pub(super) fn batch(line: &[u8]) -> Option<Vec<&RawValue>> {
    let text = std::str::from_utf8(line).ok()?;
    if !text.trim_start().starts_with('[') {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// Messages as one batch.
pub(super) fn join(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut line = b"[".to_vec();
    line.extend_from_slice(&messages.join(&b','));
    line.push(b']');
    line
}

/// The line with other words in the place of a part of it.
pub(super) fn replace(line: &[u8], part: &str, with: &str) -> Vec<u8> {
    let start = part.as_ptr().addr() - line.as_ptr().addr();
    let (before, rest) = line.split_at(start);
    let after = rest.get(part.len()..).unwrap_or_default();
    [before, with.as_bytes(), after].concat()
}

/// The request that a `notifications/cancelled` is about.
pub(super) fn cancelled(params: &str) -> Option<(RequestId, &str)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Cancelled<'a> {
        #[serde(borrow)]
        request_id: &'a RawValue,
    }
    let raw = serde_json::from_str::<Cancelled<'_>>(params).ok()?;
    let raw = raw.request_id.get();
    Some((serde_json::from_str(raw).ok()?, raw))
}

/// The subscription that a notification belongs to.
pub(super) fn subscription(params: &str) -> Option<RequestId> {
    #[derive(Deserialize)]
    struct Outer {
        #[serde(rename = "_meta")]
        meta: Inner,
    }
    #[derive(Deserialize)]
    struct Inner {
        // `lmcp_wire::meta::SUBSCRIPTION_ID`
        #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
        id: RequestId,
    }
    let outer: Outer = serde_json::from_str(params).ok()?;
    Some(outer.meta.id)
}

/// May the next server have it although the one before had it already? It changes nothing, or nothing that is not
/// lost with the connection.
pub(super) fn is_repeatable(method: &str) -> bool {
    const REPEATABLE: [&str; 7] = [
        request::INITIALIZE,
        request::DISCOVER,
        request::LISTEN,
        request::PING,
        request::SET_LEVEL,
        request::SUBSCRIBE,
        request::UNSUBSCRIBE,
    ];
    REPEATABLE.contains(&method)
}

/// What can be told of a message that is too long to be read: the id stands at one of its ends.
pub(super) fn glimpse(head: &[u8], tail: &[u8]) -> Seen {
    let mut seen = Seen::default();
    let mut reader = serde_json::Deserializer::from_slice(head);
    // It ends with an error, in the middle of something; until then it has seen what there was.
    let _ = Glimpse(&mut seen).deserialize(&mut reader);
    seen.id = seen.id.or_else(|| last_id(tail));
    seen
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) id: Option<RequestId>,
    /// If there was none, it may still stand further behind.
    pub(super) method: Option<String>,
}

struct Glimpse<'a>(&'a mut Seen);

impl<'de> DeserializeSeed<'de> for Glimpse<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Glimpse<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> Result<(), M::Error> {
        let mut id = None;
        while let Some(name) = members.next_key::<Cow<'_, str>>()? {
            // Something stands behind it, so it was not cut off.
            self.0.id = self.0.id.take().or(id.take());
            match &*name {
                "id" => id = Some(members.next_value()?),
                "method" => self.0.method = Some(members.next_value()?),
                _ => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// An id that stands last in its message, as some write it.
fn last_id(tail: &[u8]) -> Option<RequestId> {
    let text = String::from_utf8_lossy(tail);
    let text = text.trim_end();
    let text = text.strip_suffix('}')?.trim_end();
    // Only what is closed by the very last brace belongs to the message itself.
    let text = without_last(text, &[r#""2.0""#, ":", r#""jsonrpc""#, ","]).unwrap_or(text);
    let (_, id) = text.rsplit_once(r#""id""#)?;
    serde_json::from_str(id.trim_start().strip_prefix(':')?).ok()
}

/// The text without these last words, however they are spaced.
fn without_last<'a>(text: &'a str, words: &[&str]) -> Option<&'a str> {
    let without = |text: &'a str, word: &&str| text.trim_end().strip_suffix(word);
    words.iter().try_fold(text, without)
}

/// A JSON string, borrowed where it has no escapes.
fn text(raw: &str) -> Option<Cow<'_, str>> {
    let plain = raw.strip_prefix('"')?.strip_suffix('"')?;
    if plain.contains('\\') {
        return serde_json::from_str(raw).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_message_is_told_apart() {
        for (line, kind) in [
            (r#"{"id":1,"method":"m\u0021","params":{}}"#, "Request"),
            (r#" {"result":null,"jsonrpc":"2.0","id":"a"} "#, "Response"),
            (r#"{"id":1,"error":{"code":1,"message":""}}"#, "Response"),
            (r#"{"method":"m"}"#, "Notification"),
            (r#"{"id":null,"error":{"code":1,"message":""}}"#, "Nameless"),
            (r#"{"error":{"code":1,"message":""}}"#, "Nameless"),
            (r#"{"id":null,"method":"m"}"#, "Unreadable"),
            (r#"{"id":1.5,"method":"m"}"#, "Unreadable"),
            (r#"{"id":1,"method":5}"#, "Unreadable"),
            (r#"{"id":1,"method":null,"result":{}}"#, "Unreadable"),
            (r#"{"id":1}"#, "Hollow"),
            (r#"{"id":1,"error":null}"#, "Hollow"),
            (r#"{"id":1,"id":2,"method":"m"}"#, "Unreadable"),
            (r#"[1]"#, "Unreadable"),
            ("{", "Unreadable"),
        ] {
            let found = format!("{:?}", Message::read(line.as_bytes()));
            assert!(found.starts_with(kind), "{line}: {found}");
        }
        assert!(matches!(Message::read(b"\xff"), Message::Unreadable));
    }

    #[test]
    fn a_part_is_replaced_where_it_stands() {
        let line = br#"{"id":"x","result":{"id":"x"}}"#;
        let Message::Response { raw_id, .. } = Message::read(line) else {
            panic!("a response")
        };
        assert_eq!(
            replace(line, raw_id, "17"),
            br#"{"id":17,"result":{"id":"x"}}"#
        );
    }

    #[test]
    fn the_id_of_a_long_message_is_found_at_either_end() {
        for (head, tail, id, method) in [
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":"xx"#,
                "",
                Some(7.into()),
                Some("m"),
            ),
            (
                r#"{"method":"m","id":"a","params":[["x"#,
                "",
                Some("a".into()),
                Some("m"),
            ),
            (
                r#"{"result":{"id":3,"b":"xx"#,
                r#"xx"},"jsonrpc":"2.0","id":9}"#,
                Some(9.into()),
                None,
            ),
            (
                r#"{"result":{"b":"xx"#,
                r#"xx"}, "id" : "9:1" , "jsonrpc": "2.0"} "#,
                Some("9:1".into()),
                None,
            ),
            (r#"{"result":{"b":"xx"#, r#"xx","id":9}}"#, None, None),
            (
                r#"[{"id":1,"result":{"b":"xx"#,
                r#"xx"},"id":9}]"#,
                None,
                None,
            ),
            (r#"{"id":12"#, "", None, None),
            ("xxxx", "xxxx", None, None),
        ] {
            let method = method.map(str::to_owned);
            let found = glimpse(head.as_bytes(), tail.as_bytes());
            assert_eq!(found, Seen { id, method }, "{head} … {tail}");
        }
    }
}
