//! 2026-07-28: every request stands alone, with its version, capabilities and, on HTTP, mirrored headers.
//!
//! | file | what lives there |
//! |---|---|
//! | `admit` | what a request must say of itself |
//! | `encode` | responses |

pub(super) mod admit;
pub(super) mod encode;
