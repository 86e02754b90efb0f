//! The smallest picture and the shortest sound that are what they say.

use lmcp::Content;

/// One red pixel, as content.
pub(crate) fn picture() -> Content {
    Content::image(PNG, "image/png")
}

/// A millisecond of silence, as content.
pub(crate) fn sound() -> Content {
    Content::audio(WAV, "audio/wav")
}

/// One red pixel.
pub(crate) const PNG: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\
    \0\0\0\x0cIDATx\xdac\xf8\xcf\xc0\0\0\x03\x01\x01\0\xf7\x03AC\0\0\0\0IEND\xaeB`\x82";

/// Eight samples of silence, at 8 kHz.
const WAV: &[u8] = b"RIFF,\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0@\x1f\0\0@\x1f\0\0\x01\0\x08\0\
    data\x08\0\0\0\x80\x80\x80\x80\x80\x80\x80\x80";
