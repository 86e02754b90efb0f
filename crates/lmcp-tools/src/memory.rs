//! Memory of the server's budget for work on another thread.
//!
//! A step that is about to hold something large says so, and goes on if there is room. If there is none it ends, and is
//! run once more when others have given some back: nobody waits for memory on a thread that others wait for.

use std::sync::Arc;

use lmcp_core::{Cx, Reservation, ToolError, ToolResult};

use crate::blocking::blocking;

/// What is set aside for one call. All of it is given back when this is dropped.
pub(crate) struct Memory {
    cx: Cx,
    held: Option<Reservation>,
    /// What the step asked for, all together.
    wanted: usize,
    /// There was no room, and there may be some later.
    is_short: bool,
    is_refused: bool,
}

/// Up to this nothing is set aside: it is less than what a thread or a connection costs.
const SMALL: usize = 256 * 1024;

impl Memory {
    pub(crate) fn of(cx: &Cx) -> Self {
        Self {
            cx: cx.clone(),
            held: None,
            wanted: 0,
            is_short: false,
            is_refused: false,
        }
    }

    /// Sets so many bytes more aside.
    ///
    /// # Errors
    /// There is no room for them: the step must end.
    pub(crate) fn need(&mut self, bytes: usize) -> ToolResult<()> {
        self.wanted = self.wanted.saturating_add(bytes);
        let held = self.held.as_ref().map_or(0, Reservation::bytes);
        if self.wanted <= held.max(SMALL) {
            return Ok(());
        }
        let more = self.wanted - held;
        let reserved = match &mut self.held {
            Some(held) => held.grow(more),
            None => self
                .cx
                .try_reserve(more)
                .map(|reserved| self.held = Some(reserved)),
        };
        let wanted = self.wanted;
        reserved.map_err(|mut no_room| {
            // Whoever reads it asks what the whole call takes, and not what its last step does.
            no_room.wanted = wanted;
            self.is_short = no_room.retriable;
            self.is_refused = true;
            ToolError::rpc(no_room.into())
        })
    }

    /// Sees to it that so many bytes are set aside in all.
    ///
    /// # Errors
    /// As for [`Memory::need`].
    pub(crate) fn need_in_all(&mut self, bytes: usize) -> ToolResult<()> {
        self.need(bytes.saturating_sub(self.wanted))
    }

    /// What was asked for so far.
    pub(crate) fn wanted(&self) -> usize {
        self.wanted
    }

    /// Begins a step anew that had asked for so much before it. What is set aside already stays so.
    pub(crate) fn begin_again(&mut self, wanted: usize) {
        self.wanted = wanted;
        self.is_refused = false;
    }

    /// Was something refused, now or for good?
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Was there no room for what was asked for last? Then nothing that is made of the step's result counts.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short
    }
}

/// Runs a step on another thread that says what it needs, and changes nothing before it has said all. It is run again,
/// from its beginning, where it ended for want of memory.
///
/// # Errors
/// Those of the step; or there is no room, and the client is told whether to try again.
pub(crate) async fn blocking_within<T: Send + 'static>(
    cx: &Cx,
    step: impl Fn(&mut Memory) -> ToolResult<T> + Send + Sync + 'static,
) -> ToolResult<T> {
    let step = Arc::new(step);
    let mut memory = Memory::of(cx);
    loop {
        let running = Arc::clone(&step);
        let (result, used) = blocking(cx, move || {
            let result = running(&mut memory);
            Ok((result, memory))
        })
        .await?;
        if !used.is_short() {
            return result;
        }
        let wanted = used.wanted;
        // Two that each hold a part and wait for the rest would wait for each other.
        drop(used);
        memory = Memory::of(cx);
        memory.held = Some(cx.reserve(wanted).await?);
    }
}
