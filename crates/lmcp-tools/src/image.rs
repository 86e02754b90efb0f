//! Pictures that clients can show, recognized by their bytes alone.
//!
//! If a client gets a picture that its model cannot take, every later request may fail, because the picture stays
//! in the conversation. So a picture must be whole, of a known format, and small enough in pixels and bytes. This
//! is checked without decoding it.

pub(crate) mod shrink;

/// The most bytes of a picture. In base64 they are 5 MiB, the most that models take.
pub(crate) const MOST_BYTES: usize = 3_932_160;

/// Returns whether the bytes begin like a picture. [`check`] tells whether they are one.
pub(crate) fn begins(head: &[u8]) -> bool {
    // Two formats begin with letters, and a text about them may begin so, too; but a text has no zeros.
    let is_text = head.first().is_some_and(u8::is_ascii) && !head.contains(&0);
    Format::of(head).is_some() && !is_text
}

/// Describes a picture in words: type, size, and dimensions if its beginning has them.
pub(crate) fn describe(head: &[u8], size: u64) -> String {
    let format = Format::of(head);
    let name = format.map_or("no picture", Format::mime_type);
    match format.and_then(|format| format.dimensions(head)) {
        Some((width, height)) => format!("{name}, {size} bytes, {width}x{height} pixels"),
        None => format!("{name}, {size} bytes"),
    }
}

/// Returns whether a picture of so many bytes is too large to be shown as it is.
pub(crate) fn is_too_large(head: &[u8], size: u64) -> bool {
    let sides = Format::of(head).and_then(|format| format.dimensions(head));
    sides.is_some_and(|(width, height)| width.max(height) > MOST_SIDE) || size > MOST_BYTES as u64
}

/// Returns the MIME type of a picture that can be shown.
///
/// # Errors
/// The reason why it cannot be shown, in words.
pub(crate) fn check(bytes: &[u8]) -> Result<&'static str, String> {
    let format = Format::of(bytes).ok_or("it does not begin like a picture")?;
    let (width, height) = format
        .dimensions(bytes)
        .ok_or("its header is broken or cut off")?;
    let sides = 1..=MOST_SIDE;
    if !sides.contains(&width) || !sides.contains(&height) {
        return Err(format!("a side may have 1 to {MOST_SIDE} pixels"));
    }
    if bytes.len() > MOST_BYTES {
        return Err(format!("it may have {MOST_BYTES} bytes"));
    }
    if !format.is_whole(bytes).unwrap_or_default() {
        return Err("it is broken or cut off".into());
    }
    Ok(format.mime_type())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Png,
    Jpeg,
    Gif,
    WebP,
}

impl Format {
    fn of(head: &[u8]) -> Option<Self> {
        if head.starts_with(b"\x89PNG\r\n\x1a\n") {
            Some(Self::Png)
        } else if head.starts_with(b"\xff\xd8\xff") {
            Some(Self::Jpeg)
        } else if head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a") {
            Some(Self::Gif)
        } else if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP") {
            Some(Self::WebP)
        } else {
            None
        }
    }

    fn mime_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::WebP => "image/webp",
        }
    }

    /// Returns width and height, if the header is there.
    fn dimensions(self, bytes: &[u8]) -> Option<(u32, u32)> {
        match self {
            Self::Png if bytes.get(12..16)? == b"IHDR" => {
                Some((big(bytes.get(16..20)?), big(bytes.get(20..24)?)))
            }
            Self::Png => None,
            Self::Jpeg => {
                let frame = bytes.get(jpeg_frame(bytes)?..)?;
                Some((big(frame.get(7..9)?), big(frame.get(5..7)?)))
            }
            Self::Gif => Some((little(bytes.get(6..8)?), little(bytes.get(8..10)?))),
            Self::WebP => webp_dimensions(bytes),
        }
    }

    /// Returns whether the end of the picture is there, too.
    fn is_whole(self, bytes: &[u8]) -> Option<bool> {
        match self {
            Self::Png => png_is_whole(bytes),
            Self::Jpeg => {
                let scans = bytes.get(jpeg_frame(bytes)?..)?;
                Some(memchr::memmem::rfind(scans, b"\xff\xd9").is_some())
            }
            Self::Gif => gif_has_picture(bytes),
            Self::WebP => {
                let length = usize::try_from(little(bytes.get(4..8)?)).ok()?;
                Some(length <= bytes.len() - 8)
            }
        }
    }
}

