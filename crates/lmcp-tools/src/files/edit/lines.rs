//! A file as lines, without copying it.

/// The positions at which the lines of a file begin. A byte order mark is no part of the first line.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    bytes: &'a [u8],
    /// 32 bits are enough: files here are smaller than 4 GiB.
    starts: Vec<u32>,
}

impl<'a> Lines<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        let first = if bytes.starts_with(BOM) { BOM.len() } else { 0 };
        let breaks = memchr::memchr_iter(b'\n', bytes).map(|at| at + 1);
        let starts = std::iter::once(first)
            .chain(breaks)
            .filter(|start| *start < bytes.len())
            .filter_map(|start| u32::try_from(start).ok())
            .collect();
        Self { bytes, starts }
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Returns where a line begins, counted from 0; after the last line, where the file ends.
    pub(super) fn start(&self, line: usize) -> usize {
        self.starts
            .get(line)
            .map_or(self.bytes.len(), |start| *start as usize)
    }

    /// Returns a line without its break.
    pub(super) fn text(&self, line: usize) -> &'a [u8] {
        without_break(&self.bytes[self.start(line)..self.start(line + 1)])
    }

    /// Returns whether a line ends in a break. Only the last line may have none.
    pub(super) fn has_break(&self, line: usize) -> bool {
        line < self.len() && self.bytes[..self.start(line + 1)].ends_with(b"\n")
    }
}

/// Returns how many lines a text has. After a break at the end, one empty line is counted.
pub(super) fn count(text: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', text).count() + 1
}

/// Returns the number of the line that contains a position, counted from 1.
pub(super) fn number(bytes: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', &bytes[..at]).count() + 1
}

/// Returns a line without `\n` or `\r\n` at its end.
pub(super) fn without_break(line: &[u8]) -> &[u8] {
    let Some(line) = line.strip_suffix(b"\n") else {
        return line;
    };
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Splits a text into the pieces between its line breaks, and the breaks. There is one piece more than
/// breaks.
pub(super) fn pieces(text: &[u8]) -> (Vec<&[u8]>, Vec<&[u8]>) {
    let (mut texts, mut breaks) = (Vec::new(), Vec::new());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let piece = without_break(line);
        texts.push(piece);
        if line.ends_with(b"\n") {
            breaks.push(&line[piece.len()..]);
        }
    }
    if texts.len() == breaks.len() {
        texts.push(b"");
    }
    (texts, breaks)
}

/// Returns a line without blanks at its beginning.
pub(super) fn trim_start(line: &[u8]) -> &[u8] {
    &line[indent(line).len()..]
}

/// Returns a line without blanks at its end.
pub(super) fn trim_end(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|byte| !is_blank(*byte));
    &line[..end.map_or(0, |last| last + 1)]
}

/// Returns the blanks at the beginning of a line.
pub(super) fn indent(line: &[u8]) -> &[u8] {
    let end = line.iter().position(|byte| !is_blank(*byte));
    &line[..end.unwrap_or(line.len())]
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

pub(super) const BOM: &[u8] = b"\xef\xbb\xbf";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_begin_after_breaks_and_behind_a_byte_order_mark() {
        let lines = Lines::of(b"\xef\xbb\xbfa\r\n\nb");
        assert_eq!(lines.len(), 3);
        assert_eq!(
            (lines.text(0), lines.text(1), lines.text(2)),
            (&b"a"[..], &b""[..], &b"b"[..])
        );
        assert!(lines.has_break(1) && !lines.has_break(2));
        assert_eq!(Lines::of(b"a\n").len(), 1);
        assert_eq!(Lines::of(b"").len(), 0);
    }

    #[test]
    fn pieces_and_breaks_alternate() {
        let (texts, breaks) = pieces(b"a\r\nb\n");
        assert_eq!(texts, [&b"a"[..], b"b", b""]);
        assert_eq!(breaks, [&b"\r\n"[..], b"\n"]);
        assert_eq!(pieces(b"").0, [b""]);
    }
}
