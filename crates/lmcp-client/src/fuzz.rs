//! What `fuzz/` feeds with any input. It is no part of the API.

use crate::events::Events;

/// The messages in server-sent events that come in pieces of so many bytes, up to the first that is too long.
pub fn events(bytes: &[u8], piece: usize, limit: usize) -> Vec<Vec<u8>> {
    let mut events = Events::new(limit);
    let mut messages = Vec::new();
    for piece in bytes.chunks(piece) {
        if events.read(piece, &mut messages).is_err() {
            break;
        }
    }
    messages
}
