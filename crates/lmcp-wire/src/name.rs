//! Names that are looked up, and their beginnings in errors.
//!
//! No real name has megabytes. A name that is too long is refused before it is copied, and an error repeats only the beginning
//! of any text of the peer.

use std::{
    borrow::Cow,
    fmt::{self, Display, Write},
};

use serde::{
    Deserialize, Deserializer,
    de::{self, IntoDeserializer as _},
};
use serde_json::value::RawValue;

use crate::{
    error::RpcError,
    limits::{LONGEST_NAME, SHOWN_BYTES},
};

/// Checks that a name is short enough to be looked up. Quotes and escapes count.
///
/// # Errors
/// *Invalid params*, with the member and the beginning of its value.
pub fn expect_short(member: &str, raw: Option<&RawValue>) -> Result<(), RpcError> {
    match raw {
        Some(raw) if raw.get().len() > LONGEST_NAME => Err(RpcError::invalid_params(format!(
            "`{member}` has at most {LONGEST_NAME} bytes, not {}: {}",
            raw.get().len(),
            Beginning(raw.get())
        ))),
        _ => Ok(()),
    }
}

/// Displays only the beginning of a text of a peer, or of an error about such a text.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "it is a way to show something")]
pub struct Beginning<T>(pub T);

impl<T: Display> Display for Beginning<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut clip = Clip {
            out: f,
            left: SHOWN_BYTES,
            is_full: false,
        };
        let written = write!(clip, "{}", self.0);
        if clip.is_full {
            f.write_str("…")
        } else {
            written
        }
    }
}

/// Passes on this many bytes, and then ends the writing with an error.
struct Clip<'a, 'f> {
    out: &'a mut fmt::Formatter<'f>,
    left: usize,
    is_full: bool,
}

impl Write for Clip<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let shown = text.get(..text.floor_char_boundary(self.left));
        let shown = shown.unwrap_or(text);
        self.left -= shown.len();
        self.out.write_str(shown)?;
        if shown.len() < text.len() {
            self.is_full = true;
            return Err(fmt::Error);
        }
        Ok(())
    }
}

/// A name that is not too long, borrowed if it has no escapes.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "it is a string")]
pub struct Name<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Name<'de>, E> {
                short(text).map(|text| Name(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Name<'de>, E> {
                short(text).map(|text| Name(Cow::Owned(text.into())))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

fn short<E: de::Error>(text: &str) -> Result<&str, E> {
    if text.len() <= LONGEST_NAME {
        return Ok(text);
    }
    Err(E::custom(format_args!(
        "at most {LONGEST_NAME} bytes are expected, not {}: {}",
        text.len(),
        Beginning(text)
    )))
}

/// Reads a member that is a name. Borrows it if it has no escapes.
pub(crate) fn name<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Cow<'a, str>, D::Error> {
    Name::deserialize(deserializer).map(|Name(name)| name)
}

/// Does the same for a member that may be absent or `null`.
pub(crate) fn optional_name<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    let name = Option::<Name<'_>>::deserialize(deserializer)?;
    Ok(name.map(|Name(name)| name.into_owned()))
}

/// Reads one of several words. serde's own error would repeat the whole of an unknown word.
pub(crate) fn word<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    T::deserialize(name(deserializer)?.into_deserializer())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_repeats_a_short_beginning() {
        let long = "ä".repeat(1 << 20);
        let shown = Beginning(&long).to_string();
        assert_eq!(shown, format!("{}…", "ä".repeat(SHOWN_BYTES / 2)));
        assert_eq!(Beginning("short").to_string(), "short");
        let full = "a".repeat(SHOWN_BYTES);
        assert_eq!(Beginning(&full).to_string(), full);
    }

    #[test]
    fn a_long_name_is_told_by_its_beginning() {
        for text in ["a".repeat(1 << 20), "\u{1}".repeat(1 << 20)] {
            let json = serde_json::to_string(&text).unwrap();
            let error = serde_json::from_str::<Name<'_>>(&json).err().unwrap();
            let error = error.to_string();
            assert!(error.len() < 2 * SHOWN_BYTES, "{error}");
            assert!(error.contains("at most 8192 bytes"), "{error}");
        }
    }
}
