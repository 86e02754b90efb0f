//! Bytes as text: finds the encoding and the line endings, and shows every byte in some way.
//!
//! A text is UTF-8, UTF-16 if it has a mark, or else the encoding that a detector finds (`charset`). Bytes that are no
//! text in their encoding are shown as `\xNN`, and counted. Lines end in LF, alone or after CR.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// The encoding of a file's characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    Utf16Le,
    Utf16Be,
    /// Each byte is one character.
    Windows1252,
    /// Any other encoding of the web. ASCII is ASCII in all of them, and no byte of a longer character is below `0`.
    Other(&'static encoding_rs::Encoding),
}

impl Serialize for Encoding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// How lines end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LineEndings {
    Lf,
    Crlf,
    Cr,
    Mixed,
    None,
}

/// One character of a text, or bytes that are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Character(char),
    /// A byte that is part of no character.
    Byte(u8),
    /// Half a character of UTF-16.
    Surrogate(u16),
}

impl Encoding {
    /// Returns the encoding by the mark at the beginning, or UTF-8 without one, and how many bytes the mark has.
    pub(crate) fn by_mark(head: &[u8]) -> (Self, usize) {
        match head {
            [0xef, 0xbb, 0xbf, ..] => (Self::Utf8, 3),
            [0xff, 0xfe, ..] => (Self::Utf16Le, 2),
            [0xfe, 0xff, ..] => (Self::Utf16Be, 2),
            _ => (Self::Utf8, 0),
        }
    }

    /// Returns how many bytes a newline has; every character has at least as many.
    pub(crate) fn unit(self) -> usize {
        match self {
            Self::Utf8 | Self::Windows1252 | Self::Other(_) => 1,
            Self::Utf16Le | Self::Utf16Be => 2,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "utf-8",
            Self::Utf16Le => "utf-16le",
            Self::Utf16Be => "utf-16be",
            Self::Windows1252 => "windows-1252",
            Self::Other(encoding) => encoding.name(),
        }
    }

    /// Returns how many bytes at the beginning are whole characters, with no `\r` cut off from its `\n`. The rest is at
    /// most four bytes, and belongs to the next piece.
    pub(crate) fn whole(self, bytes: &[u8]) -> usize {
        let end = match self {
            Self::Windows1252 => bytes.len(),
            Self::Other(encoding) => whole_characters(encoding, bytes),
            Self::Utf8 => bytes.len() - open_utf8(bytes),
            Self::Utf16Le | Self::Utf16Be => {
                let end = bytes.len() & !1;
                let last = self.units(&bytes[..end]).next_back();
                let is_open = last.is_some_and(|unit| (0xd800..0xdc00).contains(&unit));
                if is_open { end - 2 } else { end }
            }
        };
        let unit = self.unit();
        let last = end.checked_sub(unit).map(|at| &bytes[at..end]);
        let is_return = match (self, last) {
            (_, None) => false,
            (Self::Utf16Le, Some(last)) => last == b"\r\0",
            (Self::Utf16Be, Some(last)) => last == b"\0\r",
            (Self::Utf8 | Self::Windows1252 | Self::Other(_), Some(last)) => last == b"\r",
        };
        if is_return { end - unit } else { end }
    }

    /// Returns the positions after each newline. The bytes must begin at a character.
    pub(crate) fn line_ends(self, bytes: &[u8]) -> Box<dyn DoubleEndedIterator<Item = usize> + '_> {
        if self.unit() == 1 {
            return Box::new(memchr::memchr_iter(b'\n', bytes).map(|at| at + 1));
        }
        let units = self.units(bytes).enumerate();
        Box::new(
            units
                .filter(|(_, unit)| *unit == 0x0a)
                .map(|(at, _)| at * 2 + 2),
        )
    }

    /// Returns the bytes as text, each piece with the number of bytes that it stands for.
    pub(crate) fn pieces(self, bytes: &[u8]) -> Box<dyn Iterator<Item = (Piece, usize)> + '_> {
        match self {
            Self::Utf8 => Box::new(bytes.utf8_chunks().flat_map(|chunk| {
                let characters = chunk.valid().chars();
                let known =
                    characters.map(|character| (Piece::Character(character), character.len_utf8()));
                known.chain(chunk.invalid().iter().map(|byte| (Piece::Byte(*byte), 1)))
            })),
            Self::Windows1252 => Box::new(
                bytes
                    .iter()
                    .map(|byte| (Piece::Character(windows_1252(*byte)), 1)),
            ),
            Self::Other(encoding) => Box::new(Legacy {
                encoding,
                bytes,
                second: None,
            }),
            Self::Utf16Le | Self::Utf16Be => {
                let odd = &bytes[bytes.len() & !1..];
                let characters =
                    char::decode_utf16(self.units(bytes)).map(|decoded| match decoded {
                        Ok(character) => (Piece::Character(character), character.len_utf16() * 2),
                        Err(err) => (Piece::Surrogate(err.unpaired_surrogate()), 2),
                    });
                Box::new(characters.chain(odd.iter().map(|byte| (Piece::Byte(*byte), 1))))
            }
        }
    }

    fn units(self, bytes: &[u8]) -> impl DoubleEndedIterator<Item = u16> + ExactSizeIterator + '_ {
        let (pairs, _) = bytes.as_chunks::<2>();
        pairs.iter().map(move |pair| match self {
            Self::Utf16Be => u16::from_be_bytes(*pair),
            Self::Utf8 | Self::Utf16Le | Self::Windows1252 | Self::Other(_) => {
                u16::from_le_bytes(*pair)
            }
        })
    }
}

