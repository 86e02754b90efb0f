//! The likeliest mistakes in a handler, and what the compiler says to them. The words are in `tests/ui`.
//!
//! After a change of the compiler or of the words: `TRYBUILD=overwrite cargo test -p lmcp-core mistakes`, and read the
//! difference as a user would.

#[test]
fn a_wrong_handler_is_explained() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}

#[test]
fn a_program_makes_no_arguments_itself() {
    let lmcp_core::NoArgs {} = lmcp_core::NoArgs {};
}
