//! Estimates the memory that a JSON text takes once it is parsed.
//!
//! A few bytes of text can become many bytes of values: `[1],` is four bytes, and a list with one number takes almost two
//! hundred. A message is weighed before it is parsed, so that the memory for its values is reserved, too.

/// A message up to this size is not weighed: the memory that every call reserves is enough for its values.
pub(crate) const LIGHT: usize = 16 << 10;

/// A member of an object: its key and its place in the map.
const MEMBER: usize = 160;
/// An item of a list, as a JSON value and once more as the value that a tool reads it into.
const ITEM: usize = 96;
/// A list or an object, with the space for its first items.
const CONTAINER: usize = 192;

/// The bytes that the values in a JSON text take, at the most.
pub fn weigh(json: &[u8]) -> usize {
    let mut weight = json.len();
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b',' => weight += ITEM,
            b':' => weight += MEMBER,
            b'[' | b'{' => weight += CONTAINER,
            _ => {}
        }
    }
    weight
}

fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            // An escaped character does not end the string.
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_weighs_what_it_is_and_structure_what_it_becomes() {
        let text = br#"{"content":"a,b:[{\"c,\\"}"#;
        assert_eq!(weigh(text), text.len() + CONTAINER + MEMBER);
        assert_eq!(weigh(b"[1,[2],3]"), 9 + 2 * CONTAINER + 2 * ITEM);
    }

    #[test]
    fn what_is_no_json_can_be_weighed() {
        for text in [&b"\""[..], b"\"\\", b"", b"]]", b"\"a\\\""] {
            assert!(weigh(text) >= text.len());
        }
    }
}
