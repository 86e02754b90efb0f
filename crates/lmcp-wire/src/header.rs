//! Header values that mirror parts of the body: `Mcp-Name` and `Mcp-Param-*`; and the token of `Authorization`.
//!
//! A value is plain if every character is printable ASCII, else `=?base64?…?=`. Decoding is strict: a value that claims to be
//! Base64 and is not is an error, and a value without both markers is literal text.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// Header naming the protocol revision of the request.
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// Header naming the method.
pub const METHOD: &str = "mcp-method";
/// Header naming the tool, prompt, resource or task.
pub const NAME: &str = "mcp-name";
/// Header naming the session. Older revisions.
pub const SESSION_ID: &str = "mcp-session-id";
/// Header naming the last event of a stream that broke off. Older revisions.
pub const LAST_EVENT_ID: &str = "last-event-id";
/// Prefix of the headers that mirror tool arguments.
const PARAM_PREFIX: &str = "mcp-param-";

const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";

/// Returns the header value for a text.
pub fn encode(text: &str) -> Cow<'_, str> {
    let plain = text.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
        && !text.starts_with(' ')
        && !text.ends_with(' ')
        && sentinel(text).is_none();
    if plain {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("{OPEN}{}{CLOSE}", STANDARD.encode(text)))
    }
}

/// Returns the text of a header value, without the optional white space around it.
///
/// `None`: no client may send this value.
pub fn decode(value: &str) -> Option<Cow<'_, str>> {
    let value = value.trim_matches([' ', '\t']);
    let Some(encoded) = sentinel(value) else {
        return value
            .bytes()
            .all(|byte| (0x20..=0x7e).contains(&byte))
            .then_some(Cow::Borrowed(value));
    };
    let bytes = STANDARD.decode(encoded).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// Returns the token of a value of `Authorization`. The scheme's name may be in any case. `None`: another scheme, or no token.
pub fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim_matches(' ');
    let is_token = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty();
    is_token.then_some(token)
}

/// Returns the header that mirrors the argument with this annotation, `x-mcp-header`.
pub fn param(annotation: &str) -> String {
    format!("{PARAM_PREFIX}{}", annotation.to_ascii_lowercase())
}

fn sentinel(value: &str) -> Option<&str> {
    value.strip_prefix(OPEN)?.strip_suffix(CLOSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_encoded_only_where_they_must_be() {
        assert_eq!(encode("plain ~ text"), "plain ~ text");
        assert_eq!(encode(""), "");
        assert_eq!(encode(" edge"), "=?base64?IGVkZ2U=?=");
        assert_eq!(encode("tab\t"), "=?base64?dGFiCQ==?=");
        assert_eq!(
            encode("=?base64?SGVsbG8=?="),
            "=?base64?PT9iYXNlNjQ/U0dWc2JHOD0/PQ==?="
        );
    }

    #[test]
    fn decoding_is_strict() {
        assert_eq!(decode("=?base64?SGVsbG8=?=").as_deref(), Some("Hello"));
        assert_eq!(decode("  padded  ").as_deref(), Some("padded"));
        assert_eq!(
            decode("=?BASE64?SGVsbG8=?=").as_deref(),
            Some("=?BASE64?SGVsbG8=?=")
        );
        assert_eq!(
            decode("=?base64?SGVsbG8=").as_deref(),
            Some("=?base64?SGVsbG8=")
        );
        for bad in [
            "=?base64?SGVsbG8?=",
            "=?base64?SGV%bG8=?=",
            "=?base64?/w==?=",
            "caf\u{e9}",
        ] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
