//! Texts that are not UTF-8: finds their encoding, and lets them be edited.
//!
//! An edit works on the text in UTF-8, and characters that the edit does not touch keep their bytes: every character
//! is written as it was found. Bytes that are no characters, or that write a known character in another way, are
//! replaced by stand-ins that nobody types.

use std::collections::HashMap;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};

use super::text::{Encoding, Evidence, Piece};

/// Returns the encoding of a text, and how many bytes at its beginning are a mark.
pub(crate) fn of(bytes: &[u8]) -> (Encoding, usize) {
    let (encoding, mark) = Encoding::by_mark(bytes);
    if mark > 0 || std::str::from_utf8(bytes).is_ok() {
        return (encoding, mark);
    }
    let mut evidence = Evidence::default();
    evidence.add(bytes);
    if evidence.is_utf8() {
        return (Encoding::Utf8, 0);
    }
    let mut guess = Guess::new();
    guess.add(bytes);
    (guess.encoding(), 0)
}

/// A guess at the encoding of bytes that come one piece after another, and are not UTF-8.
pub(crate) struct Guess {
    detector: EncodingDetector,
    /// The number of bytes that still count.
    left: usize,
    is_ascii: bool,
}

impl Guess {
    pub(crate) fn new() -> Self {
        Self {
            detector: EncodingDetector::new(Iso2022JpDetection::Deny),
            left: MOST_LOOKED_AT,
            is_ascii: true,
        }
    }

    /// Adds a piece. Returns whether more bytes would help. However the bytes are cut, the guess is the same.
    pub(crate) fn add(&mut self, mut bytes: &[u8]) -> bool {
        if self.is_ascii {
            let ascii = bytes.iter().take_while(|byte| byte.is_ascii()).count();
            self.detector.feed(&bytes[..ascii], false);
            bytes = &bytes[ascii..];
            self.is_ascii = bytes.is_empty();
        }
        let counted = bytes.len().min(self.left);
        self.detector.feed(&bytes[..counted], false);
        self.left -= counted;
        self.left > 0
    }

    pub(crate) fn encoding(&self) -> Encoding {
        match self.detector.guess(None, Utf8Detection::Deny) {
            western if western == encoding_rs::WINDOWS_1252 => Encoding::Windows1252,
            other => Encoding::Other(other),
        }
    }
}

