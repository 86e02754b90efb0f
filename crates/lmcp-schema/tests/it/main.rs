//! The crate from outside: against an oracle, with derived types, and word for word.

mod bounds;
mod derived;
mod messages;
mod normalise;
mod oracle;
mod random;
mod refused;
mod table;
mod transcript;
