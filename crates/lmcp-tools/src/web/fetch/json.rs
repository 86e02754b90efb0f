//! JSON with line breaks, for people and for callers that read it in parts.

use serde::de::IgnoredAny;

/// Returns the same JSON, indented. Members stay in their order, and numbers as they were written. `None` if the text
/// is no JSON, or would become longer than the limit.
pub(super) fn indent(json: &str, limit: usize) -> Option<String> {
    serde_json::from_str::<IgnoredAny>(json).ok()?;
    let mut out = String::with_capacity(json.len());
    let mut depth = 0;
    let mut rest = json.trim().char_indices().peekable();
    let json = json.trim();
    while let Some((at, character)) = rest.next() {
        if out.len() > limit {
            return None;
        }
        match character {
            '"' => {
                let end = at + string_length(&json[at..]);
                out.push_str(&json[at..end]);
                while rest.next_if(|(next, _)| *next < end).is_some() {}
            }
            '{' | '[' => {
                out.push(character);
                while rest
                    .next_if(|(_, next)| next.is_ascii_whitespace())
                    .is_some()
                {}
                match rest.next_if(|(_, next)| matches!(next, '}' | ']')) {
                    Some((_, close)) => out.push(close),
                    None => {
                        depth += 1;
                        new_line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth -= 1;
                new_line(&mut out, depth);
                out.push(character);
            }
            ',' => {
                out.push(',');
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            blank if blank.is_ascii_whitespace() => {}
            other => out.push(other),
        }
    }
    Some(out)
}

/// Returns the length of the string at the beginning of valid JSON, with its quotes.
fn string_length(json: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in json.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    json.len()
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_numbers_and_strings_stay() {
        let json = r#" {"b":1.10,"a":[1e400,"x, \"{y}\" \\"],"e":{},"f":[ ],"n":null} "#;
        let indented = "{\n  \"b\": 1.10,\n  \"a\": [\n    1e400,\n    \"x, \\\"{y}\\\" \\\\\"\n  ],\n  \"e\": {},\n  \"f\": [],\n  \"n\": null\n}";
        assert_eq!(indent(json, 1000).as_deref(), Some(indented));
    }

    #[test]
    fn what_is_no_json_or_grows_too_much_is_left_alone() {
        assert_eq!(indent("{", 1000), None);
        let deep = format!("{}{}{}", "[".repeat(100), "1,1,1,1", "]".repeat(100));
        assert_eq!(indent(&deep, 1000), None);
    }
}
