//! The bytes that replace a match in a file.
//!
//! Lines that the edit only quotes, at the beginning and end of both texts, keep the file's own bytes. The other lines
//! take the line endings of the lines they replace, one by one, unless the new text has `\r\n` itself.

use std::ops::Range;

use memchr::memmem;

use super::{
    indent::Shift,
    lines::pieces,
    matching::{Kind, Match},
};

/// Returns the bytes that replace one match of `old` in `file`.
pub(super) fn bytes(ends: &mut Ends<'_>, found: &Match, old: &[u8], new: &[u8]) -> Vec<u8> {
    let file = ends.file;
    let written_out = memmem::find(new, b"\r\n").is_some();
    if found.kind == Kind::Exact && written_out {
        return new.to_vec();
    }
    let (here, breaks) = pieces(&file[found.range.clone()]);
    let (old, _) = pieces(old);
    let (new, _) = pieces(new);
    let first = old
        .iter()
        .zip(&new)
        .take_while(|(old, new)| old == new)
        .count();
    let most = old.len().min(new.len()) - first;
    let last = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take(most)
        .take_while(|(old, new)| old == new)
        .count();
    let shift = match found.kind {
        Kind::Indentation => Shift::between(old.iter().copied(), here.iter().copied()),
        Kind::Exact | Kind::LineEndings | Kind::TrailingBlanks => None,
    };
    let mut bytes = Vec::with_capacity(found.range.len() + 64);
    for (at, piece) in new.iter().enumerate() {
        // The same line in the file, if the edit only quotes it.
        let quoted = if at < first {
            Some(at)
        } else if at + last >= new.len() {
            Some(at + old.len() - new.len())
        } else {
            None
        };
        match (quoted, &shift) {
            (Some(line), _) => bytes.extend_from_slice(here[line]),
            (None, Some(shift)) => bytes.extend_from_slice(&shift.apply(piece)),
            (None, None) => bytes.extend_from_slice(piece),
        }
        if at + 1 < new.len() {
            // An additional line ends like the last line that it replaces.
            let replaced = || at.min((old.len() - last).saturating_sub(1));
            let line_break = breaks.get(quoted.unwrap_or_else(replaced)).copied();
            bytes.extend_from_slice(line_break.unwrap_or_else(|| ends.at(found.range.end)));
        }
    }
    bytes
}

/// The line endings of a file. If the positions come in order, the file is read only once, even if it is a single
/// line.
pub(super) struct Ends<'a> {
    file: &'a [u8],
    /// The positions whose line has this ending.
    known: Range<usize>,
    end: &'static [u8],
}

impl<'a> Ends<'a> {
    pub(super) fn of(file: &'a [u8]) -> Self {
        Self {
            file,
            known: 0..0,
            end: b"",
        }
    }

    /// Returns the ending of the line that contains a position. The last line of a file, which may have none, counts
    /// like the one before.
    fn at(&mut self, at: usize) -> &'static [u8] {
        if !self.known.contains(&at) {
            let next = memchr::memchr(b'\n', &self.file[at..]).map(|next| at + next);
            let nearest = next.or_else(|| memchr::memrchr(b'\n', self.file));
            let windows = nearest.is_some_and(|end| self.file[..end].ends_with(b"\r"));
            self.end = if windows { b"\r\n" } else { b"\n" };
            self.known = at..next.unwrap_or(self.file.len()) + 1;
        }
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::edit::matching;

    fn edit(file: &str, old: &str, new: &str) -> String {
        let mut found = matching::find(file.as_bytes(), old.as_bytes(), 9);
        if found.is_empty() {
            found = matching::find_tolerantly(file.as_bytes(), old.as_bytes(), 9);
        }
        let [found] = &found[..] else {
            panic!("{found:?}")
        };
        let mut edited = file.as_bytes().to_vec();
        let bytes = bytes(
            &mut Ends::of(file.as_bytes()),
            found,
            old.as_bytes(),
            new.as_bytes(),
        );
        edited.splice(found.range.clone(), bytes);
        String::from_utf8(edited).unwrap()
    }

    #[test]
    fn new_lines_end_like_those_they_replace() {
        assert_eq!(edit("a\r\nb\r\n", "a\nb\n", "x\ny\nz\n"), "x\r\ny\r\nz\r\n");
        assert_eq!(edit("a\r\nb\nc", "a\nb", "x\ny\nz"), "x\r\ny\nz\nc");
        assert_eq!(edit("a\r\nb", "b", "b\nc"), "a\r\nb\r\nc");
        assert_eq!(edit("a", "a", "a\nb"), "a\nb");
        assert_eq!(
            edit("one\r\ntwo\r\nthree\r\n", "two\r\n", "2a\n2b\n"),
            "one\r\n2a\r\n2b\r\nthree\r\n"
        );
    }

    #[test]
    fn lines_only_quoted_keep_their_own_ends() {
        assert_eq!(
            edit("a\nb\r\nc\nd", "a\nb\nc", "a\nX\nb\nc"),
            "a\nX\nb\r\nc\nd"
        );
        assert_eq!(edit("a  \r\nb\n", "a\nb\n", "a\nB\n"), "a  \r\nB\n");
    }

    #[test]
    fn line_ends_that_are_written_out_are_meant() {
        assert_eq!(edit("a\nb", "a\n", "a\r\n"), "a\r\nb");
        assert_eq!(edit("a\r\nb", "a\r\n", "x\r\ny\n"), "x\r\ny\nb");
    }

    #[test]
    fn new_lines_are_indented_like_the_file() {
        assert_eq!(
            edit(
                "\tif x:\n\t\ty\n",
                "if x:\n    y\n",
                "if x:\n    z\n    if w:\n        v\n"
            ),
            "\tif x:\n\t\tz\n\t\tif w:\n\t\t\tv\n"
        );
    }
}
