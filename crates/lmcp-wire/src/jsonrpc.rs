//! The JSON-RPC envelope: parses one message, and writes one message.
//!
//! `params` and `result` stay raw here. They are decoded once the method is known, into exactly one type.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, IgnoredAny},
};
use serde_json::value::RawValue;

pub use crate::{batch::batch, depth::is_deeper};
use crate::{
    error::RpcError,
    limits::{LONGEST_ERROR, LONGEST_ID, LONGEST_NAME},
    name::Beginning,
    params::Params,
    shape::{Text, Unescaped, object, object_or_null, present},
};

/// The id of a request: a string or an integer, never null.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum RequestId {
    /// An integer.
    Number(i64),
    /// A string.
    String(Box<str>),
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::String(text) => text.fmt(f),
        }
    }
}

impl From<i64> for RequestId {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for RequestId {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = RequestId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an integer of 64 bits")
            }

            fn visit_i64<E>(self, number: i64) -> Result<RequestId, E> {
                Ok(RequestId::Number(number))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<RequestId, E> {
                let number = i64::try_from(number);
                number
                    .map(RequestId::Number)
                    .map_err(|_| E::custom("an integer of 64 bits is expected"))
            }

            /// Some clients count in floating point: `1.0` is the integer 1.
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<RequestId, E> {
                /// Every whole double below this number is exact.
                const SAFE: f64 = 9_007_199_254_740_992.0;
                if number.fract() != 0.0 || number.abs() >= SAFE {
                    return Err(E::custom("an integer of 64 bits is expected"));
                }
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "checked in the lines above"
                )]
                let number = number as i64;
                Ok(RequestId::Number(number))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<RequestId, E> {
                if text.len() > LONGEST_ID {
                    return Err(E::custom("at most 1024 bytes are expected"));
                }
                Ok(RequestId::String(text.into()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A message from the peer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Incoming<'a> {
    /// A request, which wants an answer.
    Request {
        /// The id, which the answer repeats.
        id: RequestId,
        /// The method that is requested.
        method: Cow<'a, str>,
        /// The parameters, cut into members that are still raw. [`params`] decodes them as a whole.
        params: Params<'a>,
    },
    /// A notification, which wants no answer.
    Notification {
        /// The event.
        method: Cow<'a, str>,
        /// The parameters, still raw.
        params: Option<&'a RawValue>,
    },
    /// An answer to a request.
    Response {
        /// The id of the request. Absent if the peer could not tell it.
        id: Option<RequestId>,
        /// The raw `result`, or the `error`.
        outcome: Result<&'a RawValue, RpcError>,
    },
}

/// A message that is refused, and its answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rejected {
    /// The id, if it could be read.
    pub id: Option<RequestId>,
    /// The error to answer with.
    pub error: RpcError,
}

/// An ordinary request or result, which is read in one pass.
#[derive(Deserialize)]
struct Plain<'a> {
    #[serde(borrow)]
    jsonrpc: Unescaped<'a>,
    id: RequestId,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<Unescaped<'a>>,
    #[serde(borrow, default, deserialize_with = "object_or_null")]
    params: Option<Params<'a>>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<IgnoredAny>,
}

/// Any other message. It is read member by member, so that the fault can be named.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
pub(crate) struct Members<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(crate) method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(crate) params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(crate) error: Option<&'a RawValue>,
}

impl<'a> Incoming<'a> {
    /// Reads one message.
    ///
    /// # Errors
    /// The error to answer with: the text is not JSON, or not JSON-RPC. The error carries the id if that could be read.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Rejected> {
        let text = std::str::from_utf8(bytes).map_err(|err| {
            nameless(RpcError::parse(format!(
                "invalid UTF-8 at byte {}",
                err.valid_up_to()
            )))
        })?;
        if text.trim_start().starts_with('[') {
            return Err(nameless(RpcError::invalid_request(
                "a message is one object; only 2025-03-26 has batches",
            )));
        }
        if let Ok(Plain {
            jsonrpc: Unescaped("2.0"),
            id,
            method,
            params,
            result,
            error: None,
        }) = serde_json::from_str(text)
        {
            match (method, result) {
                (Some(Unescaped(method)), None) if method.len() <= LONGEST_NAME => {
                    let (method, params) = (Cow::Borrowed(method), params.unwrap_or_default());
                    return Ok(Self::Request { id, method, params });
                }
                (None, Some(result)) => {
                    let (id, outcome) = (Some(id), Ok(result));
                    return Ok(Self::Response { id, outcome });
                }
                (Some(_), _) | (None, None) => {}
            }
        }
        let mut json = serde_json::Deserializer::from_str(text);
        let read = object(&mut json).and_then(|members: Members<'a>| json.end().map(|()| members));
        read.map_err(|err| nameless(unreadable(&err)))?.classify()
    }
}

