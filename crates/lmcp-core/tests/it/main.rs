//! What a user of `lmcp-core` can rely on and a transcript cannot show: the Rust API, cancellation, bounds, resources.
//!
//! What goes over the wire, message by message, is the transcripts' business.

mod ask;
mod ask_wrong;
mod blank_lines;
mod cancel;
mod client;
mod concurrency;
mod dynamic;
mod ended;
mod errors;
mod folders;
mod foreign;
mod habits;
mod handlers;
mod layer;
mod legacy_lines;
mod legacy_outputs;
mod limits;
mod lines_limits;
mod long_names;
mod memory;
mod mistakes;
mod outputs;
mod paging;
mod present;
mod progress;
mod registration;
mod regressions;
mod roots;
mod schema;
mod stdio;
mod subscribe;
mod support;
mod tasks;
mod unix;
mod who;
