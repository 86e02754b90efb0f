//! Functions that `fuzz/` calls with any input. They are not part of the API.

use crate::events::Events;

/// Returns the messages in server-sent events that come in pieces of this size, up to the first that is too long.
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
