//! The crate from outside: against an oracle, with derived types, and word for word.

mod bounds;
mod derived;
mod mend;
mod messages;
mod normalise;
mod oracle;
mod publish;
mod random;
mod refused;
mod table;
mod transcript;
