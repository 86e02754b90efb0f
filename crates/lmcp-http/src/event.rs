//! One server-sent event, as its bytes.

use std::collections::VecDeque;

use bytes::Bytes;

/// One event of a stream.
pub(crate) enum Event {
    /// In one piece.
    Whole(Bytes),
    /// A large message between what is before it and the end of the event. It is not copied, and its memory stays counted
    /// until it is written.
    Pieces(Bytes, Bytes),
}

/// Up to this size it is cheaper to copy a message than to write it in pieces.
const SMALL: usize = 4096;

const END: &[u8] = b"\n\n";

impl Event {
    /// The bytes before and after the message of an event without a name.
    pub(crate) const AROUND: [&'static [u8]; 2] = [b"data: ", END];

    /// A message, with what stands before it.
    pub(crate) fn new(before: &[u8], json: Bytes) -> Self {
        if json.len() > SMALL {
            Self::Pieces(Bytes::copy_from_slice(before), json)
        } else {
            Self::Whole([before, &*json, END].concat().into())
        }
    }

    /// The first piece; the others are put where they wait.
    pub(crate) fn first(self, rest: &mut VecDeque<Bytes>) -> Bytes {
        match self {
            Self::Whole(event) => event,
            Self::Pieces(before, json) => {
                rest.extend([json, Bytes::from_static(END)]);
                before
            }
        }
    }
}
