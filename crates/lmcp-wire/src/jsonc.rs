//! Turns JSON with comments and trailing commas, as people write it, into plain JSON.

/// Removes comments, and commas before a closing bracket. Text that is no JSON stays invalid.
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
                    // Line breaks are kept, so that errors after the comment still have the right line.
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

/// Returns the length of the string at the beginning of the text.
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

/// Returns the length of the comment at the beginning of the text.
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