/// Returns whether a PNG is whole: chunks of length, name, data and checksum, with pixels among them, up to the
/// last chunk.
fn png_is_whole(bytes: &[u8]) -> Option<bool> {
    let (mut at, mut has_pixels) = (8, false);
    loop {
        let length = usize::try_from(big(bytes.get(at..at + 4)?)).ok()?;
        let name = bytes.get(at + 4..at + 8)?;
        at = at.checked_add(length)?.checked_add(12)?;
        has_pixels |= name == b"IDAT";
        if name == b"IEND" {
            return Some(has_pixels && at <= bytes.len());
        }
    }
}

/// Returns where the segment with the dimensions begins. Other segments of any length come before it.
fn jpeg_frame(bytes: &[u8]) -> Option<usize> {
    let mut at = 2;
    loop {
        match *bytes.get(at..at + 2)? {
            [0xff, 0xff] => at += 1,
            [0xff, 0x01 | 0xd0..=0xd7] => at += 2,
            [0xff, 0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf] => return Some(at),
            // The pixels begin, or the picture ends.
            [0xff, 0xd9 | 0xda] => return None,
            [0xff, _] => at += 2 + usize::try_from(big(bytes.get(at + 2..at + 4)?)).ok()?,
            _ => return None,
        }
    }
}

/// Returns whether a GIF has one whole picture. That is enough: the pictures after it are an animation.
fn gif_has_picture(bytes: &[u8]) -> Option<bool> {
    let mut at = 13 + color_table(*bytes.get(10)?);
    loop {
        match *bytes.get(at)? {
            0x21 => at = behind_blocks(bytes, at + 2)?,
            0x2c => {
                at += 10 + color_table(*bytes.get(at + 9)?);
                return Some(behind_blocks(bytes, at + 1)? <= bytes.len());
            }
            _ => return Some(false),
        }
    }
}

/// Returns the length of the colour table that these flags announce.
fn color_table(flags: u8) -> usize {
    match flags & 0x80 {
        0 => 0,
        _ => 3 << ((flags & 7) + 1),
    }
}

/// Returns the position after a sequence of blocks. Each begins with its length, and the last one is empty.
fn behind_blocks(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match usize::from(*bytes.get(at)?) {
            0 => return Some(at + 1),
            length => at += 1 + length,
        }
    }
}

fn webp_dimensions(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes.get(12..16)? {
        b"VP8 " if bytes.get(23..26)? == b"\x9d\x01\x2a" => {
            let side = |at| Some(little(bytes.get(at..at + 2)?) & 0x3fff);
            Some((side(26)?, side(28)?))
        }
        b"VP8L" if *bytes.get(20)? == 0x2f => {
            let sides = little(bytes.get(21..25)?);
            Some(((sides & 0x3fff) + 1, (sides >> 14 & 0x3fff) + 1))
        }
        b"VP8X" => Some((
            little(bytes.get(24..27)?) + 1,
            little(bytes.get(27..30)?) + 1,
        )),
        _ => None,
    }
}

