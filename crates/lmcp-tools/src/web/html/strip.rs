//! A page without the parts that run and paint: scripts, styles, handlers, comments.

use super::{
    Cut, IsLate, TOKENS_AT_ONCE,
    token::{Tag, Token, tokens},
};

/// Returns the same page, at most so many bytes of it, and why it was cut.
pub(crate) fn strip(html: &str, limit: usize, is_late: IsLate<'_>) -> (String, Option<Cut>) {
    let mut out = String::new();
    let mut inside: Option<String> = None;
    let mut cut = None;
    for (at, token) in tokens(html).enumerate() {
        if out.len() > limit {
            break;
        }
        if at % TOKENS_AT_ONCE == 0 && is_late() {
            cut = Some(Cut::Time);
            break;
        }
        match token {
            Token::End(name) if inside.as_ref() == Some(&name) => inside = None,
            _ if inside.is_some() => {}
            Token::Start(tag) if matches!(tag.name.as_str(), "script" | "style") => {
                inside = Some(tag.name);
            }
            Token::Start(tag) => push_tag(&mut out, &tag, limit),
            Token::End(name) => out.push_str(&format!("</{name}>")),
            Token::Text(text) => push_escaped(&mut out, &text, limit),
        }
    }
    if out.len() > limit {
        cut = Some(Cut::Length);
    }
    out.truncate(out.floor_char_boundary(limit));
    (out, cut)
}

fn push_tag(out: &mut String, tag: &Tag, limit: usize) {
    out.push('<');
    out.push_str(&tag.name);
    for (name, value) in &tag.attributes {
        if name.starts_with("on") || name == "style" || is_script(value) {
            continue;
        }
        out.push(' ');
        out.push_str(name);
        if !value.is_empty() {
            out.push_str("=\"");
            push_escaped(out, value, limit);
            out.push('"');
        }
    }
    out.push('>');
}

fn is_script(value: &str) -> bool {
    let start = value.trim_start().get(..11).unwrap_or_default();
    start.eq_ignore_ascii_case("javascript:")
}

/// Adds escaped text. An escaped sign is up to six times as long, so this stops a little after the
/// limit.
fn push_escaped(out: &mut String, text: &str, limit: usize) {
    for character in text.chars() {
        if out.len() > limit {
            return;
        }
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_that_grow_when_they_are_escaped_are_cut_at_the_limit() {
        let (out, cut) = strip(&">".repeat(10_000), 10_000, &|| false);
        assert_eq!((out.len(), cut), (10_000, Some(Cut::Length)));
        assert!(out.capacity() < 20_100, "{}", out.capacity());
    }
}