impl Encoding {
    /// Writes a text in this encoding, without a mark.
    ///
    /// # Errors
    /// The first character that the encoding has no code for.
    pub(crate) fn write(self, text: &str) -> Result<Vec<u8>, char> {
        let units = |to_bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(to_bytes).collect();
        let encoding = match self {
            Self::Utf8 => return Ok(text.as_bytes().to_vec()),
            Self::Utf16Le => return Ok(units(u16::to_le_bytes)),
            Self::Utf16Be => return Ok(units(u16::to_be_bytes)),
            Self::Windows1252 => encoding_rs::WINDOWS_1252,
            Self::Other(encoding) => encoding,
        };
        let (bytes, _, has_unknown) = encoding.encode(text);
        if !has_unknown {
            return Ok(bytes.into_owned());
        }
        let mut letter = [0; 4];
        let unknown = text
            .chars()
            .find(|character| encoding.encode(character.encode_utf8(&mut letter)).2);
        Err(unknown.unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}

/// A text in another encoding, while it is edited.
#[derive(Debug)]
pub(crate) struct Foreign {
    pub(crate) encoding: Encoding,
    mark: Vec<u8>,
    /// The code of each character in this text. Empty for UTF-16, where a character has only one.
    codes: HashMap<char, Vec<u8>>,
    /// The bytes that have stand-ins, in the order of these.
    odd: Vec<Vec<u8>>,
}

impl Foreign {
    /// Returns the text in UTF-8, and what is needed to write it again. `None` if the text is UTF-8, perhaps damaged,
    /// or if too much of it is no text.
    pub(crate) fn read(bytes: &[u8]) -> Option<(Self, String)> {
        let (encoding, mark) = of(bytes);
        if encoding == Encoding::Utf8 {
            return None;
        }
        let (mark, mut bytes) = bytes.split_at(mark);
        let mut foreign = Self {
            encoding,
            mark: mark.to_vec(),
            codes: HashMap::new(),
            odd: Vec::new(),
        };
        let mut text = String::with_capacity(bytes.len());
        let mut pieces = encoding.pieces(bytes).peekable();
        while let Some((piece, length)) = pieces.next() {
            let (code, rest) = bytes.split_at(length);
            bytes = rest;
            let single = pieces.next_if(|(_, length)| *length == 0).is_none();
            match piece {
                Piece::Character(character) if single && foreign.knows(character, code) => {
                    text.push(character);
                }
                _ => text.push(foreign.stand_in(code)?),
            }
        }
        Some((foreign, text))
    }

    /// Returns the bytes of the text after an edit.
    ///
    /// # Errors
    /// The first character that the encoding has no code for.
    pub(crate) fn write(&self, text: &str) -> Result<Vec<u8>, char> {
        let mut bytes = self.mark.clone();
        bytes.reserve(text.len());
        let mut letter = [0; 4];
        for character in text.chars() {
            let odd = u32::from(character).checked_sub(FIRST_STAND_IN);
            if let Some(odd) = odd.and_then(|at| self.odd.get(at as usize)) {
                bytes.extend_from_slice(odd);
            } else if let Some(code) = self.codes.get(&character) {
                bytes.extend_from_slice(code);
            } else if character.is_ascii() && self.encoding.unit() == 1 {
                bytes.push(character as u8);
            } else {
                bytes.extend(self.encoding.write(character.encode_utf8(&mut letter))?);
            }
        }
        Ok(bytes)
    }

    /// Returns whether the character is written with this code, here and everywhere before.
    fn knows(&mut self, character: char, code: &[u8]) -> bool {
        if u32::from(character) >= FIRST_STAND_IN {
            return false;
        }
        if character.is_ascii() || self.encoding.unit() == 2 {
            return true;
        }
        match self.codes.get(&character) {
            Some(known) => known == code,
            None => {
                self.codes.insert(character, code.to_vec());
                true
            }
        }
    }

    fn stand_in(&mut self, code: &[u8]) -> Option<char> {
        let known = self.odd.iter().position(|odd| odd == code);
        let at = known.unwrap_or_else(|| {
            self.odd.push(code.to_vec());
            self.odd.len() - 1
        });
        if at >= MOST_ODD {
            return None;
        }
        char::from_u32(FIRST_STAND_IN + u32::try_from(at).ok()?)
    }
}

/// The most bytes that are used for the guess, from the first byte on that is not ASCII.
const MOST_LOOKED_AT: usize = 256 << 10;

/// The first stand-in: a character of the last plane, which is for private use.
const FIRST_STAND_IN: u32 = 0x10_0000;

/// The most different stand-ins. A text has few.
const MOST_ODD: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const CHINESE: &str = "配置文件中的选项说明：端口号和超时时间必须大于零。\r\n";
    const JAPANESE: &str = "設定ファイルの説明です。ポート番号を変更してください。\r\n";
    const GERMAN: &str = "Die Größe der Datei überschreitet die zulässige Länge für Anhänge.\r\n";
    const RUSSIAN: &str = "Настройки сервера: порт и время ожидания.\r\n";

    fn encoded(text: &str, encoding: &'static encoding_rs::Encoding) -> Vec<u8> {
        let (bytes, _, unmappable) = encoding.encode(text);
        assert!(!unmappable);
        bytes.into_owned()
    }

    #[test]
    fn encodings_are_told_apart() {
        for (text, encoding) in [
            (CHINESE, encoding_rs::GBK),
            (JAPANESE, encoding_rs::SHIFT_JIS),
            (JAPANESE, encoding_rs::EUC_JP),
            (GERMAN, encoding_rs::WINDOWS_1252),
            (RUSSIAN, encoding_rs::WINDOWS_1251),
            (RUSSIAN, encoding_rs::KOI8_U),
        ] {
            let found = of(&encoded(text, encoding));
            assert_eq!((found.0.name(), found.1), (encoding.name(), 0), "{text}");
        }
        assert_eq!(of(CHINESE.as_bytes()), (Encoding::Utf8, 0));
        assert_eq!(of(b"caf\xe9"), (Encoding::Windows1252, 0));
        assert_eq!(of(b"\xff\xfea\0"), (Encoding::Utf16Le, 2));
        assert_eq!(of(b"plain"), (Encoding::Utf8, 0));
    }

    #[test]
    fn the_guess_does_not_depend_on_how_the_bytes_come() {
        let bytes = encoded(&format!("abc {CHINESE}").repeat(200), encoding_rs::GBK);
        for size in [1, 7, 4096] {
            let mut guess = Guess::new();
            for chunk in bytes.chunks(size) {
                guess.add(chunk);
            }
            assert_eq!(guess.encoding(), of(&bytes).0);
        }
    }

    #[test]
    fn what_is_not_edited_keeps_its_bytes() {
        let two_ways = b"\x81\xbe \x87\x9b ";
        let japanese = encoded(JAPANESE, encoding_rs::SHIFT_JIS);
        let utf16: Vec<u8> = "a中\u{1f600}\r\n"
            .encode_utf16()
            .flat_map(u16::to_be_bytes)
            .collect();
        for bytes in [
            japanese.clone(),
            [japanese.as_slice(), two_ways, b"\xff\x81\n"].concat(),
            encoded(CHINESE, encoding_rs::GBK),
            [b"\xfe\xff", utf16.as_slice()].concat(),
            [b"\xfe\xff", utf16.as_slice(), b"\xd8\x00\0b!"].concat(),
            (0x80..=0xff).chain(*b" caf\xe9").collect(),
        ] {
            let (foreign, text) = Foreign::read(&bytes).unwrap();
            assert_eq!(foreign.write(&text).unwrap(), bytes, "{text}");
        }
        let (foreign, text) = Foreign::read(&japanese).unwrap();
        let edited = text.replace("ポート", "ホスト名");
        let expected = encoded(
            &JAPANESE.replace("ポート", "ホスト名"),
            encoding_rs::SHIFT_JIS,
        );
        assert_eq!(foreign.write(&edited).unwrap(), expected);
        assert_eq!(foreign.write("한"), Err('한'));
    }
}
