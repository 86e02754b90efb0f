//! Memory of the server's budget for work on another thread.
//!
//! A step that is about to hold something large asks for memory, and goes on if there is room. If there is none, the
//! step ends, and is run once more when others have released some: no step waits for memory on a thread that others
//! wait for.

use std::sync::Arc;

use lmcp_core::{Cx, Reservation, ToolError, ToolResult};

use crate::blocking::blocking;

/// The memory that is reserved for one call. Dropping this releases all of it.
pub(crate) struct Memory {
    cx: Cx,
    held: Option<Reservation>,
    /// The bytes that the step asked for, all together.
    wanted: usize,
    /// Whether there was no room, but may be some later.
    is_short: bool,
    is_refused: bool,
}

/// Up to this many bytes nothing is reserved: a thread or a connection costs more.
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

    /// Reserves so many bytes more.
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
            // The error names the memory of the whole call, not of its last step alone.
            no_room.wanted = wanted;
            self.is_short = no_room.retriable;
            self.is_refused = true;
            ToolError::rpc(no_room.into())
        })
    }

    /// Makes sure that so many bytes are reserved in all.
    ///
    /// # Errors
    /// As for [`Memory::need`].
    pub(crate) fn need_in_all(&mut self, bytes: usize) -> ToolResult<()> {
        self.need(bytes.saturating_sub(self.wanted))
    }

    /// Returns how many bytes were asked for so far.
    pub(crate) fn wanted(&self) -> usize {
        self.wanted
    }

    /// Begins a step anew. `wanted` is how much was asked for before the step. Memory that is already reserved stays
    /// so.
    pub(crate) fn begin_again(&mut self, wanted: usize) {
        self.wanted = wanted;
        self.is_refused = false;
    }

    /// Returns whether a request was refused, now or for good.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Returns whether there was no room for the last request. Then the result of the step does not count.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short
    }
}

/// Runs a step on another thread. The step asks for the memory that it needs, and changes nothing before it has asked
/// for all of it. If the step ended for want of memory, it is run again from its beginning.
///
/// # Errors
/// The errors of the step; or there is no room, and the client is told whether to try again.
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
        // The memory is released first: two calls that each hold a part and wait for the rest would wait for each
        // other.
        drop(used);
        memory = Memory::of(cx);
        memory.held = Some(cx.reserve(wanted).await?);
    }
}
