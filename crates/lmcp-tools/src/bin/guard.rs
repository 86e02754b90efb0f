//! A program that guards commands, and does nothing else: for programs that do not begin with
//! `Helper::this_program`.

use std::process::ExitCode;

use lmcp_tools::Helper;

fn main() -> ExitCode {
    match Helper::this_program() {
        // A person called the program: there is nothing to guard.
        Ok(_) => ExitCode::FAILURE,
        Err(code) => code,
    }
}
