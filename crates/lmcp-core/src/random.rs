//! Random identifiers from the operating system.

use ring::rand::{SecureRandom, SystemRandom};

/// Returns `N` random bytes.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the operating system has randomness");
    bytes
}

/// Returns `N` random bytes as hexadecimal digits.
pub(crate) fn hex<const N: usize>() -> String {
    bytes::<N>()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
