//! The memory of a caller for an answer that grows on its way back. No I/O.

use lmcp_core::{Account, CALL_BYTES, Request, Reservation};
use lmcp_upstream::no_room_for_answer;
use lmcp_wire::{RpcError, method::request};
use serde_json::json;

use crate::limits::MARKS;

/// The memory of a caller, from which the answer to one request takes its part. The part is given back when this is dropped: then
/// the code that writes the answer counts it.
#[derive(Default)]
pub(crate) struct Room {
    account: Option<Account>,
    /// Whether the request can be made again, whatever its answer.
    only_reads: bool,
    taken: Option<Reservation>,
}

impl Room {
    pub(crate) fn of(request: &Request) -> Self {
        Self {
            account: request.account(),
            only_reads: request::only_reads(request.method()),
            taken: None,
        }
    }

    /// Counts an answer that is there already.
    pub(crate) fn hold(&mut self, bytes: usize) {
        self.taken = self.account.as_ref().map(|account| account.take(bytes));
    }

    /// Takes the memory for an answer before it grows to this length.
    pub(crate) fn expect(&mut self, bytes: usize) -> Result<(), RpcError> {
        let Some(account) = self.account.as_ref().filter(|_| bytes > CALL_BYTES) else {
            return Ok(());
        };
        self.taken = None;
        let taken = account.take_if_modest(bytes);
        self.taken = Some(taken.map_err(|no_room| no_room_for_answer(no_room, self.only_reads))?);
        Ok(())
    }

    /// Makes the error for an answer with more URIs and ids than get a mark.
    pub(crate) fn too_many_marks(&self) -> RpcError {
        let what_now = match self.only_reads {
            true => "ask for less",
            false => "the request may have taken effect",
        };
        let words = format!(
            "the server's answer was not passed on: it has more than {MARKS} URIs and ids of tasks; {what_now}"
        );
        RpcError::internal(words)
            .with_data(json!({ "limit": "marks", "value": MARKS, "retriable": false }))
    }
}
