//! Pictures, whole and otherwise.

/// A PNG with these sides and of this many bytes; 58 are the fewest.
pub(crate) fn png(width: u32, height: u32, bytes: usize) -> Vec<u8> {
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
    png.extend(width.to_be_bytes());
    png.extend(height.to_be_bytes());
    png.extend(b"\x08\0\0\0\0CRC.");
    let pixels = bytes - 57;
    png.extend(u32::try_from(pixels).unwrap().to_be_bytes());
    png.extend(b"IDAT");
    png.resize(png.len() + pixels, b'.');
    png.extend(b"CRC.\0\0\0\0IENDCRC.");
    png
}
