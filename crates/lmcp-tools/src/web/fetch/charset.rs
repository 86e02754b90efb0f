//! Decodes bytes to text, in the encoding in which they are written.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// Returns the text, at most so many bytes of it, and whether that is all. Bytes that cannot be read become U+FFFD.
///
/// The encoding is that of a mark at the beginning, the one that the server names, the one that the page names, or
/// UTF-8 if it fits. Else the bytes are read as windows-1252, as browsers do in the west.
pub(super) fn decode(
    bytes: Vec<u8>,
    content_type: &str,
    cut: bool,
    limit: usize,
) -> (String, bool) {
    let encoding = parameter(content_type, "charset")
        .or_else(|| declared(&bytes))
        .and_then(|label| Encoding::for_label(label.as_bytes()))
        .unwrap_or_else(|| {
            if is_utf8(&bytes, cut) {
                UTF_8
            } else {
                WINDOWS_1252
            }
        });
    let has_mark = Encoding::for_bom(&bytes).is_some();
    let bytes = if encoding == UTF_8 && !has_mark {
        // Most pages are like this: nothing is copied.
        match String::from_utf8(bytes) {
            Ok(text) => return without_nul(text, limit),
            Err(err) => err.into_bytes(),
        }
    } else {
        bytes
    };
    without_nul(decode_from(encoding, &bytes, limit), limit)
}

/// Decodes the bytes. One byte can become three, so decoding ends a little after the limit.
fn decode_from(encoding: &'static Encoding, bytes: &[u8], limit: usize) -> String {
    // A byte order mark has priority over the encoding, and is removed.
    let mut decoder = encoding.new_decoder();
    let mut text = String::with_capacity(bytes.len().min(limit));
    let mut pieces = bytes.chunks(PIECE).peekable();
    while let Some(piece) = pieces.next() {
        let most = decoder.max_utf8_buffer_length(piece.len());
        text.reserve(most.unwrap_or(4 * PIECE));
        let _ = decoder.decode_to_string(piece, &mut text, pieces.peek().is_none());
        if text.len() > limit {
            break;
        }
    }
    text
}

/// Returns the text up to the limit, without NUL, which no client takes; and whether that is all.
fn without_nul(mut text: String, limit: usize) -> (String, bool) {
    if text.contains('\0') {
        let mut clean = String::with_capacity(text.len());
        for (at, piece) in text.split('\0').enumerate() {
            if clean.len() > limit {
                break;
            }
            clean.push_str(if at > 0 { "\u{fffd}" } else { "" });
            clean.push_str(piece);
        }
        text = clean;
    }
    let is_whole = text.len() <= limit;
    text.truncate(text.floor_char_boundary(limit));
    (text, is_whole)
}

/// The bytes that are decoded at once.
const PIECE: usize = 64 * 1024;

/// Returns the encoding that a page names in its first kilobyte: in `<meta charset=…>`, or as the `encoding` of XML.
fn declared(bytes: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(1024)]).to_ascii_lowercase();
    let label = match head
        .split_once("<?xml")
        .and_then(|(_, xml)| xml.split_once("?>"))
    {
        Some((xml, _)) if xml.contains("encoding") => parameter(xml, "encoding"),
        _ => head
            .split("<meta")
            .skip(1)
            .filter_map(|meta| meta.split('>').next())
            .find_map(|meta| parameter(meta, "charset")),
    }?;
    // A page whose head is ASCII is not UTF-16, whatever it says.
    Some(if label.starts_with("utf-16") {
        "utf-8".into()
    } else {
        label
    })
}

/// Returns the value of a parameter: `utf-8` in `text/html; Charset="utf-8"`.
fn parameter(text: &str, name: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let (_, after) = lower.split_once(name)?;
    let value = after.trim_start().strip_prefix('=')?;
    let value = value.trim_start().trim_start_matches(['"', '\'']);
    let end = value.find(|c: char| matches!(c, '"' | '\'' | ';' | '>' | '/') || c.is_whitespace());
    let value = &value[..end.unwrap_or(value.len())];
    (!value.is_empty()).then(|| value.to_owned())
}

/// Returns whether the bytes are UTF-8. Only bytes that were cut may end in the middle of a character.
pub(super) fn is_utf8(bytes: &[u8], cut: bool) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(err) => cut && err.error_len().is_none(),
    }
}

#[cfg(test)]
mod tests {
    fn decode(bytes: &[u8], content_type: &str) -> String {
        super::decode(bytes.to_vec(), content_type, false, usize::MAX).0
    }

    #[test]
    fn the_server_then_the_page_then_the_bytes_say_what_it_is() {
        let latin = b"caf\xe9";
        assert_eq!(decode(latin, "text/plain; charset=ISO-8859-1"), "café");
        assert_eq!(decode(latin, "text/plain"), "café");
        assert_eq!(decode("café".as_bytes(), "text/plain"), "café");
        assert_eq!(
            decode("café".as_bytes(), "text/html; charset=\"UTF-8\""),
            "café"
        );
        let koi = b"<html><meta charset='koi8-r'>\xc1";
        assert!(decode(koi, "text/html").ends_with('а'));
        let http_equiv =
            b"<meta http-equiv=Content-Type content=\"text/html; charset=shift_jis\">\x83\x65";
        assert!(decode(http_equiv, "text/html").ends_with('テ'));
        assert!(
            decode(
                b"<?xml version=\"1.0\" encoding=\"windows-1251\"?>\xe0",
                "text/xml"
            )
            .ends_with('а')
        );
    }

    #[test]
    fn a_byte_order_mark_outweighs_everything() {
        assert_eq!(decode(b"\xff\xfeh\0i\0", "text/plain; charset=utf-8"), "hi");
        assert_eq!(
            decode(b"\xef\xbb\xbfhi", "text/plain; charset=latin1"),
            "hi"
        );
    }

    #[test]
    fn what_grows_as_it_is_decoded_is_cut_at_the_limit() {
        let limit = 300_000;
        for (bytes, content_type) in [
            (b"\x80", "text/html; charset=windows-1252"),
            (b"\xff", "text/html; charset=utf-8"),
            (b"\0", "text/html; charset=utf-8"),
        ] {
            let bytes = bytes.repeat(limit);
            let (text, is_whole) = super::decode(bytes, content_type, false, limit);
            assert_eq!((text.len(), is_whole), (limit, false), "{content_type}");
            assert!(text.capacity() < 2 * limit + 4 * super::PIECE);
        }
        let (text, is_whole) = super::decode(b"\0a\0".to_vec(), "text/plain", false, 100);
        assert_eq!((text.as_str(), is_whole), ("\u{fffd}a\u{fffd}", true));
    }

    #[test]
    fn a_character_that_the_limit_cut_in_two_does_not_change_the_rest() {
        let cut = &"naïve café".as_bytes()[..11];
        assert_eq!(
            super::decode(cut.to_vec(), "text/plain", true, 100).0,
            "naïve caf\u{fffd}"
        );
    }
}
