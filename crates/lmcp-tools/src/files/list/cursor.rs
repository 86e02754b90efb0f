//! The position at which a listing goes on: the path to the last entry shown, and the sort key of each step.
//!
//! The steps are only compared with the entries found on the way down, never opened. If an entry has gone, its place in
//! the order remains.

use std::cmp::Ordering;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use lmcp_core::{ToolError, ToolResult};

use super::Sort;

/// One entry of a folder, with its sort key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// The smaller rank comes first; 0 if the order is by name.
    pub(super) rank: i128,
    pub(super) name: Vec<u8>,
}

/// The steps from the listed folder down to an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trail {
    pub(super) steps: Vec<Step>,
}

impl Trail {
    /// Returns the trail as text for the client.
    pub(super) fn encode(&self, sort: Sort) -> String {
        let mut bytes = vec![letter(sort)];
        for step in &self.steps {
            if sort != Sort::Name {
                bytes.extend(step.rank.to_be_bytes());
            }
            bytes.extend(&step.name);
            // No name contains a slash.
            bytes.push(b'/');
        }
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// # Errors
    /// The text is no cursor of this tool, or belongs to another order.
    pub(super) fn decode(cursor: &str, sort: Sort) -> ToolResult<Self> {
        let wrong = || {
            ToolError::new(format!("`{cursor}` is not a cursor of this listing"))
                .hint("leave it out to begin anew, and keep the other arguments as they were")
        };
        let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| wrong())?;
        let Some((first, mut rest)) = bytes.split_first() else {
            return Err(wrong());
        };
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let mut step = Step::default();
            if sort != Sort::Name {
                let (rank, name) = rest.split_first_chunk().ok_or_else(wrong)?;
                (step.rank, rest) = (i128::from_be_bytes(*rank), name);
            }
            let end = memchr::memchr(b'/', rest).ok_or_else(wrong)?;
            step.name = rest[..end].to_vec();
            rest = &rest[end + 1..];
            steps.push(step);
        }
        let fits = *first == letter(sort) && !steps.is_empty() && steps.len() <= 16;
        if fits {
            Ok(Self { steps })
        } else {
            Err(wrong())
        }
    }
}

impl Ord for Step {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.rank, &self.name).cmp(&(other.rank, &other.name))
    }
}

impl PartialOrd for Step {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn letter(sort: Sort) -> u8 {
    match sort {
        Sort::Name => b'n',
        Sort::Size => b's',
        Sort::Mtime => b'm',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_as_it_was_and_fits_its_own_order_only() {
        let step = |rank, name: &[u8]| Step {
            rank,
            name: name.into(),
        };
        let trail = Trail {
            steps: vec![step(-5, b"a"), step(7, b"\xff\n")],
        };
        let cursor = trail.encode(Sort::Size);
        assert_eq!(Trail::decode(&cursor, Sort::Size).unwrap(), trail);
        assert!(Trail::decode(&cursor, Sort::Name).is_err());
        for wrong in ["", "x", "bg", "AAAA", "bmE", "../../etc"] {
            assert!(Trail::decode(wrong, Sort::Name).is_err(), "{wrong}");
        }
    }
}