/// The characters of an encoding that is only known by its tables.
struct Legacy<'a> {
    encoding: &'static encoding_rs::Encoding,
    bytes: &'a [u8],
    /// The second character of a code: a few codes stand for two.
    second: Option<char>,
}

impl Iterator for Legacy<'_> {
    type Item = (Piece, usize);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(second) = self.second.take() {
            return Some((Piece::Character(second), 0));
        }
        let first = *self.bytes.first()?;
        let mut piece = (Piece::Byte(first), 1);
        if first.is_ascii() {
            piece.0 = Piece::Character(char::from(first));
        } else {
            for length in 1..=self.bytes.len().min(LONGEST_CODE) {
                let code = &self.bytes[..length];
                let decode =
                    encoding_rs::Encoding::decode_without_bom_handling_and_without_replacement;
                let Some(text) = decode(self.encoding, code) else {
                    continue;
                };
                let mut characters = text.chars();
                if let Some(character) = characters.next() {
                    piece = (Piece::Character(character), length);
                    self.second = characters.next();
                    break;
                }
            }
        }
        self.bytes = &self.bytes[piece.1..];
        Some(piece)
    }
}

/// Returns the last position at which a character certainly begins. The bytes must begin at a character.
pub(crate) fn certain_start(bytes: &[u8]) -> usize {
    let apart = bytes.iter().rposition(|byte| *byte < b'0');
    apart.map_or(0, |at| at + 1)
}

/// Returns how many bytes at the beginning are whole characters.
fn whole_characters(encoding: &'static encoding_rs::Encoding, bytes: &[u8]) -> usize {
    let mut end = certain_start(bytes);
    for (piece, length) in Encoding::Other(encoding).pieces(&bytes[end..]) {
        // The byte may be the beginning of a character.
        if matches!(piece, Piece::Byte(_)) && bytes.len() - end < LONGEST_CODE {
            break;
        }
        end += length;
    }
    end
}

/// The bytes of the longest character, in GB 18030.
const LONGEST_CODE: usize = 4;

/// Returns how many bytes at the end are an incomplete UTF-8 character.
fn open_utf8(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    let lead = tail.iter().rposition(|byte| byte & 0xc0 != 0x80);
    let Some(tail) = lead.map(|at| &tail[at..]) else {
        return 0;
    };
    // Only the decoder knows all the rules. An error without a length means that the character is incomplete.
    match std::str::from_utf8(tail) {
        Err(err) if err.valid_up_to() == 0 && err.error_len().is_none() => tail.len(),
        _ => 0,
    }
}

/// Counts what speaks for UTF-8, and what against it. The pieces must begin and end with whole characters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evidence {
    /// The number of characters with several bytes.
    long: usize,
    /// The number of bytes that are part of no character.
    wrong: usize,
}

impl Evidence {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        if bytes.is_ascii() {
            return;
        }
        for chunk in bytes.utf8_chunks() {
            self.long += chunk.valid().bytes().filter(|byte| *byte >= 0xc0).count();
            self.wrong += chunk.invalid().len();
        }
    }

    /// Returns whether the text is UTF-8, perhaps damaged: such a text has more long characters than wrong bytes. A text
    /// in another encoding has hardly any long ones.
    pub(crate) fn is_utf8(&self) -> bool {
        self.wrong <= self.long
    }
}

/// Counts the line endings so far. The pieces must not end between `\r` and `\n`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Endings {
    lf: usize,
    crlf: usize,
    cr: usize,
}

impl Endings {
    pub(crate) fn add(&mut self, encoding: Encoding, bytes: &[u8]) {
        if encoding.unit() == 2 {
            let mut before = 0;
            for unit in encoding.units(bytes) {
                match (before, unit) {
                    (0x0d, 0x0a) => self.crlf += 1,
                    (_, 0x0a) => self.lf += 1,
                    (0x0d, _) => self.cr += 1,
                    _ => {}
                }
                before = unit;
            }
            self.cr += usize::from(before == 0x0d);
            return;
        }
        let feeds = memchr::memchr_iter(b'\n', bytes).count();
        let returns = memchr::memchr_iter(b'\r', bytes);
        let (mut all, mut pairs) = (0, 0);
        for at in returns {
            all += 1;
            pairs += usize::from(bytes.get(at + 1) == Some(&b'\n'));
        }
        self.crlf += pairs;
        self.lf += feeds - pairs;
        self.cr += all - pairs;
    }

