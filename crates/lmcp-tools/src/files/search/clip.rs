//! Long lines, cut so that the match stays visible.

use super::result::Clipped;

/// Returns at most `width` bytes of a line around `at`, as text, and which part of the line that
/// is.
pub(super) fn around(line: &[u8], at: usize, width: usize) -> (String, Option<Clipped>) {
    if line.len() <= width {
        return (String::from_utf8_lossy(line).into_owned(), None);
    }
    let start = at.saturating_sub(width / 4).min(line.len() - width);
    let start = character_start(line, start);
    let end = character_start(line, start + width).max(start);
    let clipped = Clipped {
        from_column: start as u64 + 1,
        full_bytes: line.len() as u64,
    };
    let part = String::from_utf8_lossy(&line[start..end]).into_owned();
    (part, Some(clipped))
}

/// Returns the beginning of a line of context.
pub(super) fn beginning(line: &[u8], width: usize) -> String {
    match around(line, 0, width) {
        (text, None) => text,
        (text, Some(_)) => text + "…",
    }
}

/// Returns a line without its end.
pub(super) fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns the beginning of the character that this byte belongs to, if the bytes are UTF-8.
fn character_start(line: &[u8], at: usize) -> usize {
    if at >= line.len() {
        return line.len();
    }
    let is_inside = |at: &usize| line[*at] & 0b1100_0000 == 0b1000_0000;
    (at.saturating_sub(3)..=at)
        .rev()
        .find(|at| !is_inside(at))
        .unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_line_stays_whole() {
        assert_eq!(around(b"short", 3, 10), ("short".into(), None));
    }

    #[test]
    fn a_long_line_shows_the_match_and_says_where() {
        let line = [b"a".repeat(1000), b"needle".to_vec(), b"b".repeat(1000)].concat();
        let (text, clipped) = around(&line, 1000, 40);
        assert_eq!(text.len(), 40);
        assert!(text.contains("needle"));
        let clipped = clipped.unwrap();
        assert_eq!((clipped.from_column, clipped.full_bytes), (991, 2006));
    }

    #[test]
    fn characters_stay_whole() {
        let line = "é".repeat(100);
        for at in 0..line.len() {
            let (text, _) = around(line.as_bytes(), at, 11);
            assert!(!text.contains('\u{fffd}'), "at {at}: {text}");
        }
    }

    #[test]
    fn the_end_of_the_line_is_reached() {
        let line = [b"a".repeat(100), b"end".to_vec()].concat();
        let (text, _) = around(&line, 100, 20);
        assert!(text.ends_with("end"));
    }
}
