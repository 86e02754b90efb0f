//! Measures how deep the arrays and objects of a JSON text are nested, without parsing it.

/// Whether arrays and objects are nested deeper than this. For text that is no JSON, the answer means nothing.
pub fn is_deeper(text: &[u8], levels: usize) -> bool {
    let (mut rest, mut depth) = (text, 0_usize);
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'[' | b'{' => {
                depth += 1;
                if depth > levels {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => rest = after_string(rest),
            _ => {}
        }
    }
    false
}

/// Returns the text after a string whose first quote has been read.
pub(crate) fn after_string(mut text: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', text) {
        let is_end = text.get(at) == Some(&b'"');
        let taken = if is_end { 1 } else { 2 };
        text = text.get(at + taken..).unwrap_or_default();
        if is_end {
            return text;
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_that_of_arrays_and_objects_alone() {
        for (text, depth) in [
            (r"1", 0),
            (r#"{"a":[1],"b":[[2]]}"#, 3),
            (r#"["[[[[", "\"[[[[", "\\", "\\\"[["]"#, 1),
            (r#"[[],[],"[", {}]"#, 2),
        ] {
            assert!(!is_deeper(text.as_bytes(), depth), "{text}");
            assert!(
                depth == 0 || is_deeper(text.as_bytes(), depth - 1),
                "{text}"
            );
        }
    }
}
