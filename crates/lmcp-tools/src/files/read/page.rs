//! A page of text that fits into one answer: whole lines, or the beginning of a line that is too long, never half
//! a character.

use std::fmt::Write;

use crate::{
    files::text::{Encoding, Piece},
    room::{Room, json_length},
};

/// The text that fits.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) text: String,
    /// How many bytes of the file the page shows.
    pub(super) bytes: usize,
    /// How many lines end in the page.
    pub(super) line_ends: u64,
    /// How many bytes are shown as `\xNN`, or as `\uNNNN`.
    pub(super) odd_bytes: usize,
}

/// Whether lines have numbers, and the first number. Negative ones count from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbers {
    No,
    From(i64),
}

impl Page {
    /// Returns a page with the beginning of these bytes, which must begin at a character.
    pub(super) fn of(bytes: &[u8], encoding: Encoding, room: &Room, numbers: Numbers) -> Self {
        Self::all(bytes, encoding, room, numbers)
            .unwrap_or_else(|| Self::beginning(bytes, encoding, room, numbers))
    }

    /// Takes the short way for most files: all of the text fits, as it is.
    fn all(bytes: &[u8], encoding: Encoding, room: &Room, numbers: Numbers) -> Option<Self> {
        if encoding != Encoding::Utf8 || numbers != Numbers::No || bytes.len() > room.bytes {
            return None;
        }
        let text = std::str::from_utf8(bytes).ok()?;
        let line_ends = memchr::memchr_iter(b'\n', bytes).count();
        let is_open = !bytes.ends_with(b"\n") && !bytes.is_empty();
        let cost: usize = bytes.iter().map(|byte| json_length_of_byte(*byte)).sum();
        let fits = cost <= room.bytes && line_ends + usize::from(is_open) <= room.lines;
        fits.then(|| Self {
            text: text.to_owned(),
            bytes: bytes.len(),
            line_ends: line_ends as u64,
            odd_bytes: 0,
        })
    }

    fn beginning(bytes: &[u8], encoding: Encoding, room: &Room, numbers: Numbers) -> Self {
        let mut page = Self::default();
        let mut cost = 0;
        // The state to go back to if a line does not fit: text, bytes, odd bytes.
        let mut line_start = (0, 0, 0);
        for (piece, length) in encoding.pieces(bytes) {
            let is_line_start = page.bytes == line_start.1;
            if is_line_start && page.line_ends >= room.lines as u64 {
                break;
            }
            if let (Numbers::From(first), true) = (numbers, is_line_start) {
                let before = page.text.len();
                let number = first.saturating_add_unsigned(page.line_ends);
                // Writing to a string cannot fail.
                let _ = write!(page.text, "{number:6}\t");
                cost += page.text.len() - before + 1;
            }
            let piece_cost = page.push(piece, length);
            cost += piece_cost;
            // One character is shown whatever it costs: a page without any would never get further.
            if cost > room.bytes && page.bytes > length {
                page.go_back(line_start, piece, piece_cost, length);
                break;
            }
            if piece == Piece::Character('\n') {
                page.line_ends += 1;
                line_start = (page.text.len(), page.bytes, page.odd_bytes);
            }
        }
        page
    }

    /// Shows a piece, and returns its cost.
    fn push(&mut self, piece: Piece, length: usize) -> usize {
        self.bytes += length;
        // In JSON a backslash takes two bytes.
        let cost = match piece {
            Piece::Character(character) => {
                self.text.push(character);
                return json_length(character);
            }
            Piece::Byte(byte) => {
                let _ = write!(self.text, "\\x{byte:02x}");
                5
            }
            Piece::Surrogate(unit) => {
                let _ = write!(self.text, "\\u{unit:04x}");
                7
            }
        };
        self.odd_bytes += length;
        cost
    }

    /// Goes back to the last whole line; or, if there is none, to before this piece.
    fn go_back(
        &mut self,
        line_start: (usize, usize, usize),
        piece: Piece,
        piece_cost: usize,
        length: usize,
    ) {
        if line_start.1 > 0 {
            (self.bytes, self.odd_bytes) = (line_start.1, line_start.2);
            self.text.truncate(line_start.0);
            return;
        }
        self.bytes -= length;
        match piece {
            Piece::Character(_) => {
                self.text.pop();
            }
            Piece::Byte(_) | Piece::Surrogate(_) => {
                self.odd_bytes -= length;
                self.text.truncate(self.text.len() + 1 - piece_cost);
            }
        }
    }
}

