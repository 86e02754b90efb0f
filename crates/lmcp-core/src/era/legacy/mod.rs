//! 2024-11-05 to 2025-11-25: a handshake first, and then a session in which both sides may ask.
//!
//! | file | what lives there |
//! |---|---|
//! | `admit` | the handshake, and what a request of a session must be |
//! | `encode` | responses |
//! | `downgrade` | results, lists and notifications as each revision knows them |
//! | `raw` | the same for JSON that was passed on |
//! | `question` | what a client is asked, likewise |

pub(super) mod admit;
pub(super) mod downgrade;
pub(super) mod encode;
pub(super) mod question;
mod raw;