impl<'a> Members<'a> {
    fn classify(self) -> Result<Incoming<'a>, Rejected> {
        let id = match self
            .id
            .map(|raw| serde_json::from_str::<RequestId>(raw.get()))
        {
            None => None,
            Some(Ok(id)) => Some(id),
            // In older revisions, the error for a message that the peer could not read has `"id": null`.
            Some(Err(_)) if self.method.is_none() && self.error.is_some() => None,
            Some(Err(_)) => {
                return Err(nameless(RpcError::invalid_request(
                    "`id` must be a string or an integer",
                )));
            }
        };
        let invalid = |message: &'static str| {
            Err(Rejected {
                id: id.clone(),
                error: RpcError::invalid_request(message),
            })
        };
        if !self.jsonrpc.is_some_and(is_version_two) {
            return invalid("`jsonrpc` must be \"2.0\"");
        }
        let Some(method) = self.method else {
            return match (self.result, self.error) {
                (Some(result), None) => Ok(Incoming::Response {
                    id,
                    outcome: Ok(result),
                }),
                (None, Some(error)) => Ok(Incoming::Response {
                    id,
                    outcome: Err(read_error(error.get())),
                }),
                _ => invalid("a message has a `method`, a `result` or an `error`"),
            };
        };
        if self.result.is_some() || self.error.is_some() {
            return invalid("a message with a `method` has neither `result` nor `error`");
        }
        if method.get().len() > LONGEST_NAME + 2 {
            let error = long_method(method.get());
            return Err(Rejected { id, error });
        }
        let Ok(Text(method)) = serde_json::from_str(method.get()) else {
            return invalid("`method` must be a string");
        };
        let Some(id) = id else {
            return Ok(Incoming::Notification {
                method,
                params: self.params,
            });
        };
        let params = self.params.filter(|params| params.get() != "null");
        if params.is_some_and(|params| !params.get().starts_with('{')) {
            let error = RpcError::invalid_params("`params` must be an object");
            return Err(Rejected {
                id: Some(id),
                error,
            });
        }
        match serde_json::from_str(params.map_or("{}", RawValue::get)) {
            Ok(params) => Ok(Incoming::Request { id, method, params }),
            Err(err) => {
                let error =
                    RpcError::invalid_params(format!("`params` does not fit: {}", Beginning(err)));
                Err(Rejected {
                    id: Some(id),
                    error,
                })
            }
        }
    }
}

/// Whether the member is `"2.0"`. It hardly ever has escapes.
fn is_version_two(raw: &RawValue) -> bool {
    raw.get() == r#""2.0""#
        || serde_json::from_str(raw.get()).is_ok_and(|Text(version)| version == "2.0")
}

/// Reads the error of a response. If it is long, its words are cut and its `data` is left out: a few bytes of JSON can become
/// many values.
fn read_error(json: &str) -> RpcError {
    #[derive(Deserialize)]
    struct Short {
        code: i64,
        message: String,
    }
    let error = if json.len() <= LONGEST_ERROR {
        serde_json::from_str(json).ok()
    } else {
        let short = serde_json::from_str(json).ok();
        short.map(|Short { code, mut message }| {
            if message.len() > LONGEST_ERROR {
                message.truncate(message.floor_char_boundary(LONGEST_ERROR));
                message.push('…');
                message.shrink_to_fit();
            }
            RpcError::new(code, message)
        })
    };
    error.unwrap_or_else(|| RpcError::internal("the peer sent a malformed error"))
}

fn long_method(method: &str) -> RpcError {
    let (bytes, shown) = (method.len(), Beginning(method));
    RpcError::invalid_request(format!(
        "`method` has at most {LONGEST_NAME} bytes, not {bytes}: {shown}"
    ))
}

fn nameless(error: RpcError) -> Rejected {
    Rejected { id: None, error }
}

fn unreadable(err: &serde_json::Error) -> RpcError {
    if err.is_data() {
        RpcError::invalid_request(format!("not a JSON-RPC message: {}", Beginning(err)))
    } else {
        RpcError::parse(format!("not JSON: {}", Beginning(err)))
    }
}

/// Decodes the parameters of a message as one type. Absent parameters count as empty ones.
///
/// # Errors
/// The parameters do not fit the type.
pub fn params<'a, T: Deserialize<'a>>(message: &'a str) -> serde_json::Result<T> {
    #[derive(Deserialize)]
    struct Outer<T> {
        params: Option<T>,
    }
    match serde_json::from_str::<Outer<T>>(message)?.params {
        Some(params) => Ok(params),
        None => serde_json::from_str("{}"),
    }
}

/// Begins a result response. The caller writes the result and closes the response with `}`.
pub fn open_result(out: &mut Vec<u8>, id: &RequestId) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    append(out, id);
    out.extend_from_slice(b",\"result\":");
}

/// Writes a whole result response.
pub fn result(id: &RequestId, result: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    open_result(&mut out, id);
    append(&mut out, result);
    out.push(b'}');
    out
}

/// Writes a whole error response. Without an id the member is left out: `null` is not a valid id.
pub fn error(id: Option<&RequestId>, error: &RpcError) -> Vec<u8> {
    let mut out = Vec::with_capacity(160);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
    if let Some(id) = id {
        out.extend_from_slice(b",\"id\":");
        append(&mut out, id);
    }
    out.extend_from_slice(b",\"error\":");
    append(&mut out, error);
    out.push(b'}');
    out
}

