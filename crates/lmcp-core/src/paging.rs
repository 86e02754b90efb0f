//! Cursors, which mark the place where the next page of a list begins.
//!
//! A cursor holds the last key of the page before it; the server stores nothing. Lists are ordered by key, so a cursor stays
//! valid when items come and go. A checksum detects cursors that were not made here.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use lmcp_wire::RpcError;

/// Makes the cursor for the page after a key of a list.
pub(crate) fn encode(list: &str, key: &str) -> String {
    let mut bytes = checksum(list, key).to_vec();
    bytes.extend_from_slice(key.as_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Reads the key from a cursor.
pub(crate) fn decode(list: &str, cursor: &str) -> Result<String, RpcError> {
    let key = || {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let (sum, key) = bytes.split_at_checked(4)?;
        let key = std::str::from_utf8(key).ok()?;
        (sum == checksum(list, key)).then(|| key.to_owned())
    };
    key().ok_or_else(|| {
        RpcError::invalid_params(format!(
            "`cursor` is not one of `{list}`; begin without a cursor"
        ))
    })
}

/// FNV-1a. It is enough to detect foreign cursors, and protects no secret.
fn checksum(list: &str, key: &str) -> [u8; 4] {
    let bytes = list.bytes().chain([0]).chain(key.bytes());
    bytes
        .fold(0x811c_9dc5_u32, |sum, byte| {
            (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        })
        .to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_good_only_for_its_list() {
        let cursor = encode("tools/list", "näme");
        assert_eq!(decode("tools/list", &cursor).unwrap(), "näme");
        assert!(decode("prompts/list", &cursor).is_err());
        for bad in [
            "",
            "x",
            "AAAAAAAA",
            "é",
            &cursor[1..],
            &format!("{cursor}AA"),
        ] {
            assert!(decode("tools/list", bad).is_err(), "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_key_comes_back(key: String) {
            assert_eq!(decode("a", &encode("a", &key)).unwrap(), key);
        }

        #[test]
        fn no_text_panics(cursor: String) {
            let _ = decode("a", &cursor);
        }
    }
}
