//! The hash of a file's content. A caller that read the file can send it with a write, and learns if the file has
//! changed.

use ring::digest::{Context, Digest, SHA256, digest};

/// Returns the hash of these bytes: 128 bits of their SHA-256, in hexadecimal.
pub(crate) fn of(bytes: &[u8]) -> String {
    short(&digest(&SHA256, bytes))
}

/// Returns a hash as callers are shown it: its beginning, which tells one content of a file from any other that the
/// file ever had.
pub(crate) fn shown(hash: &str) -> String {
    hash.chars().take(SHOWN).collect()
}

/// Returns whether a caller means this hash. The caller may give all of it, or the part that was shown.
pub(crate) fn is_meant(given: &str, hash: &str) -> bool {
    let given = given.trim();
    let beginning = hash.get(..given.len());
    given.len() >= SHOWN && beginning.is_some_and(|own| own.eq_ignore_ascii_case(given))
}

/// Hashes bytes that come one piece after another.
pub(crate) struct Hasher(Context);

impl Hasher {
    pub(crate) fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> String {
        short(&self.0.finish())
    }
}

fn short(digest: &Digest) -> String {
    let bytes = digest.as_ref().iter().take(16);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

/// The number of digits that are shown: 48 bits.
const SHOWN: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_beginning_of_sha_256_however_the_bytes_come() {
        assert_eq!(of(b"abc"), "ba7816bf8f01cfea414140de5dae2223");
        let mut running = Hasher::new();
        running.add(b"a");
        running.add(b"bc");
        assert_eq!(running.finish(), of(b"abc"));
    }

    #[test]
    fn what_was_shown_is_enough_and_less_or_more_is_not() {
        let hash = of(b"abc");
        assert_eq!(shown(&hash), "ba7816bf8f01");
        for given in ["ba7816bf8f01", " BA7816BF8F01\n", &hash] {
            assert!(is_meant(given, &hash), "{given}");
        }
        for given in [
            "",
            "ba78",
            "ba7816bf8f02",
            &format!("{hash}0"),
            "ba7816bf8f0é",
        ] {
            assert!(!is_meant(given, &hash), "{given}");
        }
    }
}
