//! Random text that cannot be guessed.

use ring::rand::{SecureRandom as _, SystemRandom};

/// Returns `N` random bytes as hexadecimal digits.
pub(crate) fn hex<const N: usize>() -> String {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the operating system has randomness");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