/// Reads a number whose first byte counts most.
fn big(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// Reads a number whose last byte counts most.
fn little(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .rfold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// The most pixels of a side: models refuse larger pictures.
const MOST_SIDE: u32 = 8000;

#[cfg(test)]
mod tests {
    use super::*;

    const GIF: &[u8] = b"GIF89a\x03\0\x02\0\x80\0\0\0\0\0\xff\xff\xff\x21\xf9\x04\0\0\0\0\0\
        \x2c\0\0\0\0\x03\0\x02\0\0\x02\x02\x44\x01\0\x3b";

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
        png.extend(width.to_be_bytes());
        png.extend(height.to_be_bytes());
        png.extend(b"\x08\0\0\0\0CRC.\0\0\0\x01IDATxCRC.\0\0\0\0IENDCRC.");
        png
    }

    fn jpeg() -> Vec<u8> {
        let mut jpeg = b"\xff\xd8\xff\xe0\x40\0".to_vec();
        jpeg.resize(4 + 0x4000, b'.');
        jpeg.extend(b"\xff\xff\xc2\0\x0b\x08\0\x05\0\x07\x01\x01\x11\0\xff\xda..\xff\xd9");
        jpeg
    }

    fn webp(chunk: &[u8]) -> Vec<u8> {
        let mut webp = b"RIFF".to_vec();
        webp.extend(u32::try_from(4 + chunk.len()).unwrap().to_le_bytes());
        webp.extend(b"WEBP");
        webp.extend(chunk);
        webp
    }

    #[test]
    fn pictures_are_measured_without_being_decoded() {
        let lossy = webp(b"VP8 \x0a\0\0\0\0\0\0\x9d\x01\x2a\x07\0\x05\0");
        let lossless = webp(b"VP8L\x05\0\0\0\x2f\x06\0\x01\0.");
        let extended = webp(b"VP8X\x0a\0\0\0\0\0\0\0\x06\0\0\x04\0\0");
        for (bytes, words) in [
            (png(7, 5), "image/png, 58 bytes, 7x5 pixels"),
            (jpeg(), "image/jpeg, 16408 bytes, 7x5 pixels"),
            (GIF.to_vec(), "image/gif, 43 bytes, 3x2 pixels"),
            (lossy, "image/webp, 30 bytes, 7x5 pixels"),
            (lossless, "image/webp, 26 bytes, 7x5 pixels"),
            (extended, "image/webp, 30 bytes, 7x5 pixels"),
        ] {
            assert_eq!(describe(&bytes, bytes.len() as u64), words);
            assert!(begins(&bytes), "{words}");
            assert!(words.starts_with(check(&bytes).unwrap()));
        }
    }

    #[test]
    fn no_beginning_of_a_picture_is_one() {
        for whole in [png(7, 5), jpeg(), webp(b"VP8L\x05\0\0\0\x2f\x06\0\x01\0.")] {
            for length in (0..whole.len()).filter(|length| length % 7 == 0) {
                assert!(check(&whole[..length]).is_err(), "{length} of {whole:?}");
            }
            assert!(check(&whole[..whole.len() - 1]).is_err());
        }
        // The last byte only says that nothing follows.
        for length in 0..GIF.len() - 1 {
            assert!(check(&GIF[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn sides_and_bytes_are_bounded() {
        assert!(check(&png(8000, 8000)).is_ok());
        for (width, height) in [(8001, 1), (1, 8001), (0, 1), (1, 0), (u32::MAX, 1)] {
            assert!(check(&png(width, height)).is_err(), "{width}x{height}");
        }
        let mut long = png(1, 1);
        long.resize(MOST_BYTES, 0);
        assert!(check(&long).is_ok());
        long.push(0);
        assert!(check(&long).is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_behind_a_beginning_are_looked_at(
            begin in proptest::sample::select(vec![
                &b"\x89PNG\r\n\x1a\n"[..], b"\xff\xd8\xff", b"GIF89a", b"RIFF\xff\xff\xff\xffWEBPVP8X", b"RIFF....WEBPVP8 ",
            ]),
            rest in proptest::collection::vec(proptest::num::u8::ANY, 0..200),
        ) {
            let bytes = [begin, &rest].concat();
            let _ = (check(&bytes), describe(&bytes, 1));
        }
    }
}
