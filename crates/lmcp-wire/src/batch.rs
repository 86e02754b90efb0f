//! Batches of JSON-RPC messages (2025-03-26).

use std::fmt;

use serde::{
    Deserializer as _,
    de::{IgnoredAny, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::error::RpcError;

/// Cuts a batch into its messages, which are not parsed yet. `None`: the text is no batch. If the batch has more than `most`
/// messages, only one more than that is returned: eight megabytes of `1,` would become four million messages.
///
/// # Errors
/// The text begins as a batch, and is not JSON.
pub fn batch(bytes: &[u8], most: usize) -> Option<Result<Vec<&RawValue>, RpcError>> {
    if !bytes.trim_ascii_start().starts_with(b"[") {
        return None;
    }
    let text = std::str::from_utf8(bytes).map_err(|err| err.to_string());
    let messages = text.and_then(|text| read(text, most).map_err(|err| err.to_string()));
    Some(messages.map_err(|err| RpcError::parse(format!("not JSON: {err}"))))
}

fn read(text: &str, most: usize) -> serde_json::Result<Vec<&RawValue>> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let messages = deserializer.deserialize_seq(Messages { most })?;
    deserializer.end()?;
    Ok(messages)
}

struct Messages {
    most: usize,
}

impl<'de> Visitor<'de> for Messages {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a batch of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut messages = Vec::new();
        while messages.len() <= self.most {
            match items.next_element()? {
                Some(message) => messages.push(message),
                None => return Ok(messages),
            }
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_messages_only_one_too_many_is_kept() {
        let all = |text: &'static str, most| {
            batch(text.as_bytes(), most).map(|all| all.map(|all| all.len()).ok())
        };
        assert_eq!(all(" [1,2,3,4]", 2), Some(Some(3)));
        assert_eq!(all("[1,2]", 2), Some(Some(2)));
        assert_eq!(all("[]", 2), Some(Some(0)));
        assert_eq!(all("[1,2,3,", 2), Some(None));
        assert_eq!(all("[1] 2", 2), Some(None));
        assert_eq!(all("{}", 2), None);
    }
}
