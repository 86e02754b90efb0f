//! The words of the wire against those who define them: the official examples and schema, and every input there is.
//!
//! What single functions promise is tested beside them, in `src`.

mod examples;
mod legacy;
mod official;
mod properties;
mod schema;
