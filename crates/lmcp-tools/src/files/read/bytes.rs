//! The bytes of a file as they are: as a hexadecimal dump, or as base64.

use std::{fmt::Write as _, io};

use base64::Engine as _;
use lmcp_core::Cx;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{files::hash, room::Room};

use super::{FileRead, Next, slice::Slice, source::Source, survey::WHOLE_BYTES};

/// How a file is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Form {
    #[default]
    Text,
    Hex,
    Base64,
}

impl Slice {
    /// Reads the bytes of this part, and notes their position.
    pub(super) fn fill_bytes(
        &self,
        read: &mut FileRead,
        source: &mut Source,
        form: Form,
        room: &Room,
        cx: &Cx,
    ) -> io::Result<()> {
        let fits = match form {
            Form::Text | Form::Hex => (room.bytes / LINE_BYTES).min(room.lines).max(1) * PER_LINE,
            Form::Base64 => (room.bytes / 4).max(1) * 3,
        };
        let (start, limit) = self.by_bytes(source.size());
        let end = start.saturating_add(limit.min(fits as u64));
        if source.size() <= WHOLE_BYTES {
            let mut hash = hash::Hasher::new();
            source.walk(0, cx, |_, chunk, _| {
                hash.add(chunk);
                Some(chunk.len())
            })?;
            read.hash = Some(hash.finish());
        }
        let bytes = source.between(start, end)?;
        let end = start + bytes.len() as u64;
        read.content = Some(match form {
            Form::Text | Form::Hex => dump(start, bytes),
            Form::Base64 => base64::engine::general_purpose::STANDARD.encode(bytes),
        });
        read.byte_start = Some(start);
        read.byte_end = Some(end);
        let rest = source.size().saturating_sub(end);
        read.remaining_bytes = Some(rest);
        read.next = (rest > 0).then_some(Next::ByteOffset(end));
        Ok(())
    }
}

/// Writes a dump as `xxd -g1` does: the position, the bytes, and those of them that are ASCII.
fn dump(start: u64, bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(PER_LINE) * LINE_BYTES);
    for (line, bytes) in (0..).zip(bytes.chunks(PER_LINE)) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{:08x}:", start + line * PER_LINE as u64);
        for byte in bytes {
            let _ = write!(text, " {byte:02x}");
        }
        text.push_str(&"   ".repeat(PER_LINE - bytes.len()));
        text.push_str("  ");
        text.extend(bytes.iter().map(|byte| match byte {
            0x20..=0x7e => char::from(*byte),
            _ => '.',
        }));
        text.push('\n');
    }
    text
}

const PER_LINE: usize = 16;

/// The longest line of a dump in JSON: every character that is shown may need a backslash.
const LINE_BYTES: usize = 9 + 3 * PER_LINE + 2 + 2 * PER_LINE + 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stand_in_lines_with_their_offset_and_ascii() {
        let bytes: Vec<u8> = (0x3a..0x4c).collect();
        let expected = "\
            00000010: 3a 3b 3c 3d 3e 3f 40 41 42 43 44 45 46 47 48 49  :;<=>?@ABCDEFGHI\n\
            00000020: 4a 4b                                            JK\n";
        assert_eq!(dump(16, &bytes), expected);
        assert_eq!(
            dump(0, b"\0\xff\n"),
            format!("00000000: 00 ff 0a{}...\n", " ".repeat(41))
        );
    }
}
