//! Reads the outside of a message without its contents, for programs that pass messages on.
//!
//! [`Envelope::read`] returns the kind of a message, its id and its method, and checks nothing else: the peer that gets the
//! message does that. [`Incoming`](crate::Incoming) reads messages that are answered here.

use std::borrow::Cow;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{
    jsonrpc::{Members, RequestId},
    shape::Text,
};

/// One message of either side.
#[derive(Clone, Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "JSON-RPC has these, and whoever passes messages on decides about each"
)]
pub enum Envelope<'a> {
    /// A request, which wants an answer.
    Request {
        /// The id, which the answer repeats.
        id: RequestId,
        /// The id as it is written in the line.
        raw_id: &'a str,
        /// The method that is requested.
        method: Cow<'a, str>,
        /// The parameters; `{}` if absent.
        params: &'a str,
    },
    /// A notification, which wants no answer.
    Notification {
        /// The event.
        method: Cow<'a, str>,
        /// The parameters; `{}` if absent.
        params: &'a str,
    },
    /// An answer to a request.
    Response {
        /// The id of the request.
        id: RequestId,
        /// The id as it is written in the line.
        raw_id: &'a str,
        /// The result. `None`: the answer is an error.
        result: Option<&'a str>,
    },
    /// A message with an id, but without method, result or error.
    Hollow {
        /// The id of the request that it should answer.
        id: RequestId,
    },
    /// An error that names no request: the peer could not tell which one it answers.
    Nameless,
    /// Anything else.
    Unreadable,
}

impl<'a> Envelope<'a> {
    /// Reads one message. Members that are `null` count as absent, except the id of a request and the result of a response.
    pub fn read(line: &'a [u8]) -> Self {
        let members = std::str::from_utf8(line)
            .ok()
            .filter(|text| text.trim_start().starts_with('{'))
            .and_then(|text| serde_json::from_str::<Members<'_>>(text).ok());
        let Some(members) = members else {
            return Self::Unreadable;
        };
        let given = |member: Option<&'a RawValue>| member.filter(|raw| raw.get() != "null");
        let (raw_id, error) = (members.id.map(RawValue::get), given(members.error));
        let id = raw_id.and_then(|raw| serde_json::from_str::<RequestId>(raw).ok());
        let params = given(members.params).map_or("{}", RawValue::get);
        let method = given(members.method).map(|method| serde_json::from_str(method.get()));
        match (id, raw_id, method) {
            (Some(id), Some(raw_id), Some(Ok(Text(method)))) => Self::Request {
                id,
                raw_id,
                method,
                params,
            },
            (None, None, Some(Ok(Text(method)))) => Self::Notification { method, params },
            (Some(id), Some(raw_id), None) => match (members.result, error) {
                (None, None) => Self::Hollow { id },
                (result, _) => Self::Response {
                    id,
                    raw_id,
                    result: result.map(RawValue::get),
                },
            },
            (None, _, None) if error.is_some() => Self::Nameless,
            _ => Self::Unreadable,
        }
    }
}

/// Returns the line with another text in the place of a part, which must be a slice of the line.
pub fn replace(line: &[u8], part: &str, with: &str) -> Vec<u8> {
    let start = part.as_ptr().addr() - line.as_ptr().addr();
    let (before, rest) = line.split_at(start);
    let after = rest.get(part.len()..).unwrap_or_default();
    [before, with.as_bytes(), after].concat()
}

/// Returns the request that a `notifications/cancelled` is about: its id, parsed and as it is written.
pub fn cancelled(params: &str) -> Option<(RequestId, &str)> {
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

/// Returns the subscription that a notification belongs to (2026-07-28).
pub fn subscription(params: &str) -> Option<RequestId> {
    #[derive(Deserialize)]
    struct Outer {
        #[serde(rename = "_meta")]
        meta: Inner,
    }
    #[derive(Deserialize)]
    struct Inner {
        // `crate::meta::SUBSCRIPTION_ID`
        #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
        id: RequestId,
    }
    let outer: Outer = serde_json::from_str(params).ok()?;
    Some(outer.meta.id)
}

/// Returns the revision that the result of a handshake names.
pub fn agreed_version(result: &str) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Agreed {
        protocol_version: String,
    }
    let agreed: Agreed = serde_json::from_str(result).ok()?;
    Some(agreed.protocol_version)
}

/// Finds the id and the method of a message that is too long to be read, from its two ends.
pub fn glimpse(head: &[u8], tail: &[u8]) -> Seen {
    let mut seen = Seen::default();
    let mut reader = serde_json::Deserializer::from_slice(head);
    // The reader ends with an error where the head breaks off. Until then it has noted the members before.
    let _ = Glimpse(&mut seen).deserialize(&mut reader);
    seen.id = seen.id.or_else(|| last_id(tail));
    seen
}

/// The parts that were seen of a long message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seen {
    /// The id of the message.
    pub id: Option<RequestId>,
    /// The method of the message. `None`: a method may still be between the two ends.
    pub method: Option<String>,
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
            // Another member follows the id, so the id was not cut off.
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

/// Returns the id if it is the last member of the message, as some programs write it.
fn last_id(tail: &[u8]) -> Option<RequestId> {
    let text = String::from_utf8_lossy(tail);
    let text = text.trim_end();
    let text = text.strip_suffix('}')?.trim_end();
    // Only a member that the very last brace closes belongs to the message itself.
    let text = without_last(text, &[r#""2.0""#, ":", r#""jsonrpc""#, ","]).unwrap_or(text);
    let (_, id) = text.rsplit_once(r#""id""#)?;
    serde_json::from_str(id.trim_start().strip_prefix(':')?).ok()
}

/// Returns the text without these last words, whatever spaces are between them.
fn without_last<'a>(text: &'a str, words: &[&str]) -> Option<&'a str> {
    let without = |text: &'a str, word: &&str| text.trim_end().strip_suffix(word);
    words.iter().try_fold(text, without)
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
            (r#"{"id":1.5,"error":{}}"#, "Nameless"),
            (r#"{"id":null,"method":"m"}"#, "Unreadable"),
            (r#"{"id":1.5,"method":"m"}"#, "Unreadable"),
            (r#"{"id":1,"method":5}"#, "Unreadable"),
            (r#"{"id":1,"method":null,"result":{}}"#, "Response"),
            (r#"{"id":1}"#, "Hollow"),
            (r#"{"id":1,"error":null}"#, "Hollow"),
            (r#"{"id":1,"id":2,"method":"m"}"#, "Unreadable"),
            (r#"[1]"#, "Unreadable"),
            ("{", "Unreadable"),
        ] {
            let found = format!("{:?}", Envelope::read(line.as_bytes()));
            assert!(found.starts_with(kind), "{line}: {found}");
        }
        assert!(matches!(Envelope::read(b"\xff"), Envelope::Unreadable));
    }

    #[test]
    fn a_part_is_replaced_where_it_stands() {
        let line = br#"{"id":"x","result":{"id":"x"}}"#;
        let Envelope::Response { raw_id, .. } = Envelope::read(line) else {
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
