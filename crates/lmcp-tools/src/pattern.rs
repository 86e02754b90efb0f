//! Regular expressions of callers: how long they may be, and the memory that they take while they are read.

use lmcp_core::{ToolError, ToolResult};

/// Bytes of a regular expression. Reading it takes many times as much.
pub(crate) const MOST_BYTES: usize = 4096;
/// What one byte of it can become while it is read: the two of `\\w` stand for the letters of all alphabets.
const READ_BYTES: usize = 8192;

/// The memory that reading a regular expression takes at most.
///
/// # Errors
/// It is too long.
pub(crate) fn weight(pattern: &str) -> ToolResult<usize> {
    if pattern.len() > MOST_BYTES {
        let words = format!(
            "the regular expression has {} bytes, and may have {MOST_BYTES}",
            pattern.len()
        );
        return Err(ToolError::new(words));
    }
    Ok(pattern.len() * READ_BYTES)
}
