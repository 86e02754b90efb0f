//! Normalises paths, and encodes and decodes with percent signs.

/// Returns a path in the form in which it is sent: `\` becomes `/`, dots are resolved, and unsafe bytes are encoded.
pub(super) fn normalise(path: &str) -> String {
    let path = path.replace('\\', "/");
    let path = path.strip_prefix('/').unwrap_or(&path);
    let mut segments: Vec<&str> = Vec::new();
    let mut pieces = path.split('/').peekable();
    while let Some(piece) = pieces.next() {
        let last = pieces.peek().is_none();
        match dots(piece) {
            0 => segments.push(piece),
            count => {
                if count == 2 {
                    segments.pop();
                }
                if last {
                    segments.push("");
                }
            }
        }
    }
    encode(&format!("/{}", segments.join("/")), is_path_unsafe)
}

/// Replaces every unsafe byte by `%XX`. Existing escapes stay.
pub(super) fn encode(text: &str, is_unsafe: impl Fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii() && !is_unsafe(character as u8) {
            out.push(character);
            continue;
        }
        for byte in character.encode_utf8(&mut [0; 4]).bytes() {
            out.push('%');
            for half in [byte >> 4, byte & 15] {
                out.push(char::from(HEX[usize::from(half)]));
            }
        }
    }
    out
}

/// Returns the bytes with every `%XX` decoded. Other text stays.
pub(crate) fn decode(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let pair = after
            .get(..2)
            .filter(|_| byte == b'%')
            .and_then(|pair| std::str::from_utf8(pair).ok())
            .filter(|pair| pair.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|pair| u8::from_str_radix(pair, 16).ok());
        out.push(pair.unwrap_or(byte));
        rest = if pair.is_some() { &after[2..] } else { after };
    }
    out
}

pub(super) fn is_fragment_unsafe(byte: u8) -> bool {
    byte <= b' ' || byte >= 0x7f || matches!(byte, b'"' | b'<' | b'>' | b'`')
}

pub(super) fn is_query_unsafe(byte: u8) -> bool {
    byte <= b' ' || byte >= 0x7f || matches!(byte, b'"' | b'#' | b'<' | b'>' | b'\'')
}

/// Whether a byte is unsafe in the value of a parameter.
pub(super) fn is_form_unsafe(byte: u8) -> bool {
    !byte.is_ascii_alphanumeric() && !matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn is_path_unsafe(byte: u8) -> bool {
    is_fragment_unsafe(byte) || matches!(byte, b'#' | b'?' | b'^' | b'{' | b'}')
}

/// Returns 1 or 2 for `.` and `..` in any notation, and 0 for anything else.
fn dots(segment: &str) -> usize {
    match segment.to_ascii_lowercase().replace("%2e", ".").as_str() {
        "." => 1,
        ".." => 2,
        _ => 0,
    }
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";
