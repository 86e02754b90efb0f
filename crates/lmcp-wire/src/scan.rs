//! Finds the members of a JSON object in its text, after the text was parsed before. Nothing is checked, decoded or copied: in
//! a text that is no JSON, some members are found and some are not.

use std::borrow::Cow;

use crate::depth::after_string;

/// One member of an object, as text.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Written<'a> {
    /// The text from the name to the end of the value.
    whole: &'a str,
    /// The text of the value.
    pub value: &'a str,
    /// The text of the name, between the quotes.
    name: &'a str,
}

impl<'a> Written<'a> {
    /// The name of the member. A name with invalid escapes is returned as it is written.
    pub fn name(&self) -> Cow<'a, str> {
        unescaped(self.name)
    }

    /// Appends the member, with a comma before it.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(b',');
        out.extend_from_slice(self.whole.as_bytes());
    }
}

fn unescaped(name: &str) -> Cow<'_, str> {
    if !name.as_bytes().contains(&b'\\') {
        return Cow::Borrowed(name);
    }
    serde_json::from_str(&format!("\"{name}\"")).map_or(Cow::Borrowed(name), Cow::Owned)
}

/// Returns the members of an object, in their order.
pub fn members(object: &str) -> impl Iterator<Item = Written<'_>> {
    let mut rest = after(object.trim_ascii_start(), b'{');
    std::iter::from_fn(move || {
        let (member, behind) = split(rest?)?;
        rest = after(behind, b',');
        Some(member)
    })
}

/// Returns the value of the member of this name. If there are several, the first.
pub fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let found = members(object).find(|member| member.name() == name);
    found.map(|member| member.value)
}

/// Returns the members of an object that is itself the member of this name.
pub fn members_of<'a>(object: &'a str, name: &str) -> impl Iterator<Item = Written<'a>> {
    members(from_value(object, name).unwrap_or_default())
}

/// Returns the text from the value of the member of this name on. The end of the value is not searched.
fn from_value<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = after(object.trim_ascii_start(), b'{')?;
    loop {
        let (found, value) = head(rest)?;
        if unescaped(found) == name {
            return Some(value);
        }
        let behind = value.get(value_length(value.as_bytes())..)?;
        rest = after(behind.trim_ascii_start(), b',')?;
    }
}

/// Splits off the name of the first member. Returns the name, and the text from the value on.
fn head(members: &str) -> Option<(&str, &str)> {
    let text = members.trim_ascii_start();
    let inside = text.strip_prefix('"')?;
    let behind = text.len() - after_string(inside.as_bytes()).len();
    let name = text.get(1..behind - 1)?;
    let value = after(text.get(behind..)?.trim_ascii_start(), b':')?;
    Some((name, value.trim_ascii_start()))
}

/// Splits off the first member. Returns the member, and the text after it.
fn split(members: &str) -> Option<(Written<'_>, &str)> {
    let text = members.trim_ascii_start();
    let (name, value) = head(text)?;
    let length = value_length(value.as_bytes());
    let (value, rest) = value.split_at_checked(length)?;
    let whole = text.get(..text.len() - rest.len())?;
    let member = Written { whole, value, name };
    Some((member, rest.trim_ascii_start()))
}

/// Returns the text after this byte, if the text begins with the byte.
fn after(text: &str, byte: u8) -> Option<&str> {
    text.strip_prefix(char::from(byte))
}

/// Returns the length of the value at the beginning of the text.
fn value_length(text: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' => at = text.len() - after_string(&text[at..]).len(),
            b'[' | b'{' => depth += 1,
            b']' | b'}' if depth > 1 => depth -= 1,
            // The value is an array or object, and ends here.
            b']' | b'}' if depth == 1 => return at,
            // The value is a number or a word, and ends before this byte.
            b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => return at - 1,
            _ => continue,
        }
        if depth == 0 {
            return at;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::Members;

    #[test]
    fn members_are_those_that_a_parser_reads() {
        for text in [
            "{}",
            " { } ",
            r#"{"a":1}"#,
            r#"{"a":{"b":[1,{"c":"}\"]"}]},"d":"\\","e":[]}"#,
            "{ \"a\" :\t-1.5e3 , \"b\" : null\n, \"c\" : \"x, y\" }",
            r#"{"\u0061":true,"a\"b":"é","":{},"a":[[],{}]}"#,
        ] {
            let mut expected = Vec::new();
            Members::read(text).unwrap().write(&mut expected);
            let mut found = Vec::new();
            for member in members(text) {
                found.push(b',');
                crate::jsonrpc::append(&mut found, &*member.name());
                found.push(b':');
                found.extend_from_slice(member.value.as_bytes());
                let mut whole = Vec::new();
                member.write(&mut whole);
                assert!(whole.ends_with(member.value.as_bytes()), "{text}");
            }
            assert_eq!(String::from_utf8(found), String::from_utf8(expected));
        }
    }

    #[test]
    fn a_member_is_found_by_its_name() {
        let text = r#"{"jsonrpc":"2.0","par\u0061ms":{"a":[1]},"x":2}"#;
        assert_eq!(member(text, "params"), Some(r#"{"a":[1]}"#));
        assert_eq!(member(text, "x"), Some("2"));
        assert_eq!(member(text, "a"), None);
        let inner: Vec<_> = members_of(text, "params").map(|one| one.value).collect();
        assert_eq!(inner, ["[1]"]);
        assert_eq!(members_of(text, "x").count(), 0);
        assert_eq!(members_of(text, "y").count(), 0);
    }

    #[test]
    fn what_is_no_json_is_looked_through_all_the_same() {
        let text = r#"{"a":[1,{"b":"c\"d"}],"e":tru,"é":2}"#;
        for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
            assert!(members(&text[..end]).count() <= 3);
            assert!(members(&text[end..]).count() <= 3);
        }
    }
}
