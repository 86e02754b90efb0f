//! The kind of a file, by its first bytes.

use crate::image;

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text, as far as the first bytes tell.
    Text,
    /// The file begins like a picture. Whether models can see it, only the whole file tells.
    Image,
    /// A file that is not for reading, and its kind in words.
    Binary(&'static str),
    /// The first bytes are zeros only: a hole, perhaps with text after it.
    Hole,
}

/// How many bytes at the beginning are read.
pub(crate) const HEAD_BYTES: usize = 8192;

impl Kind {
    /// Returns the kind by the first [`HEAD_BYTES`] of a file.
    pub(crate) fn of(head: &[u8]) -> Self {
        if image::begins(head) {
            return Self::Image;
        }
        let known = MAGIC.iter().find(|(magic, _)| head.starts_with(magic));
        if let Some((_, name)) = known {
            return Self::Binary(name);
        }
        let is_utf16 = head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]);
        if is_utf16 || !head.contains(&0) {
            return Self::Text;
        }
        if head.iter().all(|byte| *byte == 0) {
            return Self::Hole;
        }
        Self::Binary("binary data")
    }
}

/// The words for a PDF document.
pub(crate) const PDF: &str = "a PDF document";

/// First bytes that no text has: each is long or unusual enough.
const MAGIC: &[(&[u8], &str)] = &[
    (b"\x7fELF", "an ELF program or library"),
    (b"MZ\x90\0", "a Windows program"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O program"),
    (b"\0asm", "a WebAssembly module"),
    (b"\xca\xfe\xba\xbe", "a Java class"),
    (b"!<arch>\n", "an archive of object files"),
    (b"PK\x03\x04", "a ZIP archive or office document"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data"),
    (b"\xfd7zXZ\0", "XZ data"),
    (b"BZh91AY&SY", "bzip2 data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"%PDF-", PDF),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\xff\xfe\0\0", "UTF-32 text"),
    (b"\0\0\xfe\xff", "UTF-32 text"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_how_they_begin() {
        assert_eq!(Kind::of(b""), Kind::Text);
        assert_eq!(Kind::of(b"GIF is a format"), Kind::Text);
        assert_eq!(Kind::of(b"GIF89a is a format"), Kind::Text);
        assert_eq!(Kind::of(b"GIF89a\x01\0"), Kind::Image);
        assert_eq!(Kind::of(b"RIFF\0\0\0\0WEBPVP8 "), Kind::Image);
        assert_eq!(
            Kind::of(b"RIFF\0\0\0\0WAVEfmt "),
            Kind::Binary("binary data")
        );
        assert_eq!(Kind::of(b"%PDF-1.7\n"), Kind::Binary("a PDF document"));
        assert_eq!(Kind::of(b"a\0b"), Kind::Binary("binary data"));
        assert_eq!(Kind::of(b"\xff\xfea\0"), Kind::Text);
        assert_eq!(
            Kind::of(b"\xff\xfe\0\0a\0\0\0"),
            Kind::Binary("UTF-32 text")
        );
        assert_eq!(Kind::of(&[0; 64]), Kind::Hole);
    }
}
