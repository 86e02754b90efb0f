//! 2024-11-05 to 2025-11-25: a handshake first, and then a session in which both sides may ask.
//!
//! | file | contents |
//! |---|---|
//! | `admit` | the handshake, and the checks of a request in a session |
//! | `encode` | responses |
//! | `downgrade` | results, lists and notifications in the form of each revision |
//! | `raw` | the same for JSON that is passed on |
//! | `question` | questions to the client in the form of each revision |

pub(super) mod admit;
pub(super) mod downgrade;
pub(super) mod encode;
pub(super) mod question;
mod raw;