/// Begins a request. The caller writes the parameters and closes the request with `}`.
pub fn open_request(out: &mut Vec<u8>, id: &RequestId, method: &str) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    append(out, id);
    out.extend_from_slice(b",\"method\":");
    append(out, method);
    out.extend_from_slice(b",\"params\":");
}

/// Writes a whole request whose parameters are JSON already.
pub fn request_with(id: &RequestId, method: &str, params: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(80 + method.len() + params.len());
    open_request(&mut out, id, method);
    out.extend_from_slice(params);
    out.push(b'}');
    out
}

/// Writes a whole notification.
pub fn notification(method: &str, params: &impl Serialize) -> Vec<u8> {
    let mut text = Vec::with_capacity(128);
    append(&mut text, params);
    notification_with(method, &text)
}

/// Writes a whole notification whose parameters are JSON already.
pub fn notification_with(method: &str, params: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + method.len() + params.len());
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"method\":");
    append(&mut out, method);
    out.extend_from_slice(b",\"params\":");
    out.extend_from_slice(params);
    out.push(b'}');
    out
}

/// Appends a value as JSON.
pub fn append<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    // A `Vec` takes every byte. Only a map with keys that are no strings can fail, and no wire type has one.
    serde_json::to_writer(out, value).expect("wire types serialise");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(text: &str) -> (Option<RequestId>, i64) {
        let rejected = Incoming::parse(text.as_bytes()).expect_err(text);
        (rejected.id, rejected.error.code)
    }

    #[test]
    fn a_whole_number_is_an_id_however_it_is_written() {
        let id = |text: &str| serde_json::from_str::<RequestId>(text).ok();
        assert_eq!(id("1.0"), Some(RequestId::Number(1)));
        assert_eq!((id("1.5"), id("1e300")), (None, None));
    }

    #[test]
    fn each_malformed_message_gets_its_code() {
        use crate::error::{INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR};
        for (text, id, code) in [
            ("{", None, PARSE_ERROR),
            ("\u{0}", None, PARSE_ERROR),
            ("5", None, INVALID_REQUEST),
            ("[]", None, INVALID_REQUEST),
            (
                r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#,
                None,
                INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#,
                None,
                INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#,
                None,
                INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":99999999999999999999,"method":"m"}"#,
                None,
                INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#,
                None,
                INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#,
                Some(1.into()),
                INVALID_REQUEST,
            ),
            (r#"{"id":1,"method":"m"}"#, Some(1.into()), INVALID_REQUEST),
            (
                r#"{"jsonrpc":"2.0","id":1}"#,
                Some(1.into()),
                INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":"a","method":5}"#,
                Some("a".into()),
                INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","result":1}"#,
                Some(1.into()),
                INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[]}"#,
                Some(1.into()),
                INVALID_PARAMS,
            ),
        ] {
            assert_eq!(rejected(text), (id, code), "{text}");
        }
        assert_eq!(
            Incoming::parse(b"\xff").expect_err("not UTF-8").error.code,
            PARSE_ERROR
        );
    }

    #[test]
    fn members_come_in_any_order() {
        let message = br#"{"params":{"name":1},"method":"m\u0021","id":"x","jsonrpc":"2.0"}"#;
        let Ok(Incoming::Request { id, method, params }) = Incoming::parse(message) else {
            panic!("a request")
        };
        assert_eq!((id, &*method), ("x".into(), "m!"));
        assert_eq!(params.name.unwrap().get(), "1");
    }

    #[test]
    fn a_notification_is_never_answered_for_its_params() {
        for params in ["[]", "null", "5"] {
            let message = format!(r#"{{"jsonrpc":"2.0","method":"m","params":{params}}}"#);
            assert!(matches!(
                Incoming::parse(message.as_bytes()),
                Ok(Incoming::Notification { .. })
            ));
        }
    }

    #[test]
    fn deep_nesting_is_carried_unread() {
        let message = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"a":{}1{}}}}}"#,
            "[".repeat(9000),
            "]".repeat(9000)
        );
        assert!(matches!(
            Incoming::parse(message.as_bytes()),
            Ok(Incoming::Request { .. })
        ));
    }

    #[test]
    fn a_long_error_is_cut_between_two_letters() {
        let words = format!("x{}", "ä".repeat(LONGEST_ERROR));
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":7,"message":"{words}","data":[1]}}}}"#
        );
        let Ok(Incoming::Response { outcome, .. }) = Incoming::parse(text.as_bytes()) else {
            panic!("it is a response");
        };
        let error = outcome.unwrap_err();
        assert_eq!((error.code, &error.data), (7, &None));
        assert!(error.message.ends_with("ä…") && error.message.len() <= LONGEST_ERROR + 3);
    }

    #[test]
    fn an_error_without_a_readable_id_is_a_response() {
        let message = br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}"#;
        assert!(matches!(
            Incoming::parse(message),
            Ok(Incoming::Response {
                id: None,
                outcome: Err(_)
            })
        ));
    }
}
