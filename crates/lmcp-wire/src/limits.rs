//! Bounds of what a message names. They hold for every peer, whatever it offers, and no program changes them.

/// Longest id of a request and longest progress token, in bytes. 1024: they are repeated and compared. A message with a longer
/// id is refused without one.
pub const LONGEST_ID: usize = 1024;

/// Longest of everything that is looked up by its name, in bytes as the message has it: methods, tools, prompts, URIs of
/// resources, tasks, cursors, log levels, protocol revisions. 8 KiB: what stands in an HTTP header fits. A longer one is refused
/// before it is copied.
pub const LONGEST_NAME: usize = 8 << 10;

/// Longest name of whom a request is made for, as a hub says it in `_meta`, in bytes. 64: a digest fits. A request with a longer
/// one is refused.
pub const BENEFICIARY_BYTES: usize = 64;

/// Of what a peer said, an error repeats so many bytes. 512: enough to find it again.
pub const SHOWN_BYTES: usize = 512;

/// Longest error of a response that is kept as it is, in bytes. 16 KiB: an error is a sentence. Of a longer one the `data` is left
/// out, and the message is cut at as many bytes.
pub const LONGEST_ERROR: usize = 16 << 10;

/// Members of one object whose members are looked at one by one. 4096: results and `_meta` have a few. A result with more of them, or
/// with more in its `_meta`, is answered with an error where it cannot be copied as it is: short members take ten times their text.
pub const MOST_MEMBERS: usize = 4096;