    pub(crate) fn lines_ended(&self) -> usize {
        self.lf + self.crlf
    }

    pub(crate) fn kind(&self) -> LineEndings {
        match (self.lf, self.crlf, self.cr) {
            (0, 0, 0) => LineEndings::None,
            (_, 0, 0) => LineEndings::Lf,
            (0, _, 0) => LineEndings::Crlf,
            (0, 0, _) => LineEndings::Cr,
            _ => LineEndings::Mixed,
        }
    }
}

impl LineEndings {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lf => "lf",
            Self::Crlf => "crlf",
            Self::Cr => "cr",
            Self::Mixed => "mixed line endings",
            Self::None => "no line endings",
        }
    }
}

/// Decodes a byte as the WHATWG defines it: the five bytes without a character are control characters, so that all 256
/// differ.
fn windows_1252(byte: u8) -> char {
    const HIGH: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž',
        '\u{8f}', '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}',
        'ž', 'Ÿ',
    ];
    match byte {
        0x80..=0x9f => HIGH[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endings(text: &[u8]) -> LineEndings {
        let mut endings = Endings::default();
        endings.add(Encoding::Utf8, text);
        endings.kind()
    }

    #[test]
    fn line_endings_are_told_apart() {
        assert_eq!(endings(b""), LineEndings::None);
        assert_eq!(endings(b"a\nb"), LineEndings::Lf);
        assert_eq!(endings(b"a\r\nb\r\n"), LineEndings::Crlf);
        assert_eq!(endings(b"a\rb\r"), LineEndings::Cr);
        assert_eq!(endings(b"a\r\nb\n"), LineEndings::Mixed);
    }

    #[test]
    fn a_character_that_goes_on_is_left_for_later() {
        let text = "aé€😀".as_bytes();
        let ends = [0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10];
        for (length, end) in ends.into_iter().enumerate() {
            assert_eq!(Encoding::Utf8.whole(&text[..length]), end, "{length}");
        }
        // Bytes that can never become a character are not kept for the next piece.
        assert_eq!(Encoding::Utf8.whole(b"a\xff"), 2);
        assert_eq!(Encoding::Utf8.whole(b"a\x80\x80\x80"), 4);
        assert_eq!(Encoding::Utf8.whole(b"a\r"), 1);
        assert_eq!(Encoding::Utf16Le.whole(b"a\0\x3d\xd8"), 2);
        assert_eq!(Encoding::Utf16Be.whole(b"\0a\0\r\0"), 2);
    }

    #[test]
    fn every_byte_of_windows_1252_has_its_own_character() {
        let all: Vec<u8> = (0..=255).collect();
        let mut characters: Vec<_> = Encoding::Windows1252
            .pieces(&all)
            .map(|(piece, _)| piece)
            .collect();
        characters.dedup();
        assert_eq!(characters.len(), 256);
        assert_eq!(characters[0x80], Piece::Character('€'));
    }

    #[test]
    fn half_characters_are_pieces_too() {
        let pieces: Vec<_> = Encoding::Utf16Le.pieces(b"a\0\x3d\xd8b\0c").collect();
        let expected = [
            (Piece::Character('a'), 2),
            (Piece::Surrogate(0xd83d), 2),
            (Piece::Character('b'), 2),
            (Piece::Byte(b'c'), 1),
        ];
        assert_eq!(pieces, expected);
    }

    #[test]
    fn damaged_utf_8_stays_utf_8_and_latin_does_not_become_it() {
        let is_utf8 = |bytes: &[u8]| {
            let mut evidence = Evidence::default();
            evidence.add(bytes);
            evidence.is_utf8()
        };
        assert!(is_utf8("größe € \u{1f600}".as_bytes()));
        assert!(is_utf8(b"gr\xc3\xb6\xc3\x9fe \xff"));
        assert!(!is_utf8(b"gr\xf6\xdfe"));
    }

    #[test]
    fn characters_of_other_encodings_have_their_lengths() {
        let gb = Encoding::Other(encoding_rs::GBK);
        // The text has a character of two bytes, one of four, a byte that is no character, and an incomplete one.
        let bytes = b"a\xd6\xd0\x81\x30\x81\x30\xff\xd6";
        let pieces: Vec<_> = gb.pieces(bytes).collect();
        let expected = [
            (Piece::Character('a'), 1),
            (Piece::Character('中'), 2),
            (Piece::Character('\u{80}'), 4),
            (Piece::Byte(0xff), 1),
            (Piece::Byte(0xd6), 1),
        ];
        assert_eq!(pieces, expected);
        assert_eq!(gb.whole(b"ab\xd6\xd0\xd6"), 4);
        assert_eq!(gb.whole(b"ab \xd6\xd0"), 5);
        assert_eq!(gb.whole(b"\x81\x30\x81"), 0);
        assert_eq!(gb.whole(b"a\r"), 1);
    }
}
