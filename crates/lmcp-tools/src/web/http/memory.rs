//! Memory of the server's budget for data from the web, reserved as it grows: the length of a page is not known before.

use lmcp_core::{Cx, Reservation, ToolResult};

/// The memory that is reserved for one body, and for its text.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    held: Vec<Reservation>,
}

impl Memory {
    /// Reserves memory for a body of so many bytes, for a piece of it, and for a text of the same length that grows.
    ///
    /// # Errors
    /// The caller has no more room in the budget.
    pub(crate) async fn hold(&mut self, body: usize, cx: &Cx) -> ToolResult<()> {
        let wanted = body.saturating_mul(COPIES);
        let held = self.bytes();
        if wanted > held {
            let more = (wanted - held).max(STEP);
            let grown = self
                .held
                .last_mut()
                .is_some_and(|last| last.grow(more).is_ok());
            if !grown {
                self.held.push(cx.reserve(more).await?);
            }
        }
        Ok(())
    }

    /// Returns the length of the body that there is room for.
    pub(crate) fn body_bytes(&self) -> usize {
        self.bytes() / COPIES
    }

    /// Releases all but so many bytes.
    pub(crate) fn shrink_to(&mut self, mut bytes: usize) {
        for held in &mut self.held {
            held.shrink_to(bytes);
            bytes -= held.bytes();
        }
        self.held.retain(|held| held.bytes() > 0);
    }

    fn bytes(&self) -> usize {
        self.held.iter().map(Reservation::bytes).sum()
    }
}

/// The copies that are in memory at the same time: the text of the body, the piece that is being read, the output, and room
/// to grow.
const COPIES: usize = 4;

/// The bytes that are reserved at once: enough for most pages.
const STEP: usize = 256 * 1024;
