//! JSON pointers, and the references that contain them.

use serde_json::Value;

/// Appends one token to a pointer.
pub(crate) fn push(pointer: &mut String, token: &str) {
    pointer.push('/');
    if token.contains(['~', '/']) {
        pointer.push_str(&token.replace('~', "~0").replace('/', "~1"));
    } else {
        pointer.push_str(token);
    }
}

/// The kinds of `$ref`.
pub(crate) enum Reference<'a> {
    /// `#` or `#/…`; the pointer without percent-escapes.
    Pointer(String),
    /// `#name`
    Anchor(&'a str),
    /// Another document.
    Remote,
    /// The percent-escapes do not decode to text.
    Malformed,
}

impl<'a> Reference<'a> {
    pub(crate) fn parse(text: &'a str) -> Self {
        let Some(fragment) = text.strip_prefix('#') else {
            return Self::Remote;
        };
        if !fragment.is_empty() && !fragment.starts_with('/') {
            return Self::Anchor(fragment);
        }
        unescape(fragment).map_or(Self::Malformed, Self::Pointer)
    }
}

/// Returns the schema that a `#/…` reference names, in a document whose root is `root`.
pub(crate) fn follow<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    match Reference::parse(reference) {
        Reference::Pointer(pointer) => root.pointer(&pointer),
        Reference::Anchor(_) | Reference::Remote | Reference::Malformed => None,
    }
}

fn unescape(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, tail) = tail.split_at_checked(2)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_unescaped_once() {
        let root = json!({ "a b": { "c/d": { "e~f": { "100%": 1 } } }, "ü": 2, "": 3 });
        assert_eq!(follow(&root, "#/a%20b/c~1d/e~0f/100%25"), Some(&json!(1)));
        assert_eq!(follow(&root, "#/%C3%BC"), Some(&json!(2)));
        assert_eq!(follow(&root, "#/"), Some(&json!(3)));
        assert_eq!(follow(&root, "#"), Some(&root));
        for nowhere in ["#/x", "#/%C3", "#/%2", "#/%+1", "#name", "other#/a", ""] {
            assert_eq!(follow(&root, nowhere), None, "{nowhere}");
        }
    }

    #[test]
    fn tokens_are_escaped() {
        let mut pointer = String::new();
        ["a/b", "~", ""]
            .iter()
            .for_each(|token| push(&mut pointer, token));
        assert_eq!(pointer, "/a~1b/~0/");
    }
}
