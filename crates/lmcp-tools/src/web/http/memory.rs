//! Memory of the server's budget for what comes from the web, set aside as it grows: nobody knows how long a page is.

use lmcp_core::{Cx, Reservation, ToolResult};

/// What is set aside for one body, and for what is made of it.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    held: Vec<Reservation>,
}

impl Memory {
    /// Sees to it that there is room for a body of so many bytes, for a piece of it, and for a text of the same length that
    /// grows.
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

    /// How long a body there is room for.
    pub(crate) fn body_bytes(&self) -> usize {
        self.bytes() / COPIES
    }

    /// Gives back all but so many bytes.
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

/// What is made of a body at the same time: its text, the piece that is being read, what is written, and room to grow.
const COPIES: usize = 4;

/// Set aside at once, in bytes: enough for most pages.
const STEP: usize = 256 * 1024;
