//! JSON as people write it, with comments and a comma too many, made plain.

/// The same without comments and without commas that nothing follows. What was no JSON stays none.
pub fn plain(text: &str) -> Vec<u8> {
    let mut rest = text.trim_start_matches('\u{feff}').as_bytes();
    let mut plain = Vec::with_capacity(rest.len());
    while let Some(&byte) = rest.first() {
        let length = match byte {
            b'"' => string(rest),
            b'/' => match comment(rest) {
                Some(length) => {
                    let (comment, left) = rest.split_at(length);
                    plain.push(b' ');
                    // What is wrong behind it is still told with its line.
                    plain.extend(comment.iter().filter(|byte| **byte == b'\n'));
                    rest = left;
                    continue;
                }
                None => 1,
            },
            b'}' | b']' => {
                let end = plain.trim_ascii_end().len();
                if plain
                    .get(..end)
                    .is_some_and(|before| before.ends_with(b","))
                {
                    plain.truncate(end - 1);
                }
                1
            }
            _ => 1,
        };
        let (taken, left) = rest.split_at(length);
        plain.extend_from_slice(taken);
        rest = left;
    }
    plain
}

/// The length of the string that begins here.
fn string(text: &[u8]) -> usize {
    let mut escaped = false;
    let inner = text.iter().skip(1);
    let end = inner.clone().position(|&byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 2)
}

/// The length of the comment that begins here.
fn comment(text: &[u8]) -> Option<usize> {
    let end: &[u8] = match text.get(1)? {
        b'/' => b"\n",
        b'*' => b"*/",
        _ => return None,
    };
    let inner = text.get(2..)?;
    let found = inner.windows(end.len()).position(|bytes| bytes == end);
    Some(found.map_or(text.len(), |found| found + 2 + end.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_last_commas_go_and_strings_stay() {
        for (text, expected) in [
            (
                r#"{"a": 1, /* b */ "c": [1, 2, ], }"#,
                r#"{"a":1,"c":[1,2]}"#,
            ),
            (
                "{ // one, }\n\"a\": \"// no, }\" , // two\n}",
                r#"{"a":"// no, }"}"#,
            ),
            (
                r#"{"a\\": "\",]", "b": "/*"}"#,
                r#"{"a\\":"\",]","b":"/*"}"#,
            ),
            ("\u{feff}{\"ä\": \"ö\"}", r#"{"ä":"ö"}"#),
        ] {
            let value: serde_json::Value = serde_json::from_slice(&plain(text)).unwrap();
            let wanted: serde_json::Value = serde_json::from_str(expected).unwrap();
            assert_eq!(value, wanted, "{text}");
        }
    }

    #[test]
    fn what_is_no_json_stays_none() {
        for text in ["{", "\"", "\"\\", "/", "/*", "{,}x", "{\"a\" 1}", "[1,,]"] {
            let read = serde_json::from_slice::<serde_json::Value>(&plain(text));
            assert!(read.is_err(), "{text}");
        }
    }
}
