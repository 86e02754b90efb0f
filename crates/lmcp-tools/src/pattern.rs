//! Regular expressions of callers: how long they may be, and how much memory parsing them takes.

use lmcp_core::{ToolError, ToolResult};

/// The most bytes of a regular expression. Parsing it takes many times as much memory.
pub(crate) const MOST_BYTES: usize = 4096;
/// The memory that one byte can take while it is parsed: the two of `\\w` stand for the letters of all
/// alphabets.
const READ_BYTES: usize = 8192;

/// Returns the memory that parsing a regular expression takes at most.
///
/// # Errors
/// The expression is too long.
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
