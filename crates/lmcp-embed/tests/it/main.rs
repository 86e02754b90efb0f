//! Hosts with real children: Python programs that connect to the socket as any process could.
//!
//! Holes of an earlier program, each with the test that would have found it:
//!
//! | hole | test |
//! |---|---|
//! | P1: a caller that is not known is admitted, with more rights than others | `gate::nobody_comes_in_as_a_stranger`, `gate::what_is_not_known_is_refused` |
//! | P2: a child that connects too early stays a stranger for ever | `gate::a_child_that_is_quicker_than_its_program_waits` |
//! | P3: a predictable path, a mode that is set too late, an owner that is not checked | `socket_dir`'s own tests, `life::the_socket_is_for_this_user_alone`, `gate::another_user_is_refused` |
//! | P4: a token on the command line, valid for ever and for every process | `gate::a_stolen_token_is_worth_nothing`, `gate::a_token_ends_with_its_process`, `life::no_secret_is_on_a_command_line` |
//! | P5: lines without end, a reader that never reads | `load::a_greeting_without_end_is_refused`, `load::who_never_reads_holds_up_nobody` |
//! | P6: two requests swap their order | `load::requests_begin_in_the_order_they_came` |
//! | P7: a client that leaves is not noticed, calls cannot be cancelled | `life::who_leaves_has_cancelled`, `life::a_cancelled_call_ends` |
//! | jobs of other children | `lmcp-tools`: `ending::jobs_belong_to_who_started_them` |
//! | P8: open connections after the end; a full table of files makes it spin | `life::closing_ends_what_runs`; `lmcp-cli`: `unix::a_full_table_of_files_is_waited_out` |
//! | P9: replies are lost at the end of input, always exit code 0 | `lmcp-cli`: `proxy` |

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod deck;
mod ending;
mod events;
mod exec;
mod family;
mod finishing;
mod foreman;
mod gate;
mod handles;
mod inbox;
mod life;
mod load;
mod moving;
mod reach;
mod reaping;
mod restart;
mod roles;
mod roost;
mod talker;
mod visitor;
