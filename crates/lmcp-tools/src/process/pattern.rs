//! A pattern that is searched for in the output of jobs, and the memory that it holds while it is used.

use std::{io, ops::Deref};

use lmcp_core::{Cx, Reservation, ToolError, ToolResult};
use regex::bytes::{Regex, RegexBuilder};

use super::store::clip;
use crate::{
    memory::{Memory, blocking_within},
    pattern,
};

/// A compiled pattern, with its memory.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    _memory: Reservation,
}

/// How large a pattern may become, in bytes. Most patterns fit the small size, so a caller that waits
/// for one holds little memory.
struct Size {
    compiled: usize,
    /// The cache that makes matching fast. A pattern has two: one finds the end of a match, one its
    /// beginning.
    cache: usize,
}

const KIB: usize = 1024;
const SIZES: [Size; 2] = [
    Size {
        compiled: 64 * KIB,
        cache: 128 * KIB,
    },
    Size {
        compiled: 1024 * KIB,
        cache: 1024 * KIB,
    },
];

impl Pattern {
    /// Compiles a pattern on a blocking thread: a long one takes a while.
    ///
    /// # Errors
    /// The pattern is not valid, too long or too large, or there is no memory for it.
    pub(super) async fn read(text: Option<String>, cx: &Cx) -> ToolResult<Option<Self>> {
        let Some(text) = text else {
            return Ok(None);
        };
        let weight = pattern::weight(&text)?;
        let step = move |memory: &mut Memory| {
            memory.need(weight)?;
            let mut refused = None;
            for size in &SIZES {
                memory.need_in_all(weight + size.bytes())?;
                match size.build(&text) {
                    Ok(regex) => return Ok((regex, size.bytes())),
                    Err(err) => refused = Some(err),
                }
            }
            let error = ToolError::new(format!("`{}` is not a regular expression", clip(&text)));
            let why = refused.map(|err| clip(&err.to_string()));
            Err(error.source(io::Error::other(why.unwrap_or_default())))
        };
        let (regex, bytes) = blocking_within(cx, step).await?;
        let held = cx.reserve(bytes).await?;
        Ok(Some(Self {
            regex,
            _memory: held,
        }))
    }
}

impl Size {
    const fn bytes(&self) -> usize {
        self.compiled + 2 * self.cache
    }

    fn build(&self, pattern: &str) -> Result<Regex, regex::Error> {
        RegexBuilder::new(pattern)
            .multi_line(true)
            .size_limit(self.compiled)
            .dfa_size_limit(self.cache)
            .build()
    }
}

impl Deref for Pattern {
    type Target = Regex;

    fn deref(&self) -> &Regex {
        &self.regex
    }
}
