//! What stands for the content of a file: whoever read it can show it when they write, and learn that it changed.

use ring::digest::{Context, Digest, SHA256, digest};

/// The hash of these bytes: 128 bits of their SHA-256, in hexadecimal.
pub(crate) fn of(bytes: &[u8]) -> String {
    short(&digest(&SHA256, bytes))
}

/// The same for bytes that come one piece after another.
pub(crate) struct Running(Context);

impl Running {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_beginning_of_sha_256_however_the_bytes_come() {
        assert_eq!(of(b"abc"), "ba7816bf8f01cfea414140de5dae2223");
        let mut running = Running::new();
        running.add(b"a");
        running.add(b"bc");
        assert_eq!(running.finish(), of(b"abc"));
    }
}