/// Returns how many bytes of a JSON string a byte of UTF-8 takes.
fn json_length_of_byte(byte: u8) -> usize {
    if byte.is_ascii() {
        json_length(char::from(byte))
    } else {
        1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ENCODINGS: [Encoding; 4] = [
        Encoding::Utf8,
        Encoding::Utf16Le,
        Encoding::Utf16Be,
        Encoding::Windows1252,
    ];

    fn room(bytes: usize, lines: usize) -> Room {
        Room {
            bytes,
            lines,
            ..Room::UNKNOWN
        }
    }

    fn page(text: &str, bytes: usize, lines: usize) -> Page {
        Page::of(
            text.as_bytes(),
            Encoding::Utf8,
            &room(bytes, lines),
            Numbers::No,
        )
    }

    #[test]
    fn whole_lines_fit_or_the_beginning_of_one() {
        assert_eq!(page("abc\ndefghijkl", 10, 9).text, "abc\n");
        assert_eq!(page("abcdefghijklmn", 10, 9).text, "abcdefghij");
        assert_eq!(page("a\nb\nc\nd", 99, 3).text, "a\nb\nc\n");
        assert_eq!(page("a\r\nb\r\n", 99, 3).text, "a\r\nb\r\n");
        assert_eq!(page("ééé", 5, 3).text, "éé");
        assert_eq!(page("", 5, 3), Page::default());
    }

    #[test]
    fn something_is_shown_however_little_fits() {
        assert_eq!(page("\u{1f600}\u{1f600}", 1, 1).text, "\u{1f600}");
    }

    #[test]
    fn numbers_stand_before_lines_and_are_paid_for() {
        let page = |bytes| {
            Page::of(
                b"a\nb\nc",
                Encoding::Utf8,
                &room(bytes, 9),
                Numbers::From(9),
            )
        };
        assert_eq!(page(99).text, "     9\ta\n    10\tb\n    11\tc");
        assert_eq!(page(22).text, "     9\ta\n    10\tb\n");
        assert_eq!(page(21).text, "     9\ta\n");
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_and_counted() {
        let page = Page::of(b"a\xffb", Encoding::Utf8, &room(99, 9), Numbers::No);
        assert_eq!((page.text.as_str(), page.odd_bytes), ("a\\xffb", 1));
        let page = Page::of(b"ab\xffb", Encoding::Utf8, &room(6, 9), Numbers::No);
        assert_eq!((page.text.as_str(), page.odd_bytes), ("ab", 0));
    }

    proptest! {
        #[test]
        fn pages_one_after_another_are_the_text(
            bytes in proptest::collection::vec(prop_oneof![
                any::<u8>(), Just(b'\n'), Just(b'\r'), Just(b'a'), Just(0xc3), Just(0xa9), Just(0xd8), Just(0)
            ], 0..200),
            budget in 1_usize..60,
            lines in 1_usize..5,
            encoding in 0_usize..4,
        ) {
            let encoding = ENCODINGS[encoding];
            let all = Page::of(&bytes, encoding, &room(usize::MAX, usize::MAX), Numbers::No);
            prop_assert_eq!(all.bytes, bytes.len());
            let (mut text, mut at, mut odd) = (String::new(), 0, 0);
            while at < bytes.len() {
                let page = Page::of(&bytes[at..], encoding, &room(budget, lines), Numbers::No);
                prop_assert!(page.bytes > 0);
                prop_assert!(page.line_ends <= lines as u64);
                let cost: usize = page.text.chars().map(json_length).sum();
                prop_assert!(cost <= budget || page.bytes <= 4);
                at += page.bytes;
                odd += page.odd_bytes;
                text += &page.text;
            }
            prop_assert_eq!(text, all.text);
            prop_assert_eq!(odd, all.odd_bytes);
        }

        #[test]
        fn the_short_way_and_the_long_way_agree(text in "[a-z\"\\\\é\\n\\r\\t\\x01]{0,80}", budget in 1_usize..100, lines in 1_usize..9) {
            let room = room(budget, lines);
            let bytes = text.as_bytes();
            let long = Page::beginning(bytes, Encoding::Utf8, &room, Numbers::No);
            if let Some(short) = Page::all(bytes, Encoding::Utf8, &room, Numbers::No) {
                prop_assert_eq!(short, long);
            }
        }
    }
}
