//! The comparison of secrets.

/// Compares two secrets. The time that this takes tells nothing of where they differ, only whether they are equally long.
///
/// ```
/// assert!(lmcp::equal_secrets(b"s3cret", b"s3cret"));
/// assert!(!lmcp::equal_secrets(b"s3cret", b"guess"));
/// ```
pub fn equal(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len()
        && left
            .iter()
            .zip(right)
            .fold(0, |differs, (left, right)| differs | (left ^ right))
            == 0
}
