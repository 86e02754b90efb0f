//! From bytes to text, in the encoding they are written in.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// The text. What cannot be read becomes U+FFFD.
///
/// The encoding is what the bytes begin with, what the server says, what the page says, or UTF-8 if it fits; what is
/// none of these is read as browsers read it in the west.
pub(super) fn decode(bytes: Vec<u8>, content_type: &str, cut: bool) -> String {
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
        // Most pages: nothing is copied.
        match String::from_utf8(bytes) {
            Ok(text) => return text,
            Err(err) => err.into_bytes(),
        }
    } else {
        bytes
    };
    // A byte order mark outweighs all that, and is taken off.
    encoding.decode(&bytes).0.into_owned()
}

/// What a page says of itself in its first kilobyte: `<meta charset=…>`, or the `encoding` of XML.
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
    // What is written in ASCII is not UTF-16, whatever it says.
    Some(if label.starts_with("utf-16") {
        "utf-8".into()
    } else {
        label
    })
}

/// `utf-8` in `text/html; Charset="utf-8"`.
fn parameter(text: &str, name: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let (_, after) = lower.split_once(name)?;
    let value = after.trim_start().strip_prefix('=')?;
    let value = value.trim_start().trim_start_matches(['"', '\'']);
    let end = value.find(|c: char| matches!(c, '"' | '\'' | ';' | '>' | '/') || c.is_whitespace());
    let value = &value[..end.unwrap_or(value.len())];
    (!value.is_empty()).then(|| value.to_owned())
}

/// Only bytes that were cut may end in the middle of a character.
pub(super) fn is_utf8(bytes: &[u8], cut: bool) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(err) => cut && err.error_len().is_none(),
    }
}

#[cfg(test)]
mod tests {
    fn decode(bytes: &[u8], content_type: &str) -> String {
        super::decode(bytes.to_vec(), content_type, false)
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
    fn a_character_that_the_limit_cut_in_two_does_not_change_the_rest() {
        let cut = &"naïve café".as_bytes()[..11];
        assert_eq!(
            super::decode(cut.to_vec(), "text/plain", true),
            "naïve caf\u{fffd}"
        );
    }
}
